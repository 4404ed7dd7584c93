"""Trains systems one after the other, on the same text and tokenizer, in the same order, for the same tokens or time.

    DIR/ plan.json  NAME/ (a run folder, and measures.json or failed.json)  report.json  report.html  report.md  plots/

A system is done when it is measured. What was stopped goes on, what failed is tried again, the rest is skipped.
Several processes can climb the same ladder: each takes what no other is at.
"""

from __future__ import annotations

import contextlib
import json
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glassformer import machine
from glassformer.data.parallel_text import SentencePair
from glassformer.errors import UserError
from glassformer.files import LockHeld, exclusive_lock, read_json, wait_for_lock, write_text
from glassformer.inference.run_folder import RunFolder
from glassformer.lab.ladder.measures import measure, measures_file
from glassformer.lab.ladder.systems import System, model_settings
from glassformer.planning.estimate import estimate
from glassformer.settings import DataSettings, Raw, check, family_of, merge, resolve
from glassformer.tasks.translation import TranslationData
from glassformer.text.tokenizer import Tokenizer
from glassformer.training.events import Event, Listener, Note, ignore, preparation_progress
from glassformer.training.run_lock import run_name
from glassformer.training.train import train

Train = Callable[..., Any]


@dataclass(frozen=True)
class Rung(Event):
    """Where the whole comparison stands."""

    state: str  # "begins", "skipped", "elsewhere", "done", "failed" or "stopped"
    system: System
    number: int
    of: int
    minutes_left: float | None = None  # for this one and those after it, roughly
    said: str = ""


@dataclass(frozen=True)
class Plan:
    """Everything that is settled before the first system is trained."""

    kind: str
    folder: Path
    systems: tuple[System, ...]
    settings: dict[str, Raw]  # of each system, all of them
    tokenizer: Tokenizer
    split: str  # that the systems are measured on
    held_out: list[SentencePair]
    minutes: float | None  # for each
    estimates: dict[str, float]  # minutes of each, at most


def plan_file(folder: Path) -> Path:
    return folder / "plan.json"


def failure_file(run: Path) -> Path:
    return run / "failed.json"


def make_plan(
    kind: str,
    raw: Raw,
    systems: tuple[System, ...],
    *,
    out: Path | None = None,
    budget: float | None = None,
    listener: Listener = ignore,
) -> Plan:
    """Reads the text, learns the tokenizer, chooses all settings; refuses to mix with another plan in the folder."""
    _refuse(raw)
    raw = _with_whole_paths(raw)
    folder = out or Path("runs") / f"{kind}-{run_name(raw)}"
    minutes = None if budget is None else budget / len(systems)
    tell = preparation_progress(listener)
    data = TranslationData(DataSettings.model_validate(raw["data"]), tell)
    for line in data.report.lines():
        listener(Note(line))
    patient = merge({"train": {"patience": 0}}, raw)  # the same number of tokens for all
    base, choices, tokenizer = data.choose(patient, None, machine.fastest_safe_precision(), tell)
    assert tokenizer is not None
    for choice in choices:
        listener(Note(f"{choice.path} = {choice.value}  ({choice.reason})"))
    if minutes is not None:
        base = _in_time(base, raw, minutes, len(tokenizer))
    recorded = {"kind": kind, "given": raw, "minutes": minutes, "text": data.fingerprint, "chosen": base}
    _refuse_foreign(folder)
    with wait_for_lock(folder / ".plan.lock"):
        base = _agree(folder, systems, json.loads(json.dumps(recorded)))["chosen"]
    settings = {
        system.name: base | {"model": model_settings(system, base["model"], len(tokenizer))} for system in systems
    }
    split = "test" if data.splits.test else "valid"
    estimates = {name: _estimated(chosen, len(tokenizer)) for name, chosen in settings.items()}
    held_out = getattr(data.splits, split)
    return Plan(kind, folder, systems, settings, tokenizer, split, held_out, minutes, estimates)


def _refuse(raw: Raw) -> None:
    check(raw)
    if not raw.get("data", {}).get("train"):
        hint = "give two aligned files (train.en train.de), one .tsv or .jsonl, or a recipe.toml"
        raise UserError("There is nothing to train on.", where="data.train", hint=hint)
    if family_of(raw.get("model", {})) != "transformer":
        hint = "leave it out; model.* is for the Transformer, and the other systems get as many weights"
        raise UserError("The compared systems are chosen by name.", where="model.family", hint=f"{hint} (--only GRU)")


def _refuse_foreign(folder: Path) -> None:
    if folder.exists() and read_plan(folder) is None and any(path.name != ".plan.lock" for path in folder.iterdir()):
        hint = "choose another folder with -o"
        raise UserError("There is something else in this folder.", where=str(folder), hint=hint)


def _with_whole_paths(raw: Raw) -> Raw:
    """The same files from whichever folder the command is given again."""

    def whole(path: str | list[str]) -> str | list[str]:
        return str(Path(path).absolute()) if isinstance(path, str) else [str(Path(shard).absolute()) for shard in path]

    def inside(section: Raw) -> Raw:
        return section | {name: [*map(whole, section[name])] for name in ("train", "valid", "test") if name in section}

    data = inside(raw["data"])
    if data.get("also"):
        data["also"] = [inside(other) for other in data["also"]]
    return raw | {"data": data}


def _in_time(base: Raw, raw: Raw, minutes: float, vocab: int) -> Raw:
    """A shorter warm-up (§5.3), unless one was asked for, where the time is too short for all steps."""
    if "warmup" not in raw.get("train", {}):
        steps = base["train"]["steps"] * min(1.0, minutes / _estimated(base, vocab))
        base = merge(base, {"train": {"warmup": max(1, min(base["train"]["warmup"], round(steps / 4)))}})
    return merge(base, {"train": {"minutes": minutes}})


def _estimated(raw: Raw, vocab: int) -> float:
    settings = resolve(raw)
    minutes = estimate(settings, vocab=vocab).minutes
    return min(minutes, settings.train.minutes or minutes)


def _agree(folder: Path, systems: Sequence[System], recorded: Raw) -> Raw:
    """Writes the plan down, or finds it to be the one that is written down; other systems may join it.

    Gives what is written down: a machine that is busier today would choose otherwise.
    """
    kept = read_plan(folder, [*recorded, "systems"]) or recorded | {"systems": []}
    names = [*dict.fromkeys([*kept["systems"], *(system.name for system in systems)])]
    if (kept["kind"], kept["given"]) != (recorded["kind"], recorded["given"]):
        hint = "give the same files and settings again to go on with it, or choose another folder with -o"
        raise UserError("This folder holds a comparison with other settings.", where=str(folder), hint=hint)
    if kept["text"] != recorded["text"]:
        hint = "give the same text, or choose another folder with -o"
        raise UserError("The text is not what this comparison began with.", where=str(folder), hint=hint)
    if kept["minutes"] != recorded["minutes"]:
        before, now = (_share(minutes) for minutes in (kept["minutes"], recorded["minutes"]))
        hint = "leave --budget out" if kept["minutes"] is None else f"say --budget {kept['minutes'] * len(systems):g}"
        hint += ", or choose another folder with -o"
        raise UserError(f"The systems in this folder had {before}; now it would be {now}.", where="--budget", hint=hint)
    plan = kept | {"systems": names}
    write_text(plan_file(folder), json.dumps(plan, ensure_ascii=False, indent=1) + "\n")
    return plan


def _share(minutes: float | None) -> str:
    return "no limit of time" if minutes is None else f"{minutes:g} minutes each"


def read_plan(folder: Path, needed: Sequence[str] = ("kind", "systems")) -> Raw | None:
    """Return the plan of a folder; None if there is none. A plan without one of the `needed` keys is damaged."""
    hint = "delete it to begin anew with what is in the folder, or choose another folder with -o"
    try:
        plan = read_json(plan_file(folder), "The plan", hint)
    except FileNotFoundError:
        return None
    if not isinstance(plan, dict) or not {*needed} <= plan.keys():
        raise UserError("The plan is damaged.", where=str(plan_file(folder)), hint=hint)
    return plan


def climb(plan: Plan, listener: Listener = ignore, *, training: Train = train) -> bool:
    """Trains and measures what is not done yet. False if a person stopped it: the same call goes on then."""
    clock, of = _Clock(plan), len(plan.systems)
    for number, system in enumerate(plan.systems, 1):
        run = plan.folder / system.name
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(exclusive_lock(plan.folder / f".{system.name}.lock", "training this system"))
            except LockHeld:
                listener(Rung("elsewhere", system, number, of))
                continue
            if measures_file(run).exists():
                listener(Rung("skipped", system, number, of))
                continue
            listener(Rung("begins", system, number, of, clock.minutes_left(number - 1)))
            began = time.monotonic()
            state, said = _one(plan, system, run, listener, training)
            clock.ran(system, time.monotonic() - began)
            listener(Rung(state, system, number, of, said=said))
            if state == "stopped":
                return False
    return True


def _one(plan: Plan, system: System, run: Path, listener: Listener, training: Train) -> tuple[str, str]:
    """How it ended, and what there is to say of it."""
    try:
        trained = training(out=run, settings=plan.settings[system.name], resume=True, listener=_but_notes(listener))
        if trained.reason == "interrupted":
            return "stopped", ""
        if Tokenizer.load(RunFolder(run).tokenizer).to_json() != plan.tokenizer.to_json():
            raise UserError("Its tokenizer is not that of the others.", where=str(run), hint="delete the folder")
        measured = measure(run, plan.split, plan.held_out, preparation_progress(listener))
    except KeyboardInterrupt:
        return "stopped", ""
    except Exception as error:  # the others go on, whatever it is
        return "failed", _failed(run, error)
    failure_file(run).unlink(missing_ok=True)
    speed = f"{measured['decoding_tokens_per_second']:,.0f} tokens/s"
    return "done", f"BLEU {measured['bleu']:.1f}  chrF {measured['chrf']:.1f}  decoding {speed}"


def _failed(run: Path, error: Exception) -> str:
    """Writes down why. What a person cannot mend is told with its traceback."""
    ours = not isinstance(error, UserError)
    reason = f"{type(error).__name__}: {error}" if ours else str(error)
    kept = {"reason": reason} | ({"traceback": traceback.format_exc()} if ours else {})
    with contextlib.suppress(UserError):  # a full disk may be what failed
        write_text(failure_file(run), json.dumps(kept, ensure_ascii=False, indent=1) + "\n")
    return reason


def _but_notes(listener: Listener) -> Listener:
    """The text and the choices are the same for all, and have been told."""
    return lambda event: None if isinstance(event, Note) else listener(event)


class _Clock:
    """How long the rest will take: what was estimated, corrected by how long the systems so far took."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.estimated, self.taken = plan, 0.0, 0.0

    def ran(self, system: System, seconds: float) -> None:
        self.estimated, self.taken = self.estimated + self.plan.estimates[system.name], self.taken + seconds / 60

    def minutes_left(self, done: int) -> float:
        waiting = [s for s in self.plan.systems[done:] if not measures_file(self.plan.folder / s.name).exists()]
        factor = self.taken / self.estimated if self.estimated else 1.0
        return factor * sum(self.plan.estimates[system.name] for system in waiting)
