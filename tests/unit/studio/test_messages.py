"""The one file of messages: both languages, no key twice, and every key that the page says is there."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from glassformer.errors import UserError
from glassformer.reference import attention, embeddings, layers, recurrent
from glassformer.reference.operation import Operation
from glassformer.text.words import check_token_count

STATIC = Path(__file__).parents[3] / "glassformer" / "studio" / "static"
SCRIPTS = sorted((STATIC / "js").rglob("*.js"))
REFERENCE = (attention, embeddings, layers, recurrent)
OPERATIONS = [value for module in REFERENCE for value in vars(module).values() if isinstance(value, Operation)]
FORMULAS = sorted({operation.formula for operation in OPERATIONS})


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
    said = set(re.findall(r'\bt\(\s*"([^"]+)"', script.read_text(encoding="utf-8")))
    assert said <= set(MESSAGES), said - set(MESSAGES)


def is_said_in_korean(sentence: str) -> bool:
    """Whether a message has the sentence for its key, `{…}` standing for anything, and says it in Korean."""
    for key, message in MESSAGES.items():
        pattern = "(.*)".join(map(re.escape, re.split(r"\{\w+\}", key)))
        if re.fullmatch(pattern, sentence):
            return key == message["en"] and any("가" <= letter <= "힣" for letter in message["ko"])
    return False


@pytest.mark.parametrize("formula", FORMULAS)
def test_formulas_in_words_are_said_in_korean_too(formula: str) -> None:
    in_words = re.search(r"[a-z]{2,} [a-z]{2,}", formula)
    assert not in_words or is_said_in_korean(formula)


def test_cells_in_words_are_explained_in_korean_too(visitor: TestClient) -> None:
    found = visitor.post("/api/traces", json={"run": "phrasebook", "text": "I am a student"}).json()
    for name, shape in found["tensors"].items():
        for corner in ({"at": ",".join(["0"] * len(shape))}, {"at": ",".join(str(size - 1) for size in shape)}):
            says = visitor.get(f"/api/traces/{found['id']}/cell", params={"name": name} | corner).json()["says"]
            assert not re.search(r"[a-z]{2,} [a-z]{2,}", says or "") or is_said_in_korean(says), says


def test_a_sentence_beyond_the_positions_of_the_model_is_refused_in_korean_too() -> None:
    with pytest.raises(UserError) as error:
        check_token_count(1_031, 1_024, "text")
    assert is_said_in_korean(error.value.message) and is_said_in_korean(error.value.hint)


def test_what_the_server_often_says_is_said_in_korean_too(visitor: TestClient, run: Path) -> None:
    ask = {"run": "phrasebook", "text": "I am a student"}
    answers = [
        visitor.post("/api/traces", json=ask | {"text": " "}),
        visitor.post("/api/traces", json=ask | {"text": "word " * 10_000}),
        visitor.post("/api/traces", json=ask | {"text": "word " * 900}),
        visitor.post("/api/traces", json=ask | {"run": "another"}),
        visitor.post("/api/traces", json=ask | {"forced": {0: 999_999}}),
        visitor.post("/api/images?run=phrasebook", content=b"x"),
        visitor.get("/api/traces/unknown/choices"),
        visitor.get("/api/frame", params=ask | {"step": 7}),
    ]
    shutil.rmtree(run)
    answers.append(visitor.post("/api/traces", json=ask))
    for answer in answers:
        told = answer.json()
        assert answer.status_code >= 400
        assert is_said_in_korean(told["what"]), told["what"]
        assert is_said_in_korean(told["fix"]) or told["fix"] == "type a sentence", told["fix"]
