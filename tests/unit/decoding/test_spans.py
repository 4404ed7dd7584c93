"""The most probable span, compared with an exhaustive search."""

from __future__ import annotations

import torch

from glassformer.decoding.spans import best_spans, log_probabilities


def test_the_best_of_all_spans() -> None:
    random = torch.Generator().manual_seed(3)
    logits_BS2 = torch.randn(5, 11, 2, generator=random)
    allowed_BS = torch.ones(5, 11, dtype=torch.bool)
    allowed_BS[:, 1:4] = False  # the question
    allowed_BS[2, 9:] = False  # padding
    logp = log_probabilities(logits_BS2, allowed_BS)
    torch.testing.assert_close(logp.exp().sum(1), torch.ones(5, 2))
    found = best_spans(logp, max_tokens=3)
    for row in range(5):
        tried = {
            (i, j): float(logp[row, i, 0] + logp[row, j, 1]) for i in range(1, 11) for j in range(i, min(11, i + 3))
        }
        best = max(tried, key=lambda span: tried[span])
        assert (int(found.start_B[row]), int(found.end_B[row])) == best
        assert abs(float(found.score_B[row]) - tried[best]) < 1e-6
        assert best[0] >= 4 and allowed_BS[row, best[1]]
        assert abs(float(found.no_answer_B[row]) - float(logp[row, 0].sum())) < 1e-6


def test_where_there_is_no_text_there_is_no_span() -> None:
    allowed_BS = torch.tensor([[True, False, False, False]])
    found = best_spans(log_probabilities(torch.zeros(1, 4, 2), allowed_BS))
    assert found.score_B.tolist() == [float("-inf")] and found.no_answer_B.tolist() == [0.0]
