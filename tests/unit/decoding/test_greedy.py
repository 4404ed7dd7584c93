"""Greedy decoding of generators whose output is given by a table."""

from __future__ import annotations

import math

import pytest
import torch

from glassformer.decoding.constraints import min_length
from glassformer.decoding.greedy import greedy

SOS, EOS, A, B, C = 0, 1, 2, 3, 4

# After <sos>: A is the most probable. A → B → <eos>. C repeats forever.
TABLE = [
    [0.0, 0.1, 0.5, 0.1, 0.3],
    [0.2, 0.2, 0.2, 0.2, 0.2],
    [0.0, 0.3, 0.1, 0.4, 0.2],
    [0.0, 0.7, 0.1, 0.1, 0.1],
    [0.0, 0.1, 0.1, 0.1, 0.7],
]


def source(*sentences: int) -> torch.Tensor:
    return torch.tensor(sentences)[:, None]


def test_the_likeliest_token_at_every_step(chain) -> None:
    (best,) = greedy(chain(TABLE), source(0), limits=[9], sos=SOS, eos=EOS)
    assert best.tokens == [A, B]
    assert best.finished
    assert best.log_probability == pytest.approx(math.log(0.5 * 0.4 * 0.7), rel=1e-6)
    assert best.score == pytest.approx(math.log(0.5 * 0.4 * 0.7) / 3, rel=1e-6)  # a token, <eos> included


def test_an_output_cut_off_at_the_limit_is_not_finished(chain) -> None:
    endless = [row[:] for row in TABLE]
    endless[SOS] = [0.0, 0.1, 0.1, 0.1, 0.7]
    (best,) = greedy(chain(endless), source(0), limits=[5], sos=SOS, eos=EOS)
    assert best.tokens == [C] * 5
    assert not best.finished
    assert best.log_probability == pytest.approx(5 * math.log(0.7), rel=1e-6)
    assert best.score == pytest.approx(math.log(0.7), rel=1e-6)


def test_a_sentence_that_ends_at_its_limit_is_finished(chain) -> None:
    (three,) = greedy(chain(TABLE), source(0), limits=[3], sos=SOS, eos=EOS)
    assert (three.tokens, three.finished) == ([A, B], True)
    (two,) = greedy(chain(TABLE), source(0), limits=[2], sos=SOS, eos=EOS)
    assert (two.tokens, two.finished) == ([A, B], False)


def lengths_by_source(chain, lengths: list[int]):
    """Source i outputs `lengths[i]` tokens, then <eos>. Token t is followed by t + 1."""
    vocab = max(lengths) + 3
    table = torch.full((len(lengths), vocab, vocab), 1e-6)
    for i, length in enumerate(lengths):
        last = SOS
        for t in range(length):
            table[i, last, t + 2] = 1
            last = t + 2
        table[i, last, EOS] = 1
    return chain(table)


def test_finished_sentences_leave_the_batch(chain) -> None:
    lengths = [3, 0, 5, 1, 3]
    model = lengths_by_source(chain, lengths)
    found = greedy(model, source(0, 1, 2, 3, 4), limits=[11] * 5, sos=SOS, eos=EOS)
    assert [h.tokens for h in found] == [[*range(2, 2 + length)] for length in lengths]
    assert all(h.finished for h in found)
    assert model.rows == [5, 4, 3, 3, 1, 1]


def test_each_sentence_has_its_own_limit(chain) -> None:
    lengths, limits = [3, 7, 5, 1], [2, 7, 6, 3]
    model = lengths_by_source(chain, lengths)
    found = greedy(model, source(0, 1, 2, 3), limits=limits, sos=SOS, eos=EOS)
    assert [len(h.tokens) for h in found] == [2, 7, 5, 1]
    assert [h.finished for h in found] == [False, False, True, True]
    assert model.rows == [4, 4, 2, 2, 2, 2, 1]


def test_batch_mates_change_nothing(tree) -> None:
    model = tree(vocab=5, seed=3)
    limits = [7, 2, 6, 7, 4, 5, 7]
    together = greedy(model, source(*range(7)), limits=limits, sos=SOS, eos=EOS)
    alone = [greedy(model, source(i), limits=[limits[i]], sos=SOS, eos=EOS)[0] for i in range(7)]
    assert together == alone
    assert len({len(h.tokens) for h in together}) > 2


def test_a_constraint_is_obeyed_and_the_rest_renormalised(chain) -> None:
    silent = [row[:] for row in TABLE]
    silent[SOS] = [0.0, 0.6, 0.3, 0.1, 0.0]
    (empty,) = greedy(chain(silent), source(0), limits=[9], sos=SOS, eos=EOS)
    assert empty.tokens == []
    assert empty.finished
    (guarded,) = greedy(chain(silent), source(0), limits=[9], sos=SOS, eos=EOS, constraint=min_length(1, EOS))
    assert guarded.tokens == [A, B]
    assert guarded.log_probability == pytest.approx(math.log(0.75 * 0.4 * 0.7), rel=1e-5)


def test_constraints_see_the_tokens_of_their_own_rows_without_sos(chain) -> None:
    seen = []

    def watch(output_NT: torch.Tensor, logits_NV: torch.Tensor) -> None:
        seen.append((output_NT.tolist(), logits_NV.shape[1]))

    greedy(lengths_by_source(chain, [0, 2]), source(0, 1), limits=[9, 9], sos=SOS, eos=EOS, constraint=watch)
    assert seen == [([[], []], 5), ([[2]], 5), ([[2, 3]], 5)]
