"""The command `glassformer predict`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.arguments import EngineOption, known_engine
from glassformer.errors import UserError

if TYPE_CHECKING:
    from glassformer.tasks import PredictRequest, TaskSpec


def predict(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="run folder written by train")],
    text: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TEXT",
            help="texts, image files, a prompt, or the four pitches of a first chord",
            show_default=False,
        ),
    ] = None,
    input_file: Annotated[
        Path | None, typer.Option("-i", "--input", help="file with one text per line (.gz is read too)")
    ] = None,
    output_file: Annotated[Path | None, typer.Option("-o", "--output", help="for music: the .mid file")] = None,
    length: Annotated[
        int | None,
        typer.Option(min=1, help="tokens to generate (500), or bars of music (8 or more)", show_default=False),
    ] = None,
    temperature: Annotated[
        float, typer.Option(help="sampling temperature; below 1 is safer, above 1 more varied")
    ] = 1.0,
    top_k: Annotated[int, typer.Option(help="sample from the k most likely tokens; 0 for all")] = 0,
    top_p: Annotated[float, typer.Option(help="sample from the most likely tokens with this total probability")] = 1.0,
    seed: Annotated[int, typer.Option(help="random seed of the sampling")] = 1,
    engine: EngineOption = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object per line")] = False,
) -> None:
    """Use a run of any task but translation: classify, tag, answer questions, generate text or music, fill masks.

    Example: glassformer predict runs/sst2 "a fine film"

    Image classification: glassformer predict runs/fashion boot.png shirt.jpg

    Question answering: glassformer predict runs/qa "When was it?" "It was in the 1920s." (with -i: question<TAB>text
    per line, or .json)

    Tagging: glassformer predict runs/ewt "Dogs bark loudly."

    Language model: glassformer predict runs/shakespeare "ROMEO:" --length 300 --temperature 0.8

    Music: glassformer predict runs/chorales -o piece.mid "67 62 59 43"

    Masked language model: glassformer predict runs/bert "The cat sat on the ___."
    """
    if text and input_file:
        raise UserError("Both TEXT and -i were given.", hint="give one of them")
    from glassformer.decoding import Sampling
    from glassformer.inference.loading import load_predictor
    from glassformer.tasks import PredictRequest, task_spec

    task, predictor = load_predictor(run, engine=known_engine(engine))
    sampling = Sampling(temperature, top_k, top_p, seed)
    request = PredictRequest(text or [], input_file, output_file, length, sampling, as_json, _notice)
    spec = task_spec(task)
    _check_options(spec, request, is_default=(length, temperature, top_k, top_p, seed) == (None, 1.0, 0, 1.0, 1))
    if spec.predict is None:
        raise UserError(f"predict is not available for task={task}.", where=str(run), hint=spec.usage.format(run=run))
    for piece in spec.predict(predictor, request):
        print(piece, end="", flush=not piece.endswith("\n"))


def _check_options(spec: TaskSpec, request: PredictRequest, *, is_default: bool) -> None:
    """Refuse options that the task does not use, and a missing input. `is_default`: no sampling option is given."""
    if request.output_file is not None and "output" not in spec.predict_uses:
        raise UserError(f"-o is not valid for task={spec.name}.", where="-o", hint="redirect the output: > FILE")
    if not is_default and "sampling" not in spec.predict_uses:
        raise UserError(
            f"task={spec.name} does not sample.", hint="leave out --length, --temperature, --top-k, --top-p and --seed"
        )
    is_given = request.texts or request.input_file is not None
    if spec.needs_text and not is_given and (sys.stdin is None or sys.stdin.isatty()):
        raise UserError("There is no input.", hint="give a text, -i FILE, or lines on standard input")


def _notice(message: str) -> None:
    print(message, file=sys.stderr)
