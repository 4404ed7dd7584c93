"""Make the folder that every case is a copy of."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

from harness import run

from tests.image_folders import write_images

SIZES = "model.d_model=16 model.layers=1 train.steps=4 train.validate_every=2"
TEXT = f"{SIZES} train.batch_tokens=256 data.sequence=24 tokenizer.vocab=300"
TINY = (
    "model.layers=1 model.d_model=16 model.heads=2 model.d_ff=16 tokenizer.vocab=400 "
    "train.steps=5 train.validate_every=5 decode.max_length=20"
)
WORDS = [f"{a}{b}" for a in "bdfgk" for b in "aeiou"]
ROWS = [[WORDS[i % 25], WORDS[(3 * i + 1) % 25], WORDS[i * i % 25], WORDS[i % 7]] for i in range(90)]

RUNS = {
    "run": f"train train.en train.fr --valid valid.en valid.fr --test test.en test.fr {TINY}",
    "runs/gpt": f"train text.txt model.family=gpt model.positions=learned {TEXT}",
    "runs/labels": f"train labels.tsv model.family=bert model.pooling=first {TEXT}",
    "runs/tags": f"train tags.conllu model.family=bert {TEXT}",
    "runs/answers": f"train qa.json model.family=bert {TEXT}",
    "runs/music": f"train music.json {SIZES} train.batch_tokens=256 data.sequence=24",
    "runs/vit": f"train images {SIZES} model.heads=2 model.d_ff=16 model.patch=4",
}
TRANSFORMERS = find_spec("transformers") is not None


def make(folder: Path) -> Path:
    """Write the data, train the runs, and export one for other tools where `transformers` is installed."""
    workdir = folder / "template"
    workdir.mkdir()
    write_images(workdir, 12)
    for name, content in _texts().items():
        (workdir / name).write_text(content, encoding="utf-8")
    commands = ["data get phrasebook --size 200 -o .", *(f"{command} -o {name}" for name, command in RUNS.items())]
    if TRANSFORMERS:
        commands += [f"export {run} --to huggingface -o hf/{Path(run).name}" for run in ("run", "runs/gpt", "runs/vit")]
    for command in commands:
        done = run(command, workdir, bounded=False)
        assert done.code == 0, done.err
    return workdir


def _texts() -> dict[str, str]:
    return {
        "text.txt": "".join(f"{' '.join(row)}\n" for row in ROWS),
        "labels.tsv": "".join(f"{'ba' in row}\t{' '.join(row)} {i}\n" for i, row in enumerate(ROWS)),
        "tags.conllu": "\n".join(
            "".join(f"{i}\t{word}\t_\tV{word[1]}\n" for i, word in enumerate(row, 1)) for row in ROWS
        ),
        "qa.json": json.dumps({"data": [{"paragraphs": [_paragraph(number) for number in range(40)]}]}),
        "music.json": json.dumps([[[60 + (i + j) % 9, 55, 50 + i % 5, 43] for j in range(32)] for i in range(12)]),
    }


def _paragraph(number: int) -> dict[str, object]:
    text = f"the tower of Ana{number % 7} stands since {1900 + number} by the river"
    answer = {"text": str(1900 + number), "answer_start": text.index("19")}
    return {"context": text, "qas": [{"question": "since when ?", "answers": [answer]}]}
