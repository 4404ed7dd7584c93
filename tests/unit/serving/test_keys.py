"""API keys at rest and in use, rate limits, stored files."""

from __future__ import annotations

import hmac
import json
from pathlib import Path

import pytest

from glassformer.errors import UserError
from glassformer.serving import file_store, rate_limits
from glassformer.serving.file_store import FileStore
from glassformer.serving.keys import KeyStore, add_key, list_keys, remove_key
from glassformer.serving.options import refuse_open_address
from glassformer.serving.rate_limits import RateLimiter


def test_only_hashes_are_stored(tmp_path: Path) -> None:
    file = tmp_path / "new" / "keys.json"
    key = add_key(file, "laptop", requests_per_minute=5)
    assert len(key) > 40 and key not in file.read_text() and key.removeprefix("gf_") not in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600
    found = KeyStore(file).find(key)
    assert found is not None and found.name == "laptop" and found.requests_per_minute == 5 and not found.admin
    (stored,) = json.loads(file.read_text())
    assert KeyStore(file).find(stored["hash"]) is None  # who reads the file cannot use it
    assert list_keys(file)[0].hash == ""


def test_two_keys_differ_and_can_be_removed(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    one, other = add_key(file, "one"), add_key(file, "other")
    assert one != other
    store = KeyStore(file)
    remove_key(file, "one")
    assert store.find(one) is not None
    store.reload()
    assert store.find(one) is None and store.find(other) is not None
    for wrong in ("other", "a b", "", "x" * 65):
        with pytest.raises(UserError):
            add_key(file, wrong)
    with pytest.raises(UserError, match="no key named"):
        remove_key(file, "one")


def test_the_time_does_not_depend_on_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every stored hash is compared, in constant time, also after the right one."""
    file = tmp_path / "keys.json"
    keys = [add_key(file, str(number)) for number in range(3)]
    store, compared = KeyStore(file), list[str]()

    def compare(one: str, other: str) -> bool:
        compared.append(one)
        return one == other

    monkeypatch.setattr(hmac, "compare_digest", compare)
    for key in (*keys, "unknown"):
        compared.clear()
        store.find(key)
        assert compared == [one.hash for one in store.keys]


@pytest.mark.parametrize("content", ["[", "{}x", '["a"]', '[{"name": 1}]', "5"])
def test_damaged_files(tmp_path: Path, content: str) -> None:
    file = tmp_path / "keys.json"
    file.write_text(content)
    with pytest.raises(UserError):
        KeyStore(file)


def test_a_file_that_others_may_write_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    add_key(file, "one")
    file.chmod(0o620)
    with pytest.raises(UserError, match="Other users may write"):
        KeyStore(file)


def test_a_key_of_the_environment() -> None:
    store = KeyStore(None, "from-the-environment")
    assert store.find("from-the-environment") is not None and store.find("") is None


@pytest.mark.parametrize(
    ("host", "has_keys", "insecure", "refused"),
    [
        ("127.0.0.1", False, False, False),
        ("::1", False, False, False),
        ("0.0.0.0", False, False, True),
        ("192.168.0.7", False, False, True),
        ("0.0.0.0", True, False, False),
        ("0.0.0.0", False, True, False),
    ],
)
def test_open_addresses_need_keys(host: str, has_keys: bool, insecure: bool, refused: bool) -> None:
    try:
        refuse_open_address(host, has_keys=has_keys, insecure=insecure, keys_file=Path("keys.json"))
    except UserError as error:
        assert refused and "--insecure" in error.hint
    else:
        assert not refused


def test_rate_limits_refill_and_are_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    limiter = RateLimiter(clock=lambda: now)
    assert [limiter.wait("a", 2) for _ in range(3)] == [0, 0, 30]
    assert limiter.wait("b", 2) == 0 and limiter.wait("c", 0) == 0
    now = 31.0
    assert limiter.wait("a", 2) == 0 < limiter.wait("a", 2)
    monkeypatch.setattr(rate_limits, "MAX_BUCKETS", 10)
    for number in range(100):
        limiter.wait(str(number), 2)
    assert len(limiter._buckets) == 10


def test_stored_files_expire_and_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    files = FileStore(clock=lambda: now)
    token = files.add("../../etc/pass wd\n.txt", b"x")
    assert len(token) > 32 and "/" not in token and token != files.add("a.txt", b"x")
    stored = files.get(token)
    assert stored is not None and stored.name == "pass_wd_.txt"
    now = 3601.0
    assert files.get(token) is None
    monkeypatch.setattr(file_store, "MAX_BYTES", 10)
    tokens = [files.add("a.txt", b"x" * 4) for _ in range(3)]
    assert [files.get(token) is not None for token in tokens] == [False, True, True]
