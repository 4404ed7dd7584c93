"""base.json: the run that another run was started from (`--from`).

A run with an adapter has no weights of its own but the adapter, so it needs its base run. The base is recorded by the
name of its folder, which is next to the adapter's folder, and by a checksum of its weights. A path is not accepted as
the name, and other weights are refused.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from glassformer.engine.safetensors import missing_weights
from glassformer.errors import UserError
from glassformer.files import checksum, read_json, write_text
from glassformer.inference.run_folder import RunFolder


@dataclass(frozen=True)
class BaseRun:
    """What a run records about the run that it was started from.

    Attributes:
        name: name of its folder.
        checksum: of its weights.
        prefix: the run was started with the weights whose names begin so: all, or those of the encoder.
        scores: of the base on its own validation set; empty if that was not measured.
    """

    name: str
    checksum: str
    prefix: str = ""
    scores: dict[str, float] = field(default_factory=dict)

    @classmethod
    def load(cls, folder: RunFolder) -> BaseRun:
        """Read and check base.json."""
        hint = "copy the folder again"
        try:
            raw = read_json(folder.base, "The record of the base run", hint)
        except FileNotFoundError:
            message = "The adapter does not say which run it belongs to: base.json is missing."
            raise UserError(message, where=str(folder.path), hint=hint) from None
        if not _is_record(raw):
            raise UserError("The record of the base run is damaged.", where=str(folder.base), hint=hint)
        base = cls(**raw)
        if not is_folder_name(base.name):
            raise UserError(
                f"The base run of an adapter is a folder beside it, not {base.name!r}.",
                where=str(folder.base),
                hint="use adapters from people you trust; a base run elsewhere can be linked beside the adapter: ln -s",
            )
        return base

    def save(self, folder: RunFolder) -> None:
        write_text(folder.base, json.dumps(dataclasses.asdict(self), ensure_ascii=False) + "\n")

    def find(self, folder: RunFolder) -> RunFolder:
        """Return the base run of the run in `folder`; raise a `UserError` if it is absent or has other weights."""
        base = RunFolder(folder.path.absolute().parent / self.name)
        if not base.path.is_dir():
            raise UserError(
                f"The base run of this adapter is missing: {self.name}.",
                where=str(base.path),
                hint=f"copy the run there, or link it: ln -s /path/to/{self.name} {base.path}",
            )
        if not base.weights.is_file():
            raise missing_weights(base.weights)
        if checksum(base.weights) != self.checksum:
            raise UserError(
                "The adapter belongs to another base run: the weights have another checksum.",
                where=str(base.weights),
                hint=f"restore the run {self.name} that the adapter was trained with, or train the adapter again",
            )
        return base


def is_folder_name(name: str) -> bool:
    """Return whether a name is a plain folder name, not a path."""
    return name == Path(name).name and name not in ("", "..") and not set(name) & set("/\\:\0")


def _is_record(raw: Any) -> bool:
    if not isinstance(raw, dict) or not {"name", "checksum"} <= raw.keys() <= {"name", "checksum", "prefix", "scores"}:
        return False
    texts, scores = (raw["name"], raw["checksum"], raw.get("prefix", "")), raw.get("scores", {})
    if not isinstance(scores, dict) or not all(isinstance(score, int | float) for score in scores.values()):
        return False
    return all(isinstance(text, str) for text in texts)
