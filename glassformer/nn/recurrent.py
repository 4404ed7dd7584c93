"""Recurrent networks: a cell that reads one thing at a time, and layers that run it over a sequence.

The equations stand in the cells, one step each. A layer runs its cell step by step when somebody looks at the gates;
otherwise PyTorch's fused kernels compute the same from the same weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from glassformer.nn.dropout import Dropout
from glassformer.nn.linear import Linear
from glassformer.nn.probe import NO_PROBE, Probe

CellState = tuple[Tensor, ...]  # h, and c where the cell has one: N×D each

SHUT, OPEN = -1e4, 1e4  # what brings a gate to 0 or 1, exactly, whatever else it reads


class Cell(nn.Module):
    """One step: what is read, and the state before it, give the next state.

    `input` is W·x + b of all gates side by side, `state` U·h + b'. With two biases the weights are PyTorch's.
    """

    parts = 1  # gates, and the candidate
    tensors = 1  # of its state
    shows: tuple[str, ...] = ()  # what can be seen in the plain steps alone
    kernel: Any
    at_padding: tuple[float, ...] = ()  # what each gate must read for the state to stay as it is, where that can be

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.width = width
        self.input = Linear(inputs, width, parts=self.parts)
        self.state = Linear(width, width, parts=self.parts)

    def forward(self, read_NG: Tensor, state: CellState, probe: Probe = NO_PROBE) -> CellState:
        """The state after one step, which read `input(x)`, and whatever was added to it."""
        raise NotImplementedError

    def start(self, like: Tensor) -> CellState:
        """Before the first step: zeros, for as many rows."""
        return tuple(like.new_zeros(len(like), self.width) for _ in range(self.tensors))

    def weights(self) -> list[Tensor]:
        """As PyTorch's kernels take them."""
        biases = cast("list[Tensor]", [self.input.bias, self.state.bias])
        return [self.input.weight, self.state.weight, *biases]


class RNNCell(Cell):
    """h_t = tanh(W·x_t + U·h_{t−1} + b) (Elman, 1990)."""

    shows = ("sum",)
    kernel = staticmethod(torch.rnn_tanh)

    def forward(self, read_NG: Tensor, state: CellState, probe: Probe = NO_PROBE) -> CellState:
        (h_ND,) = state
        return (torch.tanh(probe("sum", read_NG + self.state(h_ND))),)


class LSTMCell(Cell):
    """A cell c that keeps what the gates let it: c_t = f⊙c_{t−1} + i⊙g, h_t = o⊙tanh(c_t).

    Hochreiter & Schmidhuber (1997), with the forget gate of Gers et al. (2000), which starts open: its bias is 1.
    """

    parts = 4
    tensors = 2
    shows = ("input_gate", "forget_gate", "candidate", "output_gate", "cell")
    kernel = staticmethod(torch.lstm)
    at_padding = (SHUT, OPEN, 0.0, SHUT)

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__(inputs, width)
        assert self.input.bias is not None
        nn.init.ones_(self.input.bias[width : 2 * width].detach())

    def forward(self, read_NG: Tensor, state: CellState, probe: Probe = NO_PROBE) -> CellState:
        h_ND, c_ND = state
        i_ND, f_ND, g_ND, o_ND = (read_NG + self.state(h_ND)).chunk(4, dim=-1)
        input_ND = probe("input_gate", i_ND.sigmoid())
        forget_ND = probe("forget_gate", f_ND.sigmoid())
        candidate_ND = probe("candidate", g_ND.tanh())
        output_ND = probe("output_gate", o_ND.sigmoid())
        c_ND = probe("cell", forget_ND * c_ND + input_ND * candidate_ND)
        return output_ND * c_ND.tanh(), c_ND


class GRUCell(Cell):
    """h_t = z⊙h_{t−1} + (1 − z)⊙tanh(W·x_t + r⊙(U·h_{t−1})) (Cho et al., 2014; r after the product, as in cuDNN)."""

    parts = 3
    shows = ("reset_gate", "update_gate", "candidate")
    kernel = staticmethod(torch.gru)
    at_padding = (0.0, OPEN, 0.0)

    def forward(self, read_NG: Tensor, state: CellState, probe: Probe = NO_PROBE) -> CellState:
        (h_ND,) = state
        read_r_ND, read_z_ND, read_n_ND = read_NG.chunk(3, dim=-1)
        state_r_ND, state_z_ND, state_n_ND = self.state(h_ND).chunk(3, dim=-1)
        reset_ND = probe("reset_gate", (read_r_ND + state_r_ND).sigmoid())
        update_ND = probe("update_gate", (read_z_ND + state_z_ND).sigmoid())
        candidate_ND = probe("candidate", (read_n_ND + reset_ND * state_n_ND).tanh())
        return (candidate_ND + update_ND * (h_ND - candidate_ND),)


CELLS: dict[str, type[Cell]] = {"rnn": RNNCell, "lstm": LSTMCell, "gru": GRUCell}


class OverTime(Probe):
    """Collects what each step of a loop shows, and shows it whole, B×T×…, when the loop is over.

    By then it has been used: what a probe would put in its place comes too late. In decoding, a step at a time, there
    is no such loop.
    """

    def __init__(self, probe: Probe) -> None:
        self.probe, self.steps = probe, cast("dict[str, list[Tensor]]", {})

    def __call__(self, name: str, tensor: Tensor) -> Tensor:
        if self.wants(name):
            self.steps.setdefault(name, []).append(tensor)
        return tensor

    def wants(self, name: str) -> bool:
        return self.probe.wants(name)

    def show(self, *, backwards: bool = False) -> None:
        for name, seen in self.steps.items():
            steps = seen[::-1] if backwards else seen
            # A step gives N×D, or N×1×1×K: one query of one head.
            self.probe(name, torch.stack(steps, dim=1) if seen[0].dim() == 2 else torch.cat(steps, dim=-2))


def step_by_step(
    cell: Cell, x_BTD: Tensor, state: CellState, lengths_B: Tensor | None, probe: Probe, *, backwards: bool = False
) -> tuple[Tensor, CellState]:
    """A cell over time: every h, B×T×D, and the state at the end. Padding leaves the state as it was."""
    read_BTG, seen, outputs = cell.input(x_BTD).unbind(1), OverTime(probe), []
    steps = range(len(read_BTG))
    for t in reversed(steps) if backwards else steps:
        after = cell(read_BTG[t], state, seen)
        if lengths_B is not None:
            real_B1 = (t < lengths_B)[:, None]
            after = tuple(torch.where(real_B1, new, old) for new, old in zip(after, state, strict=True))
        state = after
        outputs.append(state[0])
    seen.show(backwards=backwards)
    return torch.stack(outputs[::-1] if backwards else outputs, dim=1), state


class RecurrentLayer(nn.Module):
    """A cell over a sequence; with `bidirectional`, another one from its end, and their states side by side.

    Computed in fp32 also under autocast: what is added to a state at every step should not be rounded at every step.
    """

    def __init__(self, cell: str, inputs: int, width: int, *, bidirectional: bool = False) -> None:
        super().__init__()
        self.forwards = CELLS[cell](inputs, width)
        self.backwards = CELLS[cell](inputs, width) if bidirectional else None

    def forward(
        self, x_BTD: Tensor, start: CellState | None = None, lengths_B: Tensor | None = None, probe: Probe = NO_PROBE
    ) -> tuple[Tensor, CellState]:
        """The states B×T×D, and the last one of each row. What the rows hold beyond their lengths is not defined."""
        with torch.autocast(x_BTD.device.type, enabled=False):
            x_BTD = x_BTD.float()
            plain = self._is_packed() or self._is_looked_at(probe)
            states_BTD, last = (self._plain if plain else self._fused)(x_BTD, start, lengths_B, probe)
        return probe("states", states_BTD), last

    def step(self, x_ND: Tensor, state: CellState, probe: Probe = NO_PROBE) -> tuple[Tensor, CellState]:
        """One step of a layer that runs forwards."""
        state = self.forwards(self.forwards.input(x_ND), state, probe)
        return probe("states", state[0]), state

    def _is_packed(self) -> bool:
        """As integers: PyTorch's kernels want the weights."""
        return self.forwards.input.weight is None

    def _is_looked_at(self, probe: Probe) -> bool:
        if self.backwards is None:
            return any(map(probe.wants, self.forwards.shows))
        both = probe.at("forwards"), probe.at("backwards")
        return any(inner.wants(name) for inner in both for name in (*self.forwards.shows, "states"))

    def _plain(
        self, x_BTD: Tensor, start: CellState | None, lengths_B: Tensor | None, probe: Probe
    ) -> tuple[Tensor, CellState]:
        start = start or self.forwards.start(x_BTD)
        if self.backwards is None:
            return step_by_step(self.forwards, x_BTD, start, lengths_B, probe)
        to_end, to_start = probe.at("forwards"), probe.at("backwards")
        there_BTD, at_end = step_by_step(self.forwards, x_BTD, start, lengths_B, to_end)
        back_BTD, at_start = step_by_step(self.backwards, x_BTD, start, lengths_B, to_start, backwards=True)
        there_BTD, back_BTD = to_end("states", there_BTD), to_start("states", back_BTD)
        last = tuple(torch.cat(both, dim=-1) for both in zip(at_end, at_start, strict=True))
        return torch.cat([there_BTD, back_BTD], dim=-1), last

    def _fused(
        self, x_BTD: Tensor, start: CellState | None, lengths_B: Tensor | None, probe: Probe
    ) -> tuple[Tensor, CellState]:
        """PyTorch's kernels, which take the state and the weights of both directions one after the other."""
        cells = [self.forwards] if self.backwards is None else [self.forwards, self.backwards]
        weights = [weight for cell in cells for weight in cell.weights()]
        begin = [torch.stack([tensor] * len(cells)) for tensor in start or self.forwards.start(x_BTD)]
        state = begin if len(begin) > 1 else begin[0]
        how = (True, 1, 0.0, torch.is_grad_enabled(), len(cells) == 2)  # biases, layers, dropout, to be trained, both
        if lengths_B is None:
            states_BTD, *last = self.forwards.kernel(x_BTD, state, weights, *how, True)
        elif self.forwards.at_padding:
            x_BTD, weights = self._padding_told(x_BTD, weights, lengths_B)
            states_BTD, *last = self.forwards.kernel(x_BTD, state, weights, *how, True)
            last[0] = self._at_the_ends(states_BTD, lengths_B)  # an LSTM shows nothing at padding
        else:
            states_BTD, last = self._packed(x_BTD, state, weights, how, lengths_B)
        return states_BTD, tuple(torch.cat(list(tensor.unbind(0)), dim=-1) for tensor in last)

    def _packed(
        self, x_BTD: Tensor, state: Any, weights: list[Tensor], how: tuple[Any, ...], lengths_B: Tensor
    ) -> tuple[Tensor, list[Tensor]]:
        """For a cell without a gate that could hold its state: rows of several lengths, step by step in C++."""
        packed = pack_padded_sequence(x_BTD, lengths_B.cpu(), batch_first=True, enforce_sorted=False)
        states_ND, *last = self.forwards.kernel(packed.data, packed.batch_sizes, state, weights, *how)
        back = cast("Tensor", packed.unsorted_indices)  # the kernel has the longest rows first
        states = PackedSequence(states_ND, packed.batch_sizes, packed.sorted_indices, back)
        states_BTD, _ = pad_packed_sequence(states, batch_first=True, total_length=x_BTD.shape[1])
        return states_BTD, [tensor.index_select(1, back) for tensor in last]

    def _padding_told(self, x_BTD: Tensor, weights: list[Tensor], lengths_B: Tensor) -> tuple[Tensor, list[Tensor]]:
        """One more input, 1 at padding and 0 elsewhere, and weights by which it holds the state as it was.

        The kernels for whole rectangles are up to twice as fast as those for rows of several lengths.
        """
        padding_BT = torch.arange(x_BTD.shape[1], device=x_BTD.device) >= lengths_B[:, None]
        x_BTD = torch.cat([x_BTD, padding_BT[:, :, None].to(x_BTD.dtype)], dim=2)
        column_G = x_BTD.new_tensor(self.forwards.at_padding).repeat_interleave(self.forwards.width)
        told = [torch.cat([w, column_G[:, None]], dim=1) if i % 4 == 0 else w for i, w in enumerate(weights)]
        return x_BTD, told

    def _at_the_ends(self, states_BTD: Tensor, lengths_B: Tensor) -> Tensor:
        """The state after the last token of each row, and before its first for the direction that ends there."""
        rows, D = torch.arange(len(lengths_B), device=states_BTD.device), self.forwards.width
        ends = [states_BTD[rows, lengths_B - 1, :D]]
        return torch.stack(ends if self.backwards is None else [*ends, states_BTD[:, 0, D:]])


class RecurrentStack(nn.Module):
    """Layers, each of which reads the states of the one below, with dropout in between (Zaremba et al., 2014)."""

    def __init__(
        self, cell: str, layers: int, inputs: int, width: int, *, dropout: float, bidirectional: bool = False
    ) -> None:
        super().__init__()
        reads = [inputs] + [width] * (layers - 1)
        one_way = width // 2 if bidirectional else width
        # Not a ModuleList, whose parts training may spread over processes: a fused kernel takes all weights at once.
        self.layers = nn.Sequential(
            *(RecurrentLayer(cell, read, one_way, bidirectional=bidirectional) for read in reads)
        )
        self.dropout = Dropout(dropout)

    def forward(
        self,
        x_BTD: Tensor,
        starts: Sequence[CellState] | None = None,
        lengths_B: Tensor | None = None,
        probe: Probe = NO_PROBE,
        *,
        first: int = 0,
    ) -> tuple[Tensor, list[CellState]]:
        """The states of the uppermost layer, and the last of every layer. The lowest is shown as number `first`."""
        last: list[CellState] = []
        for i, layer in enumerate(self.layers):
            x_BTD = x_BTD if i == 0 else self.dropout(x_BTD)
            start = None if starts is None else starts[i]
            x_BTD, state = layer(x_BTD, start, lengths_B, probe.at(first + i))
            last.append(state)
        return x_BTD, last

    def start(self, like: Tensor) -> list[CellState]:
        """Zeros for every layer that runs forwards, for as many rows."""
        return [layer.forwards.start(like) for layer in cast("list[RecurrentLayer]", self.layers)]

    def step(
        self, x_ND: Tensor, states: Sequence[CellState], probe: Probe = NO_PROBE, *, first: int = 0
    ) -> tuple[Tensor, list[CellState]]:
        """One step of every layer."""
        after: list[CellState] = []
        for i, layer in enumerate(cast("list[RecurrentLayer]", self.layers)):
            x_ND, state = layer.step(x_ND if i == 0 else self.dropout(x_ND), states[i], probe.at(first + i))
            after.append(state)
        return x_ND, after


def lengths_of(tokens_BT: Tensor, pad: int) -> Tensor | None:
    """The tokens of each row without padding, which stands at the end; None where there is none."""
    real_BT = tokens_BT != pad
    return None if real_BT.all() else real_BT.sum(dim=1)
