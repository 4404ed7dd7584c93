"""Run folders with random weights, made without training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from glassformer.inference.run import build_model, save_weights, weights_of
from glassformer.inference.run_folder import RunFolder, save_settings
from glassformer.phrasebook.corpus import phrasebook
from glassformer.settings import resolve
from glassformer.text.tokenizer import Tokenizer
from tests.families import perturb

TRAIN = ("steps", "batch_tokens", "lr", "warmup", "validate_every", "checkpoint_every", "patience")
TRANSFORMER = {
    "family": "transformer",
    "encoder_layers": 1,
    "decoder_layers": 2,
    "d_model": 24,
    "heads": 3,
    "d_ff": 37,
    "dropout": 0.0,
}
RECURRENT = {
    "family": "recurrent",
    "cell": "gru",
    "attention": "additive",
    "encoder_layers": 1,
    "decoder_layers": 1,
    "d_model": 22,
    "dropout": 0.0,
}
GPT = {"family": "gpt", "layers": 2, "d_model": 24, "heads": 3, "d_ff": 37, "max_positions": 31, "dropout": 0.0}


def random_run(folder: Path, model: dict[str, Any], *, task: str = "translation", seed: int = 1) -> Path:
    """Write a run folder: a tokenizer of the phrasebook and random weights."""
    pairs = phrasebook(size=300).pairs("train", "en", "fr")
    tokenizer = Tokenizer.train_bpe([line for pair in pairs for line in pair], vocab=400)
    settings = resolve(
        {
            "task": task,
            "data": {"train": ["train.en", "train.fr"]},
            "tokenizer": {"kind": "bpe", "vocab": 400},
            "model": model,
            "train": dict.fromkeys(TRAIN, 1),
            "decode": {"beam": 3, "max_length": 14},
        }
    )
    torch.manual_seed(seed)
    network = perturb(build_model(settings, len(tokenizer)))
    run = RunFolder(folder)
    run.path.mkdir()
    save_settings(run, settings)
    run.tokenizer.write_text(tokenizer.to_json(), encoding="utf-8")
    save_weights(run.model, {name: weight.detach() for name, weight in weights_of(network).items()})
    return folder


def source_lines(count: int) -> list[str]:
    return [source for source, _ in phrasebook(size=700).pairs("train", "en", "fr")][:count]
