"""A Vision Transformer learns where a bright spot is, in seconds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import glassformer as gf

PLACES = {"upper left": (0, 0), "upper right": (0, 8), "lower left": (8, 0), "lower right": (8, 8)}


@pytest.mark.learns
def test_a_vit_learns_the_position_of_a_spot(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    for label, (top, left) in PLACES.items():
        (tmp_path / "images" / label).mkdir(parents=True)
        for number in range(100):
            image = random.integers(0, 30, (16, 16), dtype=np.uint8)
            y, x = random.integers(0, 5, 2)
            image[top + y : top + y + 4, left + x : left + x + 4] = 230
            Image.fromarray(image).save(tmp_path / "images" / label / f"{number}.png")
    settings = {
        "model.layers": 2,
        "model.d_model": 32,
        "model.patch": 4,
        "model.heads": 2,
        "model.d_ff": 64,
        "model.dropout": 0.0,
        "train.batch_tokens": 544,  # 32 images
        "train.steps": 300,
        "train.warmup": 20,
        "train.lr": 3e-3,
        "train.validate_every": 150,
        "train.average": 1,
    }
    run = gf.train(str(tmp_path / "images"), out=tmp_path / "run", settings=settings)
    assert run.scores["valid"].scores["accuracy"] >= 95
    labeller = gf.load(run.path)
    files = [tmp_path / "images" / label / "3.png" for label in PLACES]
    assert labeller(files) == list(PLACES)
    assert labeller(str(files[1])) == "upper right"
    assert sum(labeller.predict(files[:1])[0].probabilities.values()) == pytest.approx(1)
    trace = labeller.trace(files[0])
    assert trace.label == "upper left" and trace.class_token_attention(0).shape == (4, 4)
    itself = trace["encoder.1.self.weights"].mean(dim=0)[0, 0]
    assert float(trace.class_token_attention(1).sum() + itself) == pytest.approx(1)
