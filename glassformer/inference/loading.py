"""Load a run folder as the predictor of its task."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from glassformer import machine
from glassformer.errors import UserError
from glassformer.inference.native_modules import native_copy
from glassformer.inference.run import Run, load_run
from glassformer.inference.run_folder import RunFolder, load_settings
from glassformer.inference.search_engine import EngineName, Precision
from glassformer.inference.translator import load_translator
from glassformer.settings import task_traits


def load(
    run: str | Path,
    *,
    precision: Precision = "fp32",
    device: str | None = None,
    engine: EngineName = "auto",
    ensemble: Sequence[str | Path] = (),
) -> Any:
    """Return the predictor of a run by its task: a translator, classifier, tagger, language model …

    With `ensemble`, further runs of the same vocabulary translate together with the run: each decoding step averages
    the probabilities of all models, in PyTorch.

    Example:
        >>> model = load("runs/en-de")
        >>> ensemble = load("runs/en-de", ensemble=["runs/en-de-2"])
    """
    if ensemble or task_traits(load_settings(RunFolder(run)).task).sequence_to_sequence:
        return load_translator(run, precision=precision, device=device, engine=engine, ensemble=ensemble)
    loaded = load_run(run, device=device or machine.device())
    predictor = predictor_of(loaded)
    if engine != "torch" and (fast := native_copy(loaded, precision)) is not None:
        predictor.fast_model = fast
    return predictor


def load_predictor(run: str | Path, *, engine: EngineName = "auto") -> tuple[str, Any]:
    """Return the task and the predictor of a run of any task but sequence-to-sequence tasks."""
    task = load_settings(RunFolder(run)).task
    if task_traits(task).sequence_to_sequence:
        hint = f'glassformer translate {run} "…"'
        raise UserError(f"A run of task={task} is used with translate.", where=str(run), hint=hint)
    return task, load(run, engine=engine)


def predictor_of(run: Run) -> Any:
    """Return the predictor of a loaded run."""
    return task_traits(run.settings.task).predictor(run)
