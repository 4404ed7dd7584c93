"""glassformer explain"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from glassformer.cli.arguments import refuse_bytes
from glassformer.errors import UserError


def explain(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="the folder that train wrote")],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="a sentence to look through the model at")],
    target: Annotated[str | None, typer.Option(help="look at this translation instead of the model's own")] = None,
    layer: Annotated[int, typer.Option(help="layer, from 0; −1 is the last")] = -1,
) -> None:
    """Show where the decoder looked while it wrote each word; of BERT and GPT, where each word looked.

    Example: glassformer explain runs/en-fr "The animal didn't cross the street because it was too tired."
    """
    from glassformer.glass.views import cross_attention_view
    from glassformer.run import RunFolder, load_settings
    from glassformer.settings import WITH_SELF_ATTENTION
    from glassformer.translator import load

    refuse_bytes(text, target or "")
    if load_settings(RunFolder(run)).model.family in WITH_SELF_ATTENTION:
        _explain_alone(run, text, target, layer)
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


def _explain_alone(run: Path, text: str, target: str | None, layer: int) -> None:
    from glassformer.glass.views import self_attention_view
    from glassformer.predictor import load_predictor, trace_of

    if target is not None:
        raise UserError("This model reads one text and no target.", where="--target", fix="leave it out")
    trace = trace_of(load_predictor(run), text)
    layers = len([name for name in trace.tensors if name.endswith(".self.weights")])
    if not -layers <= layer < layers:
        raise UserError(f"There is no layer {layer}.", where="--layer", fix=f"take one from 0 to {layers - 1}")
    print("\n".join(self_attention_view(trace, layer)))
