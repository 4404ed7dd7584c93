"""The command `glassformer bench`."""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.errors import UserError

if TYPE_CHECKING:
    from glassformer.lab.bench.runner import Row


def bench(
    what: Annotated[
        str, typer.Argument(help="train, decode, trained, encode, startup, limits, tricks, growth, scaling or prepare")
    ],
    against: Annotated[
        str,
        typer.Option(
            help="other toolkits, separated by commas: hf, ctranslate2, fairseq, joeynmt, torch; "
            "for encode: onnxruntime, openvino; for trained: ctranslate2"
        ),
    ] = "",
    rounds: Annotated[int, typer.Option(min=1, help="number of runs per toolkit")] = 3,
    data: Annotated[
        Path | None, typer.Option(help="folder with train.en, train.de and test_2016_flickr.en of Multi30k")
    ] = None,
    run: Annotated[Path | None, typer.Option(help="run folder of a trained Transformer (for trained)")] = None,
    pairs: Annotated[
        int, typer.Option(min=1000, help="sentence pairs of the generated corpus (for prepare)")
    ] = 1_000_000,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object per line")] = False,
    save: Annotated[
        Path | None, typer.Option(help="save the results in this folder and update its page speed.md")
    ] = None,
) -> None:
    """Measure speed and memory on this machine and compare with other toolkits, each in its own environment.

    Example: glassformer bench train --against hf

    Decode the test set with your own model: glassformer bench trained --run runs/en-de --against ctranslate2
    """
    from glassformer.cli.console import stderr
    from glassformer.files import cache_folder
    from glassformer.lab.bench import cost_curves, results
    from glassformer.lab.bench import preparation as preparing
    from glassformer.lab.bench import runner as lab

    kinds = lab.CASES | {"growth": cost_curves.cases()}
    command = shlex.join(["glassformer", *sys.argv[1:]])
    if what == "prepare":
        rows = preparing.run(pairs, stderr().print)
        if save is not None:
            stderr().print(f"written: {preparing.save(rows, command, results.machine_description(), save)}")
        _show(rows, preparing.table(rows), as_json)
        return
    if what not in kinds:
        raise UserError(f"There is no benchmark '{what}'.", hint=f"choose from {', '.join(kinds)}, prepare")
    prepared = cache_folder() / "bench" / "data"
    if what == "trained" and run is None:
        raise UserError("This benchmark needs a trained model.", where="--run", hint="add --run RUN")
    if what != "limits":  # matmuls need no text
        source, target, test = _multi30k(data)
        lab.prepare(source, target, test, prepared)
        if run is not None:
            lab.prepare_trained(run, test, prepared)
    peers = [name for name in against.split(",") if name]
    rows = lab.run(kinds[what], peers, data=prepared, rounds=rounds, log=stderr().print, trained=run)
    if save is not None:
        stderr().print(f"written: {results.save(what, rows, command, save)}")
    _show(rows, results.table(what, rows), as_json)


def _show(rows: list[Row], table: list[str], as_json: bool) -> None:
    for line in [json.dumps(row.to_json()) for row in rows] if as_json else table:
        print(line)


def _multi30k(folder: Path | None) -> tuple[Path, Path, Path]:
    folder = folder or Path(os.environ.get("GLASSFORMER_DATA", "../shared/data")) / "multi30k"
    found = []
    for name in ("train.en", "train.de", "test_2016_flickr.en"):
        path = next((p for p in (folder / name, folder / f"{name}.gz") if p.exists()), None)
        if path is None:
            raise UserError(
                "The benchmark needs the Multi30k data set.",
                where=str(folder / name),
                hint="give its folder with --data, or set GLASSFORMER_DATA to the parent folder",
            )
        found.append(path)
    return found[0], found[1], found[2]
