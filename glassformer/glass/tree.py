"""What a beam search considered: every candidate with its parent and score, as a tree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from glassformer.glass.trace import Pieces

KEPT, ENDED, DROPPED = "kept", "ended", "dropped"


@dataclass(frozen=True)
class Node:
    """A candidate: one more token after its parent. The root is number 0, before any token."""

    number: int
    parent: int
    step: int
    token: int
    piece: str
    log_probability: float  # of this token, given those before it
    total: float  # of all of them
    score: float  # total, normalised by the length
    fate: str  # kept: went on; ended: a finished output; dropped: others were better


@dataclass(frozen=True)
class Finished:
    """An output that was ranked: its text, and what it was ranked by."""

    text: str
    log_probability: float
    score: float
    ended: bool  # by itself, not by the length limit


@dataclass
class SearchTree:
    """The candidates of a beam search over one sentence, in the order in which they came, and its outputs."""

    beam: int
    source: list[str]
    nodes: list[Node]
    finished: list[Finished] = field(default_factory=list)

    def path(self, number: int) -> list[Node]:
        """From the first token to this one."""
        nodes: list[Node] = []
        while number:
            nodes.append(self.nodes[number])
            number = self.nodes[number].parent
        return nodes[::-1]

    def children(self, number: int) -> list[Node]:
        return [node for node in self.nodes[1:] if node.parent == number]


class TreeBuilder:
    """Grows a tree, a step of the search at a time. `normalizer`: what the total of so many tokens is divided by."""

    def __init__(
        self, source: list[str], pieces: Pieces, *, beam: int, sos: int, eos: int, normalizer: Callable[[int], float]
    ) -> None:
        root = Node(0, -1, -1, sos, pieces([sos])[0], 0.0, 0.0, 0.0, KEPT)
        self.tree = SearchTree(beam, source, [root])
        self._pieces, self._eos, self._normalizer = pieces, eos, normalizer
        self._open, self._length = [0] * beam, 0  # the node of each hypothesis

    def step(self, totals: Sequence[float], rows: Sequence[int], tokens: Sequence[int], kept: Sequence[int]) -> None:
        """The candidates of one step, best first; `kept` says which go on, and in which order."""
        nodes = self.tree.nodes
        numbers: dict[int, int] = {}
        self._length += 1
        for place, (total, row, token, piece) in enumerate(
            zip(totals, rows, tokens, self._pieces(tokens), strict=True)
        ):
            if total == float("-inf"):  # nobody's: before the second step all hypotheses but one are empty
                continue
            parent = self._open[row % self.tree.beam]
            ends = token == self._eos
            fate = KEPT if place in kept else ENDED if ends and place < self.tree.beam else DROPPED
            numbers[place] = len(nodes)
            before = nodes[parent].total
            score = total / self._normalizer(self._length)
            nodes.append(Node(len(nodes), parent, self._length - 1, token, piece, total - before, total, score, fate))
        self._open = [numbers.get(place, 0) for place in kept]
