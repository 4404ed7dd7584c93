"""Recurrent layers compared with PyTorch's: outputs, last states and gradients, with padding and both directions."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from glassformer.nn.probe import NO_PROBE, Probe, Recorder
from glassformer.nn.recurrent import (
    CELLS,
    GRUCell,
    LSTMCell,
    RecurrentLayer,
    RecurrentStack,
    RNNCell,
    lengths_of,
)

PEERS = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}
LENGTHS = torch.tensor([7, 11, 1, 4, 11])
CLOSE = {"atol": 1e-5, "rtol": 1e-4}
B, T = 5, 11
ALWAYS = ("input", "previous_hidden_state", "hidden_state")  # tensors of every cell


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def test_cells_by_hand_computed_numbers() -> None:
    """Width 1, all weights written out: h = 0.5, c = 0.25, x = 2."""
    h, c, x = torch.tensor([[0.5]]), torch.tensor([[0.25]]), torch.tensor([[2.0]])
    rnn, lstm, gru = (cell(1, 1) for cell in (RNNCell, LSTMCell, GRUCell))
    for cell in (rnn, lstm, gru):
        with torch.no_grad():
            for k, (w, u) in enumerate(zip(cell.input.weight, cell.state.weight, strict=True)):
                w.fill_(0.1 * (k + 1))
                u.fill_(-0.2 * (k + 1))
            cell.input.bias.copy_(torch.arange(cell.parts) * 0.3)
            cell.state.bias.fill_(0.05)

    def read(k: int) -> float:
        return 0.1 * (k + 1) * 2.0 + 0.3 * k

    def recalled(k: int) -> float:
        return -0.2 * (k + 1) * 0.5 + 0.05

    (found,) = rnn(rnn.input(x), (h,))
    assert found.item() == pytest.approx(math.tanh(read(0) + recalled(0)), rel=1e-5)

    i, f, o = (sigmoid(read(k) + recalled(k)) for k in (0, 1, 3))
    cell_after = f * 0.25 + i * math.tanh(read(2) + recalled(2))
    found_h, found_c = lstm(lstm.input(x), (h, c))
    assert found_c.item() == pytest.approx(cell_after, rel=1e-5)
    assert found_h.item() == pytest.approx(o * math.tanh(cell_after), rel=1e-5)

    r, z = sigmoid(read(0) + recalled(0)), sigmoid(read(1) + recalled(1))
    candidate = math.tanh(read(2) + r * recalled(2))
    (found,) = gru(gru.input(x), (h,))
    assert found.item() == pytest.approx((1 - z) * candidate + z * 0.5, rel=1e-5)


def test_an_lstm_starts_with_its_forget_gate_open() -> None:
    bias = LSTMCell(3, 5).input.bias.detach()
    assert (bias[5:10] == 1).all()
    assert (bias[:5] == 0).all() and (bias[10:] == 0).all()


def side_by_side(stack: RecurrentStack, peer: nn.RNNBase) -> Iterator[tuple[str, Tensor, Tensor]]:
    """Yield our weights and PyTorch's, by name."""
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    for i, layer in enumerate(stack.layers):
        for cell, suffix in ((layer.forwards, ""), (layer.backwards, "_reverse")):
            for name, weight in zip(names, cell.weights() if cell else [], strict=cell is not None):
                yield f"{name}_l{i}{suffix}", weight, getattr(peer, f"{name}_l{i}{suffix}")


def peer_of(stack: RecurrentStack, cell: str, inputs: int, width: int, *, both: bool) -> nn.RNNBase:
    peer = PEERS[cell](inputs, width, num_layers=len(stack.layers), batch_first=True, bidirectional=both)
    with torch.no_grad():
        for _, ours, theirs in side_by_side(stack, peer):
            theirs.copy_(ours)
    return peer


@pytest.mark.parametrize("probe", [NO_PROBE, Recorder()], ids=["fused", "plain"])
@pytest.mark.parametrize("padding", [False, True], ids=["full", "padded"])
@pytest.mark.parametrize("both", [False, True], ids=["one way", "both ways"])
@pytest.mark.parametrize(("layers", "inputs", "width"), [(1, 13, 7), (2, 14, 14), (3, 3, 17)])
@pytest.mark.parametrize("cell", CELLS)
def test_outputs_last_states_and_gradients_equal_torch(
    enliven, cell: str, layers: int, inputs: int, width: int, both: bool, padding: bool, probe: Probe
) -> None:
    torch.manual_seed(1)
    wide = 2 * width if both else width
    stack = enliven(RecurrentStack(cell, layers, inputs, wide, dropout=0.0, bidirectional=both))
    peer = peer_of(stack, cell, inputs, width, both=both)
    ours_BTD = torch.randn(B, T, inputs, requires_grad=True)
    theirs_BTD = ours_BTD.detach().clone().requires_grad_()
    lengths_B = LENGTHS if padding else None
    real_BT1 = (torch.arange(T) < (LENGTHS if padding else torch.full((B,), T))[:, None])[:, :, None]

    found_BTD, last = stack(ours_BTD, lengths_B=lengths_B, probe=probe)
    if padding:
        packed = pack_padded_sequence(theirs_BTD, LENGTHS, batch_first=True, enforce_sorted=False)
        expected, state = peer(packed)
        expected_BTD, _ = pad_packed_sequence(expected, batch_first=True, total_length=T)
    else:
        expected_BTD, state = peer(theirs_BTD)
    found_BTD = found_BTD * real_BT1
    torch.testing.assert_close(found_BTD, expected_BTD, **CLOSE)
    states = state if isinstance(state, tuple) else (state,)
    for i in range(layers):
        for ours, theirs in zip(last[i], states, strict=True):
            by_direction = theirs.view(layers, -1, B, width)[i]
            torch.testing.assert_close(ours, torch.cat(list(by_direction), dim=-1), **CLOSE)

    upstream_BTD = torch.randn_like(found_BTD)
    weigh = [torch.randn_like(tensor) for tensor in last[-1]]
    theirs_last = [torch.cat(list(x.view(layers, -1, B, width)[-1]), dim=-1) for x in states]
    for outputs_BTD, at_end in ((found_BTD, last[-1]), (expected_BTD, theirs_last)):
        ends = sum((tensor * weight).sum() for tensor, weight in zip(at_end, weigh, strict=True))
        ((outputs_BTD * upstream_BTD).sum() + ends).backward()
    torch.testing.assert_close(ours_BTD.grad, theirs_BTD.grad, **CLOSE)
    for name, ours, theirs in side_by_side(stack, peer):
        assert ours.grad.abs().max() > 0, name
        torch.testing.assert_close(ours.grad, theirs.grad, atol=3e-5, rtol=1e-4, msg=lambda m, n=name: f"{n}: {m}")


@pytest.mark.parametrize("probe", [NO_PROBE, Recorder()], ids=["fused", "plain"])
@pytest.mark.parametrize("both", [False, True], ids=["one way", "both ways"])
@pytest.mark.parametrize("cell", CELLS)
def test_padding_is_never_read(cell: str, both: bool, probe: Probe) -> None:
    """The values at padding change neither outputs nor gradients, and have no gradient."""
    torch.manual_seed(1)
    layer = RecurrentLayer(cell, 13, 7, bidirectional=both)
    x_BTD = torch.randn(B, T, 13)
    real_BT = torch.arange(T) < LENGTHS[:, None]
    found = []
    for filler in (0.0, 77.0, -1e3):
        filled_BTD = x_BTD.masked_fill(~real_BT[:, :, None], filler).requires_grad_()
        states_BTD, last = layer(filled_BTD, None, LENGTHS, probe)
        layer.zero_grad()
        (states_BTD[real_BT].sum() + sum(tensor.pow(2).sum() for tensor in last)).backward()
        assert (filled_BTD.grad[~real_BT] == 0).all()
        found.append([states_BTD[real_BT], *last, *(p.grad.clone() for p in layer.parameters())])
    for other in found[1:]:
        for first, second in zip(found[0], other, strict=True):
            torch.testing.assert_close(first, second, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("cell", CELLS)
def test_a_row_does_not_depend_on_the_lengths_of_others(cell: str) -> None:
    torch.manual_seed(1)
    stack = RecurrentStack(cell, 2, 13, 14, dropout=0.0, bidirectional=True)
    x_BTD = torch.randn(B, T, 13)
    together_BTD, last = stack(x_BTD, lengths_B=LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        alone_1TD, state = stack(x_BTD[row : row + 1, :length])
        torch.testing.assert_close(together_BTD[row, :length], alone_1TD[0], **CLOSE)
        for ours, theirs in zip(last[-1], state[-1], strict=True):
            torch.testing.assert_close(ours[row], theirs[0], **CLOSE)


@pytest.mark.parametrize("cell", CELLS)
def test_steps_equal_a_pass_over_the_sequence(cell: str) -> None:
    torch.manual_seed(1)
    stack = RecurrentStack(cell, 2, 13, 7, dropout=0.0)
    x_BTD = torch.randn(B, T, 13)
    starts = [tuple(torch.randn(B, 7) for _ in range(CELLS[cell].tensors)) for _ in range(2)]
    at_once_BTD, last = stack(x_BTD, starts)
    states = starts
    for t in range(T):
        h_BD, states = stack.step(x_BTD[:, t], states)
        torch.testing.assert_close(h_BD, at_once_BTD[:, t], **CLOSE)
    for ours, theirs in zip(states, last, strict=True):
        for a, b in zip(ours, theirs, strict=True):
            torch.testing.assert_close(a, b, **CLOSE)


@pytest.mark.parametrize(
    ("cell", "names"),
    [
        ("rnn", {"sum"}),
        ("lstm", {"input_gate", "forget_gate", "output_gate", "candidate", "cell_state", "previous_cell_state"}),
        ("gru", {"reset_gate", "update_gate", "candidate"}),
    ],
)
def test_the_probe_sees_gates_in_both_directions(cell: str, names: set[str]) -> None:
    layer, seen = RecurrentLayer(cell, 13, 7, bidirectional=True), Recorder()
    states_BTD, _ = layer(torch.randn(B, T, 13), probe=seen)
    of_each = {f"{way}.{name}" for way in ("forwards", "backwards") for name in (*names, *ALWAYS)}
    assert set(seen.tensors) == of_each | {"hidden_state"}
    both_BTD = torch.cat([seen.tensors["forwards.hidden_state"], seen.tensors["backwards.hidden_state"]], dim=-1)
    assert torch.equal(both_BTD, states_BTD)
    assert all(tensor.shape == (B, T, 7) for name, tensor in seen.tensors.items() if name.split(".")[-1] in names)


@pytest.mark.parametrize("name", ["hidden_state", "*.hidden_state"])
def test_hidden_states_alone_are_recorded_from_the_fused_kernel(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    stack, seen = RecurrentStack("gru", 2, 13, 7, dropout=0.0), Recorder(name)
    monkeypatch.setattr(RecurrentLayer, "_stepped", None)
    stack(torch.randn(B, T, 13), probe=seen)
    assert set(seen.tensors) == ({"0.hidden_state", "1.hidden_state"} if name == "*.hidden_state" else set())


def test_dropout_is_applied_between_layers() -> None:
    torch.manual_seed(1)
    stack, x_BTD = RecurrentStack("gru", 2, 13, 7, dropout=0.5).train(), torch.randn(B, T, 13)
    torch.manual_seed(2)
    found_BTD, _ = stack(x_BTD)
    torch.manual_seed(2)
    first, second = stack.layers
    expected_BTD, _ = second(stack.dropout(first(x_BTD)[0]))
    assert torch.equal(found_BTD, expected_BTD)
    assert not torch.equal(found_BTD, stack.eval()(x_BTD)[0])


def test_recurrence_stays_in_fp32_under_autocast() -> None:
    layer, x_BTD = RecurrentLayer("gru", 13, 7), torch.randn(B, T, 13)
    expected_BTD, _ = layer(x_BTD)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found_BTD, _ = layer(x_BTD)
    assert torch.equal(found_BTD, expected_BTD)


def test_lengths() -> None:
    assert lengths_of(torch.tensor([[5, 7], [3, 2]]), 0) is None
    assert lengths_of(torch.tensor([[5, 7, 1], [3, 0, 0]]), 0).tolist() == [3, 1]
