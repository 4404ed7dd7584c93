"""The candidates of a beam search as a tree: every candidate with its parent and score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from glassformer.data.batching import pad_rows
from glassformer.decoding.beam import BeamStep, beam_search, length_penalty
from glassformer.decoding.constraints import min_length
from glassformer.glass.trace import ToTokens
from glassformer.inference.batch_decoder import output_limit
from glassformer.inference.translator import Translator
from glassformer.text.tokenizer import EOS, SOS

KEPT, ENDED, DROPPED = "kept", "ended", "dropped"


@dataclass(frozen=True)
class SearchNode:
    """A candidate: one more token after its parent. The root has number 0 and stands for `<sos>`.

    Attributes:
        log_probability: of this token, given the tokens before it.
        total: log-probability of all tokens up to this one.
        score: `total`, normalized by the length.
        fate: "kept" (extended in the next step), "ended" (a finished output) or "dropped".
    """

    number: int
    parent: int
    step: int
    token: int
    piece: str
    log_probability: float
    total: float
    score: float
    fate: str


@dataclass(frozen=True)
class RankedOutput:
    """An output of the search; `ended` is False if it was cut off at the length limit."""

    text: str
    log_probability: float
    score: float
    ended: bool


@dataclass
class SearchTree:
    """The candidates of a beam search over one sentence in the order of the search, and its outputs."""

    beam: int
    source: list[str]
    nodes: list[SearchNode]
    finished: list[RankedOutput] = field(default_factory=list)

    def path(self, number: int) -> list[SearchNode]:
        """Return the nodes from the first token to a node."""
        nodes: list[SearchNode] = []
        while number:
            nodes.append(self.nodes[number])
            number = self.nodes[number].parent
        return nodes[::-1]

    def children(self, number: int) -> list[SearchNode]:
        return [node for node in self.nodes[1:] if node.parent == number]


def trace_beam_search(translator: Translator, source: str, *, beam: int | None = None) -> SearchTree:
    """Run a beam search and return all its candidates."""
    ids = translator.encode_sentence(source)
    settings, tokenizer = translator.decode_settings(beam), translator.tokenizer
    builder = TreeBuilder(tokenizer.pieces(ids), tokenizer.pieces, beam=settings.beam, alpha=settings.length_penalty)

    def on_step(step: BeamStep) -> None:
        builder.add(*(of[0].tolist() for of in (step.total_BC, step.row_BC, step.token_BC, step.kept_BK)))

    (found,) = beam_search(
        translator.model,
        pad_rows([ids]).to(next(translator.model.parameters()).device),
        beam=settings.beam,
        alpha=settings.length_penalty,
        limits=[output_limit(translator.model, settings, len(ids) - 1)],
        sos=SOS,
        eos=EOS,
        constraint=min_length(settings.min_length, EOS),
        on_step=on_step,
    )
    builder.tree.finished += [
        RankedOutput(tokenizer.decode(h.tokens), h.log_probability, h.score, h.finished) for h in found
    ]
    return builder.tree


class TreeBuilder:
    """Builds a `SearchTree` step by step. `alpha` is the exponent of the length penalty."""

    def __init__(
        self, source: list[str], to_tokens: ToTokens, *, beam: int, alpha: float, sos: int = SOS, eos: int = EOS
    ) -> None:
        root = SearchNode(0, -1, -1, sos, to_tokens([sos])[0], 0.0, 0.0, 0.0, KEPT)
        self.tree = SearchTree(beam, source, [root])
        self._to_tokens, self._alpha, self._eos = to_tokens, alpha, eos
        self._open, self._length = [0] * beam, 0  # the node of each hypothesis

    def add(self, totals: Sequence[float], rows: Sequence[int], tokens: Sequence[int], kept: Sequence[int]) -> None:
        """Add the candidates of one step, best first; `kept` are the indices of those that are extended next."""
        nodes = self.tree.nodes
        numbers: dict[int, int] = {}
        self._length += 1
        pieces = self._to_tokens(tokens)
        for index, (total, row, token, piece) in enumerate(zip(totals, rows, tokens, pieces, strict=True)):
            if total == float("-inf"):  # in the first step only one hypothesis can be extended
                continue
            parent = self._open[row % self.tree.beam]
            ended = token == self._eos and index < self.tree.beam
            fate = KEPT if index in kept else ENDED if ended else DROPPED
            numbers[index] = len(nodes)
            gain, score = total - nodes[parent].total, total / length_penalty(self._length, self._alpha)
            nodes.append(SearchNode(len(nodes), parent, self._length - 1, token, piece, gain, total, score, fate))
        self._open = [numbers.get(index, 0) for index in kept]
