"""The tree of a beam search records the search."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from glassformer.decoding import Hypothesis
from glassformer.decoding.beam import beam_search, length_penalty
from glassformer.glass.search_tree import DROPPED, ENDED, KEPT, SearchTree, TreeBuilder
from glassformer.glass.terminal import search_tree_view

SOS, EOS, BEAM, VOCAB = 1, 2, 3, 6


def searched(model: Any) -> tuple[SearchTree, list[Hypothesis]]:
    builder = TreeBuilder(["a"], lambda ids: [f"w{i}" for i in ids], beam=BEAM, alpha=0.6)
    (found,) = beam_search(
        model,
        torch.tensor([[3]]),
        beam=BEAM,
        alpha=0.6,
        limits=[6],
        sos=SOS,
        eos=EOS,
        on_step=lambda s: builder.add(*(x[0].tolist() for x in (s.total_BC, s.row_BC, s.token_BC, s.kept_BK))),
    )
    return builder.tree, found


@pytest.mark.parametrize("seed", range(5))
def test_every_node_has_the_log_probability_of_its_path(tree: Any, seed: int) -> None:
    model = tree(vocab=VOCAB, seed=seed)
    grown, _ = searched(model)
    for node in grown.nodes[1:]:
        history = [SOS, *(step.token for step in grown.path(node.number)[:-1])]
        state = model.start(model.encode(torch.tensor([[3]])))
        for token in history:
            logits_NV, state = model.step(torch.tensor([token]), state)
        assert node.log_probability == pytest.approx(float(logits_NV[0].log_softmax(-1)[node.token]), abs=1e-4)
        assert node.total == pytest.approx(grown.nodes[node.parent].total + node.log_probability, abs=1e-5)
        assert node.score == pytest.approx(node.total / length_penalty(node.step + 1, 0.6), abs=1e-5)
        assert node.step == len(history) - 1


@pytest.mark.parametrize("seed", range(5))
def test_the_tree_contains_the_outputs(tree: Any, seed: int) -> None:
    grown, found = searched(tree(vocab=VOCAB, seed=seed))
    ended = {tuple(n.token for n in grown.path(node.number)): node for node in grown.nodes[1:] if node.fate == ENDED}
    for output in found:
        if output.finished:
            node = ended[(*output.tokens, EOS)]
            assert (node.total, node.score) == pytest.approx((output.log_probability, output.score), abs=1e-4)
    for step in range(max(node.step for node in grown.nodes)):
        fates = [node.fate for node in grown.nodes[1:] if node.step == step]
        assert fates.count(KEPT) == BEAM
        assert DROPPED in fates
    assert all(grown.nodes[node.parent].fate == KEPT for node in grown.nodes[1:])
    assert {child.parent for child in grown.children(1)} <= {1}


def test_the_view_has_a_line_per_kept_or_ended_node(tree: Any) -> None:
    grown, _ = searched(tree(vocab=VOCAB, seed=1))
    lines = search_tree_view(grown)
    assert lines.index("") == sum(node.fate != DROPPED for node in grown.nodes[1:])
    assert lines[0].startswith("└ ") or lines[0].startswith("■ ")
