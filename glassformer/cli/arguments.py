"""What stands on a command line, before any command reads it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

from glassformer.errors import UserError

if TYPE_CHECKING:
    from glassformer.inference.translator import Precision


STAND_ALONE = (".tsv", ".jsonl", ".conllu", ".json")


def pair_up(arguments: list[str]) -> list[str]:
    """`--valid A B` takes two values; for `--valid both.tsv`, or a folder of images, the second is made empty.

    A .txt may be one of two sides or stand alone: it is one of two if another .txt follows.
    """
    paired: list[str] = []
    for before, argument, after in zip(["", *arguments], arguments, [*arguments[1:], ""], strict=False):
        paired.append(argument)
        if before in ("--valid", "--test") and _alone(argument, after):
            paired.append("")
    return paired


def _alone(argument: str, after: str) -> bool:
    """Whether a file or folder holds all that there is, and what stands after it is something else."""
    no_other = not after or after.startswith("-") or "=" in after
    whole = _is(argument, *STAND_ALONE) or Path(argument).is_dir()
    return whole or no_other or (_is(argument, ".txt") and not _is(after, ".txt"))


def _is(argument: str, *endings: str) -> bool:
    return argument.removesuffix(".gz").endswith(endings)


def given_paths(given: tuple[str, str] | None) -> list[str] | None:
    """What --valid or --test named: two files, or one that holds both sides."""
    return [path for path in given if path] if given else None


def refuse_bytes(*texts: str) -> None:
    """Refuse an argument with bytes that are not UTF-8, which Python marks with surrogates."""
    for text in texts:
        if any("\ud800" <= char <= "\udfff" for char in text):
            raise UserError(
                "This text is not UTF-8.", where=ascii(text), hint="give it in a UTF-8 file with -i, or rename the file"
            )


def known_precision(name: str) -> Precision:
    if name not in ("fp32", "int8"):
        raise UserError(f"There is no precision '{name}' for decoding.", where="--precision", hint="take fp32 or int8")
    return cast("Precision", name)
