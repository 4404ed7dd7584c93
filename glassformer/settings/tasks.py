"""The registry of tasks, as seen by the modules below `glassformer.tasks`.

Each file of `glassformer/tasks/` defines one task by one `TaskSpec`, a `TaskTraits` with more fields. `settings`,
`inference` and `planning` need some of these facts but must not import `tasks`, which is above them. They look a task
up here; the first lookup imports `glassformer.tasks`, which registers its table. No other module names a task.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

Head = Callable[[Any, int], Any]  # encoder, number of labels (or vocabulary size) → model


def no_head(model: Any) -> Head | None:
    """Return None: the model family does the task without a head."""
    return None


@dataclass(frozen=True, kw_only=True)
class TaskTraits:
    """The properties of a task that settings, inference and planning use.

    name                  value of the setting `task`
    families              model families that can do it; the first is the default
    predictor             loaded run (`inference.run.Run`) → object that predicts
    head                  settings of the model → head to put on the encoder, or None
    input                 "text", "image" (no tokenizer) or "question" (a question and a text)
    output                "tokens", "labels" (the run folder has labels.json), "span" or "vectors"
    pretrains             training leaves an encoder that `--from` can put another task's head on
    blanks                a text may contain blanks (___), which the model fills
    sequence_to_sequence  the model maps a source to a target: it is used by `translate` and scored on references
    consistency           its loss has the consistency term of `train.consistency`
    """

    name: str
    families: tuple[str, ...]
    predictor: Callable[[Any], Any]
    output: Literal["tokens", "labels", "span", "vectors"]
    input: Literal["text", "image", "question"] = "text"
    head: Callable[[Any], Head | None] = no_head
    pretrains: bool = False
    blanks: bool = False
    sequence_to_sequence: bool = False
    consistency: bool = False


# The default of the setting `task`. It is named here too, so that a translator starts without importing every task.
DEFAULT_TASK = "translation"

_registered: dict[str, TaskTraits] = {}


def register(task: TaskTraits) -> None:
    """Add a task."""
    _registered[task.name] = task


def tasks() -> dict[str, TaskTraits]:
    """Return every task by name."""
    import_module("glassformer.tasks")  # registers its table when it is first imported
    return _registered


def task_traits(name: str) -> TaskTraits:
    """Return the task of a name that the settings have already checked."""
    return tasks()[name]


def default_task() -> str:
    """Return the name of the task of settings that name none."""
    return DEFAULT_TASK


def task_of(raw: dict[str, Any]) -> str:
    """Return the task that unchecked settings name, or the default."""
    return str(raw.get("task", default_task()))


def with_family(raw: Any) -> Any:
    """Return settings whose model names its family: the task's default where none is given."""
    if not isinstance(raw, dict) or raw.get("task", default_task()) in [default_task(), None]:
        return raw
    task, model = tasks().get(task_of(raw)), raw.get("model", {})
    if task is None or not isinstance(model, dict) or "family" in model:
        return raw
    return {**raw, "model": {"family": task.families[0], **model}}
