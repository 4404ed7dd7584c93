"""Runs without training: a copy of a trained run, and runs with initial weights."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

FROZEN = Path(__file__).parent / "compat" / "runs" / "format-1"
TRAIN = {
    "steps": 1,
    "batch_tokens": 1,
    "lr": 1e-3,
    "warmup": 1,
    "patience": 0,
    "validate_every": 1,
    "checkpoint_every": 1,
}
SMALL_GPT = {"family": "gpt", "layers": 2, "d_model": 24, "heads": 2, "d_ff": 48, "max_positions": 40, "dropout": 0}


def trained_run(path: Path) -> Path:
    """Copy the frozen run with its settings in the current format, which the native engine reads."""
    from glassformer.inference.run_folder import RunFolder, load_settings, save_settings

    shutil.copytree(FROZEN, path)
    save_settings(RunFolder(path), load_settings(RunFolder(FROZEN)))
    return path


def untrained_run(path: Path, raw: dict[str, Any], labels: list[str] | None = None) -> Path:
    """Write a run folder with the tokenizer of the frozen run."""
    from glassformer.inference.run import build_model, save_weights, weights_of
    from glassformer.inference.run_folder import RunFolder, save_labels, save_settings
    from glassformer.settings import resolve
    from glassformer.text.tokenizer import Tokenizer

    run = RunFolder(path)
    run.path.mkdir()
    settings = resolve(raw | {"tokenizer": {"vocab": 500}, "train": TRAIN})
    save_settings(run, settings)
    tokenizer = (FROZEN / "tokenizer.json").read_text(encoding="utf-8")
    run.tokenizer.write_text(tokenizer, encoding="utf-8")
    if labels:
        save_labels(run, labels)
    model = build_model(settings, len(Tokenizer.from_json(tokenizer)), len(labels or []))
    save_weights(run.model, weights_of(model))
    return run.path


def adapter_run(base: Path, path: Path) -> Path:
    """Write an adapter of a run with random matrices, in the files that training writes."""
    import torch

    from glassformer.files import checksum
    from glassformer.inference.base_run import BaseRun
    from glassformer.inference.run import load_run, save_weights
    from glassformer.inference.run_folder import RunFolder
    from glassformer.nn.lora import add_lora

    shutil.copytree(base, path, ignore=shutil.ignore_patterns("model.safetensors", "checkpoints"))
    folder, model = RunFolder(path), load_run(base).model
    torch.manual_seed(1)
    add_lora(model, rank=2)
    trained = {name: torch.randn_like(p) / 2 for name, p in model.named_parameters() if p.requires_grad}
    save_weights(folder.adapter, trained)
    BaseRun(base.name, checksum(base / "model.safetensors")).save(folder)
    return path


def perturbed_run(base: Path, path: Path, *, seed: int) -> Path:
    """Copy a run with noise in its weights: another model of the same vocabulary that has learned the same."""
    import torch

    from glassformer.inference.run import load_run, save_weights, weights_of
    from glassformer.inference.run_folder import RunFolder

    shutil.copytree(base, path)
    noise = torch.Generator().manual_seed(seed)
    weights = weights_of(load_run(base).model)
    noisy = {
        name: weight + 0.2 * weight.std(correction=0) * torch.randn(weight.shape, generator=noise)
        for name, weight in weights.items()
    }
    save_weights(RunFolder(path).model, noisy)
    return path


def exchange_tokens(run: Path) -> None:
    """Exchange the ids of two tokens, which gives another vocabulary of the same size."""
    file = run / "tokenizer.json"
    state = json.loads(file.read_text(encoding="utf-8"))
    vocab = state["model"]["vocab"]
    vocab["<0x41>"], vocab["<0x42>"] = vocab["<0x42>"], vocab["<0x41>"]
    file.write_text(json.dumps(state), encoding="utf-8")
