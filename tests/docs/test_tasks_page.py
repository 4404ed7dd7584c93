"""Every command of docs/tasks.md runs, in the order in which it stands there, on small data of these names."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner

from glassformer.cli import command_line

PAGE = Path(__file__).parents[2] / "docs" / "tasks.md"
TINY = ["model.d_model=16", "train.steps=4", "train.validate_every=4"]


def test_the_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = [f"{a}{b}" for a in "bdfgk" for b in "aeiou"]
    rows = [[words[i % 25], words[(3 * i + 1) % 25], words[i * i % 25]] for i in range(60)]
    Path("reviews.tsv").write_text("".join(f"{i % 2}\t{' '.join(row)} {i}\n" for i, row in enumerate(rows)))
    tagged = ("".join(f"{i}\t{word}\t_\tV{word[1]}\n" for i, word in enumerate(row, 1)) for row in rows)
    Path("words.conllu").write_text("\n".join(tagged))
    Path("text.txt").write_text("".join(f"{' '.join(row)}\n" for row in rows))
    Path("pieces.json").write_text(json.dumps([[[60 + i % 3, 55, 52, 48 + j]] * 9 for i in range(4) for j in range(4)]))
    answer = {"text": "1883", "answer_start": 10}
    asked = [
        {"context": f"It was in 1883, {i}.", "qas": [{"question": "When?", "answers": [answer]}]} for i in range(40)
    ]
    Path("qa.json").write_text(json.dumps({"data": [{"paragraphs": asked}]}))
    for number in range(40):
        path = Path("images", ("cat", "dog")[number % 2], f"{number // 2}.png")
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (8, 8), 5 * number).save(path)
    commands = re.findall(r"^glassformer (.*)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    for command in commands:
        arguments = shlex.split(command)
        result = CliRunner().invoke(command_line(), [*arguments, *(TINY if arguments[0] == "train" else [])])
        assert result.exit_code == 0, f"{command}\n{result.output}\n{result.exception}"
    assert {command.split()[0] for command in commands} == {
        *("train", "predict", "evaluate"),
        *("explain", "export", "import"),
    }
    assert Path("piece.mid").read_bytes()[:4] == b"MThd"
