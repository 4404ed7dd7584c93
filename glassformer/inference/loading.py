"""Load a run folder as the predictor of its task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from glassformer import machine
from glassformer.errors import UserError
from glassformer.inference.run import Run, RunFolder, load_run, load_settings
from glassformer.inference.translator import Precision, load_translator
from glassformer.settings import task_traits


def load(run: str | Path, *, precision: Precision = "fp32", device: str | None = None) -> Any:
    """Return the predictor of a run by its task: a translator, classifier, tagger, language model …

    Example:
        >>> model = load("runs/en-de")
    """
    if task_traits(load_settings(RunFolder(run)).task).sequence_to_sequence:
        return load_translator(run, precision=precision, device=device)
    device = device or machine.device()
    if device != "cpu" and precision == "int8":
        raise UserError("precision=int8 is only supported on CPUs.", hint="leave it out")
    # In fp32 a whole text is read at once, by kernels that take the weights unpacked.
    return predictor_of(load_run(run, device=device, precision="int8" if precision == "int8" else None))


def load_predictor(run: str | Path) -> tuple[str, Any]:
    """Return the task and the predictor of a run of any task but sequence-to-sequence tasks."""
    task = load_settings(RunFolder(run)).task
    if task_traits(task).sequence_to_sequence:
        hint = f'glassformer translate {run} "…"'
        raise UserError(f"A run of task={task} is used with translate.", where=str(run), hint=hint)
    return task, predictor_of(load_run(run, device=machine.device()))


def predictor_of(run: Run) -> Any:
    """Return the predictor of a loaded run."""
    return task_traits(run.settings.task).predictor(run)
