"""The command `glassformer bench`."""

from __future__ import annotations

import json
import math
import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from glassformer.cli import bench_options as options
from glassformer.errors import UserError

if TYPE_CHECKING:
    from glassformer.lab.bench.history import Change
    from glassformer.lab.bench.runner import Row


def bench(
    what: options.What,
    files: options.Files = None,
    against: options.Against = "",
    rounds: options.Rounds = 3,
    data: options.Data = None,
    run: options.TrainedRun = None,
    pairs: options.Pairs = 1_000_000,
    minutes: options.Minutes = "5,15,45",
    as_json: options.AsJson = False,
    save: options.Save = None,
    history: options.History = None,
) -> None:
    """Measure speed and memory on this machine and compare with other toolkits, each in its own environment.

    Example: glassformer bench train --against hf

    Decode the test set with your own model: glassformer bench trained --run runs/en-de --against ctranslate2

    BLEU by minutes of training: glassformer bench quality recipes/multi30k-en-de.toml --minutes 5,15 --against hf

    Table and learning curves of finished translation runs: glassformer bench runs runs/a runs/b --save results
    (runs named NAME, NAME-seed2, NAME-seed3 … are also averaged)

    Compare two kept results, with exit code 1 for a regression: glassformer bench compare OLD.json NEW.json

    A median that got worse is a regression if it changed by more than 3 % and by more than three times the noise: the
    median absolute deviation of the rounds of both results from their medians, times 1.4826, on a logarithmic scale.
    A case that only the old result has counts as a regression.
    """
    from glassformer.cli.console import stderr
    from glassformer.files import cache_folder
    from glassformer.lab.bench import preparation
    from glassformer.lab.bench.history import keep

    if what == "compare":
        _compare(files or [], as_json)
        return
    if what == "runs":
        _show_runs(files or [], save, as_json)
        return
    command = shlex.join(["glassformer", *sys.argv[1:]])
    peers = [name for name in against.split(",") if name]
    if what == "prepare":
        rows = preparation.run(pairs, stderr().print)
    elif what == "quality":
        rows = _measure_quality(files or [], minutes, peers, data)
    else:
        rows = _measure(what, peers, rounds, data, run)
    stderr().print(f"kept: {keep(what, rows, command, history or cache_folder() / 'bench' / 'results')}")
    if save is not None:
        stderr().print(f"written: {_save(what, rows, command, save)}")
    _show(rows, _table(what, rows), as_json)


def _table(what: str, rows: list[Row]) -> list[str]:
    """Return the results as a Markdown table."""
    from glassformer.lab.bench import preparation, quality, results

    own_tables = {"prepare": preparation.table, "quality": quality.table}
    return own_tables[what](rows) if what in own_tables else results.table(what, rows)


def _save(what: str, rows: list[Row], command: str, folder: Path) -> Path:
    """Save the results, update the page of this kind and return its path."""
    from glassformer.lab.bench import preparation, quality, results

    own_pages = {"prepare": preparation.save, "quality": quality.save}
    if what in own_pages:
        return own_pages[what](rows, command, results.machine_description(), folder)
    return results.save(what, rows, command, folder)


def _measure(what: str, against: list[str], rounds: int, data: Path | None, run: Path | None) -> list[Row]:
    """Run all cases of a kind for Glassformer and other toolkits."""
    from glassformer.cli.console import stderr
    from glassformer.files import cache_folder
    from glassformer.lab.bench import cost_curves
    from glassformer.lab.bench import runner as lab

    kinds = lab.CASES | {"growth": cost_curves.cases()}
    if what not in kinds:
        raise UserError(
            f"There is no benchmark '{what}'.", hint=f"choose from {', '.join(kinds)}, prepare, quality, runs, compare"
        )
    prepared = cache_folder() / "bench" / "data"
    if what == "trained" and run is None:
        raise UserError("This benchmark needs a trained model.", where="--run", hint="add --run RUN")
    if what != "limits":  # matmuls need no text
        source, target, test = _multi30k(data)
        lab.prepare(source, target, test, prepared)
        if run is not None:
            lab.prepare_trained(run, test, prepared)
    return lab.run(kinds[what], against, data=prepared, rounds=rounds, log=stderr().print, trained=run)


def _measure_quality(recipes: list[Path], minutes: str, against: list[str], data: Path | None) -> list[Row]:
    """Train every recipe, and a peer if it is named, for every number of minutes."""
    from glassformer.cli.console import stderr
    from glassformer.files import cache_folder
    from glassformer.lab.bench import quality, runner
    from glassformer.machine import cores

    if not recipes:
        raise UserError("A recipe is needed.", where="quality", hint="glassformer bench quality RECIPE.toml")
    if against not in ([], [quality.PEER]):
        raise UserError("Only one peer is known.", where="--against", hint=f"--against {quality.PEER}")
    try:
        limits = list(dict.fromkeys(float(number) for number in minutes.split(",")))
    except ValueError:
        limits = []
    if not limits or not all(0 < limit < math.inf for limit in limits):
        raise UserError("The minutes are not positive numbers.", where=f"--minutes {minutes}", hint="--minutes 5,15,45")
    peer = None
    if against:
        source, target, test = _multi30k(data)
        prepared = cache_folder() / "bench" / "data"
        runner.prepare(source, target, test, prepared)
        peer = (prepared, test.with_name(test.name.replace(".en", ".de")))
    return quality.run(recipes, limits, threads=cores(), peer=peer, log=stderr().print)


def _compare(files: list[Path], as_json: bool) -> None:
    """Print the changes between two kept results; exit with code 1 if there is a regression."""
    from glassformer.cli.console import stderr
    from glassformer.lab.bench import history

    if len(files) != 2:
        raise UserError("Two results are needed.", where="compare", hint="glassformer bench compare OLD.json NEW.json")
    changes = history.compare(*files)
    _show(changes, history.table(changes), as_json)
    missing = history.missing_cases(*files)
    for case in missing:
        stderr().print(f"The new result lacks the case '{case}'.", style="red")
    if missing or any(change.is_regression for change in changes):
        raise typer.Exit(1)


def _show_runs(folders: list[Path], save: Path | None, as_json: bool) -> None:
    """Print finished runs; with `save`, add them to the page of that folder."""
    from glassformer.cli.console import stderr
    from glassformer.lab.bench import finished_runs, results

    if not folders:
        raise UserError("A run folder is needed.", where="runs", hint="glassformer bench runs RUN")
    runs = finished_runs.read_runs(folders, results.machine_description())
    tables = [*finished_runs.table(runs), *finished_runs.mean_table(runs)]
    for line in [json.dumps(asdict(run)) for run in runs] if as_json else tables:
        print(line)
    if save is not None:
        stderr().print(f"written: {finished_runs.save(runs, save)}")


def _show(rows: Sequence[Row | Change], table: list[str], as_json: bool) -> None:
    """Print a table, or its rows as JSON."""
    for line in [json.dumps(row.to_json()) for row in rows] if as_json else table:
        print(line)


def _multi30k(folder: Path | None) -> tuple[Path, Path, Path]:
    """Return the paths of source, target and test source of Multi30k, plain or compressed."""
    folder = folder or Path(os.environ.get("GLASSFORMER_DATA", "../shared/data")) / "multi30k"
    found = []
    for name in ("train.en", "train.de", "test_2016_flickr.en"):
        path = next((p for p in (folder / name, folder / f"{name}.gz") if p.exists()), None)
        if path is None:
            hint = "give its folder with --data, or set GLASSFORMER_DATA to the parent folder"
            raise UserError("The benchmark needs the Multi30k data set.", where=str(folder / name), hint=hint)
        found.append(path)
    return found[0], found[1], found[2]
