"""glassformer export"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from glassformer.errors import UserError

FORMS = ("huggingface",)


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="the folder that train or import wrote")],
    to: Annotated[str, typer.Option(metavar="FORM", help=f"one of {', '.join(FORMS)}")],
    out: Annotated[Path, typer.Option("-o", "--out", metavar="DIR", help="a new folder")],
) -> None:
    """Write a run for another tool, after comparing what both make of the same text.

    Example: glassformer export runs/shakespeare --to huggingface -o shakespeare-gpt2
    """
    if to not in FORMS:
        raise UserError(f"There is no form '{to}'.", where="--to", hint=f"take one of {', '.join(FORMS)}")
    from glassformer.interop.huggingface import export_run

    apart = export_run(run, out)
    print(f"{out}: the outputs agree to {apart:.0e}")
