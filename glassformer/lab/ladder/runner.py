"""Train and measure systems one after another on the same text and tokenizer, for the same number of steps or minutes.

    DIR/ plan.json  NAME/ (a run folder, and measures.json or failed.json)  report.json  report.html  report.md  plots/

A system is finished when it is measured. The same command resumes an interrupted system, repeats a failed one and skips
finished ones. Several processes can work in the same folder: each system is locked while a process trains it.
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
from glassformer.lab.ladder.measurements import measure, measures_file
from glassformer.lab.ladder.systems import BASELINES, System, model_settings
from glassformer.planning.estimate import estimate
from glassformer.planning.sizes import size_for
from glassformer.settings import DataSettings, Raw, check, family_of, merge, resolve, with_absolute_paths
from glassformer.tasks.translation import TranslationData
from glassformer.text.tokenizer import Tokenizer
from glassformer.training.events import Event, Listener, Note, ignore, preparation_progress
from glassformer.training.run_lock import run_name
from glassformer.training.train import train

Train = Callable[..., Any]


@dataclass(frozen=True)
class SystemEvent(Event):
    """A change of the state of one system."""

    state: str  # "begins", "skipped", "elsewhere", "done", "failed" or "stopped"
    system: System
    number: int
    of: int
    minutes_left: float | None = None  # estimate for this system and the following ones
    result: str = ""


@dataclass(frozen=True)
class Plan:
    """Everything that is fixed before the first system is trained."""

    kind: str
    folder: Path
    systems: tuple[System, ...]
    settings: dict[str, Raw]  # complete settings by system
    tokenizer: Tokenizer
    split: str  # on which the systems are evaluated
    held_out: list[SentencePair]
    minutes: float | None  # per system
    estimates: dict[str, float]  # upper estimate in minutes by system


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
    """Read the text, train the tokenizer and choose all settings; refuse a folder with another plan."""
    _check_settings(raw)
    raw = with_absolute_paths(raw)
    folder = out or Path("runs") / f"{kind}-{run_name(raw)}"
    minutes = None if budget is None else budget / len(systems)
    progress = preparation_progress(listener)
    data = TranslationData(DataSettings.model_validate(raw["data"]), progress)
    for line in data.report.lines():
        listener(Note(line))
    # No early stopping: the same number of steps for all systems.
    same = merge({"train": {"patience": 0}, "model": BASELINES[kind]}, raw)
    base, choices, tokenizer = data.choose(same, None, machine.fastest_safe_precision(), progress)
    assert tokenizer is not None
    for choice in choices:
        listener(Note(choice.message))
    if minutes is not None:
        base = _with_time_limit(base, raw, minutes, len(tokenizer))
    recorded = {"kind": kind, "given": raw, "minutes": minutes, "text": data.fingerprint, "chosen": base}
    _check_folder(folder)
    with wait_for_lock(folder / ".plan.lock"):
        base = _record_plan(folder, systems, json.loads(json.dumps(recorded)))["chosen"]
    recurrent = _for_recurrent_models(base, raw.get("train", {}), len(data.splits.train))
    settings = {
        system.name: (recurrent if system.is_recurrent else base)
        | {"model": model_settings(system, base["model"], len(tokenizer))}
        for system in systems
    }
    split = "test" if data.splits.test else "valid"
    estimates = {name: _estimated_minutes(chosen, len(tokenizer)) for name, chosen in settings.items()}
    held_out = getattr(data.splits, split)
    return Plan(kind, folder, systems, settings, tokenizer, split, held_out, minutes, estimates)


def _for_recurrent_models(base: Raw, given: Raw, pairs: int) -> Raw:
    """Return the settings of recurrent models: with Adam in place of Muon, which does not update recurrent weights.

    given: the given settings of `train`.
    """
    if base["train"].get("optimizer") != "muon":
        return base
    adam = {"optimizer": "adam", "lr": size_for(pairs).lr, "weight_decay": given.get("weight_decay", 0.0)}
    return merge(base, {"train": adam})


def _check_settings(raw: Raw) -> None:
    check(raw)
    if not raw.get("data", {}).get("train"):
        hint = "give two aligned files (train.en train.de), one .tsv or .jsonl, or a recipe.toml"
        raise UserError("No training data was given.", where="data.train", hint=hint)
    if raw["data"].get("diversify"):
        hint = "remove it, or compare the systems on the output of glassformer data diversify"
        raise UserError("A comparison has no data diversification.", where="data.diversify", hint=hint)
    if family_of(raw.get("model", {})) != "transformer":
        hint = "remove it; model.* applies to the Transformer; select systems with --only, such as --only gru"
        raise UserError("model.family cannot be set for a comparison.", where="model.family", hint=hint)


def _check_folder(folder: Path) -> None:
    if folder.exists() and read_plan(folder) is None and any(path.name != ".plan.lock" for path in folder.iterdir()):
        hint = "choose another folder with -o"
        raise UserError("The folder contains other files.", where=str(folder), hint=hint)


def _with_time_limit(base: Raw, raw: Raw, minutes: float, vocab: int) -> Raw:
    """Set the time limit; shorten a chosen warmup (§5.3) if the time is too short for all steps."""
    if "warmup" not in raw.get("train", {}):
        steps = base["train"]["steps"] * min(1.0, minutes / _estimated_minutes(base, vocab))
        base = merge(base, {"train": {"warmup": max(1, min(base["train"]["warmup"], round(steps / 4)))}})
    return merge(base, {"train": {"minutes": minutes}})


def _estimated_minutes(raw: Raw, vocab: int) -> float:
    return estimate(resolve(raw), vocab=vocab).minutes


def _record_plan(folder: Path, systems: Sequence[System], recorded: Raw) -> Raw:
    """Write the plan, or check that it equals the recorded one; systems may be added.

    Returns the recorded plan, because settings chosen by measuring the machine may differ between calls.
    """
    kept = read_plan(folder, [*recorded, "systems"]) or recorded | {"systems": []}
    names = [*dict.fromkeys([*kept["systems"], *(system.name for system in systems)])]
    if (kept["kind"], kept["given"]) != (recorded["kind"], recorded["given"]):
        hint = "repeat the command with the same files and settings, or choose another folder with -o"
        raise UserError("The folder contains a comparison with other settings.", where=str(folder), hint=hint)
    if kept["text"] != recorded["text"]:
        hint = "use the same text, or choose another folder with -o"
        raise UserError("The text has changed since this comparison was started.", where=str(folder), hint=hint)
    if kept["minutes"] != recorded["minutes"]:
        before, now = (_limit_text(minutes) for minutes in (kept["minutes"], recorded["minutes"]))
        hint = "remove --budget" if kept["minutes"] is None else f"use --budget {kept['minutes'] * len(systems):g}"
        hint += ", or choose another folder with -o"
        raise UserError(
            f"The comparison in this folder has {before}; this command has {now}.", where="--budget", hint=hint
        )
    plan = kept | {"systems": names}
    write_text(plan_file(folder), json.dumps(plan, ensure_ascii=False, indent=1) + "\n")
    return plan


def _limit_text(minutes: float | None) -> str:
    return "no time limit" if minutes is None else f"{minutes:g} minutes per system"


def read_plan(folder: Path, needed: Sequence[str] = ("kind", "systems")) -> Raw | None:
    """Return the plan of a folder; None if there is none. A plan without one of the `needed` keys is damaged."""
    hint = "delete the file to create the plan again, or choose another folder with -o"
    try:
        plan = read_json(plan_file(folder), "The plan", hint)
    except FileNotFoundError:
        return None
    if not isinstance(plan, dict) or not {*needed} <= plan.keys():
        raise UserError("The plan is damaged.", where=str(plan_file(folder)), hint=hint)
    return plan


def run_systems(plan: Plan, listener: Listener = ignore, *, training: Train = train) -> bool:
    """Train and measure all systems that are not finished. Return False if interrupted; the same call resumes."""
    clock, of = _RemainingTime(plan), len(plan.systems)
    for number, system in enumerate(plan.systems, 1):
        run = plan.folder / system.name
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(exclusive_lock(plan.folder / f".{system.name}.lock", "training this system"))
            except LockHeld:
                listener(SystemEvent("elsewhere", system, number, of))
                continue
            if measures_file(run).exists():
                listener(SystemEvent("skipped", system, number, of))
                continue
            listener(SystemEvent("begins", system, number, of, clock.minutes_left(number - 1)))
            began = time.monotonic()
            state, result = _run_system(plan, system, run, listener, training)
            clock.add(system, time.monotonic() - began)
            listener(SystemEvent(state, system, number, of, result=result))
            if state == "stopped":
                return False
    return True


def _run_system(plan: Plan, system: System, run: Path, listener: Listener, training: Train) -> tuple[str, str]:
    """Train and measure one system; return its state and a summary."""
    try:
        trained = training(out=run, settings=plan.settings[system.name], resume=True, listener=_without_notes(listener))
        if trained.reason == "interrupted":
            return "stopped", ""
        if Tokenizer.load(RunFolder(run).tokenizer).to_json() != plan.tokenizer.to_json():
            raise UserError(
                "The tokenizer of this system differs from the others.", where=str(run), hint="delete the folder"
            )
        measured = measure(run, plan.split, plan.held_out, preparation_progress(listener))
    except KeyboardInterrupt:
        return "stopped", ""
    except Exception as error:  # any failure of one system must not stop the others
        return "failed", _failed(run, error)
    failure_file(run).unlink(missing_ok=True)
    speed = f"{measured['decoding_tokens_per_second']:,.0f} tokens/s"
    return "done", f"BLEU {measured['bleu']:.1f}  chrF {measured['chrf']:.1f}  decoding {speed}"


def _failed(run: Path, error: Exception) -> str:
    """Record why a system failed; for errors that the user cannot correct, with the traceback."""
    internal = not isinstance(error, UserError)
    reason = f"{type(error).__name__}: {error}" if internal else str(error)
    kept = {"reason": reason} | ({"traceback": traceback.format_exc()} if internal else {})
    with contextlib.suppress(UserError):  # the failure may be a full disk
        write_text(failure_file(run), json.dumps(kept, ensure_ascii=False, indent=1) + "\n")
    return reason


def _without_notes(listener: Listener) -> Listener:
    """Drop notes: they are the same for all systems and were shown before."""
    return lambda event: None if isinstance(event, Note) else listener(event)


class _RemainingTime:
    """The remaining time: the estimates, corrected by the time that finished systems took."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.estimated, self.taken = plan, 0.0, 0.0

    def add(self, system: System, seconds: float) -> None:
        self.estimated, self.taken = self.estimated + self.plan.estimates[system.name], self.taken + seconds / 60

    def minutes_left(self, done: int) -> float:
        waiting = [s for s in self.plan.systems[done:] if not measures_file(self.plan.folder / s.name).exists()]
        factor = self.taken / self.estimated if self.estimated else 1.0
        return factor * sum(self.plan.estimates[system.name] for system in waiting)
