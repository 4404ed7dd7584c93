"""Ensembles: the mean of the members' probabilities, in every search."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from glassformer.decoding import Hypothesis
from glassformer.decoding.beam import beam_search
from glassformer.decoding.constraints import no_repeated_ngram
from glassformer.decoding.ensemble import Ensemble
from glassformer.decoding.greedy import greedy
from glassformer.decoding.sampling import Sampling, sample
from tests.families import EOS, SOS, perturb, recurrent, transformer

LIMITS = [9, 5, 9, 9, 7]
Search = Callable[[Any, Tensor], list[list[Hypothesis]]]


def sampled(model: Any, source_BS: Tensor) -> list[list[Hypothesis]]:
    how, seeds = Sampling(temperature=1.3, top_k=11), list(range(5))
    return [[one] for one in sample(model, source_BS, how, seeds=seeds, limits=LIMITS, sos=SOS, eos=EOS)]


SEARCHES: dict[str, Search] = {
    "greedy": lambda model, source_BS: [
        [one]
        for one in greedy(model, source_BS, limits=LIMITS, sos=SOS, eos=EOS, constraint=no_repeated_ngram(1))
    ],
    "beam": lambda model, source_BS: beam_search(
        model, source_BS, beam=3, alpha=0.6, limits=LIMITS, sos=SOS, eos=EOS, constraint=no_repeated_ngram(2)
    ),
    "sampling": sampled,
}  # fmt: skip


@pytest.fixture(scope="module")
def members() -> list[Any]:
    """A Transformer, another one with learned positions, and a GRU."""
    torch.manual_seed(1)
    models = [transformer(), transformer(norm="pre", positions="learned", max_positions=43), recurrent(cell="gru")]
    return [perturb(model).eval() for model in models]


@pytest.fixture
def source_BS(padded: Any) -> Tensor:
    return padded([11, 4, 7, 1, 11], seed=1)


def mean_probability(members: list[Any], source_BS: Tensor, target_BT: Tensor) -> Tensor:
    """The probabilities of the token after each target position, computed without a cache."""
    return torch.stack([member(source_BS, target_BT).softmax(dim=2) for member in members]).mean(dim=0)


@torch.no_grad()
def test_a_step_averages_the_probabilities_of_the_members(members: list[Any], source_BS: Tensor, padded: Any) -> None:
    ensemble, copies = Ensemble(members), 3
    state = ensemble.start(ensemble.encode(source_BS), copies=copies)
    sentences, history_NT = torch.arange(5), torch.empty(5 * copies, 0, dtype=torch.long)
    for stays, within in (([0, 2, 3, 4], [2, 0, 2]), ([1, 2, 3], [1, 1, 0]), ([0, 1, 2], [0, 1, 2])):
        for seed in (1, 2):
            tokens_N = padded([1] * len(history_NT), seed=seed + len(history_NT))[:, 0]
            history_NT = torch.cat([history_NT, tokens_N[:, None]], dim=1)
            log_probability_NV, state = ensemble.step(tokens_N, state)
            expected_NTV = mean_probability(members, source_BS[sentences.repeat_interleave(copies)], history_NT)
            torch.testing.assert_close(log_probability_NV.exp(), expected_NTV[:, -1], atol=1e-6, rtol=1e-4)
        rows = torch.tensor([copies * sentence + row for sentence in stays for row in within])
        state, history_NT, sentences = state.select(rows), history_NT[rows], sentences[stays]


@torch.no_grad()
def test_a_state_can_be_used_twice(members: list[Any], source_BS: Tensor) -> None:
    ensemble, tokens_B = Ensemble(members), torch.full((5,), SOS)
    state = ensemble.start(ensemble.encode(source_BS))
    first, after = ensemble.step(tokens_B, state)
    ensemble.step(
        tokens_B, after.select(torch.tensor([3, 1])).select(torch.tensor([1, 0])).select(torch.tensor([0] * 5))
    )
    again, _ = ensemble.step(tokens_B, state)
    assert torch.equal(first, again)


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
def test_a_model_with_itself_gives_the_outputs_and_scores_of_the_model(
    members: list[Any], source_BS: Tensor, search: Search
) -> None:
    for model in members:
        for alone, together in zip(search(model, source_BS), search(Ensemble([model] * 3), source_BS), strict=True):
            assert [(h.tokens, h.finished) for h in together] == [(h.tokens, h.finished) for h in alone]
            for name in ("log_probability", "score"):
                expected = [getattr(h, name) for h in alone]
                assert [getattr(h, name) for h in together] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
def test_different_members_give_another_output_than_each_alone(
    members: list[Any], source_BS: Tensor, search: Search
) -> None:
    together = [found[0].tokens for found in search(Ensemble(members), source_BS)]
    for model in members:
        assert [found[0].tokens for found in search(model, source_BS)] != together


@torch.no_grad()
def test_the_score_of_a_beam_search_is_that_of_the_mean(members: list[Any], source_BS: Tensor) -> None:
    found = beam_search(Ensemble(members), source_BS, beam=3, alpha=0.6, limits=LIMITS, sos=SOS, eos=EOS)
    for row, hypotheses in enumerate(found):
        for h in hypotheses:
            written_T = torch.tensor([*h.tokens, EOS] if h.finished else h.tokens)
            read_T = torch.cat([torch.tensor([SOS]), written_T[:-1]])
            probability_TV = mean_probability(members, source_BS[row : row + 1], read_T[None])[0]
            total = probability_TV.gather(1, written_T[:, None]).log().sum().item()
            assert h.log_probability == pytest.approx(total, abs=1e-4)


def test_the_shortest_maximum_length_of_the_members_counts(members: list[Any]) -> None:
    assert Ensemble(members).max_positions == 43
    assert Ensemble([members[0], members[2]]).max_positions is None
