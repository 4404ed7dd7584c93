"""Helpers for command line arguments."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from glassformer.errors import UserError

if TYPE_CHECKING:
    from glassformer.inference.search_engine import EngineName, Precision
    from glassformer.settings import DecodeSettings

# Options that several commands have.
PrecisionOption = Annotated[str, typer.Option(help="fp32 or int8 (faster on CPUs, slightly less accurate)")]
EngineOption = Annotated[
    str, typer.Option(help="native (C, on CPUs), torch (PyTorch), or auto: native where it can run")
]
ShortlistOption = Annotated[
    bool, typer.Option("--shortlist", help="compute only the logits of likely tokens (faster, native engine)")
]
BeamOption = Annotated[
    int | None, typer.Option(min=1, max=64, help="beam size; 1 is greedy decoding (default: that of the run)")
]
MBROption = Annotated[
    bool,
    typer.Option("--mbr", help="choose the candidate that is most similar to all others (minimum Bayes risk; beam 12)"),
]
EnsembleOption = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="RUN", help="average the probabilities with those of this run; may be repeated", show_default=False
    ),
]
WorkersOption = Annotated[int | None, typer.Option(min=1, help="number of workers (default: one per core)")]

SINGLE_FILE = (".tsv", ".jsonl", ".conllu", ".json")


def pair_up(arguments: list[str]) -> list[str]:
    """Add an empty second value to `--valid` and `--test` if only one file or folder was given.

    A .txt file is one of two sides if another .txt file follows.
    """
    paired: list[str] = []
    for before, argument, after in zip(["", *arguments], arguments, [*arguments[1:], ""], strict=False):
        paired.append(argument)
        if before in ("--valid", "--test") and _is_single(argument, after):
            paired.append("")
    return paired


def _is_single(argument: str, after: str) -> bool:
    """Return whether a file or folder contains all data, so that the next argument belongs to something else."""
    no_other = not after or after.startswith("-") or "=" in after
    single = _is(argument, *SINGLE_FILE) or Path(argument).is_dir()
    return single or no_other or (_is(argument, ".txt") and not _is(after, ".txt"))


def _is(argument: str, *endings: str) -> bool:
    return argument.removesuffix(".gz").endswith(endings)


def given_paths(given: tuple[str, str] | None) -> list[str] | None:
    """Return the one or two paths given to --valid or --test."""
    return [path for path in given if path] if given else None


def refuse_bytes(*texts: str) -> None:
    """Refuse arguments that are not UTF-8, which Python represents with surrogates."""
    for text in texts:
        if any("\ud800" <= char <= "\udfff" for char in text):
            raise UserError(
                "The text is not UTF-8.", where=ascii(text), hint="use a UTF-8 file with -i, or rename the file"
            )


def known_precision(name: str) -> Precision:
    if name not in ("fp32", "int8"):
        raise UserError(
            f"The precision '{name}' is not supported for decoding.", where="--precision", hint="choose fp32 or int8"
        )
    return cast("Precision", name)


def known_engine(name: str) -> EngineName:
    if name not in ("auto", "native", "torch"):
        raise UserError(f"There is no engine '{name}'.", where="--engine", hint="choose auto, native or torch")
    return cast("EngineName", name)


def default_beam(settings: DecodeSettings, *, mbr: bool) -> int:
    """Return the beam size if none is given: that of the run, and more candidates for minimum Bayes risk."""
    from glassformer.inference.minimum_bayes_risk import BEAM

    return max(settings.beam, BEAM) if mbr else settings.beam


def print_notice(notice: str | None) -> None:
    """Print why another engine or precision is used than was asked for."""
    if notice is not None:
        print(f"note: {notice}", file=sys.stderr)
