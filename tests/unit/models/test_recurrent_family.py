"""Recurrent encoder–decoders compared with direct transcriptions of the papers' equations."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from glassformer.errors import UserError
from glassformer.glass.terminal import attention_view
from glassformer.glass.trace import trace_teacher_forced
from glassformer.models.recurrent import Recurrent
from glassformer.settings import RecurrentSettings

V, D, PAD, SOS, EOS = 53, 14, 0, 1, 2


@pytest.fixture
def recurrent(enliven: Any) -> Any:
    def build(seed: int = 1, **over: Any) -> Recurrent:
        torch.manual_seed(seed)
        sizes: dict[str, Any] = {"encoder_layers": 1, "decoder_layers": 1, "d_model": D, "dropout": 0.0}
        return enliven(Recurrent(RecurrentSettings(**(sizes | over)), V, pad=PAD)).eval()

    return build


def gru(cell: Any, x_D: Tensor, h_D: Tensor, extra_G: Tensor | None = None) -> Tensor:
    """Compute one step by the equations."""
    read_G = cell.input.weight @ x_D + cell.input.bias + (0 if extra_G is None else extra_G)
    recalled_G = cell.state.weight @ h_D + cell.state.bias
    (read_r, read_z, read_n), (r, z, n) = read_G.chunk(3), recalled_G.chunk(3)
    reset, update = torch.sigmoid(read_r + r), torch.sigmoid(read_z + z)
    return (1 - update) * torch.tanh(read_n + reset * n) + update * h_D


def annotations(model: Recurrent, source_S: Tensor) -> Tensor:
    """[h→_j; h←_j] of every token, S×D."""
    layer = model.encoder.layers[0]
    x_SD = model.source_embedding(source_S)
    there, back = [torch.zeros(D // 2)], [torch.zeros(D // 2)]
    for x_D in x_SD:
        there.append(gru(layer.forwards, x_D, there[-1]))
    for x_D in x_SD.flip(0):
        back.append(gru(layer.backwards, x_D, back[-1]))
    return torch.cat([torch.stack(there[1:]), torch.stack(back[1:]).flip(0)], dim=1)


def start_of(model: Recurrent, h_SD: Tensor) -> Tensor:
    """tanh(W·[h→_S; h←_1] + b)."""
    (join,) = model.bridge.joins
    last_D = torch.cat([h_SD[-1, : D // 2], h_SD[0, D // 2 :]])
    return torch.tanh(join.weight @ last_D + join.bias)


@torch.no_grad()
def test_bahdanau_step_by_step(recurrent: Any) -> None:
    """e_ij = v·tanh(W·s_{i−1} + U·h_j); c_i = Σ α_ij·h_j; s_i = f(s_{i−1}, y_{i−1}, c_i)."""
    model = recurrent()
    source_S, target_T = torch.tensor([5, 7, 11, 3, EOS]), torch.tensor([SOS, 13, 17, 19])
    h_SD = annotations(model, source_S)
    s_D, decoder, logits = start_of(model, h_SD), model.decoder, []
    attention = decoder.attention
    for y_D in model.target_embedding(target_T):
        hidden_SD = torch.tanh(attention.query.weight @ s_D + h_SD @ attention.key.weight.T)
        alpha_S = (hidden_SD @ attention.score_D).softmax(0)
        c_D = alpha_S @ h_SD
        s_D = gru(decoder.cell, y_D, s_D, decoder.context.weight @ c_D)
        attentional_D = torch.tanh(decoder.attentional.combine.weight @ torch.cat([c_D, s_D]))
        logits.append(model.output.weight_VD @ attentional_D)
    torch.testing.assert_close(model(source_S[None], target_T[None])[0], torch.stack(logits), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("attention", ["dot", "general"])
@torch.no_grad()
def test_luong_step_by_step(recurrent: Any, attention: str) -> None:
    """s_i = f(s_{i−1}, y_{i−1}); e_ij = s_i·(W)·h_j; tanh(W_c·[c_i; s_i])."""
    model = recurrent(attention=attention)
    source_S, target_T = torch.tensor([5, 7, 11, 3, EOS]), torch.tensor([SOS, 13, 17, 19])
    h_SD = annotations(model, source_S)
    s_D, decoder, logits = start_of(model, h_SD), model.decoder, []
    weight = decoder.attention.key.weight if attention == "general" else torch.eye(D)
    for y_D in model.target_embedding(target_T):
        s_D = gru(decoder.stack.layers[0].forwards, y_D, s_D)
        c_D = torch.stack([s_D @ weight @ h_D for h_D in h_SD]).softmax(0) @ h_SD
        attentional_D = torch.tanh(decoder.attentional.combine.weight @ torch.cat([c_D, s_D]))
        logits.append(model.output.weight_VD @ attentional_D)
    torch.testing.assert_close(model(source_S[None], target_T[None])[0], torch.stack(logits), atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_without_attention_only_the_last_state_reaches_the_decoder(recurrent: Any, padded: Any) -> None:
    model = recurrent(cell="lstm", attention="none", bidirectional=False, encoder_layers=2, decoder_layers=2)
    source_BS, target_BT = padded([7, 4, 7]), padded([5, 5, 5], seed=1)
    memory = model.encode(source_BS)
    assert memory.source is None
    assert [tensor.shape for state in memory.starts for tensor in state] == [(3, D)] * 4
    for row, length in enumerate([7, 4, 7]):
        _, last = model.encoder(model.source_embedding(source_BS[row : row + 1, :length]))
        states_1TD, _ = model.decoder.stack(model.target_embedding(target_BT[row : row + 1]), last)
        expected_TV = states_1TD[0] @ model.output.weight_VD.T
        torch.testing.assert_close(model(source_BS, target_BT)[row], expected_TV, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    ("encoder", "decoder", "encoder_layers"), [(2, 2, [0, 1]), (3, 1, [2]), (1, 3, [0, 0, 0]), (2, 3, [0, 0, 1])]
)
def test_each_decoder_layer_starts_from_an_encoder_layer(
    recurrent: Any, encoder: int, decoder: int, encoder_layers: list[int]
) -> None:
    model = recurrent(encoder_layers=encoder, decoder_layers=decoder)
    assert model.bridge.encoder_layer_of == encoder_layers


@pytest.mark.parametrize("attention", ["additive", "dot", "general"])
def test_keys_are_computed_once_per_sentence(recurrent: Any, padded: Any, attention: str) -> None:
    model, calls = recurrent(attention=attention), []
    keys = model.decoder.attention.keys
    model.decoder.attention.keys = lambda memory, probe: calls.append(1) or keys(memory, probe)
    with torch.no_grad():
        model(padded([5, 3]), padded([7, 7]))
        state = model.start(model.encode(padded([5, 3])), copies=3)
        for _ in range(4):
            _, state = model.step(torch.full((6,), 7), state)
    assert len(calls) == 2


def test_the_memory_is_not_copied_for_a_beam(recurrent: Any, padded: Any) -> None:
    model = recurrent()
    state = model.start(model.encode(padded([5, 3])), copies=4)
    assert len(state.source.memory_BSD) == 2
    assert len(state.layers[0][0]) == 8
    assert state.select(torch.tensor([3, 3, 0, 1, 4, 5, 6, 7])).source is state.source


@pytest.mark.parametrize("attention", ["additive", "dot", "general"])
def test_recurrent_attention_is_found_by_the_attention_views(recurrent: Any, attention: str) -> None:
    model = recurrent(attention=attention)
    found = trace_teacher_forced(model, lambda ids: [f"w{i}" for i in ids], [7, 11, 5, EOS], [SOS, 13, 17])
    weights_1QK = found.attention()
    assert weights_1QK.shape == (1, 3, 4)
    torch.testing.assert_close(weights_1QK.sum(-1), torch.ones(1, 3))
    assert len(attention_view(found)) == 1 + 3 + 2
    with pytest.raises(UserError, match="no encoder attention"):
        found.attention("encoder")


def test_tied_embeddings_are_one_tensor(recurrent: Any) -> None:
    model, apart = recurrent(), recurrent(tie_embeddings=False)
    assert model.source_embedding.weight_VD is model.target_embedding.weight_VD is model.output.weight_VD
    parts = (apart.source_embedding, apart.target_embedding, apart.output)
    assert len({id(part.weight_VD) for part in parts}) == 3
