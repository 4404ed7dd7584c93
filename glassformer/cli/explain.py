"""glassformer explain"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from glassformer.cli.arguments import refuse_bytes
from glassformer.errors import UserError


def explain(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="the folder that train wrote")],
    texts: Annotated[
        list[str], typer.Argument(metavar="TEXT", help="a sentence to look through the model at; of word vectors, some")
    ],
    target: Annotated[str | None, typer.Option(help="look at this translation instead of the model's own")] = None,
    layer: Annotated[int, typer.Option(help="decoder layer, from 0; −1 is the last")] = -1,
    word: Annotated[str | None, typer.Option(help="of word vectors: compare this word only")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="of word vectors: one JSON object a line")] = False,
) -> None:
    """Show where the decoder looked while it wrote each word.

    Example: glassformer explain runs/en-fr "The animal didn't cross the street because it was too tired."

    Of word vectors, how far apart those of a word are in several contexts (1 − cosine; → has read what is to the left):
    glassformer explain runs/elmo "The bank of the river." "The bank has money." --word bank
    """
    from glassformer.run import RunFolder, load_settings

    refuse_bytes(*texts, target or "", word or "")
    if load_settings(RunFolder(run)).task == "word_vectors":
        _compare_contexts(run, texts, word, as_json)
        return
    if len(texts) > 1 or word is not None or as_json:
        raise UserError(
            "Contexts are compared by word vectors, which this run does not make.",
            where=str(run),
            fix="give one sentence; or train a run of word vectors: task=word_vectors",
        )
    _show_attention(run, texts[0], target, layer)


def _compare_contexts(run: Path, texts: list[str], word: str | None, as_json: bool) -> None:
    from glassformer.glass.contexts import compare, table
    from glassformer.predictor import WordVectors, load_predictor

    vectors = load_predictor(run)
    assert isinstance(vectors, WordVectors)
    compared = compare([vectors.in_context(text) for text in texts], word)
    if not compared:
        what = "No word comes twice" if word is None else f"'{word}' does not come twice"
        raise UserError(f"{what}: there is nothing to compare.", fix="give texts that have a word in common")
    records = (json.dumps(row._asdict(), ensure_ascii=False) for row in compared)
    print("\n".join(records if as_json else table(compared)))


def _show_attention(run: Path, text: str, target: str | None, layer: int) -> None:
    from glassformer.glass.views import cross_attention_view
    from glassformer.translator import load

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
