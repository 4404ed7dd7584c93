"""Collect the results of a comparison from its folder; show them as a table or Markdown."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Any

from glassformer.errors import UserError
from glassformer.files import read_json
from glassformer.inference.run_folder import RunFolder, load_settings
from glassformer.lab.ladder.measurements import measures_file
from glassformer.lab.ladder.runner import failure_file, read_plan
from glassformer.lab.ladder.systems import KINDS, System
from glassformer.settings import resolve
from glassformer.training.events import read_log

Report = dict[str, Any]

CURVE_POINTS = 100  # per training loss curve
IDLE = 0.85  # minimal ratio of CPU time to wall time during decoding on an idle machine


def collect(folder: Path) -> Report:
    plan = read_plan(folder)
    if plan is None:
        hint = "use a folder written by `glassformer ladder` or `glassformer ablate`"
        raise UserError("The folder does not contain a comparison.", where=str(folder), hint=hint)
    wanted = [system for system in KINDS[plan["kind"]] if system.name in plan["systems"]]
    systems = [_collect_system(system, folder / system.name) for system in wanted]
    done = [system for system in systems if system["state"] == "done"]
    shared = ("held_out", "sentences", "beam", "bleu_signature", "chrf_signature", "gradient_sentences")
    return {
        "kind": plan["kind"],
        "minutes_each": plan["minutes"],
        "settings": resolve(plan["chosen"]).model_dump(exclude={"data"}, exclude_none=True),
        "made_with": sorted({system.pop("made_with", "") for system in done} - {""}),
        **{name: done[0][name] if done else None for name in shared},
        "systems": [{name: value for name, value in system.items() if name not in shared} for system in systems],
    }


def _collect_system(system: System, run: Path) -> Report:
    """Return the state, settings, log summary and measurements of one system."""
    folder = RunFolder(run)
    found: Report = {
        "name": system.name,
        "title": system.title,
        "korean": system.korean,
        "change": system.change,
        "state": "waiting",
    }
    if folder.settings.exists():
        found |= {"state": "unfinished", "model": load_settings(folder).model.describe()} | _from_log(folder.log)
    if measures_file(run).exists():
        return found | {"state": "done"} | _read(measures_file(run))
    if failure_file(run).exists():
        found |= {"state": "failed", "reason": _read(failure_file(run)).get("reason", "")}
    return found


def _read(path: Path) -> Report:
    hint = "delete the file and repeat the command"
    content = read_json(path, "The file", hint)
    if not isinstance(content, dict):
        raise UserError("The file is damaged: it is not an object.", where=str(path), hint=hint)
    return content


def _from_log(log: Path) -> Report:
    by_kind: dict[str, list[Report]] = {}
    for event in read_log(log):
        by_kind.setdefault(event["event"], []).append(event)
    found: Report = {}
    if started := by_kind.get("started"):
        found["parameters"] = started[-1]["parameters"]
    if finished := by_kind.get("finished"):
        last = finished[-1]
        found |= {"steps": last["step"], "seconds": round(last["seconds"], 1), "ended_by": last["reason"]}
    if progress := by_kind.get("progress"):
        found["training_tokens_per_second"] = round(median(event["tokens_per_second"] for event in progress))
        found["epochs"] = progress[-1]["epoch"]
        losses = {event["step"]: round(event["loss"], 4) for event in progress}  # a repeated step counts once
        found |= {"training_loss": losses[max(losses)], "curve": _thinned(sorted(losses.items()))}
    if validated := by_kind.get("validated"):  # of the last weights; the saved ones may be earlier
        found["held_out_loss"] = round(validated[-1]["scores"]["loss"], 4)
    return found


def _thinned(points: list[tuple[int, float]]) -> list[list[float]]:
    every = -(-len(points) // CURVE_POINTS)
    kept = [list(point) for point in points[::every]]
    return kept if list(points[-1]) == kept[-1] else [*kept, list(points[-1])]


COLUMNS = (  # heading, name in the report, digits
    ("parameters", "parameters", 0),
    ("BLEU", "bleu", 1),
    ("chrF", "chrf", 1),
    ("train loss", "training_loss", 2),
    ("valid loss", "held_out_loss", 2),
    ("source gain", "source_gain", 2),
    ("steps", "steps", 0),
    ("epochs", "epochs", 0),
    ("seconds", "seconds", 0),
    ("train tok/s", "training_tokens_per_second", 0),
    ("decode tok/s", "decoding_tokens_per_second", 0),
)


def caveats(report: Report) -> list[str]:
    """Return warnings about results that cannot be compared."""
    done = [system for system in report["systems"] if system["state"] == "done"]
    found = []
    if few := [system for system in done if not system.get("epochs")]:
        found.append(
            f"{len(few)} of {len(done)} systems did not complete one epoch, so their results are not meaningful yet: "
            "raise --budget or train.steps, or use a smaller model."
        )
    if busy := [s for s in done if s["decoding_cpu_seconds"] < IDLE * s["decoding_seconds"]]:
        found.append(
            f"The machine was busy with other work while {len(busy)} of {len(done)} systems were measured: speeds and "
            "results after equal training time cannot be compared. Run the comparison on an idle machine."
        )
    return found


def table(report: Report) -> list[str]:
    """Return a table for the terminal with one line per system."""
    systems = report["systems"]
    left = max(len(system["title"]) for system in systems)
    lines = [" " * left + "".join(f"  {heading:>{_width(heading)}}" for heading, _, _ in COLUMNS)]
    for system in systems:
        cells = (f"  {number(system.get(name), digits):>{_width(heading)}}" for heading, name, digits in COLUMNS)
        state = "" if system["state"] == "done" else f"  {system['state']}: {system.get('reason', '')}".rstrip(": ")
        lines.append(f"{system['title']:<{left}}" + "".join(cells) + state.replace("\n", " "))
    return lines


def conditions(report: Report) -> str:
    """Describe what the systems have in common, how they were evaluated, and the software versions."""
    limit = report["minutes_each"]
    how = (
        "for the same number of steps"
        if limit is None
        else f"for {limit:.3g} minutes per system or until all steps were done"
    )
    said = f"All systems were trained on the same text, subword vocabulary and order of batches, {how}."
    if report["sentences"]:
        said += (
            f" Scores are computed on {report['sentences']:,} {report['held_out']} sentences that were not used for "
            f"training, with beam size {report['beam']}."
        )
    train, vocab = report["settings"]["train"], report["settings"]["tokenizer"]["vocab"]
    amount = f"at most {train['steps']:,} steps of {train['batch_tokens']:,} tokens, {vocab:,} subwords"
    said += f" Seed {train['seed']}, {amount}."
    return " ".join([said, *(f"{made_with}." for made_with in report["made_with"])])


def markdown(report: Report) -> str:
    """Return the table and BLEU by sentence length as Markdown."""
    done = [system for system in report["systems"] if system["state"] == "done"]
    ranges = list(done[0]["bleu_by_length"]) if done else []
    lines = [
        conditions(report),
        *caveats(report),
        "",
        *_rows("system", [heading for heading, _, _ in COLUMNS]),
        *(
            _row(system["title"], [number(system.get(name), digits) for _, name, digits in COLUMNS])
            for system in report["systems"]
        ),
        "",
        "BLEU by source length in words:",
        "",
        *_rows("system", ranges),
        *(
            _row(system["title"], [number(system["bleu_by_length"][name]["bleu"], 1) for name in ranges])
            for system in done
        ),
        "",
        *(f"`{report[name]}`  " for name in ("bleu_signature", "chrf_signature") if report[name]),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _rows(first: str, headings: list[str]) -> list[str]:
    return [_row(first, headings), "|---" * (1 + len(headings)) + "|"]


def _row(first: str, cells: list[str]) -> str:
    return f"| {' | '.join([first, *cells])} |"


def _width(heading: str) -> int:
    return max(7, len(heading))


def number(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:,.{digits}f}"
