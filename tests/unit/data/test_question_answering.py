"""Question answering data: answer positions, and windows that contain the answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from glassformer.data.question_answering import NOT_FOUND, is_question_file, make_windows, read_questions
from glassformer.errors import UserError
from glassformer.text.tokenizer import EOS, SOS, Tokenizer

TEXT = "The bridge  was built in 1883 by Ana Ruiz. 한강 다리는 1900년에 완공되었다. Le cafe\u0301 e\u0301tait ici."


def entry(question: str, *answers: tuple[str, int], **more: Any) -> dict[str, Any]:
    return {"question": question, "answers": [{"text": text, "answer_start": start} for text, start in answers]} | more


def written(path: Path, *entries: dict[str, Any], text: str = TEXT) -> Path:
    path.write_text(json.dumps({"data": [{"paragraphs": [{"context": text, "qas": list(entries)}]}]}), encoding="utf-8")
    return path


def test_answers_have_their_positions(tmp_path: Path) -> None:
    year, name = TEXT.index("1883"), TEXT.index("Ana")
    path = written(
        tmp_path / "a.json",
        entry("When?", ("1883", year), ("1883", year)),
        entry("Who?", (" Ana Ruiz ", name - 1)),
        entry("Who, a little aside?", ("Ana Ruiz", name - 3)),
        entry("Where?"),
        entry("Why?", ("for fun", 3), is_impossible=True),
        entry("How?", ("by hand", 3)),
        entry("  ", ("1883", year)),
    )
    kept, bad = read_questions([path])
    assert [asked.answers for asked in kept[:5]] == [(("1883", year),), (("Ana Ruiz", name),)] * 1 + [
        (("Ana Ruiz", name),),
        (),
        (),
    ]
    assert kept[5].answers == (("by hand", NOT_FOUND),) and kept[5].answer is None
    assert [one.reason for one in bad] == ["no question"]
    assert kept[1].place == f"{path}, question 2"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "not valid JSON"),
        ('{"questions": []}', "does not have the format of SQuAD: KeyError\\('data'\\)"),
        ('{"data": [{"paragraphs": [{"context": "a", "qas": [{"answers": []}]}]}]}', "question 1(.|\n)*answer_start"),
        ('{"data": [{"paragraphs": [{"context": "a", "qas": [3]}]}]}', "does not have the format of SQuAD"),
    ],
)
def test_malformed_question_files_are_refused(content: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match=says):
        read_questions([tmp_path / "a.json"])


def test_question_files_and_music_files_are_distinguished(tmp_path: Path) -> None:
    (tmp_path / "music.json").write_text("[[[60, 55, 50, 40]]]", encoding="utf-8")
    assert not is_question_file(tmp_path / "music.json")
    assert is_question_file(written(tmp_path / "a.json", entry("When?")))
    assert not is_question_file(tmp_path / "missing.json")


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train_bpe([TEXT, "When was the bridge built?"], vocab=330)


@pytest.mark.parametrize("answer", ["1883", "Ana Ruiz", "1900년", "The bridge", "cafe\u0301", "ici"])
@pytest.mark.parametrize("longest", [200, 40])
def test_an_answer_is_found_again_in_its_window(answer: str, longest: int, tokenizer: Tokenizer) -> None:
    start = TEXT.index(answer)
    made = make_windows([("When?", TEXT)], tokenizer, longest=longest, overlap=20)
    places = [(window, found) for window in made if (found := window.tokens(start, start + len(answer)))]
    assert places
    for window, (first, last) in places:
        left, right = window.characters(first, last)
        assert TEXT[left:right] == answer


def test_windows_cover_the_text_and_overlap(tokenizer: Tokenizer) -> None:
    question, text = tokenizer.encode("When?"), tokenizer.encode_with_offsets(TEXT)[0]
    made = make_windows([("When?", TEXT), ("x", "ici")], tokenizer, longest=30, overlap=10)
    assert {window.row for window in made} == {0, 1}
    mine = [window for window in made if window.row == 0]
    before = [SOS, *question, EOS]
    assert all(window.ids[: window.first] == before for window in mine)
    parts = [window.ids[window.first :] for window in mine]
    assert parts[0] + [i for part in parts[1:] for i in part[10:]] == text
    assert all(len(window.offsets) == len(part) for window, part in zip(mine, parts, strict=True))
    assert text == tokenizer.encode(TEXT)
