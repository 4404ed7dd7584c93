"""Runs of other tasks than translation, trained for a few steps: a GPT, two BERTs, a ViT, two that answer questions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from glassformer.training.train import train

SMALL: dict[str, Any] = {"layers": 2, "d_model": 24, "heads": 3, "d_ff": 37, "dropout": 0.0}
FEW = {"steps": 4, "validate_every": 2, "checkpoint_every": 2, "batch_tokens": 400, "lr": 0.01, "average": 1}
NAMES, COLOURS = ["Ana", "Ben", "Cho", "Dia"], ["red", "blue", "green"]


def train_others(folder: Path) -> dict[str, Path]:
    """Each by the name of its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    facts = [(name, colour) for name in NAMES for colour in COLOURS] * 10
    lines = folder / "lines.txt"
    lines.write_text("".join(f"{name} likes {colour} .\n" for name, colour in facts), encoding="utf-8")
    labelled = folder / "labelled.tsv"
    labelled.write_text("".join(f"{colour}\t{name} likes {colour} .\n" for name, colour in facts), encoding="utf-8")
    max_positions = {"max_positions": 128}
    made = {
        "gpt": ([lines], {"task": "language_model", "model": SMALL | max_positions | {"family": "gpt"}}),
        "bert": ([labelled], {"task": "classification", "model": SMALL | max_positions | {"family": "bert"}}),
        "words": ([lines], {"task": "masked_language_model", "model": SMALL | max_positions | {"family": "bert"}}),
        "vit": (
            [_pictures(folder / "pictures")],
            {"task": "image_classification", "model": SMALL | {"family": "vit", "patch": 4}},
        ),
        "answers": ([_questions(folder / "questions.json")], {"task": "question_answering", "model": {"d_model": 24}}),
        "reader": (
            [_questions(folder / "questions.json")],
            {"task": "question_answering", "model": SMALL | max_positions | {"family": "bert"}},
        ),
    }
    for name, (files, settings) in made.items():
        vocabulary = {} if name == "vit" else {"tokenizer": {"vocab": 300}}
        train(*map(str, files), out=folder / name, settings=settings | vocabulary | {"train": FEW})
    return {name: folder / name for name in made}


def _pictures(folder: Path) -> Path:
    random = np.random.default_rng(1)
    for label, place in {"left": 0, "right": 8}.items():
        (folder / label).mkdir(parents=True, exist_ok=True)
        for number in range(20):
            pixels = random.integers(0, 30, (8, 16), dtype=np.uint8)
            pixels[2:6, place + 2 : place + 6] = 230
            Image.fromarray(pixels).save(folder / label / f"{number}.png")
    return folder


def _questions(file: Path) -> Path:
    paragraphs = []
    for name in NAMES:
        for other in NAMES:
            if name != other:
                text = f"{name} likes red . {other} likes blue ."
                answer = {"text": "blue", "answer_start": text.index("blue")}
                asked = {"question": f"what likes {other} ?", "answers": [answer]}
                paragraphs.append({"context": text, "qas": [asked]})
    file.write_text(json.dumps({"data": [{"paragraphs": paragraphs * 6}]}), encoding="utf-8")
    return file
