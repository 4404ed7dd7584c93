"""Create the folder of a run and lock it against other processes."""

from __future__ import annotations

import contextlib
from pathlib import Path

from glassformer.errors import UserError
from glassformer.files import exclusive_lock, remove_temporary_files, write_error
from glassformer.inference.run_folder import RunFolder
from glassformer.settings import Raw


def create_folder(out: str | Path | None, raw: Raw) -> RunFolder:
    """Create the folder of a new run: `out` if it holds no run yet, or else a new folder in runs/."""
    if out is not None:
        folder = RunFolder(out)
        if folder.settings.exists():
            raise already_a_run(folder.path)
        if folder.path.exists() and not folder.path.is_dir():
            raise UserError("This is a file, not a folder.", where=str(folder.path), hint="choose a folder with -o")
    else:
        name, number = run_name(raw), 1
        while (folder := RunFolder(Path("runs") / (name if number == 1 else f"{name}-{number}"))).path.exists():
            number += 1
    try:
        folder.path.mkdir(parents=True, exist_ok=True)
        probe = folder.path / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise write_error(folder.path, error) from None
    return folder


def already_a_run(folder: Path) -> UserError:
    """Return the error for a new run in the folder of another one."""
    return UserError(
        "This folder already contains a run.",
        where=str(folder),
        hint="continue it with --resume, or choose another folder with -o",
    )


def run_name(raw: Raw) -> str:
    """Return a name for a run: `en-de` for train.en.gz and train.de.gz; the stem of the file for a single file."""
    sides = [side if isinstance(side, str) else side[0] for side in raw["data"]["train"]]
    names = [Path(side).name.removesuffix(".gz") for side in sides]
    if len(names) == 1:
        return names[0].rpartition(".")[0] or names[0]
    return "-".join(dict.fromkeys(name.rpartition(".")[2] for name in names))


def lock_folder(folder: RunFolder, stack: contextlib.ExitStack) -> None:
    """Lock a run folder until the stack is closed, and remove temporary files that a killed process left in it.

    If training has not started by then (no run.toml), the empty folder is removed.
    """
    stack.callback(remove_if_empty, folder)
    stack.enter_context(exclusive_lock(folder.lock, "training in this folder"))
    for path in (folder.path, folder.checkpoints):
        remove_temporary_files(path)


def remove_if_empty(folder: RunFolder) -> None:
    """Remove a run folder unless it contains something."""
    with contextlib.suppress(OSError):  # the folder is not empty: it stays
        folder.path.rmdir()
