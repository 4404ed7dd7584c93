"""`glassformer serve` and `glassformer keys`: wrong arguments, and API keys."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from command_line import bad, good

pytest.importorskip("py3langid", reason="the service is an extra")
FROZEN = Path(__file__).parents[1] / "compat" / "runs" / "format-1"


@pytest.fixture(autouse=True)
def _own_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("GLASSFORMER_API_KEY", raising=False)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_other_addresses_need_keys(host: str) -> None:
    result = bad(["serve", str(FROZEN), "--host", host])
    assert "no API key is required" in result.err and "keys add NAME" in result.err and "--insecure" in result.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "run folder"),
        ([f"{FROZEN}=english-french"], "not a pair of language codes"),
        ([str(FROZEN), "--languages", "en"], "not a pair of language codes"),
        ([str(FROZEN), "--keys", "nothing.json"], "no file of API keys"),
        ([str(FROZEN), str(FROZEN)], "Two runs have the name"),
        ([str(FROZEN), "--engine", "magic"], "no engine"),
        ([str(FROZEN), "--precision", "fp1"], "precision"),
    ],
)
def test_mistakes(arguments: list[str], message: str) -> None:
    assert message in bad(["serve", *arguments]).err


def test_languages_are_for_one_run(tmp_path: Path) -> None:
    other = shutil.copytree(FROZEN, tmp_path / "other")
    assert "--languages is for one RUN" in bad(["serve", str(FROZEN), str(other), "--languages", "en:fr"]).err


def test_keys_are_shown_once_listed_and_removed(tmp_path: Path) -> None:
    key = good("keys add laptop --requests-per-minute 9 --admin").out.strip()
    assert key.startswith("gf_")
    listed = good("keys list").out
    assert "laptop" in listed and "9 requests per minute" in listed and "admin" in listed and key not in listed
    assert json.loads(good("keys list --json").out)["name"] == "laptop" and "hash" not in good("keys list --json").out
    assert key not in (tmp_path / "glassformer" / "keys.json").read_text()
    assert "already a key" in bad("keys add laptop").err
    good("keys remove laptop")
    assert good("keys list").out == "" and "no key named" in bad("keys remove laptop").err
