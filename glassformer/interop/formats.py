"""The formats of `glassformer export`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from glassformer.errors import UserError


@dataclass(frozen=True)
class ExportRequest:
    """What `glassformer export` was asked for. Options are None if they were not given.

    Attributes:
        out: a new file or folder.
        precision: of the weights, where the format has a choice.
        languages: codes of source and target, where the format names them.
    """

    run: Path
    out: Path
    precision: str | None = None
    languages: tuple[str, str] | None = None


@dataclass(frozen=True)
class Format:
    """A format: its writer, which returns how the result was checked, and the options that it has."""

    description: str
    write: Callable[[ExportRequest], str]
    precisions: tuple[str, ...] = ()
    names_languages: bool = False


def _huggingface(request: ExportRequest) -> str:
    from glassformer.interop.huggingface import export_run

    return f"largest relative difference of the outputs {export_run(request.run, request.out):.0e}"


def _ctranslate2(request: ExportRequest) -> str:
    from glassformer.interop.ctranslate2 import export_ctranslate2

    return export_ctranslate2(request.run, request.out, request.precision or "float32")


def _argos(request: ExportRequest) -> str:
    from glassformer.interop.argos import export_argos

    return export_argos(request.run, request.out, request.precision or "int8", request.languages)


def _onnx(request: ExportRequest) -> str:
    from glassformer.interop.onnx import export_onnx

    return export_onnx(request.run, request.out)


def _page(request: ExportRequest) -> str:
    from glassformer.interop.page_export import export_page

    return export_page(request.run, request.out)


CTRANSLATE2_PRECISIONS = ("float32", "float16", "bfloat16", "int8")
FORMATS = {
    "huggingface": Format("a folder for transformers", _huggingface),
    "ctranslate2": Format("a folder for CTranslate2", _ctranslate2, CTRANSLATE2_PRECISIONS),
    "argos": Format(
        "a package for Argos Translate and LibreTranslate", _argos, CTRANSLATE2_PRECISIONS, names_languages=True
    ),
    "onnx": Format("a folder for ONNX Runtime", _onnx),
    "page": Format("one HTML file that runs the model in a browser, in int8", _page),
}


def export(to: str, request: ExportRequest) -> str:
    """Write a run in another format; return how the result was checked."""
    if to not in FORMATS:
        raise UserError(f"There is no format '{to}'.", where="--to", hint=f"choose one of {', '.join(FORMATS)}")
    format = FORMATS[to]
    if request.precision is not None and request.precision not in format.precisions:
        choices = ", ".join(format.precisions)
        raise UserError(
            f"The format {to} has no precision '{request.precision}'.",
            where="--precision",
            hint=f"choose one of {choices}" if choices else "leave out --precision",
        )
    if request.languages is not None and not format.names_languages:
        raise UserError(f"The format {to} does not name languages.", where="--languages", hint="leave out --languages")
    return format.write(request)
