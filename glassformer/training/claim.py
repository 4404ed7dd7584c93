"""A folder for a run, and for this run alone."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from glassformer.errors import UserError
from glassformer.files import alone, cannot_write, sweep
from glassformer.inference.run import RunFolder
from glassformer.settings import Raw
from glassformer.training.ranks import Ranks


def new_folder(out: str | Path | None, raw: Raw) -> RunFolder:
    """The folder of a new run: the one that was asked for, if it is free, or a new one under runs/."""
    if out is not None:
        folder = RunFolder(out)
        if folder.settings.exists():
            raise UserError(
                "There is a run in this folder already.",
                where=str(folder.path),
                hint="go on with it by --resume, or choose another folder with -o",
            )
        if folder.path.exists() and not folder.path.is_dir():
            raise UserError("This is a file; a run needs a folder.", where=str(folder.path), hint="choose another -o")
    else:
        name, number = name_from(raw), 1
        while (folder := RunFolder(Path("runs") / (name if number == 1 else f"{name}-{number}"))).path.exists():
            number += 1
    try:
        folder.path.mkdir(parents=True, exist_ok=True)
        probe = folder.path / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise cannot_write(folder.path, error) from None
    return folder


def name_from(raw: Raw) -> str:
    """`en-de` for train.en.gz and train.de.gz; the file's name for one file."""
    sides = [side if isinstance(side, str) else side[0] for side in raw["data"]["train"]]
    names = [Path(side).name.removesuffix(".gz") for side in sides]
    if len(names) == 1:
        return names[0].rpartition(".")[0] or names[0]
    return "-".join(dict.fromkeys(name.rpartition(".")[2] for name in names))


def claim(folder: RunFolder, stack: contextlib.ExitStack) -> None:
    """As long as the stack lasts."""
    stack.enter_context(alone(folder.lock, "training in this folder"))
    for place in (folder.path, folder.checkpoints):
        sweep(place)


@contextlib.contextmanager
def removed_if_empty(folder: RunFolder, ranks: Ranks) -> Iterator[None]:
    """What fails before the run has begun leaves no folder behind."""
    try:
        yield
    except BaseException:
        if ranks.first:
            with contextlib.suppress(OSError):  # files that were there before: then the folder stays
                folder.lock.unlink()  # held by ourselves
                folder.path.rmdir()
        raise
