"""The recurrent layers of a trace: cells, directions, gates, the vector between encoder and decoder, attention."""

from __future__ import annotations

import pytest

from glassformer.errors import UserError
from glassformer.glass.recurrent_layers import recurrent_model
from glassformer.nn.recurrent import CELLS
from tests.families import RECURRENT, traced


@pytest.mark.parametrize("name", RECURRENT)
def test_encoder_decoders(name: str) -> None:
    found, over = traced(name), RECURRENT[name]
    model = recurrent_model(found)
    directions = 2 if over["bidirectional"] else 1
    encoder = [layer for layer in model.layers if layer.side == "encoder"]
    decoder = [layer for layer in model.layers if layer.side == "decoder"]
    assert (len(encoder), len(decoder)) == (2 * directions, 3)
    assert {layer.cell for layer in model.layers} == {over["cell"]}
    for layer in model.layers:
        assert layer.tokens == (found.source if layer.side == "encoder" else found.target)
        shown = [found.graph[tensor].name for tensor in (*layer.states, *layer.gates)]
        assert set(shown) == {"hidden_state", *CELLS[layer.cell].internal}
        assert all(len(found[tensor]) == len(layer.tokens) for tensor in (*layer.states, *layer.gates))
    assert [handover.layer for handover in model.handovers] == [0, 1, 2]
    assert (model.alignment is None) == (over["attention"] == "none")
    if model.alignment is not None:
        assert model.alignment.kind == ("additive" if over["attention"] == "additive" else "dot")
        assert found[model.alignment.weights].sum(dim=-1).allclose(found[model.alignment.weights].new_ones(1))
        assert all(name in found.tensors for name in model.alignment.steps)


def test_the_backward_layers_of_elmo_read_from_the_end() -> None:
    found = traced("elmo")
    layers = recurrent_model(found).layers
    assert [(layer.direction, layer.layer) for layer in layers] == [
        ("forwards", 0), ("forwards", 1), ("backwards", 0), ("backwards", 1),
    ]  # fmt: skip
    for layer in layers:
        backwards = layer.direction == "backwards"
        assert layer.tokens == (found.source[::-1] if backwards else found.source)
        assert layer.in_reading_order == backwards and layer.bidirectional


def test_a_language_model_has_only_a_decoder() -> None:
    model = recurrent_model(traced("recurrent_lm, lstm"))
    assert [layer.side for layer in model.layers] == ["decoder"] * 2
    assert model.handovers == [] and model.alignment is None


def test_a_transformer_has_none() -> None:
    with pytest.raises(UserError, match="no recurrent layers"):
        recurrent_model(traced("post-norm"))
