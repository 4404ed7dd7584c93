"""Finished translation runs side by side: a table and learning curves, read from their run folders."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from glassformer.errors import UserError
from glassformer.files import write_text
from glassformer.inference.run_folder import RunFolder, load_settings
from glassformer.lab.bench.figures import new_figure, save_figure
from glassformer.settings import Settings

COLUMNS = (("valid", "bleu"), ("test", "bleu"), ("test", "chrf"))
BEGIN, END = "<!-- written by `glassformer bench runs`: begin -->", "<!-- end -->"


@dataclass(frozen=True)
class FinishedRun:
    """Settings, size, duration and scores of a run, from its run folder.

    Attributes:
        scores: by split ("valid", "test") and name.
        curve: minutes and BLEU of the validations.
        machine: CPU and cores of the machine that read the run folder; a run folder does not contain its machine.
    """

    name: str
    settings: str
    parameters: int
    epochs: int
    steps: int
    minutes: float
    scores: dict[str, dict[str, float]]
    curve: list[tuple[float, float]]
    machine: str


def read_run(path: Path, machine: str) -> FinishedRun:
    """Read the settings and the log of a finished run."""
    folder = RunFolder(path)
    settings, events = load_settings(folder), read_log(folder.log)
    last = {event["event"]: event for event in events}
    if "tested" not in last:
        hint = f"finish it: glassformer train -o {path} --resume"
        raise UserError("This run is not finished.", where=str(path), hint=hint)
    return FinishedRun(
        name=folder.path.name,
        settings=_describe(settings),
        parameters=last["started"]["parameters"],
        epochs=last["progress"]["epoch"] + 1 if "progress" in last else 1,
        steps=last["finished"]["step"],
        minutes=round(last["finished"]["seconds"] / 60, 1),
        scores={event["split"]: event["scores"] for event in events if event["event"] == "tested"},
        curve=_curve(events),
        machine=machine,
    )


def read_log(path: Path) -> list[dict[str, Any]]:
    """Return the events in the log of a run; the last line may be incomplete while the run is trained."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def _describe(settings: Settings) -> str:
    model, train = settings.model, settings.train
    described = f"{model.describe()}, dropout {model.dropout:g}, {train.optimizer}, seed {train.seed}"
    return described if settings.tokenizer is None else f"{described}, vocabulary {settings.tokenizer.vocab:,}"


def _curve(events: list[dict[str, Any]]) -> list[tuple[float, float]]:
    """Return minutes of training and BLEU of every validation.

    As in `FinishedRun.minutes`, neither a pause before a resume counts, nor work that the last checkpoint did not have.
    """
    began, clock, saved = 0.0, 0.0, {0: 0.0}  # saved: seconds of training by the step of a checkpoint
    curve: dict[int, tuple[float, float]] = {}
    for event in events:
        if event["event"] == "started":  # a process killed right after its checkpoint could not log it
            began = event["time"] - saved.get(event["step"], clock)
        elif event["event"] == "note":  # may come before the training is resumed
            continue
        clock = event["time"] - began
        if event["event"] == "saved":
            saved[event["step"]] = clock
        elif event["event"] == "validated" and "bleu" in event["scores"]:
            curve[event["step"]] = round(clock / 60, 2), round(event["scores"]["bleu"], 2)
    return [point for _, point in sorted(curve.items())]


def table(runs: list[FinishedRun]) -> list[str]:
    """Return a Markdown table of the runs."""
    lines = [
        "| run | settings | million parameters | epochs | steps | minutes | valid BLEU | test BLEU | test chrF |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for run in runs:
        shown = [run.scores.get(split, {}).get(name) for split, name in COLUMNS]
        scores = " | ".join("" if score is None else f"{score:.2f}" for score in shown)
        lines.append(
            f"| `{run.name}` | {run.settings} | {run.parameters / 1e6:.1f} | {run.epochs} | {run.steps:,} "
            f"| {run.minutes:.0f} | {scores} |"
        )
    return lines


def save(runs: list[FinishedRun], folder: Path) -> Path:
    """Add the runs to those kept in the folder; update the learning curves and the table in quality.md, its page."""
    page, path = folder / "quality.md", folder / "quality" / "runs.json"
    text = page.read_text(encoding="utf-8") if page.exists() else f"# Finished runs\n\n{BEGIN}\n{END}\n"
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        hint = f"add two lines where the table belongs: {BEGIN} and {END}"
        raise UserError("This page has no place for the table.", where=str(page), hint=hint)
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    every = {run.name: run for run in [*(FinishedRun(**old) for old in kept), *runs]}
    write_text(path, json.dumps([asdict(run) for run in every.values()], indent=1, ensure_ascii=False) + "\n")
    draw(list(every.values()), folder / "quality" / "learning-curves.svg")
    machines = "; ".join(dict.fromkeys(run.machine for run in every.values()))
    lines = [BEGIN, *table(list(every.values())), "", f"Trained on {machines}.", END]
    write_text(page, before + "\n".join(lines) + after)
    return page


def draw(runs: list[FinishedRun], path: Path) -> None:
    """Draw BLEU on the validation set against minutes."""
    figure = new_figure(6.4, 4.0)
    panel = figure.subplots()
    for run in runs:
        if run.curve:
            panel.plot(*zip(*run.curve, strict=True), marker="o", markersize=3, label=run.name)
    panel.set_xlabel("minutes of training")
    panel.set_ylabel("BLEU, validation set, greedy")
    panel.grid(visible=True, color="0.9")
    panel.legend(frameon=False)
    save_figure(figure, path)
