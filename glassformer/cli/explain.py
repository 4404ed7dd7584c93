"""glassformer explain"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from glassformer.cli.arguments import refuse_bytes
from glassformer.errors import UserError


def explain(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="the folder that train wrote")],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="a sentence, or an image file, to look at")],
    target: Annotated[str | None, typer.Option(help="look at this translation; or, of a question, the text")] = None,
    layer: Annotated[int, typer.Option(help="decoder layer (of images, encoder layer), from 0; −1 is the last")] = -1,
) -> None:
    """Show where the decoder looked while it wrote each word; of images, where the class token looked.

    Example: glassformer explain runs/en-fr "The animal didn't cross the street because it was too tired."

    Images: glassformer explain runs/fashion boot.png --layer 0

    Questions: glassformer explain runs/qa "When was it?" --target "It was in the 1920s."
    """
    from glassformer.glass.views import cross_attention_view
    from glassformer.run import RunFolder, load_settings
    from glassformer.translator import load

    refuse_bytes(text, target or "")
    task = load_settings(RunFolder(run)).task
    if task == "images":
        _explain_image(run, text, layer)
        return
    if task == "answers":
        _explain_answer(run, text, target)
        return
    translator = load(run)
    if not translator.tokenizer.encode(text):
        raise UserError("There is nothing to look at: the text is empty.", fix="give a sentence")
    trace = translator.trace(text, target)
    layers = len([name for name in trace.tensors if name.endswith(".cross.weights")])
    if not layers:
        raise UserError(
            "This model has no attention to look at.", where=str(run), fix="train one with another model.attention"
        )
    if not -layers <= layer < layers:
        raise UserError(f"There is no decoder layer {layer}.", where="--layer", fix=f"take one from 0 to {layers - 1}")
    print("\n".join(cross_attention_view(trace, layer)))


def _explain_image(run: Path, file: str, layer: int) -> None:
    from glassformer.glass.patches import patch_view
    from glassformer.predictor import ImageLabeller, load_predictor

    labeller = load_predictor(run)
    assert isinstance(labeller, ImageLabeller)
    trace = labeller.trace(file)
    print("\n".join([*patch_view(trace, layer), "", f"taken for: {trace.label}"]))


def _explain_answer(run: Path, question: str, text: str | None) -> None:
    from glassformer.glass.questions import question_view
    from glassformer.predictor import Answerer, load_predictor

    if not text:
        raise UserError("Which text is the question about?", where="--target", fix='give it: --target "the text"')
    answerer = load_predictor(run)
    assert isinstance(answerer, Answerer)
    trace = answerer.trace(question, text)
    print("\n".join([*question_view(trace), "", f"answer: {trace.answer}"]))
