"""The command `glassformer explain`."""

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
    from glassformer.glass.word_in_context import WordComparison
    from glassformer.inference.translator import Translator
    from glassformer.tasks import TaskSpec


@dataclass(frozen=True)
class _Options:
    """The options that select what to show or write.

    compare, tree, changes and grid are only valid for a run that translates.
    """

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
    compare: bool = False
    tree: bool = False
    changes: tuple[str, ...] = ()
    grid: bool = False
    unknown: dict[str, list[str]] = field(default_factory=dict)  # for JSON output

    @property
    def needs_translator(self) -> bool:
        return self.compare or self.tree or self.grid or bool(self.changes)


def explain(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="run folder")],
    texts: Annotated[
        list[str],
        typer.Argument(metavar="TEXT", help="a sentence or an image file; several sentences for word vectors"),
    ],
    target: Annotated[
        str | None, typer.Option(help="read this translation (teacher forcing); for question answering, the text")
    ] = None,
    kind: Annotated[str | None, typer.Option(help="kind of attention: encoder, decoder, cross or question")] = None,
    layer: Annotated[int, typer.Option(help="layer, from 0; −1 is the last")] = -1,
    head: Annotated[int | None, typer.Option(help="head, from 0 (default: mean over all heads)")] = None,
    word: Annotated[str | None, typer.Option(help="for word vectors: compare only this word")] = None,
    html: Annotated[Path | None, typer.Option(help="write a self-contained HTML page with everything")] = None,
    svg: Annotated[Path | None, typer.Option(help="write the attention map as SVG")] = None,
    png: Annotated[Path | None, typer.Option(help="write all heads of the layer as PNG (needs matplotlib)")] = None,
    csv: Annotated[Path | None, typer.Option(help="write the attention weights as CSV")] = None,
    npz: Annotated[Path | None, typer.Option(help="write all tensors as a NumPy archive")] = None,
    likely: Annotated[bool, typer.Option("--next", help="show the most probable next tokens at each position")] = False,
    compare: Annotated[
        bool, typer.Option("--compare", help="with --target: compare teacher forcing with free running")
    ] = False,
    tree: Annotated[bool, typer.Option("--tree", help="show the beam search tree")] = False,
    change: Annotated[
        list[str] | None, typer.Option(help="intervention, such as silence=encoder.0.self.2; see above")
    ] = None,
    grid: Annotated[bool, typer.Option("--grid", help="ablate each head of --kind in turn")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print the result as JSON")] = False,
    tensors: Annotated[str, typer.Option(help="with --json: add tensors by name, such as 'decoder.*.scores'")] = "",
) -> None:
    """Show attention weights, next-token probabilities and the effect of interventions for one input.

    Example: glassformer explain runs/en-fr "The animal didn't cross the street because it was too tired."

    The output is decoded greedily, so it can differ from that of translate, which uses beam search. --target explains a
    translation that you give.

    All tensors in one page: glassformer explain runs/en-fr "I am a student" --html student.html

    Ablate one head: glassformer explain runs/en-fr "I am a student" --change silence=encoder.0.self.2

    Other interventions: average=decoder.1.cross.0, row=decoder.1.cross.0.3:0,0.5,0.5, cut=encoder.1.ff, no-mask,
    no-positions=encoder, force=3:chat. --change can be repeated.

    Attention of the class token to the patches of an image: glassformer explain runs/fashion boot.png --layer 0

    Question answering: glassformer explain runs/qa "When was it?" --target "It was in the 1920s."

    Distance (1 − cosine) between the vectors of a word in several contexts:
    glassformer explain runs/elmo "The bank of the river." "The bank has money." --word bank
    """
    if not all(text.strip() for text in texts):
        raise UserError("The text is empty.", hint="enter a sentence")
    shown = _Options(kind, layer, head, html, svg, png, csv, npz, likely, as_json, tensors)
    _explain(
        run, texts, target, word, replace(shown, compare=compare, tree=tree, changes=tuple(change or ()), grid=grid)
    )


def _explain(run: Path, texts: list[str], target: str | None, word: str | None, wanted: _Options) -> None:
    """Load the run and show what the options ask for."""
    from glassformer.inference.loading import load
    from glassformer.inference.run_folder import RunFolder, load_settings
    from glassformer.tasks import task_spec

    spec = task_spec(load_settings(RunFolder(run)).task)
    if wanted.needs_translator and not spec.sequence_to_sequence:
        hint = "remove --compare, --tree, --grid and --change"
        raise UserError("This run does not translate.", where=str(run), hint=hint)
    predictor = load(run)
    if spec.compare_words and not (wanted.html or wanted.npz):
        _print_comparisons(spec.compare_words(predictor, texts, word), word, wanted.as_json)
        return
    if len(texts) > 1 or word is not None:
        hint = "give one sentence, or use a run trained with task=contextual_embeddings"
        raise UserError("Several texts and --word are only valid for word vectors.", where=str(run), hint=hint)
    if spec.input != "image":
        wanted = replace(wanted, unknown=_unknown(predictor, texts[0], wanted.as_json))
    if wanted.needs_translator:
        _show_translation(predictor, texts[0], target, wanted)
    else:
        _show(_traced(spec, predictor, texts[0], target, run), run, wanted)


def _unknown(predictor: Any, text: str, as_json: bool) -> dict[str, list[str]]:
    """Print the notice about unknown words; for JSON output, return them as a field."""
    if not as_json:
        notice(predictor.tokenizer, [text])
        return {}
    words = list(predictor.tokenizer.unknown_words(text))
    return {"unknown_words": words} if words else {}


def _print_comparisons(compared: list[WordComparison], word: str | None, as_json: bool) -> None:
    from glassformer.glass.word_in_context import comparison_table

    if not compared:
        what = "No word occurs" if word is None else f"'{word}' does not occur"
        raise UserError(f"{what} more than once.", hint="give texts that have a word in common")
    records = (json.dumps(row._asdict(), ensure_ascii=False) for row in compared)
    print("\n".join(records if as_json else comparison_table(compared)))


def _traced(spec: TaskSpec, predictor: Any, text: str, target: str | None, run: Path) -> Trace:
    """Run the model on a text and record a trace."""
    trace: Trace
    if spec.sequence_to_sequence:
        trace = predictor.trace(text, target)
    elif spec.input == "question":
        if not target:
            raise UserError("A question needs a text.", where="--target", hint='add --target "the text"')
        trace = predictor.trace(text, target)
    elif target is not None:
        message = "--target is only valid for translation and question answering."
        raise UserError(message, where=str(run), hint="remove --target")
    else:
        trace = predictor.trace(text)
    return trace


def _show(trace: Trace, run: Path, wanted: _Options) -> None:
    """Write the requested files, or print one layer."""
    from glassformer.files import write_text
    from glassformer.glass import terminal, trace_files
    from glassformer.glass.heatmap import head_weights
    from glassformer.glass.html import page

    if wanted.html is not None:
        write_text(wanted.html, page(trace))
    if wanted.npz is not None:
        _write_arrays(wanted.npz, trace_files.as_arrays(trace))
    if wanted.likely and not wanted.as_json:
        print("\n".join(terminal.next_tokens_view(trace)))
    pictures = wanted.svg or wanted.png or wanted.csv
    if (wanted.html or wanted.npz or wanted.likely) and not (pictures or wanted.as_json):
        return
    layer, head = _attention_layer(trace, wanted.kind, wanted.layer, run), wanted.head
    head_weights(trace[layer.name], head)  # refuse an unknown head before anything is written
    if wanted.svg is not None:
        write_text(wanted.svg, _drawing(trace, layer, head))
    if wanted.png is not None:
        from glassformer.glass.png import write_png

        write_png(trace, layer, wanted.png, head)
    if wanted.csv is not None:
        write_text(wanted.csv, trace_files.as_csv(trace, [layer], head))
    if wanted.as_json:
        _print(trace_files.as_json(trace, [layer], head, wanted.tensors) | wanted.unknown)
    elif not pictures:
        print("\n".join(trace.view(wanted.kind, wanted.layer, head)))


def _attention_layer(trace: Trace, kind: str | None, layer: int, run: Path) -> AttentionLayer:
    from glassformer.glass.trace import KINDS

    if kind is not None and kind not in KINDS:
        raise UserError(
            f"There is no kind of attention named '{kind}'.", where="--kind", hint=f"choose from {', '.join(KINDS)}"
        )
    if not trace.attention_layers:
        hint = "use --html to see its tensors, or a model with attention"
        raise UserError("This model has no attention.", where=str(run), hint=hint)
    return trace.attention_layer(kind or trace.main_kind, layer)


def _drawing(trace: Trace, layer: AttentionLayer, head: int | None) -> str:
    from glassformer.glass.heatmap import attention_heatmap
    from glassformer.glass.svg import standalone_svg

    return standalone_svg(attention_heatmap(trace, layer, head)) + "\n"


def _write_arrays(path: Path, arrays: dict[str, Any]) -> None:
    import numpy as np

    from glassformer.files import atomic_write

    with atomic_write(path, elsewhere="--npz") as temporary, open(temporary, "wb") as file:
        np.savez(file, **arrays)


def _show_translation(translator: Translator, text: str, target: str | None, wanted: _Options) -> None:
    """Show comparisons, the search tree and interventions of a translation."""
    from glassformer.glass import terminal
    from glassformer.glass.interventions import parse_intervention

    as_json = wanted.as_json
    if wanted.compare:
        if target is None:
            raise UserError("--compare needs a target.", where="--compare", hint="add --target TEXT")
        compared = translator.compare_teacher_forcing(text, target)
        record = {"given": compared.target, "own": compared.free.written, "divergence": compared.divergence}
        _print(record | wanted.unknown if as_json else terminal.teacher_forcing_view(compared))
    if wanted.tree:
        found = translator.search(text)
        _print(asdict(found) | wanted.unknown if as_json else terminal.search_tree_view(found))
    if wanted.changes:
        made = [parse_intervention(one, lambda piece: _token(translator, piece)) for one in wanted.changes]
        effect = translator.effect(text, made, target)
        before, after = (translator.tokenizer.decode(ids) for ids in (effect.output_before, effect.output_after))
        record = asdict(effect) | {"change": effect.change, "before_text": before, "after_text": after}
        _print(record | wanted.unknown if as_json else terminal.effect_view(effect, before, after))
    if wanted.grid:
        ablation = translator.ablate_heads(text, target, kind=wanted.kind or "encoder")
        _print(asdict(ablation) | wanted.unknown if as_json else terminal.head_ablation_view(ablation))


def _print(shown: dict[str, Any] | list[str]) -> None:
    print("\n".join(shown) if isinstance(shown, list) else json.dumps(shown, ensure_ascii=False))


def _token(translator: Translator, text: str) -> int:
    ids = translator.tokenizer.encode(text)
    if len(ids) != 1:
        pieces = ", ".join(translator.tokenizer.pieces(ids))
        raise UserError(
            f"'{text}' is not one token of this model.", where="--change force", hint=f"use one of its tokens: {pieces}"
        )
    return ids[0]
