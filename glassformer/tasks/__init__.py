"""The tasks: one file per task, each with one `TaskSpec`, and one table.

    spec.py      interfaces: `Data`, `Task`, `TaskSpec`
    examples.py  data sets that are held in memory
    labelled.py  shared by classification and tagging
    metrics.py   BLEU, accuracy, F1 …

To add a task, write its file and add its spec to the table (or call `register`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from glassformer.data.preparation import ProgressCallback
from glassformer.errors import UserError
from glassformer.inference.run import Run
from glassformer.settings import DataSettings, Raw, tasks, with_family
from glassformer.settings.tasks import default_task, register
from glassformer.tasks import (
    classification,
    contextual_embeddings,
    image_classification,
    language_model,
    masked_language_model,
    music,
    question_answering,
    sentence_embeddings,
    tagging,
    translation,
)
from glassformer.tasks.spec import TEST, TRAIN, VALID, Chosen, Data, HeldOut, PredictRequest, Report, Task, TaskSpec

TABLE: tuple[TaskSpec, ...] = (  # the first is the default; files are recognized in this order
    translation.SPEC,
    image_classification.SPEC,
    language_model.SPEC,
    music.SPEC,
    contextual_embeddings.SPEC,
    classification.SPEC,
    tagging.SPEC,
    masked_language_model.SPEC,
    sentence_embeddings.SPEC,
    question_answering.SPEC,
)
for _spec in TABLE:
    register(_spec)

__all__ = [
    "TABLE", "TEST", "TRAIN", "VALID", "Chosen", "Data", "HeldOut", "PredictRequest", "Report", "Task", "TaskSpec",
    "read_data", "recognize_task", "register", "score_files", "task_spec", "task_with_architecture",
    "with_task",
]  # fmt: skip


def task_spec(name: str) -> TaskSpec:
    """Return the definition of a task."""
    spec = tasks()[name]
    assert isinstance(spec, TaskSpec)
    return spec


def read_data(task: str, settings: DataSettings, progress: ProgressCallback) -> Data:
    """Read and check the data of a task."""
    spec = task_spec(task)
    if settings.also and not spec.sequence_to_sequence:
        raise UserError(
            f"data.also is not valid for task={task}.", where="data.also", hint="list all files in data.train"
        )
    return spec.data(settings, progress)


def recognize_task(paths: Sequence[Any]) -> tuple[str, str]:
    """Return the task that files are for, by their names and contents, and the reason (empty for the default task)."""
    if paths and all(isinstance(path, str) for path in paths):
        for name in tasks():
            if reason := task_spec(name).recognize(list(paths)):
                return name, reason
    return default_task(), ""


def with_task(raw: Raw, *, is_new: bool) -> tuple[Raw, str]:
    """Return the settings with the task that the files are for, if none is given, and the reason.

    is_new: the model is not that of another run, so its family follows from the task.
    """
    paths = raw.get("data", {}).get("train") if isinstance(raw.get("data"), dict) else None
    reason = ""
    if "task" not in raw and isinstance(paths, list):
        task, reason = recognize_task(paths)
        raw = {**raw, "task": task} if reason else raw
    return with_family(raw) if is_new else raw, reason


def task_with_architecture(architecture: str) -> str:
    """Return the task whose models have this architecture in Transformers."""
    return next(name for name in tasks() if architecture in task_spec(name).huggingface.values())


def score_files(run: Run, paths: Sequence[str]) -> tuple[dict[str, float], HeldOut]:
    """Score a run on held-out files, for every task but sequence-to-sequence tasks, whose files come in pairs."""
    spec = task_spec(run.settings.task)
    if spec.held_out is None:
        raise UserError(f"task={spec.name} has no metric.", where=str(run.folder.path), hint="use glassformer predict")
    held_out = spec.held_out(run, list(paths))
    shard = held_out.task.evaluate_shard(run.model, 0, 1, split=TEST, final=True)
    return held_out.task.scores([shard], split=TEST), held_out
