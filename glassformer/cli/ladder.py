"""glassformer ladder, and what it shares with glassformer ablate"""

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
        help="two aligned files, one .tsv or .jsonl, or a recipe.toml; then settings, if any",
        show_default=False,
    ),
]
Valid = Annotated[
    tuple[str, str] | None,
    typer.Option(metavar="A B", help="held-out files (or one .tsv, .jsonl) to choose the best weights by"),
]
Test = Annotated[
    tuple[str, str] | None,
    typer.Option(metavar="A B", help="held-out files to compare the systems on (else those of --valid)"),
]
Budget = Annotated[
    float | None, typer.Option(metavar="MINUTES", help="training time in all, in equal shares; else equal steps")
]
Only = Annotated[str, typer.Option(metavar="NAMES", help="some systems only, with commas: gru,transformer")]
Out = Annotated[Path | None, typer.Option("-o", "--out", metavar="DIR", help="folder of all runs and the report")]
AsJson = Annotated[bool, typer.Option("--json", help="end with the report as one line of JSON")]


def ladder(
    arguments: Arguments = None,
    valid: Valid = None,
    test: Test = None,
    budget: Budget = None,
    only: Only = "",
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Climb to the Transformer: train its predecessors and it on your text, and see what each step gained.

    RNN, GRU and LSTM encoder–decoders, attention by addition and by dot product, two directions, Transformer: about as
    many weights each. Ctrl-C stops; the same command goes on, and writes the report again.

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
    """Plan, train, report; the exit code says whether all of it went well."""
    from glassformer.cli.console import TrainingView
    from glassformer.errors import UserError
    from glassformer.lab.ladder.climb import climb, make_plan
    from glassformer.lab.ladder.report import write_report
    from glassformer.lab.ladder.results import cautions, table
    from glassformer.lab.ladder.systems import chosen
    from glassformer.settings import merge

    if budget is not None and not 0 < budget < math.inf:
        raise UserError(f"A budget of {budget:g} minutes is impossible.", where="--budget", hint="take more than 0")
    systems = chosen(kind, only)
    files, raw = read_arguments(arguments or [])
    for split, paths in (("train", files), ("valid", given_paths(valid)), ("test", given_paths(test))):
        if paths:
            raw = merge(raw, {"data": {split: paths}})
    with TrainingView() as view:
        listener = _View(view)
        plan = make_plan(kind, raw, systems, out=out, budget=budget, listener=listener)
        finished = climb(plan, listener)
    report, written, missing = write_report(plan.folder, plots=finished)  # who stops it does not want to wait
    if missing:
        view.console.print(missing, markup=False)
    for line in [json.dumps(report, ensure_ascii=False)] if as_json else ["", *table(report), ""]:
        print(line)
    for said in cautions(report):
        view.console.print(said, markup=False)
    view.console.print(f"written: {', '.join(map(str, written[:3]))}", markup=False)
    if not finished:
        view.console.print("stopped; the same command goes on")
        raise typer.Exit(STOPPED)
    if any(system["state"] == "failed" for system in report["systems"]):
        raise typer.Exit(FAILED)


class _View:
    """A line for each system, and the bar of the one that is trained."""

    def __init__(self, inner: TrainingView) -> None:
        self.inner = inner

    def __call__(self, event: Event) -> None:
        from glassformer.lab.ladder.climb import Rung

        if not isinstance(event, Rung):
            self.inner(event)
            return
        place = f"{event.number} of {event.of}: {event.system.title}"
        left = "" if event.minutes_left is None else f"; about {_minutes(event.minutes_left)} to the end"
        told = {
            "begins": f"── {place}{left}",
            "skipped": f"── {place}: done already",
            "elsewhere": f"── {place}: another process is at it; the same command reports it when it is done",
            "done": f"{event.system.title}: {event.said}",
            "failed": f"{event.system.title} failed, the others go on: {event.said}",
            "stopped": f"{event.system.title}: stopped and saved",
        }
        self.inner.console.print(told[event.state], markup=False)


def _minutes(minutes: float) -> str:
    return "a minute" if minutes < 1.5 else f"{minutes:,.0f} minutes"
