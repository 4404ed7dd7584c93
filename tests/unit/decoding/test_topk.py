"""Block-wise top-k equals `torch.topk`."""

from __future__ import annotations

import pytest
import torch

from glassformer.decoding.topk import BLOCK, FEW_ROWS, argmax_tokens, logsumexp_, top_tokens


@pytest.mark.parametrize("vocab", [3, BLOCK, 8 * BLOCK, 31 * BLOCK + 17, 8000])
@pytest.mark.parametrize("count", [1, 3, 8])
def test_equals_topk(vocab: int, count: int) -> None:
    count = min(count, vocab)
    logits_NV = torch.randn(13, vocab)
    value, tokens = top_tokens(logits_NV, count)
    expected = logits_NV.topk(count, dim=1)
    assert torch.equal(value, expected.values)
    assert torch.equal(tokens, expected.indices)


def test_the_best_may_lie_in_one_block_or_in_the_rest() -> None:
    logits_NV = torch.zeros(max(2, FEW_ROWS), 20 * BLOCK + 5)
    together, rest = [700, 701, 702], [20 * BLOCK, 20 * BLOCK + 4, 3]
    for row, places in enumerate((together, rest)):
        logits_NV[row, places] = torch.tensor([3.0, 2.0, 1.0])
    assert top_tokens(logits_NV, 3)[1][:2].tolist() == [together, rest]


def test_forbidden_tokens_come_last() -> None:
    logits_NV = torch.full((FEW_ROWS, 20 * BLOCK), float("-inf"))
    logits_NV[0, 77] = 1.0
    value, tokens = top_tokens(logits_NV, 2)
    assert tokens[0, 0] == 77
    assert value[0, 1] == float("-inf")


@pytest.mark.parametrize("rows", [1, FEW_ROWS - 1, FEW_ROWS, 29])
def test_the_likeliest_token_is_that_of_argmax(rows: int) -> None:
    logits_NV = torch.randn(rows, 31 * BLOCK + 17)
    assert torch.equal(argmax_tokens(logits_NV), logits_NV.argmax(dim=1))


def test_the_normalizer_is_that_of_softmax_also_for_large_and_forbidden_logits() -> None:
    logits_NV = 1000 * torch.randn(7, 331)
    logits_NV[2, 5:] = float("-inf")
    logits_NV[3] = float("-inf")
    expected_N1 = logits_NV.logsumexp(dim=1, keepdim=True)
    found_N1 = logsumexp_(logits_NV, logits_NV.amax(dim=1, keepdim=True))
    torch.testing.assert_close(found_N1, expected_N1)
    assert found_N1[3] == float("-inf")
