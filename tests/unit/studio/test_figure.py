"""The figure is that of the model, for every family that the studio draws."""

from __future__ import annotations

import numpy as np
import pytest

from glassformer.glass.prediction import with_prediction
from glassformer.studio.figure import Block, arrows_of, blocks_of
from tests.families import CASES, traced

DRAWN = ["post-norm", "post-norm, free running", "pre-norm", "batch norm", "learned positions", "rotary positions",
         "rotary positions, free running", "gpt", "gpt, rotary positions", "bert", "bert, rotary positions", "vit",
         "gru, additive, bidirectional", "gru, dot, bidirectional", "gru, none, bidirectional"]  # fmt: skip


def drawn(name: str) -> tuple[list[Block], list[tuple[str, str]]]:
    assert name in CASES
    found = traced(name)
    blocks = blocks_of(found)
    assert sorted(tensor for block in blocks for tensor in block.tensors) == sorted(found.tensors)
    assert len({block.id for block in blocks}) == len(blocks)
    return blocks, arrows_of(blocks, found)


@pytest.mark.parametrize("name", DRAWN)
def test_every_tensor_is_in_one_block_and_every_block_is_connected(name: str) -> None:
    blocks, arrows = drawn(name)
    reached = {to for _, to in arrows}
    begins = {block.id for block in blocks if block.kind in ("embedding", "patches", "positions", "rotation")}
    assert {block.id for block in blocks} - reached <= begins
    left = {start for start, _ in arrows}
    assert {block.id for block in blocks} - left == {blocks[-1].id}


def kinds(blocks: list[Block], side: str, layer: int | None) -> list[str]:
    return [block.kind for block in blocks if (block.side, block.layer) == (side, layer)]


def test_the_papers_figure() -> None:
    blocks, arrows = drawn("post-norm")
    assert kinds(blocks, "encoder", 1) == ["attention", "add_norm", "ff", "add_norm"]
    assert kinds(blocks, "decoder", 2) == ["masked_attention", "add_norm", "cross", "add_norm", "ff", "add_norm"]
    assert {block.layer for block in blocks if block.side == "decoder"} == {None, 0, 1, 2}
    assert ("encoder:end", "decoder.2.cross") in arrows  # keys and values
    assert ("encoder.0.self:after", "encoder.0.ff:after") in arrows  # a residual connection
    assert ("encoder.0.self", "decoder.0.cross") not in arrows


def test_every_self_attention_reads_the_rotation() -> None:
    blocks, arrows = drawn("rotary positions")
    assert kinds(blocks, "encoder", None) == ["embedding", "rotation", "input", "encoder_output"]
    readers = {to for start, to in arrows if start == "decoder:rotation"}
    assert readers == {block.id for block in blocks if block.kind == "masked_attention"}


def test_the_prediction_follows_the_logits() -> None:
    found = with_prediction(traced("post-norm"))
    blocks = blocks_of(found)
    assert [(block.id, block.kind) for block in blocks[-3:]] == [
        ("output", "output"),
        ("probabilities", "probabilities"),
        ("argmax", "argmax"),
    ]
    arrows = arrows_of(blocks, found)
    assert arrows["output", "probabilities"] == "logits" and arrows["probabilities", "argmax"] == "probabilities"
    assert found["argmax"].tolist() == found["logits"].argmax(-1).tolist()
    for name in ("probabilities", "argmax"):
        assert np.allclose(found.recompute(name), found[name].numpy(), rtol=1e-5)
        *_, value = found.entry(name, (0,) * found[name].dim())
        assert np.isclose(value, found[name].flatten()[0].item(), rtol=1e-5)


def test_normalisation_stands_where_it_happens() -> None:
    blocks, _ = drawn("pre-norm")
    assert kinds(blocks, "encoder", 0) == ["norm", "attention", "add", "norm", "ff", "add"]
    decoder = ["norm", "masked_attention", "add", "norm", "cross", "add", "norm", "ff", "add"]
    assert kinds(blocks, "decoder", 0) == decoder
    assert arrows_of(blocks, traced("pre-norm"))["encoder.0.self:before", "encoder.0.self"] == "encoder.0.self.norm"


def test_a_decoder_alone_has_no_attention_to_a_source() -> None:
    blocks, _ = drawn("gpt")
    assert {block.side for block in blocks} == {"decoder", "output"}
    assert "cross" not in {block.kind for block in blocks}
