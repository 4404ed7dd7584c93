"""Limits on input: refused early, with the limit and the variable that raises it."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import pytest

from glassformer import limits
from glassformer.errors import UserError
from glassformer.files import parse_json, read_json
from glassformer.text import lines
from glassformer.text.lines import read_lines

ENDLESS = Path("/dev/zero")


def test_a_limit_is_the_default_or_what_its_variable_says(monkeypatch: pytest.MonkeyPatch) -> None:
    assert limits.LINE.value() == limits.LINE.default
    monkeypatch.setenv(limits.LINE.variable, "37")
    assert limits.LINE.value() == 37
    for wrong in ("0", "-1", "many", "1e9", "٣"):
        monkeypatch.setenv(limits.LINE.variable, wrong)
        with pytest.raises(UserError, match=limits.LINE.variable):
            limits.LINE.value()


@pytest.mark.skipif(not ENDLESS.exists(), reason="there is no /dev/zero")
def test_a_file_is_read_up_to_its_limit_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(limits.JSON_FILE.variable, "7")
    (tmp_path / "a").write_bytes(b"1234567")
    assert limits.read_bytes(tmp_path / "a", limits.JSON_FILE, "It") == b"1234567"
    with pytest.raises(UserError, match=r"It is larger than the limit of 7 bytes"):
        limits.read_bytes(ENDLESS, limits.JSON_FILE, "It")


def test_gzip_output_is_bounded_by_the_ratio() -> None:
    modest = b"".join(b"%d squared is %d\n" % (i, i * i) for i in range(500_000))
    assert len(modest) > limits.GZIP_CHECKED_FROM
    assert limits.open_gzip(io.BytesIO(gzip.compress(modest)), "x.gz").read() == modest
    bomb = limits.open_gzip(io.BytesIO(gzip.compress(b"\n" * (4 * limits.GZIP_CHECKED_FROM))), "x.gz")
    with pytest.raises(UserError, match=limits.GZIP_RATIO.variable) as refused:
        bomb.read()
    assert refused.value.where == "x.gz"


@pytest.mark.skipif(not ENDLESS.exists(), reason="there is no /dev/zero")
def test_a_line_is_bounded_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, longest = tmp_path / "x", 3 * lines.BUFFER
    monkeypatch.setenv(limits.LINE.variable, str(longest))
    path.write_bytes(b"a" * longest + b"\n" + b"b" * longest + b"\nc")
    assert [len(line) for line in read_lines(path)] == [longest, longest, 1]
    path.write_bytes(b"a\n" + b"b" * (longest + lines.BUFFER))
    with pytest.raises(UserError, match=limits.LINE.variable):
        list(read_lines(path))
    with pytest.raises(UserError, match="NUL byte") as refused:
        list(read_lines(ENDLESS))
    assert refused.value.where == f"{ENDLESS}:1"


def test_json_that_python_cannot_hold_is_damaged() -> None:
    assert parse_json('{"a": "\\ud83d\\ude42"}') == {"a": "🙂"}
    for text, why in (("[" * 100_000, "nested"), ('["\\ud800"]', "surrogate"), ("[1", "delimiter"), ("", "value")):
        with pytest.raises(ValueError, match=why):
            parse_json(text)


def test_a_json_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_json(tmp_path / "none", "The plan", "delete it")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    (tmp_path / "folder").mkdir()
    for name, what in (("bytes", "The plan is damaged"), ("folder", "The plan cannot be read")):
        with pytest.raises(UserError, match=what) as refused:
            read_json(tmp_path / name, "The plan", "delete it")
        assert refused.value.where == str(tmp_path / name) and refused.value.hint == "delete it"
