"""Read the run folder of a Transformer without Glassformer. Needs NumPy and the standard library."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import numpy as np

TYPES = {"F32": "<f4", "F16": "<f2"}
MAX_POSITIONS = 2048  # rows of a table of sinusoids, which has no limit of its own


def model_settings(run: Path) -> dict:
    """Return the section [model] of run.toml."""
    return tomllib.loads((run / "run.toml").read_text(encoding="utf-8"))["model"]


def weights(run: Path) -> dict[str, np.ndarray]:
    """Return the tensors of model.safetensors by name, in fp32. Tied matrices are stored once."""
    data = (run / "model.safetensors").read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    header.pop("__metadata__", None)
    found = {}
    for name, entry in header.items():
        first, end = entry["data_offsets"]
        values = np.frombuffer(data[start + first : start + end], TYPES[entry["dtype"]])
        found[name] = values.astype(np.float32).reshape(entry["shape"])
    return found


def vocabulary(run: Path) -> list[str]:
    """Return the tokens of tokenizer.json in the order of their ids."""
    state = json.loads((run / "tokenizer.json").read_text(encoding="utf-8"))
    ids = {entry["content"]: entry["id"] for entry in state["added_tokens"]} | state["model"]["vocab"]
    return sorted(ids, key=ids.__getitem__)


def position_table(settings: dict, tensors: dict[str, np.ndarray], side: str) -> np.ndarray:
    """Return the positional encodings that are added to the embeddings of the source or target, T×D."""
    assert settings["combine_positions"] == "add"
    match settings["positions"]:
        case "sinusoidal":
            return _sinusoids(MAX_POSITIONS, settings["d_model"])
        case "learned":
            return tensors[f"{side}_positions.positions.weight_TD"]
        case _:
            return np.zeros((MAX_POSITIONS, settings["d_model"]), np.float32)


def _sinusoids(length: int, width: int) -> np.ndarray:
    """PE(pos, 2i) = sin(pos / 10000^(2i/d)) and PE(pos, 2i+1) = cos(pos / 10000^(2i/d)), interleaved."""
    angles = np.arange(length)[:, None] / 10000 ** (np.arange(0, width, 2) / width)
    table = np.empty((length, width))
    table[:, 0::2] = np.sin(angles)
    table[:, 1::2] = np.cos(angles[:, : width // 2])
    return table.astype(np.float32)
