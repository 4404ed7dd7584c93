"""Beam search compared with hand-made examples, full enumeration, and a plain implementation."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from glassformer.decoding import Hypothesis
from glassformer.decoding.beam import beam_search, best_continuations, length_penalty
from glassformer.decoding.constraints import min_length, no_repeated_ngram
from glassformer.decoding.greedy import greedy

SOS, EOS, A, B, C = 0, 1, 2, 3, 4


def source(*sentences: int) -> torch.Tensor:
    return torch.tensor(sentences)[:, None]


def log_probability(model, sentence: int, tokens: list[int]) -> float:
    """Of these tokens, each after the ones before, straight from the generator's rule."""
    total = 0.0
    for i, token in enumerate(tokens):
        logits = model.rule(torch.tensor([sentence]), torch.tensor([[SOS, *tokens[:i]]]))
        total += logits[0].double().log_softmax(0)[token].item()
    return total


def penalty(length: int, alpha: float) -> float:
    return ((5 + length) / 6) ** alpha


def enumerated(model, sentence: int, *, vocab: int, limit: int, alpha: float) -> list[Hypothesis]:
    """Return all outputs: finished ones, then those cut off at the limit; best first."""
    words = [token for token in range(vocab) if token != EOS]
    ended, cut = [], []
    for length in range(limit):
        for tokens in itertools.product(words, repeat=length):
            total = log_probability(model, sentence, [*tokens, EOS])
            ended.append(Hypothesis(list(tokens), total, total / penalty(length + 1, alpha), True))
    for tokens in itertools.product(words, repeat=limit):
        total = log_probability(model, sentence, list(tokens))
        cut.append(Hypothesis(list(tokens), total, total / penalty(limit, alpha), False))
    return sorted(ended, key=lambda h: -h.score) + sorted(cut, key=lambda h: -h.score)


def assert_same(found: list[Hypothesis], expected: list[Hypothesis]) -> None:
    assert [(h.tokens, h.finished) for h in found] == [(h.tokens, h.finished) for h in expected]
    assert [h.log_probability for h in found] == pytest.approx([h.log_probability for h in expected], rel=1e-5)
    assert [h.score for h in found] == pytest.approx([h.score for h in expected], rel=1e-5)


def test_beam_finds_what_greedy_misses(chain) -> None:
    # A is likelier than B at first, but nothing good follows it: 0.6·0.3 < 0.4·0.9.
    table = [[0, 0, 0.6, 0.4, 0], [1, 0, 0, 0, 0], [0, 0.3, 0.25, 0.25, 0.2], [0, 0.9, 0, 0, 0.1], [0, 1, 0, 0, 0]]
    (first,) = greedy(chain(table), source(0), limits=[5], sos=SOS, eos=EOS)
    assert first.tokens[0] == A
    ((best, *others),) = beam_search(chain(table), source(0), beam=2, alpha=0.0, limits=[5], sos=SOS, eos=EOS)
    assert best == Hypothesis([B], pytest.approx(math.log(0.36), rel=1e-5), best.log_probability, True)
    assert best.log_probability > first.log_probability
    assert len(others) == 1


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0, 2.0])
def test_a_large_beam_enumerates_all_outputs(tree, alpha: float) -> None:
    model, limit = tree(vocab=4, seed=5), 5
    everything = 1 + 3 + 9 + 27 + 81 + 3**limit
    found = beam_search(model, source(0, 3), beam=everything, alpha=alpha, limits=[limit, limit - 1], sos=SOS, eos=EOS)
    expected = enumerated(model, 0, vocab=4, limit=limit, alpha=alpha)
    assert len(expected) == everything
    assert_same(found[0], expected)
    assert_same(found[1], enumerated(model, 3, vocab=4, limit=limit - 1, alpha=alpha))


def readable_search(
    model, sentence: int, *, beam: int, alpha: float, limit: int, vocab: int, constraint=None
) -> list[Hypothesis]:
    """Plain beam search for one sentence, on lists and without early stopping."""
    going: list[tuple[float, list[int]]] = [(0.0, [])]
    ended: list[Hypothesis] = []
    for length in range(1, limit + 1):
        candidates = []
        for total, tokens in going:
            logits = model.rule(torch.tensor([sentence]), torch.tensor([[SOS, *tokens]]))
            if constraint:
                logits = logits.clone()
                constraint(torch.tensor([tokens], dtype=torch.long), logits)
            step = logits[0].double().log_softmax(0).tolist()
            candidates += [(total + step[token], [*tokens, token]) for token in range(vocab) if step[token] > -math.inf]
        candidates.sort(key=lambda candidate: -candidate[0])
        for total, tokens in candidates[:beam]:
            if tokens[-1] == EOS:
                ended.append(Hypothesis(tokens[:-1], total, total / penalty(length, alpha), True))
        going = [(total, tokens) for total, tokens in candidates if tokens[-1] != EOS][:beam]
    if len(ended) < beam:
        ended += [Hypothesis(tokens, total, total / penalty(limit, alpha), False) for total, tokens in going]
    return sorted(ended, key=lambda h: (not h.finished, -h.score))[:beam]


@pytest.mark.parametrize("beam", [1, 2, 3, 5])
@pytest.mark.parametrize("seed", range(4))
def test_a_batch_finds_what_a_readable_search_finds(tree, beam: int, seed: int) -> None:
    model, limits = tree(vocab=7, seed=seed, sharpness=2.0), [7, 1, 5, 7, 3]
    found = beam_search(model, source(6, 0, 3, 1, 2), beam=beam, alpha=0.0, limits=limits, sos=SOS, eos=EOS)
    for i, sentence in enumerate([6, 0, 3, 1, 2]):
        assert_same(found[i], readable_search(model, sentence, beam=beam, alpha=0.0, limit=limits[i], vocab=7))


@pytest.mark.parametrize("alpha", [0.0, 0.6])
def test_the_search_does_not_stop_before_nothing_better_can_come(tree, alpha: float) -> None:
    for seed in range(20):
        model = tree(vocab=5, seed=seed, sharpness=3.0)
        found = beam_search(model, source(0, 1), beam=3, alpha=alpha, limits=[7, 7], sos=SOS, eos=EOS)
        for sentence in (0, 1):
            expected = readable_search(model, sentence, beam=3, alpha=alpha, limit=7, vocab=5)
            assert_same(found[sentence], expected)


def test_the_search_does_not_wait_for_an_output_that_could_win_by_length(chain) -> None:
    # <eos> at once has 0.55. B C 5 6 7 8 <eos> has 0.45, and only by ((5+7)/6)^1 the better score.
    table = torch.zeros(7, 10, 10)
    table[0, SOS, EOS], table[0, SOS, B] = 0.55, 0.45
    path = [B, C, 5, 6, 7, 8, EOS]
    for last, token in itertools.pairwise(path):
        table[0, last, token] = 1
    ((best,),) = beam_search(chain(table), source(0), beam=1, alpha=1.0, limits=[9], sos=SOS, eos=EOS)
    assert best.tokens == []
    both = beam_search(chain(table), source(0), beam=2, alpha=1.0, limits=[9], sos=SOS, eos=EOS)
    assert [h.tokens for h in both[0]] == [path[:-1], []]  # a beam of 2 has room to finish it


def test_scores_are_true_log_probabilities_normalised_by_length(tree) -> None:
    model, alpha = tree(vocab=11, seed=1), 0.6
    found = beam_search(model, source(0, 1, 2), beam=4, alpha=alpha, limits=[6, 6, 6], sos=SOS, eos=EOS)
    for sentence, hypotheses in enumerate(found):
        assert len(hypotheses) == 4
        assert len({tuple(h.tokens) for h in hypotheses}) == 4
        for h in hypotheses:
            written = [*h.tokens, EOS] if h.finished else h.tokens
            total = log_probability(model, sentence, written)
            assert h.log_probability == pytest.approx(total, rel=1e-5)
            assert h.score == pytest.approx(total / ((5 + len(written)) / 6) ** alpha, rel=1e-5)


def test_length_penalty() -> None:
    assert length_penalty(1, 0.6) == 1
    assert length_penalty(7, 1.0) == 2
    assert length_penalty(7, 0.6) == pytest.approx(1.5157, abs=1e-4)
    assert length_penalty(100, 0.0) == 1


def test_a_greater_alpha_prefers_longer_outputs(chain) -> None:
    table = [[0, 0.5, 0.5, 0, 0], [1, 0, 0, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 1], [0, 0.9, 0, 0.1, 0]]
    best = {}
    for alpha in (0.0, 1.0):
        ((first, *_),) = beam_search(chain(table), source(0), beam=4, alpha=alpha, limits=[6], sos=SOS, eos=EOS)
        best[alpha] = first.tokens
    assert best == {0.0: [], 1.0: [A, B, C]}


def endless(chain):
    """Source 0 ends after A; source 1 never ends."""
    table = torch.zeros(2, 4, 4)
    table[0, SOS, A], table[0, SOS, B] = 0.9, 0.1
    table[0, A, EOS] = table[0, B, EOS] = 1
    table[1, SOS, A], table[1, SOS, B] = 0.7, 0.3
    table[1, A, A], table[1, A, B], table[1, B, B] = 0.8, 0.2, 1
    return chain(table)


def test_finished_sentences_leave_the_batch(chain) -> None:
    model = endless(chain)
    found = beam_search(model, source(1, 0, 1), beam=2, alpha=0.6, limits=[5, 5, 4], sos=SOS, eos=EOS)
    assert [h.tokens for h in found[1]] == [[A], [B]]
    assert model.rows == [6, 6, 4, 4, 2]


def test_outputs_cut_off_at_the_limit_are_not_finished(chain) -> None:
    found = beam_search(endless(chain), source(1, 0), beam=2, alpha=0.6, limits=[3, 3], sos=SOS, eos=EOS)
    assert [(h.tokens, h.finished) for h in found[0]] == [([A, A, A], False), ([B, B, B], False)]
    assert found[0][0].log_probability == pytest.approx(math.log(0.7 * 0.8 * 0.8), rel=1e-5)
    assert [h.finished for h in found[1]] == [True, True]


def test_finished_outputs_rank_before_outputs_cut_off_at_the_limit(chain) -> None:
    # Cut: A A A with 0.9·0.9·0.9. Ended: B <eos> with far less.
    table = [[0, 0, 0.9, 0.1], [1, 0, 0, 0], [0, 0, 1, 0], [0, 1, 0, 0]]
    ((first, second),) = beam_search(chain(table), source(0), beam=2, alpha=0.6, limits=[3], sos=SOS, eos=EOS)
    assert (first.tokens, first.finished) == ([B], True)
    assert (second.tokens, second.finished) == ([A, A, A], False)
    assert second.score > first.score


def test_batch_mates_change_nothing(tree) -> None:
    model, limits = tree(vocab=11, seed=2, sharpness=2.0), [7, 3, 6, 7, 4, 5, 7]
    together = beam_search(model, source(*range(7)), beam=3, alpha=0.6, limits=limits, sos=SOS, eos=EOS)
    for i in range(7):
        (alone,) = beam_search(model, source(i), beam=3, alpha=0.6, limits=[limits[i]], sos=SOS, eos=EOS)
        assert_same(together[i], alone)


@pytest.mark.parametrize("constraint", [no_repeated_ngram(1), no_repeated_ngram(2), min_length(3, EOS)])
def test_constraints_are_obeyed_by_every_hypothesis(tree, constraint) -> None:
    model = tree(vocab=5, seed=7)
    found = beam_search(model, source(0, 1), beam=4, alpha=0.0, limits=[6, 6], sos=SOS, eos=EOS, constraint=constraint)
    for sentence in (0, 1):
        assert_same(
            found[sentence],
            readable_search(model, sentence, beam=4, alpha=0.0, limit=6, vocab=5, constraint=constraint),
        )


def test_a_beam_larger_than_the_number_of_outputs(chain) -> None:
    table = [[0, 0, 0.75, 0.25], [1, 0, 0, 0], [0, 1, 0, 0], [0, 1, 0, 0]]
    (found,) = beam_search(chain(table), source(0), beam=7, alpha=0.6, limits=[9], sos=SOS, eos=EOS)
    assert [h.tokens for h in found] == [[A], [B]]
    assert all(math.isfinite(h.score) for h in found)


def test_best_continuations_over_all_rows_of_a_sentence() -> None:
    # Two sentences, two rows each, three tokens.
    share_NV = torch.tensor([[0.6, 0.3, 0.1], [0.5, 0.4, 0.1], [0.2, 0.5, 0.3], [0.7, 0.2, 0.1]])
    total_BK = torch.tensor([[0.0, -0.5], [0.0, -1.25]])
    logits_NV = share_NV.log() + torch.tensor([[3.0], [-2], [0], [1]])  # logits are known but for a constant
    total, row, token = best_continuations(logits_NV, total_BK, 4)
    expected = [[0.6, 0.5 * math.exp(-0.5), 0.3, 0.4 * math.exp(-0.5)], [0.5, 0.3, 0.2, 0.7 * math.exp(-1.25)]]
    expected[1].sort(reverse=True)
    torch.testing.assert_close(total.exp(), torch.tensor(expected))
    assert row.tolist() == [[0, 1, 0, 1], [2, 2, 3, 2]]
    assert token.tolist() == [[0, 0, 1, 1], [1, 2, 0, 0]]


def test_hypothesis_with_every_token_forbidden_is_dropped(chain) -> None:
    """Its log-probabilities are NaN, which must not displace other hypotheses."""
    # A is the best first token, but nothing may follow it. B is followed by C and <eos>.
    table = [[0, 0, 0.6, 0.4, 0], [1, 0, 0, 0, 0], [0, 0, 0, 0.5, 0.5], [0, 0, 0, 0, 1], [0, 1, 0, 0, 0]]

    def nothing_after_a(output_NT: torch.Tensor, logits_NV: torch.Tensor) -> None:
        if output_NT.shape[1]:
            logits_NV[output_NT[:, -1] == A] = -math.inf

    ((best, *others),) = beam_search(
        chain(table), source(0), beam=2, alpha=0.0, limits=[5], sos=SOS, eos=EOS, constraint=nothing_after_a
    )
    assert best == Hypothesis([B, C], pytest.approx(math.log(0.4), rel=1e-5), best.log_probability, True)
    assert all(math.isfinite(h.score) for h in others)
