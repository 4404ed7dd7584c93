"""The one file of messages: both languages, no key twice, and every key that the page says is there."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

STATIC = Path(__file__).parents[3] / "glassformer" / "studio" / "static"
SCRIPTS = sorted((STATIC / "js").rglob("*.js"))


def pairs_only_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    keys = [key for key, _ in pairs]
    assert len(keys) == len(set(keys)), [key for key in keys if keys.count(key) > 1]
    return dict(pairs)


MESSAGES = json.loads((STATIC / "messages.json").read_text(encoding="utf-8"), object_pairs_hook=pairs_only_once)


def test_every_message_is_there_in_both_languages() -> None:
    assert all(set(message) == {"en", "ko"} and all(message.values()) for message in MESSAGES.values())
    korean = [message["ko"] for message in MESSAGES.values()]
    assert sum(any("가" <= letter <= "힣" for letter in text) for text in korean) > 0.9 * len(korean)


def test_what_is_filled_in_is_the_same_in_both() -> None:
    for key, message in MESSAGES.items():
        names = [sorted(set(re.findall(r"\{\w+\}", text))) for text in message.values()]
        assert names[0] == names[1], key


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_what_a_script_says_is_a_message(script: Path) -> None:
    said = set(re.findall(r'\bsay\("([^"]+)"', script.read_text(encoding="utf-8")))
    assert said <= set(MESSAGES), said - set(MESSAGES)
