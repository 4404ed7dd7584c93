"""The command `glassformer export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from glassformer.errors import UserError
from glassformer.interop.formats import FORMATS, ExportRequest
from glassformer.interop.formats import export as export_run


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="run folder written by train or import")],
    to: Annotated[
        str,
        typer.Option(
            metavar="FORMAT", help="; ".join(f"{name}: {format.description}" for name, format in FORMATS.items())
        ),
    ],
    out: Annotated[Path, typer.Option("-o", "--out", metavar="OUT", help="a new file or folder")],
    precision: Annotated[
        str | None, typer.Option(metavar="P", help="float32, float16, bfloat16 or int8 (ctranslate2, argos)")
    ] = None,
    languages: Annotated[
        str | None, typer.Option(metavar="SOURCE:TARGET", help="language codes (argos), for example en:de")
    ] = None,
) -> None:
    """Convert a run for another program and check that both give the same outputs.

    Example: glassformer export runs/en-de --to ctranslate2 -o en-de-ct2 --precision int8
    """
    checked = export_run(to, ExportRequest(run, out, precision, _codes(languages)))
    print(f"{out}: written; {checked}")


def _codes(languages: str | None) -> tuple[str, str] | None:
    if languages is None:
        return None
    source, _, target = languages.partition(":")
    if not (source.isalpha() and target.isalpha()):
        raise UserError(f"'{languages}' is not a pair of languages.", where="--languages", hint="--languages en:de")
    return source, target
