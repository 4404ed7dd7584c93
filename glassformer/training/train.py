"""From files to a finished run: read, report, learn a tokenizer, choose settings, train, average, score, describe."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from glassformer import machine, metrics, planning
from glassformer.errors import UserError
from glassformer.files import alone, cannot_write, sweep, write_text
from glassformer.run import (
    Run,
    RunFolder,
    build_model,
    load_run,
    load_settings,
    put_weights,
    save_settings,
    weights_of,
)
from glassformer.settings import DataSettings, Raw, Settings, check, merge, nest, resolve
from glassformer.tasks.translation import TranslationTask, deal_back, shares
from glassformer.text import preparation
from glassformer.text.cache import Cache
from glassformer.text.corpus import Pair, parallel_files
from glassformer.text.preparation import Splits
from glassformer.text.report import DataReport
from glassformer.text.store import Text
from glassformer.text.tokenizer import Tokenizer
from glassformer.training.card import model_card
from glassformer.training.checkpoint import Validation
from glassformer.training.events import Listener, LogFile, Note, Tested, all_of, ignore, preparing
from glassformer.training.ranks import Ranks, by_torchrun, joined
from glassformer.training.trainer import Trainer
from glassformer.translator import Translator


@dataclass(frozen=True)
class TrainedRun:
    """What training left behind. `gf.load(run.path)` translates with it."""

    path: Path
    reason: str  # "steps", "patience" or "interrupted"
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
    """Trains on two aligned files, or one .tsv or .jsonl, and returns the run.

    settings    `{"train.steps": 1000}` or nested, as in a recipe; the rest is chosen from the corpus
    start_from  a run whose weights and tokenizer to begin with
    resume      go on with the run in `out`, to the same weights as if it had never stopped
    """
    raw = nest(settings or {})
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
        raise UserError(what, fix=f"name its folder: -o RUN{' --resume' if resume else ''}")
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
    folder = ranks.from_first(lambda: _claim_folder(raw, out, stack))
    with _removed_if_empty(folder, ranks):
        start = ranks.at_first(lambda: load_run(start_from)) if start_from is not None else None
        splits, report = read_corpus(raw, listener)

        def choose() -> tuple[Settings, str]:
            _show_report(report, listener)
            chosen, tokenizer = _choose(raw, splits, start, listener)
            return chosen, tokenizer.to_json()

        chosen, words = ranks.from_first(choose)
        tokenizer = Tokenizer.from_json(words)
        task = TranslationTask(splits.train, splits.valid, tokenizer, chosen, preparing(listener))
        ranks.agree(_identity(chosen, splits), "text")
        ranks.from_first(lambda: _create(folder, chosen, tokenizer, report, splits))
    model = fresh_model(chosen, tokenizer)
    if start is not None:
        put_weights(model, weights_of(start.model))
    return _fit(folder, chosen, task, model, splits, report, ranks, listener)


def _claim_folder(raw: Raw, out: str | Path | None, stack: contextlib.ExitStack) -> RunFolder:
    """A folder for this run alone, as long as the stack lasts."""
    check(raw)
    _needs_data(raw)
    folder = new_folder(out, raw)
    _claim(folder, stack)
    return folder


def _claim(folder: RunFolder, stack: contextlib.ExitStack) -> None:
    stack.enter_context(alone(folder.lock, "training in this folder"))
    for place in (folder.path, folder.checkpoints):
        sweep(place)


def _resume(raw: Raw, folder: RunFolder, ranks: Ranks, stack: contextlib.ExitStack, listener: Listener) -> TrainedRun:
    def read() -> tuple[Settings, str]:
        settings = _settings_to_go_on_with(folder, raw)
        _claim(folder, stack)
        return settings, Tokenizer.load(folder.tokenizer).to_json()

    settings, words = ranks.from_first(read)
    tokenizer = Tokenizer.from_json(words)
    splits, report = read_corpus(settings.model_dump(exclude_none=True), listener)
    ranks.from_first(lambda: _refuse_other_text(folder, settings, splits))
    ranks.agree(_identity(settings, splits), "text")
    task = TranslationTask(splits.train, splits.valid, tokenizer, settings, preparing(listener))
    model = fresh_model(settings, tokenizer)
    return _fit(folder, settings, task, model, splits, report, ranks, listener, resume=True)


def _settings_to_go_on_with(folder: RunFolder, raw: Raw) -> Settings:
    before = load_settings(folder)
    settings = resolve(merge(before.model_dump(exclude_none=True), raw))
    if (settings.model, settings.tokenizer) != (before.model, before.tokenizer):
        raise UserError(
            "A run goes on with the model that it began with.",
            where="model.* or tokenizer.*",
            fix="leave those settings out, or begin a new run, perhaps with --from",
        )
    refuse_unsafe_precision(settings)
    return settings


def _refuse_other_text(folder: RunFolder, settings: Settings, splits: Splits) -> None:
    if splits.train.fingerprint != _recorded_fingerprint(folder):
        raise UserError(
            "The training data is not what this run began with.",
            where=", ".join(str(path) for path in settings.data.train),
            fix="give the same files, or begin a new run with --from",
        )


@contextlib.contextmanager
def _removed_if_empty(folder: RunFolder, ranks: Ranks) -> Iterator[None]:
    """What fails before the run has begun leaves no folder behind."""
    try:
        yield
    except BaseException:
        if ranks.first:
            with contextlib.suppress(OSError):
                folder.lock.unlink()  # held by ourselves
                folder.path.rmdir()
        raise


def _needs_data(raw: Raw) -> None:
    if not raw.get("data", {}).get("train"):
        raise UserError(
            "There is nothing to train on.",
            where="data.train",
            fix="give two aligned files (train.en train.de), one .tsv or .jsonl, or a recipe.toml",
        )


def read_corpus(raw: Raw, listener: Listener = ignore) -> tuple[Splits, DataReport]:
    """All text of a run, checked and reported."""
    data = DataSettings.model_validate(raw["data"])
    train = [parallel_files(data.train), *(parallel_files(other.train) for other in data.also or ())]
    valid, test = (parallel_files(paths) if paths else None for paths in (data.valid, data.test))
    return preparation.prepare(train, valid, test, data, cache=Cache(data.cache), tell=preparing(listener))


def _show_report(report: DataReport, listener: Listener) -> None:
    for line in report.lines():
        listener(Note(line))


def _choose(raw: Raw, splits: Splits, start: Run | None, listener: Listener) -> tuple[Settings, Tokenizer]:
    """Every setting, and the tokenizer that the first of them leads to."""
    pairs = len(splits.train)
    chosen: list[planning.Choice] = []
    if start is not None:
        tokenizer = start.tokenizer
        raw = _settings_of(start, raw)
    else:
        raw, chosen = planning.apply(raw, planning.choose_vocabulary(pairs))
        vocab = raw["tokenizer"]["vocab"]
        tokenizer = preparation.learn_vocabulary(splits.train, vocab, preparing(listener))
        if pairs > preparation.VOCABULARY_PAIRS:
            listener(Note(f"the vocabulary is that of {preparation.VOCABULARY_PAIRS:,} pairs, spread over all"))
    tokens = _longer_side_tokens(splits.train, tokenizer, DataSettings.model_validate(raw["data"]))
    precision = machine.fastest_safe_precision()
    raw, more = planning.apply(raw, planning.choose_sizes(raw, pairs=pairs, tokens=tokens, precision=precision))
    settings = resolve(raw)
    refuse_unsafe_precision(settings)
    for choice in [*chosen, *more]:
        listener(Note(f"{choice.path} = {choice.value}  ({choice.reason})"))
    parameters = sum(p.numel() for p in build_model(settings, len(tokenizer)).parameters())
    listener(Note(f"estimate: {planning.estimate(settings, vocab=len(tokenizer), parameters=parameters)}"))
    return settings, tokenizer


def _settings_of(start: Run, raw: Raw) -> Raw:
    """A run that begins with another's weights has its model and tokenizer, and its way of decoding unless told."""
    parent = start.settings.model_dump(include={"model", "tokenizer", "decode"}, exclude_none=True)
    merged = merge(parent, raw)
    if (merged["model"], merged["tokenizer"]) != (parent["model"], parent["tokenizer"]):
        raise UserError(
            "A run that begins with --from has the model and tokenizer of that run.",
            where="model.* or tokenizer.*",
            fix="leave those settings out",
        )
    return merged


def refuse_unsafe_precision(settings: Settings) -> None:
    if settings.train.precision == "bf16" and not machine.bf16_is_safe():
        raise UserError(
            "bf16 ends the process on this machine: it was tried.",
            where="train.precision",
            fix="leave it out, or say train.precision=fp32",
        )


def _longer_side_tokens(text: Text, tokenizer: Tokenizer, data: DataSettings, sample: int = 20_000) -> int:
    """Tokens an epoch of the longer side of each pair, `<eos>` included; extrapolated from the first pairs."""
    some = list(text.pairs(slice(sample)))
    sources = tokenizer.encode_batch([pair.source for pair in some])
    targets = tokenizer.encode_batch([pair.target for pair in some])
    total = sum(max(len(s), len(t)) + 1 for s, t in zip(sources, targets, strict=True))
    seen = sum(share.pairs * share.weight for share in shares(text, data))
    return int(total * seen) // len(some)


def new_folder(out: str | Path | None, raw: Raw) -> RunFolder:
    """The folder of a new run: the one that was asked for, if it is free, or a new one under runs/."""
    if out is not None:
        folder = RunFolder(out)
        if folder.settings.exists():
            raise UserError(
                "There is a run in this folder already.",
                where=str(folder.path),
                fix="go on with it by --resume, or choose another folder with -o",
            )
        if folder.path.exists() and not folder.path.is_dir():
            raise UserError("This is a file; a run needs a folder.", where=str(folder.path), fix="choose another -o")
    else:
        name, number = _name_from(raw), 1
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


def _name_from(raw: Raw) -> str:
    """`en-de` for train.en.gz and train.de.gz; the file's name for one file."""
    files = parallel_files(raw["data"]["train"])
    names = [side[0].name.removesuffix(".gz") for side in (files.source, files.target) if side]
    if len(names) == 1:
        return names[0].rpartition(".")[0] or names[0]
    return "-".join(name.rpartition(".")[2] for name in names)


def _create(folder: RunFolder, settings: Settings, tokenizer: Tokenizer, report: DataReport, splits: Splits) -> None:
    recorded = report.to_json() | {"fingerprint": splits.train.fingerprint}
    write_text(folder.data_report, json.dumps(recorded, ensure_ascii=False, indent=1))
    write_text(folder.tokenizer, tokenizer.to_json())
    save_settings(folder, settings)


def _identity(settings: Settings, splits: Splits) -> str:
    """What makes two runs the same run: text, model, tokenizer and seed."""
    told = settings.model_dump_json(include={"task": True, "model": True, "tokenizer": True, "train": {"seed"}})
    return hashlib.blake2b(f"{splits.train.fingerprint} {told}".encode(), digest_size=16).hexdigest()


def _recorded_fingerprint(folder: RunFolder) -> str:
    try:
        return str(json.loads(folder.data_report.read_text(encoding="utf-8")).get("fingerprint"))
    except (OSError, ValueError):
        return ""


def fresh_model(settings: Settings, tokenizer: Tokenizer) -> nn.Module:
    """The model with the weights that the seed draws, on a GPU if there is one."""
    torch.manual_seed(settings.train.seed)
    model = build_model(settings, len(tokenizer))
    return model.to(machine.device())


def _fit(
    folder: RunFolder,
    settings: Settings,
    task: TranslationTask,
    model: nn.Module,
    splits: Splits,
    report: DataReport,
    ranks: Ranks,
    listener: Listener,
    *,
    resume: bool = False,
) -> TrainedRun:
    refuse_unsafe_precision(settings)  # that the first process chose, perhaps for another kind of machine
    tell = all_of(LogFile(folder.log), listener) if ranks.first else ignore
    trainer = Trainer(model, task, settings.train, folder, tell, identity=_identity(settings, splits), ranks=ranks)
    if resume:
        if not trainer.resume():
            tell(Note("no checkpoint yet: the run begins anew"))
        ranks.from_first(lambda: save_settings(folder, settings))
    reason, state = trainer.train(), trainer.state
    if reason == "interrupted":  # the best weights so far are there already; do not keep a person waiting
        if not ranks.from_first(folder.model.exists):
            trainer.save_model()
        return TrainedRun(folder.path, reason, state.step, state.seconds, {})
    _settle_weights(trainer)
    translator = Translator(trainer.held.to_judge(), task.tokenizer, settings.decode)
    scores = {}
    for name, pairs in (("valid", splits.valid), ("test", splits.test)):
        if pairs:
            scores[name] = _test(translator, name, pairs, ranks)
            tell(scores[name])
    ranks.from_first(lambda: write_text(folder.card, model_card(settings, report, scores, state, model)))
    return TrainedRun(folder.path, reason, state.step, state.seconds, scores)


def _settle_weights(trainer: Trainer) -> None:
    """The final weights: the mean of the best checkpoints, or the best one if the mean is worse."""
    ranks, metric, files = trainer.ranks, trainer.task.metric, trainer.checkpoints
    best = ranks.from_first(lambda: _undamaged(trainer))
    if not best:  # the weights that the run ended with are still there
        trainer.save_model()
        return
    steps = [validation.step for validation in best]
    trainer.held.load(files.average(steps) if ranks.first else {})
    score = trainer.evaluate()[metric] if len(steps) > 1 else best[0].score
    if score < best[0].score:
        trainer.held.load(files.weights(steps[0]) if ranks.first else {})
        said = f"weights of step {steps[0]}: their {metric} of {best[0].score:.2f} beats the mean's {score:.2f}"
    else:
        said = f"weights averaged over steps {', '.join(map(str, sorted(steps)))}: {metric} {score:.2f}"
    trainer.tell(Note(said))
    trainer.save_model()


def _undamaged(trainer: Trainer) -> list[Validation]:
    whole = []
    for validation in trainer.state.best:
        if wrong := trainer.checkpoints.damage_of_weights(validation.step):
            said = f"the weights of step {validation.step} are damaged ({wrong}) and are left out of the mean"
            trainer.tell(Note(said))
        else:
            whole.append(validation)
    return whole


def _test(translator: Translator, split: str, pairs: list[Pair], ranks: Ranks) -> Tested:
    mine = [pair.source for pair in pairs[ranks.number :: ranks.size]]
    outputs = deal_back(ranks.gather([t.text for t in translator.translate(mine)]))
    scores = metrics.score(outputs, [pair.target for pair in pairs])
    return Tested(split, scores.bleu.value, scores.bleu.signature, scores.chrf.value, scores.sentences)
