"""Start a run from the weights of another run (`--from`): checks, inherited settings, initial weights."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from glassformer.errors import UserError
from glassformer.inference.run import Run, WeightsFile
from glassformer.settings import Raw, merge, task_of, task_traits
from glassformer.tasks import Data


def inherit_settings(start: Run, raw: Raw, data: Data) -> Raw:
    """Return the settings with model, tokenizer and (unless given) decoding of the run to start from.

    Raise a `UserError` if the run was trained for another task or labels, or if other model settings are given. A
    pre-trained encoder may be given a head for another task.
    """
    task = task_of(raw)
    new_head = _is_pretrained(start, task)
    if (start.settings.task, start.labels) != (task, data.labels) and not new_head:
        trained_for = f"{start.settings.task} {', '.join(start.labels)}".strip()
        raise UserError(
            f"The run given with --from was trained for another task or other labels: {trained_for}.",
            where=f"task = {task}" if start.settings.task != task else f"labels: {', '.join(data.labels)}",
            hint="give data for the same task with the same labels, or train without --from",
        )
    parent = start.settings.model_dump(include={"model", "tokenizer", "decode"}, exclude_none=True)
    merged = merge(parent, raw)
    free = ("dropout", "pooling") if new_head else ("dropout",)  # settings of the training and of the head
    changed = {name: merged["model"][name] for name in free if name in merged["model"]}
    if (merged["model"], merged.get("tokenizer")) != (parent["model"] | changed, parent.get("tokenizer")):
        raise UserError(
            "With --from, model and tokenizer are those of the other run and cannot be changed.",
            where="model.* or tokenizer.*",
            hint="leave those settings out",
        )
    return merged


def initial_weights(start: Run, task: str) -> Mapping[str, Tensor]:
    """Return the weights of a run, or only those of its encoder if it was trained for another task."""
    return WeightsFile(start.folder.model, "" if start.settings.task == task else "encoder.")


def _is_pretrained(start: Run, task: str) -> bool:
    """Return whether a run has a pre-trained encoder on which the head for another task can be trained."""
    fits = start.settings.model.family in task_traits(task).families
    return task_traits(start.settings.task).pretrains and fits and not task_traits(task).pretrains
