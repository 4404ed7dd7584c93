"""The command `glassformer ladder`, and the part shared with `glassformer ablate`."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.arguments import given_paths
from glassformer.cli.train import read_arguments

if TYPE_CHECKING:
    from glassformer.cli.console import TrainingView
    from glassformer.training.events import Event

STOPPED = 130  # the exit code after Ctrl-C
FAILED = 1

Arguments = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="FILES… [section.name=value …]",
        help="two aligned files, one .tsv or .jsonl file, or a recipe.toml; then settings",
        show_default=False,
    ),
]
Valid = Annotated[
    tuple[str, str] | None,
    typer.Option(metavar="A B", help="validation files (or one .tsv, .jsonl) for selecting the best checkpoint"),
]
Test = Annotated[
    tuple[str, str] | None,
    typer.Option(metavar="A B", help="test files for comparing the systems (default: the validation files)"),
]
Budget = Annotated[
    float | None,
    typer.Option(
        metavar="MINUTES", help="total training time, divided equally (default: the same number of steps for each)"
    ),
]
Only = Annotated[str, typer.Option(metavar="NAMES", help="only these systems, separated by commas: gru,transformer")]
Out = Annotated[
    Path | None,
    typer.Option("-o", "--out", metavar="DIR", help="folder for all runs and the report (default: in runs/)"),
]
AsJson = Annotated[bool, typer.Option("--json", help="print the report as one line of JSON")]


def ladder(
    arguments: Arguments = None,
    valid: Valid = None,
    test: Test = None,
    budget: Budget = None,
    only: Only = "",
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Compare the Transformer with its predecessors, all trained on your text.

    RNN, GRU and LSTM encoder–decoders, additive and dot-product attention, a bidirectional encoder, and the
    Transformer, with about equally many parameters. Ctrl-C stops; the same command resumes and updates the report.

    Example: glassformer ladder train.en train.de --budget 60 -o runs/ladder
    """
    compare("ladder", arguments, valid, test, budget, only, out, as_json)


def compare(
    kind: str,
    arguments: list[str] | None,
    valid: tuple[str, str] | None,
    test: tuple[str, str] | None,
    budget: float | None,
    only: str,
    out: Path | None,
    as_json: bool,
) -> None:
    """Plan, train and report. The exit code is 0 if all systems are finished."""
    from glassformer.cli.console import TrainingView
    from glassformer.errors import UserError
    from glassformer.lab.ladder.report import write_report
    from glassformer.lab.ladder.results import caveats, table
    from glassformer.lab.ladder.runner import make_plan, run_systems
    from glassformer.lab.ladder.systems import select_systems
    from glassformer.settings import merge

    if budget is not None and not 0 < budget < math.inf:
        raise UserError(f"The budget cannot be {budget:g} minutes.", where="--budget", hint="choose more than 0")
    systems = select_systems(kind, only)
    files, raw = read_arguments(arguments or [])
    for split, paths in (("train", files), ("valid", given_paths(valid)), ("test", given_paths(test))):
        if paths:
            raw = merge(raw, {"data": {split: paths}})
    with TrainingView() as view:
        listener = _View(view)
        plan = make_plan(kind, raw, systems, out=out, budget=budget, listener=listener)
        finished = run_systems(plan, listener)
    report, written, missing = write_report(plan.folder, plots=finished)  # after Ctrl-C the user does not want to wait
    if missing:
        view.console.print(missing, markup=False)
    for line in [json.dumps(report, ensure_ascii=False)] if as_json else ["", *table(report), ""]:
        print(line)
    for caveat in caveats(report):
        view.console.print(caveat, markup=False)
    view.console.print(f"written: {', '.join(map(str, written[:3]))}", markup=False)
    if not finished:
        view.console.print("stopped; repeat the command to resume")
        raise typer.Exit(STOPPED)
    if any(system["state"] == "failed" for system in report["systems"]):
        raise typer.Exit(FAILED)


class _View:
    """Prints one line per system and the progress bar of the current one."""

    def __init__(self, inner: TrainingView) -> None:
        self.inner = inner

    def __call__(self, event: Event) -> None:
        from glassformer.lab.ladder.runner import SystemEvent

        if not isinstance(event, SystemEvent):
            self.inner(event)
            return
        place = f"{event.number} of {event.of}: {event.system.title}"
        left = "" if event.minutes_left is None else f"; about {_minutes(event.minutes_left)} remaining"
        texts = {
            "begins": f"── {place}{left}",
            "skipped": f"── {place}: already finished",
            "elsewhere": f"── {place}: another process is training it; repeat the command later for the report",
            "done": f"{event.system.title}: {event.result}",
            "failed": f"{event.system.title} failed; continuing with the next: {event.result}",
            "stopped": f"{event.system.title}: stopped and saved",
        }
        self.inner.console.print(texts[event.state], markup=False)


def _minutes(minutes: float) -> str:
    return "a minute" if minutes < 1.5 else f"{minutes:,.0f} minutes"
