"""Cells come from their operands, and the figure is that of the model, for every family that the studio draws."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from glassformer.glass.formulas import FORMULAS
from glassformer.glass.html import page
from glassformer.glass.patches import trace_image
from glassformer.glass.recipes import NoFormula
from glassformer.glass.trace import Trace, trace, trace_alone, trace_steps
from glassformer.models.bert import BERT, MaskedWords, Vectors
from glassformer.models.elmo import ELMo
from glassformer.models.gpt import GPT
from glassformer.models.heads import (
    Classifier,
    FirstTokenClassifier,
    MatchingSpanFinder,
    SpanFinder,
    SummaryClassifier,
)
from glassformer.models.recurrent import Recurrent
from glassformer.models.recurrent_encoder import RecurrentEncoder
from glassformer.models.recurrent_lm import RecurrentLM
from glassformer.models.transformer import Transformer
from glassformer.models.vit import ViT
from glassformer.models.window import Window
from glassformer.settings import (
    BertSettings,
    ELMoSettings,
    GPTSettings,
    RecurrentEncoderSettings,
    RecurrentLMSettings,
    RecurrentSettings,
    Settings,
    TransformerSettings,
    ViTSettings,
    WindowSettings,
)
from glassformer.studio.asking import Asked, Seen
from glassformer.studio.cells import PARTS, cell_of, part_of
from glassformer.studio.figure import Block, arrows_of, blocks_of, figure_of
from glassformer.studio.payloads import recipe
from glassformer.studio.shelf import Opened

PAD, SOS, EOS, VOCAB = 0, 1, 2, 53
SIZES: dict[str, Any] = {"d_model": 21, "heads": 3, "d_ff": 37, "dropout": 0.0}
SOURCE, TARGET = [7, 11, 5, 31, 17, EOS], [SOS, 13, 17, 19, 23]
CLOSE = {"atol": 2e-5, "rtol": 1e-5}

# Without attention the decoder gets the last states of both directions, and nobody reads all of them side by side.
UNREAD = {"recurrent, none": ["encoder.0"]}

Made = tuple[Any, Trace]


def pieces(ids: Any) -> list[str]:
    return [f"w{i}" for i in ids]


def transformer(**over: Any) -> Any:
    s = TransformerSettings(**(SIZES | {"encoder_layers": 2, "decoder_layers": 3} | over))
    return Transformer(s, VOCAB, pad=PAD).eval()


def forced(model: Any) -> Made:
    return model, trace(model, pieces, SOURCE, TARGET)


def free(model: Any) -> Made:
    return model, trace_steps(model, pieces, SOURCE, sos=SOS, eos=EOS, limit=5)


def alone(model: Any) -> Made:
    return model.eval(), trace_alone(model.eval(), pieces, [SOS, 7, 11, EOS])


def recurrent(**over: Any) -> Any:
    s = RecurrentSettings(encoder_layers=1, decoder_layers=2, d_model=22, dropout=0.0, **over)
    return Recurrent(s, VOCAB, pad=PAD).eval()


def reader() -> RecurrentEncoder:
    return RecurrentEncoder(RecurrentEncoderSettings(cell="gru", layers=2, d_model=22, dropout=0.0), VOCAB, pad=PAD)


def bert() -> BERT:
    return BERT(BertSettings(**SIZES, layers=2, longest=11), VOCAB, pad=PAD)


def asked(model: Any) -> Made:
    """A question and a text."""
    return model.eval(), trace_alone(model.eval(), pieces, [SOS, 7, 11, EOS, 5, 7, 31, EOS])


def image() -> Made:
    about = {"height": 8, "width": 12, "channels": 3, "mean": [0.3, 0.4, 0.5], "deviation": [0.2, 0.3, 0.1], "patch": 4}
    model = FirstTokenClassifier(ViT(ViTSettings(**(SIZES | about | {"layers": 2}))), 5).eval()
    return model, trace_image(model, torch.randint(0, 256, (3, 8, 12), dtype=torch.uint8), list("abcde"))


MADE: dict[str, Callable[[], Made]] = {
    "transformer": lambda: forced(transformer()),
    "transformer, free": lambda: free(transformer()),
    "transformer, pre-norm": lambda: forced(transformer(norm="pre")),
    "transformer, batch-normalised": lambda: forced(transformer(normalize="batch")),
    "transformer, learned positions": lambda: forced(transformer(positions="learned", longest=43)),
    "recurrent, additive": lambda: forced(recurrent(attention="additive")),
    "recurrent, dot": lambda: forced(recurrent(attention="dot")),
    "recurrent, none": lambda: forced(recurrent(attention="none")),
    "gpt": lambda: alone(GPT(GPTSettings(**SIZES, layers=2, longest=11), VOCAB, pad=PAD)),
    "bert": lambda: alone(MaskedWords(bert(), VOCAB)),
    "vit": image,
}
# More of them for cells: what the figure draws is the same for all of these.
CELLS: dict[str, Callable[[], Made]] = {
    **{
        f"{cell}, {attention}, {'both ways' if both else 'one way'}": lambda o=over: forced(recurrent(**o))  # type: ignore[misc]
        for cell in ("rnn", "lstm", "gru")
        for attention in ("none", "additive", "dot")
        for both in (True, False)
        for over in [{"cell": cell, "attention": attention, "bidirectional": both}]
    },
    "lstm, free": lambda: free(recurrent(cell="lstm", attention="additive")),
    "transformer, concatenated positions": lambda: forced(transformer(combine_positions="concatenate")),
    "window": lambda: alone(Window(WindowSettings(window=3, d_model=13, d_hidden=19, dropout=0.0), VOCAB, pad=PAD)),
    "recurrent_lm": lambda: alone(
        RecurrentLM(RecurrentLMSettings(cell="lstm", layers=2, d_model=19, dropout=0.0), VOCAB, pad=PAD)
    ),
    "elmo": lambda: alone(ELMo(ELMoSettings(cell="lstm", layers=2, d_model=19, dropout=0.0), VOCAB, pad=PAD)),
    "classifier": lambda: alone(Classifier(reader(), 5)),
    "answers of a reader": lambda: asked(MatchingSpanFinder(reader())),
    "bert's classifier": lambda: alone(SummaryClassifier(bert(), 5)),
    "bert's answers": lambda: asked(SpanFinder(bert())),
    "vectors": lambda: alone(Vectors(bert())),
}


@pytest.mark.parametrize("name", MADE | CELLS)
def test_cells_are_computed_from_their_operands(name: str) -> None:
    model, found = (MADE | CELLS)[name]()
    parents, random = found.parents(model), np.random.default_rng(1)
    for tensor, numbers in found.tensors.items():
        if (recipe := parents.of(tensor)) is None:  # put in from outside
            continue
        given = recipe.given(found.tensors, parents.weights)
        cells = [tuple(int(random.integers(size)) for size in numbers.shape) for _ in range(4)]
        # The ends are apart: before the first step, and before the last one, which is the first of those backwards.
        for at in [*cells, tuple(0 for _ in numbers.shape), tuple(size - 1 for size in numbers.shape)]:
            part = part_of(recipe, at, given)
            picked = [np.asarray(given[role][index]) for role, index in part.picks.items()]
            assert all(operand.size for operand in picked), f"{tensor}{list(at)}: nothing to see of an operand"
            assert np.allclose(part.compute(*picked), numbers[at].item(), **CLOSE), f"{tensor}{list(at)}: {part.says}"


def test_every_formula_is_taken_apart() -> None:
    assert {formula.compute for formula in FORMULAS.values()} <= set(PARTS)


def drawn(name: str) -> tuple[list[Block], list[tuple[str, str]]]:
    model, found = MADE[name]()
    blocks = blocks_of(tuple(found.tensors))
    assert sorted(tensor for block in blocks for tensor in block.tensors) == sorted(found.tensors)
    assert len({block.id for block in blocks}) == len(blocks)
    arrows, missing = arrows_of(blocks, found.parents(model))
    assert missing == []
    return blocks, arrows


@pytest.mark.parametrize("name", CELLS)
def test_no_tensor_is_without_a_formula(name: str) -> None:
    model, found = CELLS[name]()
    assert arrows_of(blocks_of(tuple(found.tensors)), found.parents(model))[1] == []


UNKNOWN = "decoder.0.self.unheard_of"


def with_unknown_tensor() -> Made:
    """A trace with a tensor that no formula is known for."""
    model, found = MADE["transformer"]()
    return model, replace(found, tensors=found.tensors | {UNKNOWN: torch.ones(5, 3)})


def opened(model: Any, found: Trace) -> Seen:
    settings = Settings.model_construct(task="translation")
    loaded = Opened("run", settings, SimpleNamespace(model=model), (0, 0), None)
    return Seen(Asked("run", ""), loaded, "", found, "given")


def test_a_missing_formula_is_said() -> None:
    model, found = with_unknown_tensor()
    seen = opened(model, found)
    figure = figure_of(seen)
    assert figure["missing"] == [UNKNOWN]
    assert figure["arrows"] == arrows_of(blocks_of(tuple(found.tensors)), found.parents(model))[0]
    assert recipe(seen, UNKNOWN)["formula"] == "no formula"
    assert cell_of(seen, UNKNOWN, (1, 2))["without"] == "no formula"
    assert cell_of(seen, "decoder.tokens", (1,))["without"] == "put in"
    assert "no formula is known for this tensor" in page(found, model)
    with pytest.raises(NoFormula, match=UNKNOWN):
        found.parents(model).of(UNKNOWN)


def test_a_defect_in_a_recipe_is_not_taken_for_a_missing_formula() -> None:
    """Weights that the model does not have, a parent that was not recorded: neither may go unnoticed."""
    model, found = MADE["transformer"]()
    unrecorded = replace(found, tensors={n: t for n, t in found.tensors.items() if n != "decoder.1.self.query"})
    del model.decoder[0].feed_forward.expand
    for broken in (found, unrecorded):
        seen = opened(model, broken)
        with pytest.raises((KeyError, AttributeError)):
            figure_of(seen)
        with pytest.raises((KeyError, AttributeError)):
            page(broken, model)
    seen = opened(model, found)
    for asked_for in (lambda name: recipe(seen, name), lambda name: cell_of(seen, name, (0, 0))):
        with pytest.raises(AttributeError):
            asked_for("decoder.0.ff.activations")


@pytest.mark.parametrize("name", MADE)
def test_every_tensor_is_in_one_block_and_every_block_is_connected(name: str) -> None:
    blocks, arrows = drawn(name)
    reached = {to for _, to in arrows}
    begins = {block.id for block in blocks if block.kind in ("embedding", "patches", "positions")}
    assert {block.id for block in blocks} - reached <= begins
    left = {start for start, _ in arrows}
    assert {block.id for block in blocks} - left == {blocks[-1].id, *UNREAD.get(name, [])}


def kinds(blocks: list[Block], side: str, layer: int | None) -> list[str]:
    return [block.kind for block in blocks if (block.side, block.layer) == (side, layer)]


def test_the_papers_figure() -> None:
    blocks, arrows = drawn("transformer")
    assert kinds(blocks, "encoder", 1) == ["attention", "add_norm", "ff", "add_norm"]
    assert kinds(blocks, "decoder", 2) == ["masked_attention", "add_norm", "cross", "add_norm", "ff", "add_norm"]
    assert {block.layer for block in blocks if block.side == "decoder"} == {None, 0, 1, 2}
    assert ("encoder:end", "decoder.2.cross") in arrows  # keys and values
    assert ("encoder.0.self:after", "encoder.0.ff:after") in arrows  # a residual connection
    assert ("encoder.0.self", "decoder.0.cross") not in arrows


def test_the_patches_of_an_image_are_no_lookup() -> None:
    assert kinds(drawn("vit")[0], "encoder", None)[0] == "patches"


def test_normalisation_stands_where_it_happens() -> None:
    blocks, _ = drawn("transformer, pre-norm")
    assert kinds(blocks, "encoder", 0) == ["norm", "attention", "add", "norm", "ff", "add"]


def test_a_decoder_alone_has_no_attention_to_a_source() -> None:
    blocks, _ = drawn("gpt")
    assert {block.side for block in blocks} == {"decoder", "output"}
    assert "cross" not in {block.kind for block in blocks}
