"""Recurrent networks: a cell computes one step, a layer runs a cell over a sequence, a stack has several layers.

The equations are in the cells. A layer runs its cell step by step where a probe wants the gates; otherwise PyTorch's
fused kernels compute the same from the same weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from glassformer.nn.dropout import Dropout
from glassformer.nn.linear import Linear
from glassformer.nn.probe import NO_PROBE, Named, Probe, memory_of
from glassformer.reference import recurrent as ops
from glassformer.reference.layers import concat
from glassformer.reference.operation import Operation

CellState = tuple[Tensor, ...]  # hidden state, and cell state where there is one: N×D each


class Context(NamedTuple):
    """The context vector that a step reads together with its input, and its projection to the gates."""

    vector_ND: Tensor
    projection: Linear


CLOSED, OPEN = -1e4, 1e4  # inputs that bring a gate to exactly 0 or 1


class Cell(nn.Module):
    """One step of a recurrent network: the input and the previous state give the next state.

    `input` computes W·x + b for all gates side by side, `state` computes U·h + b'. With two biases the weights are
    laid out like PyTorch's.
    """

    parts = 1  # gates and candidate, side by side in the weights
    tensors = 1  # in the state: h, and c where there is one
    internal: tuple[str, ...] = ()  # tensors that the fused kernels do not expose
    hidden_state: tuple[Any, ...] = ()  # the operation that gives h, and its operands, for a probe
    kernel: Any
    at_padding: tuple[float, ...] = ()  # input of each gate that keeps the state unchanged, where that is possible

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.width = width
        self.input = Linear(inputs, width, parts=self.parts)
        self.state = Linear(width, width, parts=self.parts)

    def forward(
        self, read_NG: Tensor, state: CellState, probe: Probe = NO_PROBE, context: Context | None = None
    ) -> CellState:
        """Return the next state.

        Args:
            read_NG: `input(x)`, plus the projected context vector where a decoder attends before the step.
            context: that context vector and its projection, for the probe.
        """
        raise NotImplementedError

    def start(self, like: Tensor) -> CellState:
        """Return the initial state, zeros, for as many rows as `like` has."""
        return tuple(like.new_zeros(len(like), self.width) for _ in range(self.tensors))

    def weights(self) -> list[Tensor]:
        """Return the weights in the order of PyTorch's kernels."""
        biases = cast("list[Tensor]", [self.input.bias, self.state.bias])
        return [self.input.weight, self.state.weight, *biases]

    def operands(self, i: int, *more: Any, context: Context | None) -> tuple[Any, ...]:
        """Return the operands of the i-th gate, for a probe: input and previous state with their weights."""
        step = ("input", *self.input.part(i), "previous_hidden_state", *self.state.part(i), *more)
        return step if context is None else (*step, context.vector_ND, context.projection.part(i)[0])


class RNNCell(Cell):
    """h_t = tanh(W·x_t + U·h_{t−1} + b) (Elman, 1990)."""

    internal = ("sum",)
    hidden_state = (ops.rnn_state, "sum")
    kernel = staticmethod(torch.rnn_tanh)

    def forward(
        self, read_NG: Tensor, state: CellState, probe: Probe = NO_PROBE, context: Context | None = None
    ) -> CellState:
        (h_ND,) = state
        sum_ND = probe("sum", read_NG + self.state(h_ND), ops.rnn_sum, *self.operands(0, context=context))
        return (torch.tanh(sum_ND),)


class LSTMCell(Cell):
    """A cell with a gated cell state c: c_t = f⊙c_{t−1} + i⊙g, h_t = o⊙tanh(c_t).

    Hochreiter & Schmidhuber (1997), with the forget gate of Gers et al. (2000), whose bias starts at 1 (open).
    """

    parts = 4
    tensors = 2
    internal = ("input_gate", "forget_gate", "candidate", "output_gate", "cell_state")
    hidden_state = (ops.lstm_state, "output_gate", "cell_state")
    kernel = staticmethod(torch.lstm)
    at_padding = (CLOSED, OPEN, 0.0, CLOSED)

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__(inputs, width)
        assert self.input.bias is not None
        nn.init.ones_(self.input.bias[width : 2 * width].detach())

    def forward(
        self, read_NG: Tensor, state: CellState, probe: Probe = NO_PROBE, context: Context | None = None
    ) -> CellState:
        h_ND, c_ND = state
        i_ND, f_ND, g_ND, o_ND = (read_NG + self.state(h_ND)).chunk(4, dim=-1)
        input_ND = probe("input_gate", i_ND.sigmoid(), ops.gate, *self.operands(0, context=context))
        forget_ND = probe("forget_gate", f_ND.sigmoid(), ops.gate, *self.operands(1, context=context))
        candidate_ND = probe("candidate", g_ND.tanh(), ops.candidate, *self.operands(2, context=context))
        output_ND = probe("output_gate", o_ND.sigmoid(), ops.gate, *self.operands(3, context=context))
        c_ND = forget_ND * c_ND + input_ND * candidate_ND
        terms = ("forget_gate", "previous_cell_state", "input_gate", "candidate")
        c_ND = probe("cell_state", c_ND, ops.cell_state, *terms)
        return output_ND * c_ND.tanh(), c_ND


class GRUCell(Cell):
    """h_t = z⊙h_{t−1} + (1 − z)⊙tanh(W·x_t + r⊙(U·h_{t−1})) (Cho et al., 2014; r after the product, as in cuDNN)."""

    parts = 3
    internal = ("reset_gate", "update_gate", "candidate")
    hidden_state = (ops.gru_state, "update_gate", "previous_hidden_state", "candidate")
    kernel = staticmethod(torch.gru)
    at_padding = (0.0, OPEN, 0.0)

    def forward(
        self, read_NG: Tensor, state: CellState, probe: Probe = NO_PROBE, context: Context | None = None
    ) -> CellState:
        (h_ND,) = state
        read_r_ND, read_z_ND, read_n_ND = read_NG.chunk(3, dim=-1)
        state_r_ND, state_z_ND, state_n_ND = self.state(h_ND).chunk(3, dim=-1)
        reset_ND = (read_r_ND + state_r_ND).sigmoid()
        reset_ND = probe("reset_gate", reset_ND, ops.gate, *self.operands(0, context=context))
        update_ND = (read_z_ND + state_z_ND).sigmoid()
        update_ND = probe("update_gate", update_ND, ops.gate, *self.operands(1, context=context))
        candidate_ND = (read_n_ND + reset_ND * state_n_ND).tanh()
        operands = self.operands(2, "reset_gate", context=context)
        candidate_ND = probe("candidate", candidate_ND, ops.gru_candidate, *operands)
        return (candidate_ND + update_ND * (h_ND - candidate_ND),)


CELLS: dict[str, type[Cell]] = {"rnn": RNNCell, "lstm": LSTMCell, "gru": GRUCell}


class OverTime(Probe):
    """A probe that collects the tensors of every time step and passes them on as one tensor, B×T×…, after the loop.

    The tensors have been used by then, so an intervention has no effect. Step-by-step decoding has no such loop.
    """

    def __init__(self, probe: Probe) -> None:
        self.probe = probe
        self.inner: list[OverTime] = []
        self.steps: dict[str, list[Tensor]] = {}
        self.provenance: dict[str, tuple[Any, ...]] = {}
        self._named: dict[tuple[int, int], Named] = {}  # tensors of the steps, whose memory `steps` keeps alive

    def at(self, *path: str | int) -> OverTime:
        inner = OverTime(self.probe.at(*path))
        inner._named = self._named
        self.inner.append(inner)
        return inner

    def __call__(self, name: str, tensor: Tensor, operation: Operation | None = None, *operands: Any) -> Tensor:
        if self.wants(name):
            self.steps.setdefault(name, []).append(tensor)
            self.provenance[name] = (operation, *map(self._operand, operands))
            self._named[memory_of(tensor)] = Named(self.full(name))
        return tensor

    def wants(self, name: str) -> bool:
        return self.probe.wants(name)

    def full(self, name: str) -> str:
        return self.probe.full(name)

    def show(self, *, backwards: bool = False) -> None:
        """Pass on every collected tensor, in the order of the tokens."""
        for name, seen in self.steps.items():
            steps = seen[::-1] if backwards else seen
            # The tensor of a step is N×D, or N×1×1×K: one query of one head.
            joined = torch.stack(steps, dim=1) if seen[0].dim() == 2 else torch.cat(steps, dim=-2)
            self.probe(name, joined, *self.provenance[name])
        for inner in self.inner:
            inner.show(backwards=backwards)

    def _operand(self, operand: Any) -> Any:
        """Replace the tensor of one step by the name of the joined tensor."""
        return self._named.get(memory_of(operand), operand) if isinstance(operand, Tensor) else operand


def show_previous(state: CellState, probe: Probe, *, backwards: bool = False) -> None:
    """Pass the state before a step to the probe: the hidden state, and the cell state if there is one."""
    for name, start, tensor in zip(("hidden_state", "cell_state"), ("start", "start_cell"), state, strict=False):
        probe(f"previous_{name}", tensor, ops.previous, name, start, backwards)


def run_steps(
    cell: Cell, x_BTD: Tensor, state: CellState, lengths_B: Tensor | None, probe: Probe, *, backwards: bool = False
) -> tuple[Tensor, CellState]:
    """Run a cell over time, step by step. Padding leaves the state unchanged.

    Returns:
        Every hidden state, B×T×D, and the last state.
    """
    probe("input", x_BTD)
    read_TBG, seen, outputs = cell.input(x_BTD).unbind(1), OverTime(probe), []
    steps = range(len(read_TBG))
    for t in reversed(steps) if backwards else steps:
        show_previous(state, seen, backwards=backwards)
        after = cell(read_TBG[t], state, seen)
        if lengths_B is not None:
            real_B1 = (t < lengths_B)[:, None]
            after = tuple(torch.where(real_B1, new, old) for new, old in zip(after, state, strict=True))
        state = after
        outputs.append(state[0])
    seen.show(backwards=backwards)
    return torch.stack(outputs[::-1] if backwards else outputs, dim=1), state


class RecurrentLayer(nn.Module):
    """A cell over a sequence; with `bidirectional`, a second cell from the end, and the states of both concatenated.

    Computed in fp32 even under autocast, because rounding errors of the state would accumulate over the steps.
    """

    def __init__(self, cell: str, inputs: int, width: int, *, bidirectional: bool = False) -> None:
        super().__init__()
        self.forwards = CELLS[cell](inputs, width)
        self.backwards = CELLS[cell](inputs, width) if bidirectional else None

    def forward(
        self, x_BTD: Tensor, start: CellState | None = None, lengths_B: Tensor | None = None, probe: Probe = NO_PROBE
    ) -> tuple[Tensor, CellState]:
        """Return the hidden states, B×T×D, and the last state of each row. States at padding are not defined."""
        with torch.autocast(x_BTD.device.type, enabled=False):
            x_BTD = x_BTD.float()
            if self._is_probed(probe):
                return self._stepped(x_BTD, start, lengths_B, probe)
            states_BTD, last = self._fused(x_BTD, start, lengths_B)
        return probe("hidden_state", states_BTD, *self.forwards.hidden_state), last

    def step(self, x_ND: Tensor, state: CellState, probe: Probe = NO_PROBE) -> tuple[Tensor, CellState]:
        """Compute one step of a unidirectional layer."""
        cell = self.forwards
        probe("input", x_ND)
        show_previous(state, probe)
        state = cell(cell.input(x_ND), state, probe)
        return probe("hidden_state", state[0], *cell.hidden_state), state

    def _is_probed(self, probe: Probe) -> bool:
        if self.backwards is None:
            return any(map(probe.wants, self.forwards.internal))
        both = probe.at("forwards"), probe.at("backwards")
        return any(inner.wants(name) for inner in both for name in (*self.forwards.internal, "hidden_state"))

    def _stepped(
        self, x_BTD: Tensor, start: CellState | None, lengths_B: Tensor | None, probe: Probe
    ) -> tuple[Tensor, CellState]:
        cell, start = self.forwards, start or self.forwards.start(x_BTD)
        if self.backwards is None:
            states_BTD, last = run_steps(cell, x_BTD, start, lengths_B, probe)
            return probe("hidden_state", states_BTD, *cell.hidden_state), last
        right, left = probe.at("forwards"), probe.at("backwards")
        forward_BTD, at_end = run_steps(cell, x_BTD, start, lengths_B, right)
        backward_BTD, at_start = run_steps(self.backwards, x_BTD, start, lengths_B, left, backwards=True)
        forward_BTD = right("hidden_state", forward_BTD, *cell.hidden_state)
        backward_BTD = left("hidden_state", backward_BTD, *cell.hidden_state)
        last = tuple(torch.cat(both, dim=-1) for both in zip(at_end, at_start, strict=True))
        both_BTD = torch.cat([forward_BTD, backward_BTD], dim=-1)
        return probe("hidden_state", both_BTD, concat, forward_BTD, backward_BTD), last

    def _fused(self, x_BTD: Tensor, start: CellState | None, lengths_B: Tensor | None) -> tuple[Tensor, CellState]:
        """Run PyTorch's kernels, which take the states and the weights of both directions one after the other."""
        cells = [self.forwards] if self.backwards is None else [self.forwards, self.backwards]
        weights = [weight for cell in cells for weight in cell.weights()]
        begin = [torch.stack([tensor] * len(cells)) for tensor in start or self.forwards.start(x_BTD)]
        state = begin if len(begin) > 1 else begin[0]
        # biases, layers, dropout, train, bidirectional
        options = (True, 1, 0.0, torch.is_grad_enabled(), len(cells) == 2)
        if lengths_B is None:
            states_BTD, *last = self.forwards.kernel(x_BTD, state, weights, *options, True)
        elif self.forwards.at_padding:
            x_BTD, weights = self._mark_padding(x_BTD, weights, lengths_B)
            states_BTD, *last = self.forwards.kernel(x_BTD, state, weights, *options, True)
            last[0] = self._last_states(states_BTD, lengths_B)  # the output of an LSTM is 0 at padding
        else:
            states_BTD, last = self._packed(x_BTD, state, weights, options, lengths_B)
        return states_BTD, tuple(torch.cat(list(tensor.unbind(0)), dim=-1) for tensor in last)

    def _packed(
        self, x_BTD: Tensor, state: Any, weights: list[Tensor], options: tuple[Any, ...], lengths_B: Tensor
    ) -> tuple[Tensor, list[Tensor]]:
        """Run PyTorch's kernels on packed rows, for a cell without a gate that could keep the state at padding."""
        packed = pack_padded_sequence(x_BTD, lengths_B.cpu(), batch_first=True, enforce_sorted=False)
        states_ND, *last = self.forwards.kernel(packed.data, packed.batch_sizes, state, weights, *options)
        unsorted_indices = cast("Tensor", packed.unsorted_indices)  # the kernel sorts the rows, longest first
        states = PackedSequence(states_ND, packed.batch_sizes, packed.sorted_indices, unsorted_indices)
        states_BTD, _ = pad_packed_sequence(states, batch_first=True, total_length=x_BTD.shape[1])
        return states_BTD, [tensor.index_select(1, unsorted_indices) for tensor in last]

    def _mark_padding(self, x_BTD: Tensor, weights: list[Tensor], lengths_B: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Add an input that is 1 at padding and 0 elsewhere, with weights that make it keep the state unchanged.

        The kernels for padded rows are up to twice as fast as the kernels for packed rows.
        """
        padding_BT = torch.arange(x_BTD.shape[1], device=x_BTD.device) >= lengths_B[:, None]
        x_BTD = torch.cat([x_BTD, padding_BT[:, :, None].to(x_BTD.dtype)], dim=2)
        column_G = x_BTD.new_tensor(self.forwards.at_padding).repeat_interleave(self.forwards.width)
        widened = [torch.cat([w, column_G[:, None]], dim=1) if i % 4 == 0 else w for i, w in enumerate(weights)]
        return x_BTD, widened

    def _last_states(self, states_BTD: Tensor, lengths_B: Tensor) -> Tensor:
        """Return the state after the last token of each row; for the backward direction, after the first."""
        rows, D = torch.arange(len(lengths_B), device=states_BTD.device), self.forwards.width
        ends = [states_BTD[rows, lengths_B - 1, :D]]
        return torch.stack(ends if self.backwards is None else [*ends, states_BTD[:, 0, D:]])


class RecurrentStack(nn.Module):
    """Recurrent layers on top of each other, with dropout in between (Zaremba et al., 2014)."""

    def __init__(
        self, cell: str, layers: int, inputs: int, width: int, *, dropout: float, bidirectional: bool = False
    ) -> None:
        super().__init__()
        reads = [inputs] + [width] * (layers - 1)
        one_way = width // 2 if bidirectional else width
        # Not a ModuleList, whose layers may be sharded over processes: a fused kernel takes all weights at once.
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
        """Return the hidden states of the top layer, and the last state of every layer.

        A probe sees the lowest layer as number `first`.
        """
        last: list[CellState] = []
        for i, layer in enumerate(self.layers):
            x_BTD = x_BTD if i == 0 else self.dropout(x_BTD)
            start = None if starts is None else starts[i]
            x_BTD, state = layer(x_BTD, start, lengths_B, probe.at(first + i))
            last.append(state)
        return x_BTD, last

    def start(self, like: Tensor) -> list[CellState]:
        """Return the initial states, zeros, for as many rows as `like` has."""
        return [layer.forwards.start(like) for layer in cast("list[RecurrentLayer]", self.layers)]

    def step(
        self, x_ND: Tensor, states: Sequence[CellState], probe: Probe = NO_PROBE, *, first: int = 0
    ) -> tuple[Tensor, list[CellState]]:
        """Compute one step of every layer."""
        after: list[CellState] = []
        for i, layer in enumerate(cast("list[RecurrentLayer]", self.layers)):
            x_ND, state = layer.step(x_ND if i == 0 else self.dropout(x_ND), states[i], probe.at(first + i))
            after.append(state)
        return x_ND, after


def lengths_of(tokens_BT: Tensor, pad: int) -> Tensor | None:
    """Return the number of tokens of each row without padding; None where there is no padding."""
    real_BT = tokens_BT != pad
    return None if real_BT.all() else real_BT.sum(dim=1)
