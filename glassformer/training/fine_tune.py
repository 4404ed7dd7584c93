"""Start a run from the weights of another run (`--from`): checks, inherited settings, initial weights, LoRA."""

from __future__ import annotations

import os
from collections.abc import Mapping

from torch import Tensor, nn

from glassformer.errors import Message, UserError
from glassformer.files import checksum
from glassformer.inference.base_run import BaseRun
from glassformer.inference.run import Run, run_weights
from glassformer.inference.run_folder import RunFolder
from glassformer.nn.lora import add_lora
from glassformer.settings import Raw, Settings, TransformerSettings, ViTSettings, merge, task_of, task_traits
from glassformer.tasks import Data

ENCODER = "encoder."  # the weights that a head for another task keeps


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
    free = {"dropout", "pooling"} if new_head else {"dropout"}  # settings of the training and of the head
    changed = [
        f"{section}.{name} = {value} (it has {parent.get(section, {}).get(name, 'none')})"
        for section in ("model", "tokenizer")
        for name, value in merged.get(section, {}).items()
        if parent.get(section, {}).get(name) != value and not (section == "model" and name in free)
    ]
    if changed:
        raise UserError(
            "With --from, model and tokenizer are those of the other run and cannot be changed.",
            where=", ".join(changed),
            hint="leave those settings out",
        )
    return merged


def initial_weights(start: RunFolder, prefix: str) -> Mapping[str, Tensor]:
    """Return the weights of a run whose names begin with a prefix."""
    weights = run_weights(start)
    return {name: weights[name] for name in weights if name.startswith(prefix)} if prefix else weights


def describe_base(start: Run, task: str) -> BaseRun:
    """Return what a run for `task` records about the run that it is started from."""
    prefix = "" if start.settings.task == task else ENCODER
    return BaseRun(start.folder.path.absolute().name, checksum(start.folder.weights), prefix)


def refuse_lora(start_from: object, folder: RunFolder) -> None:
    """Raise a `UserError` if an adapter in `folder` could not be used with the run to start from."""
    if start_from is None:
        raise UserError(
            "train.lora trains an adapter for another run, but no run is given.",
            where="train.lora",
            hint="name the base run: --from RUN",
        )
    start = RunFolder(str(start_from))
    if start.is_adapter:
        raise UserError(
            "The run given with --from is itself an adapter.",
            where=str(start.path),
            hint=f"merge it first: glassformer adapters merge {start.path} -o RUN",
        )
    beside = folder.path.absolute().parent / start.path.absolute().name
    if beside.exists() and os.path.samefile(beside, start.path):
        return
    raise UserError(
        "An adapter needs its base run beside it.",
        where=f"-o {folder.path}, --from {start.path}",
        hint=f"write it to {start.path.absolute().parent / folder.path.name}, or link the base run: "
        f"ln -s {start.path.absolute()} {beside}",
    )


def add_adapter(model: nn.Module, settings: Settings, prefix: str) -> Message:
    """Freeze the weights that come from the base run and add LoRA matrices; return a note for the user.

    Weights without the prefix are those of a new head, which is trained.
    """
    rank = settings.train.lora
    if isinstance(settings.model, TransformerSettings | ViTSettings) and settings.model.ablations:
        raise UserError(
            "train.lora needs a model without ablations.",
            where="model.ablations",
            hint="leave train.lora out to train all weights",
        )
    if not add_lora(model, rank):
        raise UserError(
            f"train.lora needs a model with attention layers; model.family={settings.model.family} has none.",
            where="train.lora",
            hint="leave the setting out to train all weights",
        )
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(parameter.requires_grad or not name.startswith(prefix))
    sizes = [(parameter.numel(), parameter.requires_grad) for parameter in model.parameters()]
    trained = sum(size for size, is_trained in sizes if is_trained)
    total = sum(size for size, _ in sizes) - trained
    return Message(
        "LoRA of rank {rank}: {trained} weights are trained beside {total} frozen ones",
        rank=rank,
        trained=f"{trained:,}",
        total=f"{total:,}",
    )


def _is_pretrained(start: Run, task: str) -> bool:
    """Return whether a run has a pre-trained encoder on which the head for another task can be trained."""
    fits = start.settings.model.family in task_traits(task).families
    return task_traits(start.settings.task).pretrains and fits and not task_traits(task).pretrains
