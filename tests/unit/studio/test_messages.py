"""The catalogue of messages: every text of the page and of the server in English and Korean."""

from __future__ import annotations

import ast
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

import glassformer
from glassformer.data.labelled import COLUMN_NAMES
from glassformer.errors import Message, UserError
from glassformer.planning import sizes
from glassformer.reference import attention, backward, embeddings, layers, prediction, recurrent
from glassformer.reference.operation import Operation
from glassformer.text.words import check_token_count

PACKAGE = Path(glassformer.__file__).parent  # an installed package as well as the source tree
STATIC = PACKAGE / "studio" / "static"
SCRIPTS = sorted((STATIC / "js").rglob("*.js"))
# Modules whose errors a request to the studio can raise, and modules that write notes to the log.
ERRORS = [
    *sorted((PACKAGE / "studio").rglob("*.py")),
    *(
        PACKAGE / "glass" / f"{name}.py"
        for name in (
            "effects",
            "gradients",
            "interventions",
            "logit_attribution",
            "mask_removal",
            "nearest_tokens",
            "recurrent_layers",
            "residual_stream",
        )
    ),
    *(PACKAGE / "inference" / f"{name}.py" for name in ("predictor", "question_answering")),
    PACKAGE / "text" / "words.py",
]
IMAGES = [PACKAGE / "data" / "images" / "dataset.py"]  # only its `Message`s: most of its errors are about data sets
NOTES = [
    *sorted((PACKAGE / "training").rglob("*.py")),
    *sorted((PACKAGE / "planning").rglob("*.py")),
    *sorted((PACKAGE / "tasks").rglob("*.py")),
    PACKAGE / "machine.py",
]
FORMULAS = sorted((PACKAGE / "reference").rglob("*.py"))
WORDS = re.compile(r"[A-Za-z]{2,} [a-z]{2,}")


def unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    keys = [key for key, _ in pairs]
    assert len(keys) == len(set(keys)), [key for key in keys if keys.count(key) > 1]
    return dict(pairs)


MESSAGES: dict[str, Any] = json.loads(
    (STATIC / "messages.json").read_text(encoding="utf-8"), object_pairs_hook=unique_keys
)


def has_hangul(text: str) -> bool:
    return any("가" <= letter <= "힣" for letter in text)


def is_translated(message: str | dict[str, Any]) -> bool:
    """Return whether a message of the server, with all messages among its values, has a Korean text."""
    if isinstance(message, str):
        message = {"text": message}
    found = MESSAGES.get(message["text"])
    inner = [value for value in message.get("values", {}).values() if isinstance(value, dict)]
    if found is None or found["en"] != message["text"] or not all(map(is_translated, inner)):
        return False
    return has_hangul(found["ko"]) or not re.search(r"[a-z]", re.sub(r"\{\w+\}", "", message["text"]))


def test_every_message_has_both_languages() -> None:
    assert all(set(message) == {"en", "ko"} and all(message.values()) for message in MESSAGES.values())
    korean = [message["ko"] for message in MESSAGES.values()]
    assert sum(map(has_hangul, korean)) > 0.9 * len(korean)


def test_both_languages_have_the_same_placeholders() -> None:
    for key, message in MESSAGES.items():
        names = [sorted(set(re.findall(r"\{\w+\}", text))) for text in message.values()]
        assert names[0] == names[1], key


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_every_text_of_a_script_is_a_message(script: Path) -> None:
    said = set(re.findall(r'\bt\(\s*"([^"]+)"', script.read_text(encoding="utf-8")))
    assert said <= set(MESSAGES), said - set(MESSAGES)


# ------------------------------------------------------------------------------------------ texts in the source code


def calls(file: Path, name: str) -> Iterator[ast.Call]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            called = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
            if called == name:
                yield node


def constant(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def templates(files: list[Path]) -> set[str]:
    """Return the templates of all `Message(…)` calls."""
    return {text for file in files for call in calls(file, "Message") if (text := constant(call.args[0])) is not None}


def error_texts(files: list[Path]) -> Iterator[ast.expr]:
    """Yield the message and the hint of every error."""
    for file in files:
        for name in ("UserError", "error_response"):
            for call in calls(file, name):
                yield call.args[0 if name == "UserError" else 1]
                yield from (keyword.value for keyword in call.keywords if keyword.arg == "hint")


def test_every_error_that_the_studio_can_show_is_translated() -> None:
    texts = templates(ERRORS + IMAGES) | {text for node in error_texts(ERRORS) if (text := constant(node)) is not None}
    assert {text for text in texts if not is_translated(text)} == set()


def test_no_error_that_the_studio_can_show_is_an_f_string() -> None:
    assert [ast.unparse(node) for node in error_texts(ERRORS) if isinstance(node, ast.JoinedStr)] == []


def texts_of(file: Path) -> Iterator[str]:
    """Yield every text of several words in a module, except docstrings."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    statements = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    constants = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in statements)
    yield from (text for node in constants if WORDS.search(text := constant(node) or ""))


def returned(files: list[Path], function: str) -> Iterator[str]:
    """Yield the texts that functions of this name return."""
    for node in (node for file in files for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))):
        if isinstance(node, ast.FunctionDef) and node.name == function:
            for value in (
                value for inner in ast.walk(node) if isinstance(inner, ast.Return) for value in ast.walk(inner)
            ):
                if isinstance(value, ast.expr) and WORDS.search(text := constant(value) or ""):
                    yield text


def test_every_note_of_the_log_is_translated() -> None:
    texts = templates(NOTES)
    for name, place in (("Note", 0), ("Choice", 2)):
        for call in (call for file in NOTES for call in calls(file, name)):
            arguments = call.args[place : place + 1]
            assert not any(isinstance(node, ast.JoinedStr) for node in arguments), ast.unparse(call)
            texts |= {text for node in arguments if (text := constant(node)) is not None}
    texts |= {unit for file in NOTES for call in calls(file, "TaskSizes") if (unit := constant(call.args[0]))}
    texts |= {size.name for size in (*sizes.SIZES, *sizes.IMAGE_SIZES)} | set(COLUMN_NAMES)
    texts |= set(texts_of(PACKAGE / "planning" / "choices.py"))
    texts |= set(returned(NOTES, "recognize")) | set(returned(NOTES, "fastest_safe_precision"))
    assert {text for text in texts if not is_translated(text)} == set()


def operations() -> Iterator[Operation]:
    for module in (attention, backward, embeddings, layers, prediction, recurrent):
        yield from (value for value in vars(module).values() if isinstance(value, Operation))


def test_every_formula_in_words_is_translated() -> None:
    texts = {operation.formula for operation in operations()} | templates(FORMULAS)
    texts |= {text for file in FORMULAS for call in calls(file, "Entry") if (text := constant(call.args[0]))}
    assert {text for text in texts if WORDS.search(text) and not is_translated(text)} == set()


# ------------------------------------------------------------------------------------------ responses


def test_every_formula_of_an_entry_is_translated(visitor: TestClient) -> None:
    found = visitor.post("/api/traces", json={"run": "phrasebook", "text": "I am a student"}).json()
    for name, shape in found["tensors"].items():
        for corner in ({"at": ",".join(["0"] * len(shape))}, {"at": ",".join(str(size - 1) for size in shape)}):
            entry = visitor.get(f"/api/traces/{found['id']}/cell", params={"name": name} | corner).json()
            assert not WORDS.search(entry["says"] or "") or is_translated(entry["message"]), entry["says"]


def test_a_sentence_beyond_the_positions_of_the_model_is_refused_in_both_languages() -> None:
    with pytest.raises(UserError) as error:
        check_token_count(1_031, 1_024, "text")
    for message in (error.value.message, error.value.hint):
        assert isinstance(message, Message) and is_translated(message.to_json())


def test_frequent_errors_are_translated(visitor: TestClient, run: Path) -> None:
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
        assert answer.status_code >= 400
        for message in answer.json()["messages"].values():
            assert is_translated(message), message


def test_a_message_is_its_english_text() -> None:
    message = Message("The {what} has {n} tokens.", what=Message("text"), n=3)
    assert message == "The text has 3 tokens."
    error = UserError(message, hint="shorten {it}")
    assert str(error) == "The text has 3 tokens.\n  hint:  shorten {it}"
    values = {"what": {"text": "text", "values": {}}, "n": 3}
    assert message.to_json() == {"text": "The {what} has {n} tokens.", "values": values}
