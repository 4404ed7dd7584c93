"""LoRA adapters of a run: list them, and merge one into an ordinary run."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from glassformer.errors import UserError
from glassformer.files import atomic_write
from glassformer.inference.base_run import BaseRun
from glassformer.inference.run import load_run, save_weights, weights_of
from glassformer.inference.run_folder import RunFolder, load_settings, save_settings


@dataclass(frozen=True)
class Adapter:
    """An adapter of a run; `problem` says why it cannot be used, or is empty."""

    run: Path
    rank: int
    size: int  # bytes
    problem: str


def list_adapters(base: str | Path) -> Iterator[Adapter]:
    """Yield the adapters of a run, which are folders next to it, in the order of their names."""
    folder = RunFolder(base)
    load_settings(folder)  # raises a UserError if there is no run
    path = folder.path.absolute()
    for other in sorted(path.parent.iterdir()):
        found = RunFolder(other)
        if not found.is_adapter:
            continue
        try:
            record = BaseRun.load(found)
            if record.name != path.name:
                continue
            rank, problem = load_settings(found).train.lora, ""
            record.find(found)
        except UserError as error:
            rank, problem = 0, error.message
        yield Adapter(other, rank, found.adapter.stat().st_size, problem)


def merge_adapter(run: str | Path, out: str | Path) -> RunFolder:
    """Write the run of an adapter as an ordinary run, which does not need its base."""
    folder, target = RunFolder(run), RunFolder(out)
    settings = load_settings(folder)
    if not folder.is_adapter:
        raise UserError(
            "This run is not an adapter.", where=str(folder.path), hint="give a run that was trained with train.lora"
        )
    if target.path.exists():
        raise UserError("The output folder exists.", where=str(target.path), hint="choose a new folder with -o")
    model = load_run(folder.path).model
    with atomic_write(target.path) as temporary:
        temporary.mkdir()
        merged = RunFolder(temporary)
        save_weights(merged.model, weights_of(model))
        for source in (folder.tokenizer, folder.labels, folder.shortlist, folder.data_report, folder.card):
            if source.is_file():
                shutil.copyfile(source, temporary / source.name)
        save_settings(merged, settings.model_copy(update={"train": settings.train.model_copy(update={"lora": 0})}))
    return target
