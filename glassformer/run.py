"""The run folder: what training leaves behind and everything else starts from.

    RUN/ model.safetensors  tokenizer.json  run.toml  README.md  data-report.json  log.jsonl  checkpoints/

Safetensors, JSON and TOML only: nothing in it can execute.
"""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from glassformer.errors import UserError
from glassformer.files import no_such, write_text, writing
from glassformer.models import FAMILIES
from glassformer.settings import FORMAT, Settings, resolve
from glassformer.text.tokenizer import PAD, Tokenizer


class RunFolder:
    """The places of a run's files."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.model = self.path / "model.safetensors"
        self.tokenizer = self.path / "tokenizer.json"
        self.settings = self.path / "run.toml"
        self.card = self.path / "README.md"
        self.data_report = self.path / "data-report.json"
        self.log = self.path / "log.jsonl"
        self.checkpoints = self.path / "checkpoints"


@dataclass(frozen=True)
class Run:
    """A run folder, loaded."""

    folder: RunFolder
    settings: Settings
    tokenizer: Tokenizer
    model: nn.Module


def load_run(path: str | Path, *, device: torch.device | str = "cpu") -> Run:
    folder = RunFolder(path)
    settings = load_settings(folder)
    tokenizer = Tokenizer.load(folder.tokenizer)
    model = build_model(settings, len(tokenizer))
    load_weights(folder.model, model)
    return Run(folder, settings, tokenizer, model.to(device).eval())


def load_settings(folder: RunFolder) -> Settings:
    if not folder.path.exists():
        raise no_such(folder.path, "run folder")
    if not folder.path.is_dir():
        raise UserError(
            "This is a file; a run folder is needed.",
            where=str(folder.path),
            fix="give the folder that train wrote",
        )
    if not folder.settings.is_file():
        raise UserError(
            "This folder is not a run of Glassformer: it has no run.toml.",
            where=str(folder.path),
            fix="give the folder that train wrote",
        )
    try:
        raw = tomllib.loads(folder.settings.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(
            f"The run's settings are damaged: {error}.",
            where=str(folder.settings),
            fix="copy the folder again",
        ) from None
    written = raw.get("format", FORMAT)
    if isinstance(written, int) and written > FORMAT:
        raise UserError(
            f"This run was written by a newer Glassformer (format {written}, this one reads {FORMAT}).",
            where=str(folder.path),
            fix="update Glassformer",
        )
    try:
        return resolve(raw)
    except UserError as error:
        raise UserError(
            f"The run's settings are damaged: {error.where}.",
            where=str(folder.settings),
            fix=f"{error.fix} (or copy the folder again)",
        ) from None


def save_settings(folder: RunFolder, settings: Settings) -> None:
    write_text(folder.settings, settings.to_toml())


def build_model(settings: Settings, vocab: int) -> nn.Module:
    """The model that the settings describe, with fresh weights."""
    return FAMILIES[settings.model.family](settings.model, vocab, pad=PAD)


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Every weight once, under one name, also where two parts share it."""
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def save_weights(path: Path, weights: dict[str, Tensor]) -> None:
    with writing(path) as beside:
        # One entry only: safetensors writes several in any order, and equal weights should be equal files.
        save_file(weights, beside, metadata={"format": "pt"})
        beside.chmod(0o666 & ~_umask())  # the library keeps its files to the owner; a run may be shared


def _umask() -> int:
    mask = os.umask(0)  # there is no way to ask but to set it
    os.umask(mask)
    return mask


def read_weights(path: Path) -> dict[str, Tensor]:
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is not a dict)
    except FileNotFoundError:
        raise UserError(
            "The weights are missing.",
            where=str(path),
            fix="train to the end, go on with --resume, or copy again",
        ) from None
    except (SafetensorError, OSError) as error:
        raise UserError(
            f"The weights are damaged, or not safetensors: {error}.",
            where=str(path),
            fix="copy the file again; pickled weights (.pt, .bin) are not loaded, as they can run code",
        ) from None


def load_weights(path: Path, model: nn.Module) -> None:
    put_weights(model, read_weights(path), where=path)


def put_weights(model: nn.Module, weights: dict[str, Tensor], *, where: Path) -> None:
    """Copies weights into a model; refuses those of another model."""
    places = weights_of(model)
    wrong = sorted(weights.keys() ^ places.keys()) + [
        name for name in weights.keys() & places.keys() if weights[name].shape != places[name].shape
    ]
    if wrong:
        raise UserError(
            f"The weights do not fit the model of run.toml: {wrong[0]}{' and others' if wrong[1:] else ''}.",
            where=str(where),
            fix="keep the files of one run together",
        )
    for name, place in places.items():
        place.copy_(weights[name])
