"""The run folder that training writes: its files, settings, tokenizer and labels. `run.py` loads the model.

    RUN/ model.safetensors  tokenizer.json  run.toml  README.md  data-report.json  log.jsonl  checkpoints/
         labels.json (classification and tagging; an image model has no tokenizer.json)
         shortlist.json (Transformers that translate)
         diversification/ (`data.diversify`: the forward and backward models, and the text)
         base.json (the run that it was started from), adapter.safetensors (LoRA; in place of model.safetensors)

It contains safetensors, JSON and TOML only: no file of it can execute code.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from glassformer.errors import UserError
from glassformer.files import not_found, read_json, write_text
from glassformer.settings import FORMAT, DecodeSettings, Settings, TransformerSettings, read_toml, resolve
from glassformer.settings.aliases import current_names
from glassformer.settings.tasks import default_task
from glassformer.text.tokenizer import Tokenizer


class RunFolder:
    """The paths of the files of a run."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.model = self.path / "model.safetensors"
        self.adapter = self.path / "adapter.safetensors"
        self.base = self.path / "base.json"
        self.tokenizer = self.path / "tokenizer.json"
        self.labels = self.path / "labels.json"
        self.shortlist = self.path / "shortlist.json"
        self.settings = self.path / "run.toml"
        self.card = self.path / "README.md"
        self.data_report = self.path / "data-report.json"
        self.log = self.path / "log.jsonl"
        self.checkpoints = self.path / "checkpoints"
        self.diversification = self.path / "diversification"
        self.diversification_recipe = self.diversification / "recipe.toml"
        self.lock = self.path / ".lock"

    @property
    def is_adapter(self) -> bool:
        """Whether the weights are those of a base run with an adapter."""
        return self.adapter.exists()

    @property
    def weights(self) -> Path:
        """The file that changes when the weights of the run change."""
        return self.adapter if self.is_adapter else self.model


def load_tokenizer(folder: RunFolder, settings: Settings) -> Tokenizer | None:
    """Load the tokenizer; None for an image model."""
    if settings.tokenizer is None:
        return None
    return Tokenizer.load(folder.tokenizer, requested_vocab=settings.tokenizer.vocab)


def vocab_size(tokenizer: Tokenizer | None) -> int:
    """Return the number of entries of the vocabulary; 0 for an image model."""
    return 0 if tokenizer is None else len(tokenizer)


def load_labels(folder: RunFolder) -> list[str]:
    """Load and check labels.json."""
    where = str(folder.labels)
    try:
        labels = read_json(folder.labels, "The file of the run's labels", "copy the folder again")
    except FileNotFoundError:
        raise UserError("The run's labels are missing.", where=where, hint="copy the whole run folder again") from None
    if not isinstance(labels, list) or len(labels) < 2 or not all(isinstance(label, str) for label in labels):
        message = "The run's labels are damaged: a list of at least two strings is required."
        raise UserError(message, where=where, hint="copy the folder again")
    return labels


def save_labels(folder: RunFolder, labels: list[str]) -> None:
    write_text(folder.labels, json.dumps(labels, ensure_ascii=False) + "\n")


def read_settings(folder: RunFolder) -> dict[str, Any]:
    """Return the tables of run.toml, unchecked; this does not import PyTorch with the tasks.

    Raises:
        UserError: if this is no run folder, or one of a newer version.
    """
    if not folder.path.exists():
        raise not_found(folder.path, "run folder")
    if not folder.path.is_dir():
        raise UserError(
            "This is a file, not a run folder.", where=str(folder.path), hint="give the folder that train wrote"
        )
    if not folder.settings.is_file() and folder.diversification_recipe.is_file():
        message = "The final model of this run has not been started: its forward and backward models are trained first."
        raise UserError(message, where=str(folder.path), hint=f"glassformer train -o {folder.path} --resume")
    if not folder.settings.is_file():
        hint = "give the folder that train wrote"
        raise UserError("This folder is not a Glassformer run: it has no run.toml.", where=str(folder.path), hint=hint)
    try:
        raw = read_toml(folder.settings)
    except ValueError as error:
        raise UserError(
            f"The run's settings are damaged: {error}.", where=str(folder.settings), hint="copy the folder again"
        ) from None
    version = raw.get("format", FORMAT)
    if isinstance(version, int) and version > FORMAT:
        raise UserError(
            f"This run was written by a newer Glassformer (format {version}; this version reads up to {FORMAT}).",
            where=str(folder.path),
            hint="update Glassformer",
        )
    return raw


def load_settings(folder: RunFolder) -> Settings:
    """Load and check run.toml."""
    raw = read_settings(folder)
    try:
        return resolve(raw)
    except UserError as error:
        raise UserError(
            f"The run's settings are damaged: {error.where}.",
            where=str(folder.settings),
            hint=f"{error.hint} (or copy the folder again)",
        ) from None


def load_transformer_settings(folder: RunFolder) -> tuple[TransformerSettings, DecodeSettings, int] | None:
    """Return the settings of model and decoding and the requested vocabulary size of a Transformer run.

    A shortcut for `load_settings` that does not import PyTorch with the tasks. None if run.toml is not a complete
    file of a Transformer; `load_settings` says what is wrong.
    """
    try:
        raw = current_names(read_toml(folder.settings))
        family = TransformerSettings.model_fields["family"].default
        if (raw["format"], raw["task"], raw["model"]["family"]) != (FORMAT, default_task(), family):
            return None
        model, decode = TransformerSettings.model_validate(raw["model"]), DecodeSettings.model_validate(raw["decode"])
        return model, decode, int(raw["tokenizer"]["vocab"])
    except (OSError, ValueError, KeyError, TypeError, UserError):  # ValidationError is a ValueError
        return None


def recorded_fingerprint(folder: RunFolder) -> str:
    """Return the fingerprint of the data that a run was trained on; empty if it is not recorded."""
    try:
        report = read_json(folder.data_report, "The data report", "copy the folder again")
    except FileNotFoundError:
        return ""
    return str(report.get("fingerprint")) if isinstance(report, dict) else ""


def save_settings(folder: RunFolder, settings: Settings) -> None:
    write_text(folder.settings, settings.to_toml())
