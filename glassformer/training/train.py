"""`train`: prepare a run on rank 0 (read data, choose settings, learn a tokenizer), then fit the model on all ranks."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from pydantic_core import to_json
from torch import Tensor, nn

from glassformer import machine
from glassformer.errors import Message, UserError
from glassformer.files import write_text
from glassformer.inference.base_run import BaseRun
from glassformer.inference.run import Run, build_model, build_on_meta, load_run, refuse_too_large
from glassformer.inference.run_folder import (
    RunFolder,
    load_settings,
    load_tokenizer,
    recorded_fingerprint,
    save_labels,
    save_settings,
    vocab_size,
)
from glassformer.planning.choices import Choice
from glassformer.planning.estimate import estimate
from glassformer.settings import (
    DataSettings,
    Raw,
    Settings,
    TrainSettings,
    check,
    current_names,
    merge,
    nest,
    original_names,
    resolve,
    task_of,
)
from glassformer.tasks import TEST, VALID, Data, read_data, task_spec, with_task
from glassformer.text.tokenizer import Tokenizer
from glassformer.training.checkpoint import Checkpoints
from glassformer.training.deferred_init import DeferredModel, defer
from glassformer.training.distributed import ProcessGroup, init_process_group, started_by_torchrun
from glassformer.training.diversification import Workspace, open_workspace, train_diversified
from glassformer.training.events import (
    Forgetting,
    Listener,
    LogFile,
    Note,
    Tested,
    all_of,
    ignore,
    preparation_progress,
)
from glassformer.training.final_weights import save_final_weights
from glassformer.training.fine_tune import add_adapter, describe_base, inherit_settings, initial_weights, refuse_lora
from glassformer.training.forgetting import OldValidationSet, old_settings
from glassformer.training.model_card import model_card
from glassformer.training.run_lock import create_folder, lock_folder
from glassformer.training.trainer import Trainer


@dataclass(frozen=True)
class TrainedRun:
    """A finished or interrupted run. `glassformer.load(run.path)` loads its model."""

    path: Path
    reason: str  # "steps", "time", "patience" or "interrupted"
    step: int
    seconds: float
    scores: dict[str, Tested]  # by split: "valid" and, if there is one, "test"
    forgetting: Forgetting | None = None  # with `start_from`, if the validation data of that run is still there


def train(
    *files: str | Sequence[str],
    valid: Sequence[str | Sequence[str]] | None = None,
    test: Sequence[str | Sequence[str]] | None = None,
    out: str | Path | None = None,
    settings: Mapping[str, Any] | None = None,
    start_from: str | Path | None = None,
    resume: bool = False,
    listener: Listener = ignore,
) -> TrainedRun:
    """Train a model on files and return the run.

    The task is `settings["task"]` or follows from the files: two aligned files, a .tsv or a .jsonl are for
    translation; a .tsv with labels, a .conllu, .txt or .json file, or a folder of images for other tasks.

    Args:
        files: the training data.
        valid: validation data; a part of the training data if absent.
        test: test data for the final scores.
        out: the run folder; a new folder in runs/ if absent.
        settings: `{"train.steps": 1000}` or nested, as in a recipe; all others are chosen from the data.
        start_from: a run whose weights, model and tokenizer to start from (fine-tuning).
        resume: continue the run in `out`, to the same weights as without the interruption.
        listener: called with every event (`glassformer.training.events`).

    Example:
        >>> run = train("train.en", "train.de", out="runs/en-de")
    """
    raw = current_names(nest(settings or {}))
    for split, paths in (("train", list(files)), ("valid", valid), ("test", test)):
        if paths:
            raw = merge(raw, {"data": {split: list(paths)}})
    with init_process_group() as group, contextlib.ExitStack() as stack:
        resume = resume or started_by_torchrun()

        def prepare_diversification() -> Workspace | None:
            if resume and out is None:
                raise _folder_needed()
            return open_workspace(raw, out, start_from, resume=resume, stack=stack, listener=listener)

        work = group.broadcast_from_rank0(prepare_diversification)
        if work is None:
            return train_model(raw, out, group, listener, start_from=start_from, resume=resume)
        train_part = partial(train_model, group=group, listener=listener, resume=True)
        return train_diversified(work, raw, train_part, group, listener)


def train_model(
    raw: Raw,
    out: str | Path | None,
    group: ProcessGroup,
    listener: Listener,
    *,
    start_from: str | Path | None = None,
    resume: bool,
) -> TrainedRun:
    """Train one model, or resume it if `resume` is set and its training has started."""
    with contextlib.ExitStack() as stack:

        def prepare_on_rank0() -> Prepared:
            if resume and _has_started(raw, out):
                return prepare_resume(raw, RunFolder(str(out)), stack, listener)
            return prepare(raw, out, start_from, stack, listener)

        prepared = group.run_on_rank0(prepare_on_rank0)
        plan = group.broadcast_from_rank0(lambda: prepared.plan if prepared else None)
        assert plan is not None
        return fit(plan, prepared or Prepared(plan, read(plan.settings, listener)), group, listener)


def _has_started(raw: Raw, out: str | Path | None) -> bool:
    """Return whether there is a run to resume in `out`; False if there is none, but data to start one with."""
    folder = RunFolder(str(out))
    if raw.get("data", {}).get("train") and not folder.settings.exists():
        return False
    load_settings(folder)  # raises a UserError if there is no run
    return True


def _folder_needed() -> UserError:
    if started_by_torchrun():
        message = "torchrun may restart this run, so it needs a folder."
        return UserError(message, where="-o", hint="name the folder: -o RUN")
    return UserError("--resume needs a run folder.", where="-o", hint="name the folder: -o RUN --resume")


@dataclass(frozen=True)
class Plan:
    """What rank 0 decides before the training; it is broadcast to all ranks.

    base  the run that it is started from
    old   settings of that run, if its validation set is to be scored
    """

    folder: RunFolder
    settings: Settings
    tokenizer_json: str | None
    is_resume: bool = False
    base: BaseRun | None = None
    old: Settings | None = None


@dataclass(frozen=True)
class Prepared:
    """A plan with the data of this rank."""

    plan: Plan
    data: Data
    initial: Mapping[str, Tensor] = field(default_factory=dict)  # weights to start from, on rank 0 only


def prepare(
    raw: Raw, out: str | Path | None, start_from: str | Path | None, stack: contextlib.ExitStack, listener: Listener
) -> Prepared:
    """Create the folder of a new run, read its data and choose its settings; runs on rank 0."""
    raw, reason = with_task(raw, is_new=start_from is None)
    check(raw)
    if not raw.get("data", {}).get("train"):
        raise UserError(
            "There is no training data.",
            where="data.train",
            hint="give two aligned files (train.en train.de), one .tsv or .jsonl file, or a recipe.toml",
        )
    folder = create_folder(out, raw)
    lock_folder(folder, stack)
    if raw.get("train", {}).get("lora"):
        refuse_lora(start_from, folder)
    start = load_run(start_from) if start_from is not None else None
    task = task_of(raw)
    data = read_data(task, DataSettings.model_validate(raw["data"]), preparation_progress(listener))
    if reason:
        listener(Note(Choice("task", task, reason).message))
    for line in data.report.lines():
        listener(Note(line))
    settings, tokenizer = choose_settings(raw, data, start, listener)
    plan = Plan(folder, settings, _to_json(tokenizer))
    if start is None:
        return Prepared(plan, data)
    base = describe_base(start, task)
    plan = replace(plan, base=base, old=old_settings(start.folder, data, base, listener))
    return Prepared(plan, data, initial_weights(start.folder, base.prefix))


def prepare_resume(raw: Raw, folder: RunFolder, stack: contextlib.ExitStack, listener: Listener) -> Prepared:
    """Read the settings and the data of a run to be resumed; runs on rank 0."""
    before = load_settings(folder)
    if "length_penalty" in raw.get("decode", {}):  # given now, so it is not chosen after the training
        raw = merge({"train": {"tune_length_penalty": False}}, raw)
    settings = resolve(merge(before.model_dump(exclude_none=True), raw))
    _refuse_other_training(settings.train, before.train)
    if (settings.model, settings.tokenizer) != (before.model, before.tokenizer):
        raise UserError(
            "The model and the tokenizer of a run cannot change when it is resumed.",
            where="model.* or tokenizer.*",
            hint="leave those settings out, or start a new run, perhaps with --from",
        )
    check_precision(settings)
    lock_folder(folder, stack)
    tokenizer = load_tokenizer(folder, settings)
    data = read(settings, listener)
    if data.fingerprint != recorded_fingerprint(folder):
        raise _other_data(settings.data, before.data)
    plan = Plan(folder, settings, _to_json(tokenizer), is_resume=True)
    if not folder.base.exists() and not settings.train.lora:
        return Prepared(plan, data)
    base = BaseRun.load(folder)
    try:
        start = base.find(folder)
    except UserError:
        if settings.train.lora or not Checkpoints(folder.checkpoints, keep=1).steps():
            raise
        return Prepared(plan, data)  # the weights are those of a checkpoint; only forgetting cannot be measured
    plan = replace(plan, base=base, old=old_settings(start, data, base, listener))
    return Prepared(plan, data, initial_weights(start, base.prefix))


FIXED = {  # settings of train that checkpoints depend on
    "lora": "The rank of a LoRA adapter",
    "optimizer": "The optimizer, whose state is in the checkpoints,",
    "seed": "The seed, which orders the training data,",
}


def _refuse_other_training(settings: TrainSettings, before: TrainSettings) -> None:
    for name, described in FIXED.items():
        given, old = getattr(settings, name), getattr(before, name)
        if given != old:
            raise UserError(
                f"{described} cannot change when its run is resumed.",
                where=f"train.{name} = {given} (it was {old})",
                hint="leave the setting out, or start a new run with --from",
            )


def _other_data(settings: DataSettings, before: DataSettings) -> UserError:
    """Return the error for data with another fingerprint, which names the settings that differ, or the files."""
    names = [name for name in DataSettings.model_fields if getattr(settings, name) != getattr(before, name)]
    return UserError(
        "The training data has changed since this run started.",
        where=", ".join(f"data.{name}" for name in names) or ", ".join(str(path) for path in settings.train),
        hint=f"{'leave those settings out' if names else 'give the same files'}, or start a new run with --from",
    )


def _to_json(tokenizer: Tokenizer | None) -> str | None:
    return None if tokenizer is None else tokenizer.to_json()


def read(settings: Settings, listener: Listener) -> Data:
    """Read and check the data of a run."""
    return read_data(settings.task, settings.data, preparation_progress(listener))


def choose_settings(raw: Raw, data: Data, start: Run | None, listener: Listener) -> tuple[Settings, Tokenizer | None]:
    """Choose all settings that are not given, and learn the tokenizer."""
    if start is not None:
        raw = inherit_settings(start, raw, data)
    known = start.text_tokenizer if start is not None else None
    raw, choices, tokenizer = data.choose(raw, known, machine.fastest_safe_precision(), preparation_progress(listener))
    settings = resolve(raw)
    check_precision(settings)
    for choice in choices:
        listener(Note(choice.message))
    if settings.train.warmup > settings.train.steps:
        note = "train.warmup = {warmup} is longer than train.steps = {steps}: the learning rate does not reach train.lr"
        listener(Note(Message(note, warmup=settings.train.warmup, steps=settings.train.steps)))
    model = build_on_meta(settings, vocab_size(tokenizer), len(data.labels))
    if settings.train.lora:
        add_adapter(model, settings, prefix="")  # refuses a model that cannot have one
    if not settings.train.shard_model:
        refuse_too_large(model)
    listener(Note(estimate(settings, vocab=vocab_size(tokenizer), labels=len(data.labels)).message))
    return settings, tokenizer


def check_precision(settings: Settings) -> None:
    """Raise a `UserError` if this machine cannot compute in the precision of the settings."""
    if settings.train.precision == "bf16" and not machine.bf16_works():
        raise UserError(
            "bf16 does not work on this CPU: a trial matmul failed.",
            where="train.precision",
            hint="leave the setting out, or set train.precision=fp32",
        )


def fit(plan: Plan, prepared: Prepared, group: ProcessGroup, listener: Listener) -> TrainedRun:
    """Train the model of a plan on all ranks, save the final weights, score them and write the model card."""
    folder, settings, data = plan.folder, plan.settings, prepared.data
    tokenizer = None if plan.tokenizer_json is None else Tokenizer.from_json(plan.tokenizer_json)
    check_precision(settings)  # rank 0 chose it, perhaps on another kind of machine
    task = data.task(tokenizer, settings, preparation_progress(listener))
    identity = run_identity(settings, data)
    group.check_equal(identity, "training data or settings")
    if not plan.is_resume:
        group.run_on_rank0(lambda: _write_folder(plan, data))
    listener = all_of(LogFile(folder.log), listener) if group.is_rank0 else ignore
    model = new_model(settings, vocab_size(tokenizer), len(data.labels), group)
    if plan.base and settings.train.lora and isinstance(model, nn.Module):
        listener(Note(add_adapter(model, settings, plan.base.prefix)))
    unit = task_spec(settings.task).unit
    trainer = Trainer(model, task, settings.train, folder, listener, identity=identity, unit=unit, group=group)
    base, old = start_from_base(plan, prepared, trainer, tokenizer)
    if plan.is_resume:
        if not trainer.resume():
            listener(Note("there is no checkpoint yet: the run starts from step 0"))
        group.run_on_rank0(lambda: save_settings(folder, settings))
    reason, state = trainer.train(), trainer.state
    if reason == "interrupted":  # return at once: the best weights so far are usually saved already
        if not group.broadcast_from_rank0(folder.weights.exists):
            trainer.save_model()
        return TrainedRun(folder.path, reason, state.step, state.seconds, {})
    save_final_weights(trainer)
    settings = tune_settings(trainer, settings, folder)
    group.run_on_rank0(lambda: task_spec(settings.task).finish(task, folder))
    scores = {split: _score(trainer, split, n) for split in (VALID, TEST) if (n := data.report.counts.get(split, 0))}
    forgetting = old.measure(trainer, base) if base and old else None
    card = model_card(settings, data.report, scores, state, trainer.model, base=base, forgetting=forgetting)
    group.run_on_rank0(lambda: write_text(folder.card, card))
    return TrainedRun(folder.path, reason, state.step, state.seconds, scores, forgetting)


def start_from_base(
    plan: Plan, prepared: Prepared, trainer: Trainer, tokenizer: Tokenizer | None
) -> tuple[BaseRun | None, OldValidationSet | None]:
    """Load the weights of the base run, if there is one, and score them on its validation set, if they are not yet."""
    base = plan.base
    if base is None:
        return None, None
    trainer.training_model.load(prepared.initial, partial=True)
    old = OldValidationSet(plan.old, tokenizer, trainer.listener) if plan.old else None
    if old is not None and not base.scores:
        scored = replace(base, scores=trainer.evaluate(task=old.task))
        trainer.group.run_on_rank0(lambda: scored.save(plan.folder))
        return scored, old
    return base, old


def _write_folder(plan: Plan, data: Data) -> None:
    """Write data report, base run, tokenizer, labels and settings of a new run."""
    report = data.report.to_json() | {"fingerprint": data.fingerprint}
    write_text(plan.folder.data_report, json.dumps(report, ensure_ascii=False, indent=1))
    if plan.base is not None:
        plan.base.save(plan.folder)
    if plan.tokenizer_json is not None:
        write_text(plan.folder.tokenizer, plan.tokenizer_json)
    if data.labels:
        save_labels(plan.folder, data.labels)
    save_settings(plan.folder, plan.settings)


def run_identity(settings: Settings, data: Data) -> str:
    """Return a hash of data, model, tokenizer and seed; checkpoints record it.

    Settings that were added later count only if they are not at their default, and renamed settings count under their
    first name: so the checkpoints of older versions keep their identity.
    """
    added_later = {"model": settings.model.added_settings_at_default()}
    if settings.tokenizer is not None:
        added_later["tokenizer"] = settings.tokenizer.added_settings_at_default()
    included = settings.model_dump(
        mode="json", include={"task": True, "model": True, "tokenizer": True, "train": {"seed"}}, exclude=added_later
    )
    described = to_json(original_names(included)).decode()
    return hashlib.blake2b(f"{data.fingerprint} {described}".encode(), digest_size=16).hexdigest()


def new_model(settings: Settings, vocab: int, labels: int, group: ProcessGroup) -> nn.Module | DeferredModel:
    """Build the model with weights drawn from the seed, on the GPU if there is one; deferred if it will be sharded."""
    seed = settings.train.seed
    if settings.train.shard_model and group.world_size > 1:
        return defer(lambda: build_model(settings, vocab, labels), seed)
    refuse_too_large(build_on_meta(settings, vocab, labels))
    torch.manual_seed(seed)
    return build_model(settings, vocab, labels).to(machine.device())


def tune_settings(trainer: Trainer, settings: Settings, folder: RunFolder) -> Settings:
    """Return the settings with those that the task chooses by the validation set after training, and save them."""
    choices = task_spec(settings.task).tune(trainer.task, lambda: trainer.evaluate(final=True))
    if not choices:
        return settings
    chosen = nest({choice.path: choice.value for choice in choices})
    tuned = resolve(merge(settings.model_dump(exclude_none=True), chosen))
    trainer.group.run_on_rank0(lambda: save_settings(folder, tuned))
    for choice in choices:
        trainer.listener(Note(choice.message))
    return tuned


def _score(trainer: Trainer, split: str, examples: int) -> Tested:
    tested = Tested(split, trainer.evaluate(split, final=True), trainer.task.signature, examples)
    trainer.listener(tested)
    return tested
