"""The recurrent layers of a traced model, the vector between encoder and decoder, and the attention of a decoder."""

from __future__ import annotations

from dataclasses import dataclass

from glassformer.errors import UserError
from glassformer.glass.trace import Trace
from glassformer.nn.probe import Provenance
from glassformer.nn.recurrent import CELLS
from glassformer.reference import attention, recurrent

# The operation that computes the hidden state identifies the cell.
CELL_OF = {
    id(recurrent.rnn_state): "rnn",
    id(recurrent.lstm_state): "lstm",
    id(recurrent.gru_state): "gru",
}
ENERGIES = (attention.bahdanau_scores, attention.luong_scores)


@dataclass(frozen=True)
class RecurrentLayer:
    """One direction of a recurrent layer.

    Attributes:
        side: "encoder" or "decoder".
        direction: "forwards", or "backwards" if it reads from the last token to the first.
        cell: "rnn", "lstm" or "gru".
        tokens: the token of each row of its tensors. The rows of a backward layer may be in reading order (ELMo).
        states: the hidden state, and the cell state where there is one, T×D.
        gates: the gates and the candidate, or the sum before tanh, T×D.
        bidirectional: whether there is also a layer of the other direction.
    """

    side: str
    layer: int
    direction: str
    cell: str
    tokens: list[str]
    in_reading_order: bool
    states: list[str]
    gates: list[str]
    bidirectional: bool


@dataclass(frozen=True)
class Handover:
    """The encoder's last state (`last`) and the decoder's initial state (`start`) of one layer."""

    layer: int
    last: str
    start: str


@dataclass(frozen=True)
class Alignment:
    """The tensors of attention in a recurrent decoder.

    Attributes:
        kind: "additive" or "dot".
        steps: all tensors in the order of computation: keys, queries, energies, weights, context, output.
    """

    kind: str
    energies: str
    weights: str
    context: str
    steps: list[str]


@dataclass(frozen=True)
class RecurrentModel:
    layers: list[RecurrentLayer]
    handovers: list[Handover]
    alignment: Alignment | None


def recurrent_model(found: Trace) -> RecurrentModel:
    """Return the recurrent layers of a traced model, in the order of the pass."""
    states = [name for name, made in found.graph.items() if id(made.operation) in CELL_OF]
    if not states:
        raise UserError("This model has no recurrent layers.", hint="choose an RNN, LSTM or GRU")
    return RecurrentModel([_layer(found, name) for name in states], _handovers(found), _alignment(found))


def _layer(found: Trace, name: str) -> RecurrentLayer:
    made = found.graph[name]
    scope = {other.name: full for full, other in found.graph.items() if other.path == made.path}
    cell = CELL_OF[id(made.operation)]
    side = "decoder" if made.path[0] == "decoder" else "encoder"
    backwards = "backwards" in made.path
    reversed_rows = backwards and not found.graph[scope["previous_hidden_state"]].constants["backwards"]
    tokens = found.target if side == "decoder" else found.source
    internal = CELLS[cell].internal
    return RecurrentLayer(
        side,
        next((part for part in made.path if isinstance(part, int)), 0),
        "backwards" if backwards else "forwards",
        cell,
        tokens[::-1] if reversed_rows else tokens,
        reversed_rows,
        [scope[state] for state in ("hidden_state", "cell_state") if state in scope],
        [scope[gate] for gate in internal if gate in scope and gate != "cell_state"],
        backwards or "forwards" in made.path,
    )


def _handovers(found: Trace) -> list[Handover]:
    handovers = []
    for name, made in found.graph.items():
        if made.path[:1] == ("decoder",) and made.name == "start":
            last = next(iter(made.tensors.values()))
            handovers.append(Handover(int(made.path[1]), last, name))
    return handovers


def _alignment(found: Trace) -> Alignment | None:
    energies = next((name for name, made in found.graph.items() if made.operation in ENERGIES), None)
    if energies is None:
        return None
    made = found.graph[energies]
    scope = {other.name: full for full, other in found.graph.items() if other.path == made.path}
    names = ("key", "query", made.name, "mask", "masked_scores", "weights", "context", "output")
    return Alignment(_kind(made), energies, scope["weights"], scope["context"], [scope[n] for n in names if n in scope])


def _kind(made: Provenance) -> str:
    return "additive" if made.operation is attention.bahdanau_scores else "dot"
