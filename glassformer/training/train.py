"""From files to a finished run: read, report, learn a tokenizer, choose settings, train, average, score, describe."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from glassformer import machine
from glassformer.errors import UserError
from glassformer.files import write_text
from glassformer.inference.run import (
    Run,
    RunFolder,
    WeightsFile,
    build_model,
    load_run,
    load_settings,
    load_tokenizer,
    save_labels,
    save_settings,
    vocabulary,
)
from glassformer.planning import choices as planning
from glassformer.settings import (
    FITTING,
    PRETRAINED,
    DataSettings,
    Raw,
    Settings,
    check,
    current_names,
    merge,
    nest,
    resolve,
    with_family,
)
from glassformer.tasks import TEST, VALID, Data, Task, read_data, task_for
from glassformer.text.tokenizer import Tokenizer
from glassformer.training import finish
from glassformer.training.card import model_card
from glassformer.training.claim import claim, new_folder, removed_if_empty
from glassformer.training.deferred import DeferredModel, defer
from glassformer.training.events import Listener, LogFile, Note, Tested, all_of, ignore, preparing
from glassformer.training.ranks import Ranks, by_torchrun, joined
from glassformer.training.trainer import Trainer


@dataclass(frozen=True)
class TrainedRun:
    """What training left behind. `gf.load(run.path)` gives what it learnt to use."""

    path: Path
    reason: str  # "steps", "time", "patience" or "interrupted"
    step: int
    seconds: float
    scores: dict[str, Tested]  # of "valid", and of "test" where there is one


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
    """Trains on files and returns the run. What it learns to do, `settings["task"]` says, or else the files: two
    aligned ones, a .tsv or a .jsonl are for translation; a .tsv of labels, a .conllu, .txt or .json, or a folder of
    images, for other tasks.

    settings    `{"train.steps": 1000}` or nested, as in a recipe; the rest is chosen from the corpus
    start_from  a run whose weights and tokenizer to begin with
    resume      go on with the run in `out`, to the same weights as if it had never stopped
    """
    raw = current_names(nest(settings or {}))
    for split, paths in (("train", list(files)), ("valid", valid), ("test", test)):
        if paths:
            raw = merge(raw, {"data": {split: list(paths)}})
    with joined() as ranks, contextlib.ExitStack() as stack:
        if (resume or by_torchrun()) and ranks.from_first(lambda: _is_begun(raw, out, resume)):
            return _resume(raw, RunFolder(str(out)), ranks, stack, listener)
        return _begin(raw, out, start_from, ranks, stack, listener)


def _is_begun(raw: Raw, out: str | Path | None, resume: bool) -> bool:
    """Whether there is a run to go on with. Where there is none, but text to begin with, it begins."""
    if out is None:
        what = "Which run should go on?" if resume else "torchrun may start this run again: where is it?"
        raise UserError(what, hint=f"name its folder: -o RUN{' --resume' if resume else ''}")
    folder = RunFolder(out)
    if raw.get("data", {}).get("train") and not folder.settings.exists():
        return False
    load_settings(folder)  # complains where there is nothing
    return True


def _begin(
    raw: Raw,
    out: str | Path | None,
    start_from: str | Path | None,
    ranks: Ranks,
    stack: contextlib.ExitStack,
    listener: Listener,
) -> TrainedRun:
    raw, why = ranks.from_first(lambda: _with_task(raw, is_new=start_from is None))
    folder = ranks.from_first(lambda: _claim_folder(raw, out, stack))
    with removed_if_empty(folder, ranks):
        prepared = _prepare(folder, raw, why, start_from, ranks, listener)
    return _fit(folder, prepared, ranks, listener)


@dataclass(frozen=True)
class _Prepared:
    """What a run is trained with."""

    settings: Settings
    tokenizer: Tokenizer | None
    data: Data
    task: Task
    initial: Mapping[str, Tensor] | None = None  # of the run that it starts from; empty but in the first rank


def _prepare(
    folder: RunFolder, raw: Raw, why: str, start_from: str | Path | None, ranks: Ranks, listener: Listener
) -> _Prepared:
    """Read the data, choose the settings and write the run folder."""
    start = ranks.at_first(lambda: load_run(start_from)) if start_from is not None else None
    initial = None if start_from is None else _initial_weights(start, raw)
    data = _read(raw, listener)

    def choose() -> tuple[Settings, str | None]:
        if why:
            listener(Note(planning.Choice("task", raw["task"], why).message))
        for line in data.report.lines():
            listener(Note(line))
        chosen, tokenizer = _choose(raw, data, start, listener)
        return chosen, _written(tokenizer)

    settings, words = ranks.from_first(choose)
    tokenizer = _read_back(words)
    task = data.task(tokenizer, settings, preparing(listener))
    ranks.agree(_identity(settings, data), "text")
    ranks.from_first(lambda: _create(folder, settings, tokenizer, data))
    return _Prepared(settings, tokenizer, data, task, initial)


def _claim_folder(raw: Raw, out: str | Path | None, stack: contextlib.ExitStack) -> RunFolder:
    """A folder for this run alone, as long as the stack lasts."""
    check(raw)
    _needs_data(raw)
    folder = new_folder(out, raw)
    claim(folder, stack)
    return folder


def _resume(raw: Raw, folder: RunFolder, ranks: Ranks, stack: contextlib.ExitStack, listener: Listener) -> TrainedRun:
    def read() -> tuple[Settings, str | None]:
        settings = _settings_to_go_on_with(folder, raw)
        claim(folder, stack)
        return settings, _written(load_tokenizer(folder, settings))

    settings, words = ranks.from_first(read)
    tokenizer = _read_back(words)
    data = _read(settings.model_dump(exclude_none=True), listener)
    ranks.from_first(lambda: _refuse_other_text(folder, settings, data))
    ranks.agree(_identity(settings, data), "text")
    task = data.task(tokenizer, settings, preparing(listener))
    return _fit(folder, _Prepared(settings, tokenizer, data, task), ranks, listener, resume=True)


def _written(tokenizer: Tokenizer | None) -> str | None:
    """As the first process tells the others."""
    return None if tokenizer is None else tokenizer.to_json()


def _read_back(words: str | None) -> Tokenizer | None:
    return None if words is None else Tokenizer.from_json(words)


def _settings_to_go_on_with(folder: RunFolder, raw: Raw) -> Settings:
    before = load_settings(folder)
    settings = resolve(merge(before.model_dump(exclude_none=True), raw))
    if (settings.model, settings.tokenizer) != (before.model, before.tokenizer):
        raise UserError(
            "A run goes on with the model that it began with.",
            where="model.* or tokenizer.*",
            hint="leave those settings out, or begin a new run, perhaps with --from",
        )
    refuse_unsafe_precision(settings)
    return settings


def _refuse_other_text(folder: RunFolder, settings: Settings, data: Data) -> None:
    if data.fingerprint != _recorded_fingerprint(folder):
        raise UserError(
            "The training data is not what this run began with.",
            where=", ".join(str(path) for path in settings.data.train),
            hint="give the same files, or begin a new run with --from",
        )


def _needs_data(raw: Raw) -> None:
    if not raw.get("data", {}).get("train"):
        raise UserError(
            "There is nothing to train on.",
            where="data.train",
            hint="give two aligned files (train.en train.de), one .tsv or .jsonl, or a recipe.toml",
        )


def _with_task(raw: Raw, *, is_new: bool) -> tuple[Raw, str]:
    """The settings with the task that the files are for, where nobody named one, and the reason.

    is_new  the model is not that of another run: then its family follows from the task
    """
    paths = raw.get("data", {}).get("train") if isinstance(raw.get("data"), dict) else None
    why = ""
    if "task" not in raw and isinstance(paths, list):
        task, why = task_for(paths)
        raw = {**raw, "task": task} if why else raw
    return with_family(raw) if is_new else raw, why


def _read(raw: Raw, listener: Listener) -> Data:
    """All that a run learns from and is judged by."""
    task = raw.get("task", Settings.model_fields["task"].default)
    return read_data(task, DataSettings.model_validate(raw["data"]), preparing(listener))


def _choose(raw: Raw, data: Data, start: Run | None, listener: Listener) -> tuple[Settings, Tokenizer | None]:
    """Every setting, and the tokenizer that the first of them leads to."""
    if start is not None:
        raw = _settings_of(start, raw, data)
    known = start.spelling if start is not None else None
    raw, choices, tokenizer = data.choose(raw, known, machine.fastest_safe_precision(), preparing(listener))
    settings = resolve(raw)
    refuse_unsafe_precision(settings)
    for choice in choices:
        listener(Note(choice.message))
    vocab = vocabulary(tokenizer)
    with torch.device("meta"):  # counted without memory for the weights: a model to be sharded may not fit here
        parameters = sum(p.numel() for p in build_model(settings, vocab, len(data.labels)).parameters())
    listener(Note(planning.estimate(settings, vocab=vocab, parameters=parameters).message))
    return settings, tokenizer


def _settings_of(start: Run, raw: Raw, data: Data) -> Raw:
    """A run that begins with another's weights has its model and tokenizer, and its way of decoding unless told."""
    task = raw.get("task", "translation")
    on_what_was_read = _is_pretrained(start, task)
    if (start.settings.task, start.labels) != (task, data.labels) and not on_what_was_read:
        theirs = f"{start.settings.task} {', '.join(start.labels)}".strip()
        raise UserError(
            f"A run that begins with --from does what that run does: {theirs}.",
            where="task" if start.settings.task != task else f"labels: {', '.join(data.labels)}",
            hint="give data of that kind, or begin without --from",
        )
    parent = start.settings.model_dump(include={"model", "tokenizer", "decode"}, exclude_none=True)
    merged = merge(parent, raw)
    own = ("dropout", "pooling") if on_what_was_read else ("dropout",)  # of the training and of the head
    free = {name: merged["model"][name] for name in own if name in merged["model"]}
    if (merged["model"], merged.get("tokenizer")) != (parent["model"] | free, parent.get("tokenizer")):
        raise UserError(
            "A run that begins with --from has the model and tokenizer of that run.",
            where="model.* or tokenizer.*",
            hint="leave those settings out",
        )
    return merged


def _is_pretrained(start: Run, task: str) -> bool:
    """Whether a run has an encoder that has read much, on which the head for another task can be put."""
    from_there = start.settings.task in PRETRAINED and start.settings.model.family in FITTING[task]
    return from_there and task not in PRETRAINED


def _initial_weights(start: Run | None, raw: Raw) -> Mapping[str, Tensor]:
    """The weights of another run, or only those of its encoder if it has another task; none but in the first rank."""
    if start is None:
        return {}
    return WeightsFile(start.folder.model, "" if start.settings.task == raw.get("task", "translation") else "encoder.")


def refuse_unsafe_precision(settings: Settings) -> None:
    if settings.train.precision == "bf16" and not machine.bf16_is_safe():
        raise UserError(
            "bf16 does not work on this CPU: a trial matmul failed.",
            where="train.precision",
            hint="leave it out, or set train.precision=fp32",
        )


def _create(folder: RunFolder, settings: Settings, tokenizer: Tokenizer | None, data: Data) -> None:
    recorded = data.report.to_json() | {"fingerprint": data.fingerprint}
    write_text(folder.data_report, json.dumps(recorded, ensure_ascii=False, indent=1))
    if tokenizer is not None:
        write_text(folder.tokenizer, tokenizer.to_json())
    if data.labels:
        save_labels(folder, data.labels)
    save_settings(folder, settings)


def _identity(settings: Settings, data: Data) -> str:
    """What makes two runs the same run: text, model, tokenizer and seed."""
    spelled = settings.tokenizer.said_nothing_of() if settings.tokenizer is not None else set[str]()
    told = settings.model_dump_json(
        include={"task": True, "model": True, "tokenizer": True, "train": {"seed"}},
        exclude={"model": settings.model.said_nothing_of(), "tokenizer": spelled},
    )
    return hashlib.blake2b(f"{data.fingerprint} {told}".encode(), digest_size=16).hexdigest()


def _recorded_fingerprint(folder: RunFolder) -> str:
    try:
        return str(json.loads(folder.data_report.read_text(encoding="utf-8")).get("fingerprint"))
    except (OSError, ValueError):  # no report, or a damaged one: no data has this fingerprint
        return ""


def new_model(settings: Settings, vocab: int, labels: int, ranks: Ranks) -> nn.Module | DeferredModel:
    """The model with the weights that the seed draws, on a GPU if there is one; deferred if it is to be sharded."""
    seed = settings.train.seed
    if settings.train.shard_model and ranks.size > 1:
        return defer(lambda: build_model(settings, vocab, labels), seed)
    torch.manual_seed(seed)
    return build_model(settings, vocab, labels).to(machine.device())


def _fit(
    folder: RunFolder, prepared: _Prepared, ranks: Ranks, listener: Listener, *, resume: bool = False
) -> TrainedRun:
    settings, data = prepared.settings, prepared.data
    refuse_unsafe_precision(settings)  # that the first process chose, perhaps for another kind of machine
    tell = all_of(LogFile(folder.log), listener) if ranks.first else ignore
    model = new_model(settings, vocabulary(prepared.tokenizer), len(data.labels), ranks)
    identity = _identity(settings, data)
    trainer = Trainer(model, prepared.task, settings.train, folder, tell, identity=identity, ranks=ranks)
    if prepared.initial is not None:
        trainer.held.load(prepared.initial, partial=True)
    if resume:
        if not trainer.resume():
            tell(Note("no checkpoint found: training starts from step 0"))
        ranks.from_first(lambda: save_settings(folder, settings))
    reason, state = trainer.train(), trainer.state
    if reason == "interrupted":  # the best weights so far are there already; do not keep a person waiting
        if not ranks.from_first(folder.model.exists):
            trainer.save_model()
        return TrainedRun(folder.path, reason, state.step, state.seconds, {})
    finish.settle_weights(trainer)
    counts = {split: data.report.counts.get(split, 0) for split in (VALID, TEST)}
    scores = {split: finish.test(trainer, split, count) for split, count in counts.items() if count}
    ranks.from_first(lambda: write_text(folder.card, model_card(settings, data.report, scores, state, trainer.model)))
    return TrainedRun(folder.path, reason, state.step, state.seconds, scores)
