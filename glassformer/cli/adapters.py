"""The command `glassformer adapters`: LoRA adapters of a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="List the LoRA adapters of a run, or merge one into an ordinary run.", no_args_is_help=True)


@app.command("list")
def list_(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="base run")],
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object per line")] = False,
) -> None:
    """List the adapters of a run, which are folders next to its folder.

    Example: glassformer adapters list runs/ko-en
    """
    from glassformer.inference.adapters import list_adapters

    for adapter in list_adapters(run):
        path = run.parent / adapter.run.name
        if as_json:
            record = {"run": str(path), "rank": adapter.rank, "bytes": adapter.size, "problem": adapter.problem}
            print(json.dumps(record, ensure_ascii=False))
        else:
            print(f"{path}  {adapter.problem or f'rank {adapter.rank}'}  {adapter.size / 1000:,.0f} kB")


@app.command()
def merge(
    run: Annotated[Path, typer.Argument(metavar="ADAPTER", help="run that was trained with train.lora")],
    out: Annotated[Path, typer.Option("-o", "--out", metavar="RUN", help="folder of the new run")],
) -> None:
    """Merge an adapter into the weights of its base run, and write an ordinary run that needs neither.

    Example: glassformer adapters merge runs/python -o runs/ko-en-python
    """
    from glassformer.inference.adapters import merge_adapter

    print(f"{merge_adapter(run, out).path}: written")
