"""The command `glassformer export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from glassformer.errors import UserError

FORMATS = ("huggingface",)


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="run folder written by train or import")],
    to: Annotated[str, typer.Option(metavar="FORMAT", help=f"one of {', '.join(FORMATS)}")],
    out: Annotated[Path, typer.Option("-o", "--out", metavar="DIR", help="a new folder")],
) -> None:
    """Convert a run for another library and check that the outputs agree.

    Example: glassformer export runs/shakespeare --to huggingface -o shakespeare-gpt2
    """
    if to not in FORMATS:
        raise UserError(f"There is no format '{to}'.", where="--to", hint=f"choose one of {', '.join(FORMATS)}")
    from glassformer.interop.huggingface import export_run

    difference = export_run(run, out)
    print(f"{out}: written; largest relative difference of the outputs {difference:.0e}")
