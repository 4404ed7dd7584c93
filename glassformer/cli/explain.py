"""glassformer explain"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.unknown import notice
from glassformer.errors import UserError

if TYPE_CHECKING:
    from glassformer.glass.trace import AttentionLayer, Trace
    from glassformer.inference import ContextualEmbedder
    from glassformer.inference.translator import Translator


@dataclass(frozen=True)
class _Wanted:
    """What to show of a trace, and where to write it."""

    kind: str | None
    layer: int
    head: int | None
    html: Path | None
    svg: Path | None
    png: Path | None
    csv: Path | None
    npz: Path | None
    likely: bool
    as_json: bool
    tensors: str
    unknown: dict[str, list[str]] = field(default_factory=dict)  # what JSON output says of unknown words


def explain(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="the folder that train wrote")],
    texts: Annotated[
        list[str], typer.Argument(metavar="TEXT", help="a sentence or an image file to look at; of word vectors, some")
    ],
    target: Annotated[
        str | None, typer.Option(help="look at this translation instead of the model's own; of a question, the text")
    ] = None,
    kind: Annotated[
        str | None, typer.Option(help="attention: encoder, decoder, cross or question (where there is one)")
    ] = None,
    layer: Annotated[int, typer.Option(help="layer, from 0; −1 is the last")] = -1,
    head: Annotated[int | None, typer.Option(help="head, from 0 (default: the mean of all)")] = None,
    word: Annotated[str | None, typer.Option(help="of word vectors: compare this word only")] = None,
    html: Annotated[Path | None, typer.Option(help="write everything as one page that works offline")] = None,
    svg: Annotated[Path | None, typer.Option(help="write the picture as SVG")] = None,
    png: Annotated[Path | None, typer.Option(help="write every head of the layer as PNG (needs matplotlib)")] = None,
    csv: Annotated[Path | None, typer.Option(help="write the weights as a table")] = None,
    npz: Annotated[Path | None, typer.Option(help="write every tensor for NumPy")] = None,
    likely: Annotated[bool, typer.Option("--next", help="show what could have come next after each piece")] = False,
    compare: Annotated[bool, typer.Option("--compare", help="with --target: beside what it writes by itself")] = False,
    tree: Annotated[bool, typer.Option("--tree", help="show what a beam search considers")] = False,
    change: Annotated[
        list[str] | None, typer.Option(help="change something inside: silence=encoder.0.self.2; others stand above")
    ] = None,
    grid: Annotated[bool, typer.Option("--grid", help="silence each head of --kind in turn")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print what is shown as JSON")] = False,
    tensors: Annotated[str, typer.Option(help="with --json: add tensors by name, such as 'decoder.*.scores'")] = "",
) -> None:
    """Show where a model looked, what could have come next, and what would have happened if.

    Example: glassformer explain runs/en-fr "The animal didn't cross the street because it was too tired."

    Everything in one page: glassformer explain runs/en-fr "I am a student" --html student.html

    Without one head: glassformer explain runs/en-fr "I am a student" --change silence=encoder.0.self.2

    Other changes: average=decoder.1.cross.0, row=decoder.1.cross.0.3:0,0.5,0.5, cut=encoder.1.ff, no-mask,
    no-positions=encoder, force=3:chat. They may be given together.

    An image, and where the class token looked: glassformer explain runs/fashion boot.png --layer 0

    A question and its text: glassformer explain runs/qa "When was it?" --target "It was in the 1920s."

    Of word vectors, how far apart those of a word are in several contexts (1 − cosine; → has read what is to the left):
    glassformer explain runs/elmo "The bank of the river." "The bank has money." --word bank
    """
    from glassformer.inference import ContextualEmbedder, load
    from glassformer.inference.translator import Translator

    if not all(text.strip() for text in texts):
        raise UserError("There is nothing to look at: the text is empty.", hint="give a sentence")
    loaded = load(run)
    wanted = _Wanted(kind, layer, head, html, svg, png, csv, npz, likely, as_json, tensors)
    asks = compare or tree or grid or bool(change)
    if asks and not isinstance(loaded, Translator):
        raise UserError("This run does not translate.", where=str(run), hint="leave out what is asked of a translation")
    if isinstance(loaded, ContextualEmbedder) and not (html or npz):
        _compare_contexts(loaded, texts, word, as_json)
        return
    if len(texts) > 1 or word is not None:
        raise UserError(
            "Contexts are compared by word vectors, which this run does not make.",
            where=str(run),
            hint="give one sentence; or train a run of word vectors: task=contextual_embeddings",
        )
    wanted = replace(wanted, unknown=_unknown(loaded, texts[0], as_json))
    if asks:
        _ask(loaded, texts[0], target, compare=compare, tree=tree, changes=change or [], grid=grid, wanted=wanted)
    else:
        _show(_traced(loaded, texts[0], target, run), loaded.model, run, wanted)


def _unknown(loaded: Any, text: str, as_json: bool) -> dict[str, list[str]]:
    """Print the notice about unknown words; for JSON output, return the field that says the same."""
    from glassformer.inference import ImageClassifier

    if isinstance(loaded, ImageClassifier):
        return {}
    if not as_json:
        notice(loaded.tokenizer, [text])
        return {}
    words = list(loaded.tokenizer.unknown_words(text))
    return {"unknown_words": words} if words else {}


def _compare_contexts(vectors: ContextualEmbedder, texts: list[str], word: str | None, as_json: bool) -> None:
    from glassformer.glass.word_in_context import compare_words, comparison_table

    compared = compare_words([vectors.in_context(text) for text in texts], word)
    if not compared:
        what = "No word comes twice" if word is None else f"'{word}' does not come twice"
        raise UserError(f"{what}: there is nothing to compare.", hint="give texts that have a word in common")
    records = (json.dumps(row._asdict(), ensure_ascii=False) for row in compared)
    print("\n".join(records if as_json else comparison_table(compared)))


def _traced(loaded: Any, text: str, target: str | None, run: Path) -> Trace:
    """A pass over a text: with its target, where that is a translation or the text of a question."""
    from glassformer.inference import QuestionAnswerer
    from glassformer.inference.translator import Translator

    if isinstance(loaded, Translator):
        return loaded.trace(text, target)
    if isinstance(loaded, QuestionAnswerer):
        if not target:
            raise UserError("Which text is the question about?", where="--target", hint='give it: --target "the text"')
        return loaded.trace(text, target)
    if target is not None:
        raise UserError("This run does not translate: it has no target.", where=str(run), hint="leave out --target")
    found: Trace = loaded.trace(text)
    return found


def _show(trace: Trace, model: Any, run: Path, wanted: _Wanted) -> None:
    """Writes the files that were asked for, or else shows one layer on the terminal."""
    from glassformer.files import write_text
    from glassformer.glass import export, terminal
    from glassformer.glass.heatmap import head_weights
    from glassformer.glass.html import page

    if wanted.html is not None:
        write_text(wanted.html, page(trace))
    if wanted.npz is not None:
        _write_arrays(wanted.npz, export.as_arrays(trace))
    if wanted.likely and not wanted.as_json:
        print("\n".join(terminal.next_tokens_view(trace)))
    pictures = wanted.svg or wanted.png or wanted.csv
    if (wanted.html or wanted.npz or wanted.likely) and not (pictures or wanted.as_json):
        return
    layer, head = _attention_layer(trace, wanted.kind, wanted.layer, run), wanted.head
    head_weights(trace[layer.name], head)  # refuses a head that is not there before anything is written
    if wanted.svg is not None:
        write_text(wanted.svg, _drawing(trace, layer, head))
    if wanted.png is not None:
        from glassformer.glass.png import write_png

        write_png(trace, layer, wanted.png, head)
    if wanted.csv is not None:
        write_text(wanted.csv, export.as_csv(trace, [layer], head))
    if wanted.as_json:
        _print(export.as_json(trace, [layer], head, wanted.tensors) | wanted.unknown)
    elif not pictures:
        print("\n".join(_view(trace, layer, wanted)))


def _attention_layer(trace: Trace, kind: str | None, layer: int, run: Path) -> AttentionLayer:
    from glassformer.glass.trace import KINDS

    if kind is not None and kind not in KINDS:
        raise UserError(f"There is no attention '{kind}'.", where="--kind", hint=f"take {', '.join(KINDS)}")
    kinds = {one.kind for one in trace.attention_layers}
    if not kinds:
        raise UserError(
            "This model has no attention to look at.",
            where=str(run),
            hint="see its tensors with --html, or train one with attention",
        )
    preferred = ("cross", "question", trace.attention_layers[0].kind)
    return trace.attention_layer(kind or next(kind for kind in preferred if kind in kinds), layer)


def _view(trace: Trace, layer: AttentionLayer, wanted: _Wanted) -> list[str]:
    """On the terminal: of an image and of a question what is asked most, or else all that a layer looked at."""
    from glassformer.glass.image_trace import ImageTrace, image_view
    from glassformer.glass.question_trace import QuestionTrace, question_view
    from glassformer.glass.terminal import attention_view

    if wanted.kind is None and isinstance(trace, ImageTrace):
        return image_view(trace, wanted.layer, wanted.head)
    if wanted.kind is None and isinstance(trace, QuestionTrace):
        return question_view(trace, wanted.layer, wanted.head)
    return attention_view(trace, layer.kind, wanted.layer, wanted.head)


def _drawing(trace: Trace, layer: AttentionLayer, head: int | None) -> str:
    from glassformer.glass.heatmap import attention_heatmap
    from glassformer.glass.svg import standalone_svg

    return standalone_svg(attention_heatmap(trace, layer, head)) + "\n"


def _write_arrays(path: Path, arrays: dict[str, Any]) -> None:
    import numpy as np

    from glassformer.files import atomic_write

    with atomic_write(path, elsewhere="--npz") as beside, open(beside, "wb") as file:
        np.savez(file, **arrays)


def _ask(
    translator: Translator,
    text: str,
    target: str | None,
    *,
    compare: bool,
    tree: bool,
    changes: list[str],
    grid: bool,
    wanted: _Wanted,
) -> None:
    """What would have happened if, and what else was considered."""
    from glassformer.glass import terminal
    from glassformer.glass.interventions import parse_intervention

    as_json = wanted.as_json
    if compare:
        if target is None:
            raise UserError("There is nothing to compare with.", where="--compare", hint="add --target TEXT")
        beside = translator.beside(text, target)
        record = {"given": beside.forced.written, "own": beside.free.written, "divergence": beside.divergence}
        _print(record | wanted.unknown if as_json else terminal.teacher_forcing_view(beside))
    if tree:
        found = translator.search(text)
        _print(asdict(found) | wanted.unknown if as_json else terminal.search_tree_view(found))
    if changes:
        made = [parse_intervention(one, lambda piece: _token(translator, piece)) for one in changes]
        effect = translator.effect(text, made, target)
        before, after = (translator.tokenizer.decode(ids) for ids in (effect.output_before, effect.output_after))
        record = asdict(effect) | {"change": effect.change, "before_text": before, "after_text": after}
        _print(record | wanted.unknown if as_json else terminal.effect_view(effect, before, after))
    if grid:
        silenced = translator.silenced(text, target, kind=wanted.kind or "encoder")
        _print(asdict(silenced) | wanted.unknown if as_json else terminal.head_ablation_view(silenced))


def _print(shown: dict[str, Any] | list[str]) -> None:
    print("\n".join(shown) if isinstance(shown, list) else json.dumps(shown, ensure_ascii=False))


def _token(translator: Translator, text: str) -> int:
    ids = translator.tokenizer.encode(text)
    if len(ids) != 1:
        pieces = ", ".join(translator.tokenizer.pieces(ids))
        raise UserError(
            f"'{text}' is not one token of this model.",
            where="--change force",
            hint=f"use one of its tokens: {pieces}",
        )
    return ids[0]
