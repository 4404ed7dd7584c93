"""Finished translation runs side by side: a table and learning curves, read from their run folders."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from pydantic import TypeAdapter, ValidationError

from glassformer.errors import UserError
from glassformer.files import read_json, write_text
from glassformer.inference.run_folder import RunFolder, load_settings
from glassformer.lab.bench.figures import new_figure, save_figure
from glassformer.settings import Settings
from glassformer.training.events import read_log

COLUMNS = (("valid", "bleu"), ("test", "bleu"), ("test", "chrf"))
SEED = re.compile(r"-seed\d+$")  # at the end of the name of a run
SEED_SETTING = re.compile(r", seed \d+")  # in the description of its settings
COLORS = 10  # of Matplotlib's default color cycle; the curves after them are dashed
BEGIN, END = "<!-- written by `glassformer bench runs`: begin -->", "<!-- end -->"


@dataclass(frozen=True)
class FinishedRun:
    """Settings, size, duration and scores of a run, from its run folder.

    Attributes:
        minutes: of training, with the models of data diversification.
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


def read_runs(paths: list[Path], machine: str) -> list[FinishedRun]:
    """Read the settings and the logs of finished runs, whose folders must have different names."""
    names: dict[str, Path] = {}
    for path in paths:
        if (other := names.setdefault(path.resolve().name, path)) is not path:
            hint = "rename one of the folders: the table names each run by its folder"
            raise UserError("Two runs have the same name.", where=f"{other} and {path}", hint=hint)
    return [_read_run(path, machine) for path in paths]


def _read_run(path: Path, machine: str) -> FinishedRun:
    folder = RunFolder(path)
    settings, events = load_settings(folder), list(read_log(folder.log))
    last = {event["event"]: event for event in events}
    if "started" not in last and folder.card.exists():
        hint = "name the folder of a run that glassformer train wrote, with its log.jsonl"
        raise UserError("This run has no log of its training.", where=str(folder.log), hint=hint)
    if not {"started", "finished", "tested"} <= last.keys():
        hint = f"finish it: glassformer train -o {path} --resume"
        raise UserError("This run is not finished.", where=str(path), hint=hint)
    before = seconds_of_diversification(path)
    return FinishedRun(
        name=path.resolve().name,
        settings=_describe(settings, path),
        parameters=last["started"]["parameters"],
        epochs=last["progress"]["epoch"] + 1 if "progress" in last else 1,
        steps=last["finished"]["step"],
        minutes=round((before + last["finished"]["seconds"]) / 60, 1),
        scores={event["split"]: event["scores"] for event in events if event["event"] == "tested"},
        curve=_curve(events, before),
        machine=machine,
    )


def seconds_of_diversification(path: Path) -> float:
    """Return the training time of forward and backward models (`data.diversify`)."""
    logs = [read_log(RunFolder(run).log) for run in _diversifying_runs(path)]
    finished = [[event["seconds"] for event in log if event["event"] == "finished"] for log in logs]
    return sum(seconds[-1] for seconds in finished if seconds)


def _diversifying_runs(path: Path) -> list[Path]:
    return [file.parent for file in RunFolder(path).diversification.glob("*/run.toml")]


def _describe(settings: Settings, path: Path) -> str:
    model, train = settings.model, settings.train
    described = [model.describe(), f"dropout {model.dropout:g}", f"{train.optimizer}, {train.schedule}"]
    if train.weight_decay:
        described.append(f"weight decay {train.weight_decay:g}")
    if train.consistency:
        described.append(f"R-Drop {train.consistency:g}")
    if models := len(_diversifying_runs(path)):
        described.append(f"data diversification with {models} models")
    described.append(f"seed {train.seed}")
    if settings.tokenizer is not None:
        described.append(f"vocabulary {settings.tokenizer.vocab:,}")
    return ", ".join(described)


def _curve(events: list[dict[str, Any]], before: float) -> list[tuple[float, float]]:
    """Return minutes of training and BLEU of every validation, after `before` seconds of training of other models.

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
            curve[event["step"]] = round((before + clock) / 60, 2), round(event["scores"]["bleu"], 2)
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


def mean_table(runs: list[FinishedRun]) -> list[str]:
    """Return a Markdown table of means over seeds: of NAME, NAME-seed2, NAME-seed3 … Empty without such runs.

    Runs whose other settings differ are not averaged.
    """
    groups: dict[tuple[str, str], list[FinishedRun]] = {}
    for run in runs:
        same_settings = SEED_SETTING.sub("", run.settings)
        groups.setdefault((SEED.sub("", run.name), same_settings), []).append(run)
    lines = [
        f"| `{name}` | {len(same)} | {' | '.join(_means(same))} |"
        for (name, _), same in groups.items()
        if len(same) > 1
    ]
    header = ["| run | seeds | valid BLEU | test BLEU | test chrF |", "|---|---|---|---|---|"]
    return ["", "Mean and standard deviation over seeds:", "", *header, *lines] if lines else []


def _means(runs: list[FinishedRun]) -> list[str]:
    """Return mean and standard deviation of each score, empty for one that a run does not have."""
    columns = [[run.scores.get(split, {}).get(name) for run in runs] for split, name in COLUMNS]
    known = [[score for score in column if score is not None] for column in columns]
    return [f"{mean(some):.2f} ± {stdev(some):.2f}" if len(some) == len(runs) else "" for some in known]


def save(runs: list[FinishedRun], folder: Path) -> Path:
    """Add the runs to those kept in the folder; update the learning curves and the table in quality.md, its page."""
    path = folder / "quality" / "runs.json"
    every = {run.name: run for run in [*_kept(path), *runs]}
    write_text(path, json.dumps([asdict(run) for run in every.values()], indent=1, ensure_ascii=False) + "\n")
    draw(list(every.values()), folder / "quality" / "learning-curves.svg")
    machines = "; ".join(dict.fromkeys(run.machine for run in every.values()))
    shown = list(every.values())
    lines = [BEGIN, *table(shown), *mean_table(shown), "", f"Trained on {machines}.", END]
    page = folder / "quality.md"
    text = page.read_text(encoding="utf-8") if page.exists() else "# Finished runs\n"
    if END not in text.rpartition(BEGIN)[2] or BEGIN not in text:  # a page without a table: add it at the end
        text += f"\n{BEGIN}\n{END}\n"
    before, _, rest = text.rpartition(BEGIN)
    write_text(page, before + "\n".join(lines) + rest.partition(END)[2])
    return page


def _kept(path: Path) -> list[FinishedRun]:
    """Return the runs of earlier calls."""
    hint = "restore the file, or delete it to begin a new table"
    try:
        return TypeAdapter(list[FinishedRun]).validate_python(read_json(path, "The table of runs", hint))
    except FileNotFoundError:
        return []
    except ValidationError:
        raise UserError("This is not a table of runs.", where=str(path), hint=hint) from None


def draw(runs: list[FinishedRun], path: Path) -> None:
    """Draw BLEU on the validation set against minutes; of runs that differ in the seed, the first."""
    figure = new_figure(9.0, 4.0)
    panel = figure.subplots()
    shown = [run for run in runs if run.curve and not SEED.search(run.name)]
    for i, run in enumerate(shown):
        line = "-" if i < COLORS else "--"
        panel.plot(
            *zip(*run.curve, strict=True), line, color=f"C{i % COLORS}", marker="o", markersize=3, label=run.name
        )
    panel.set_xlabel("minutes of training")
    panel.set_ylabel("BLEU, validation set, greedy")
    panel.grid(visible=True, color="0.9")
    panel.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    save_figure(figure, path)
