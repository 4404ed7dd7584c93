"""Caches: what was appended comes back, in order, whatever the buffers do."""

from __future__ import annotations

import torch
from torch import Tensor

from glassformer.nn.state import KeyValue, KeyValueCache, sentences_of

B, H, E = 5, 3, 7


def steps(count: int) -> tuple[Tensor, Tensor]:
    torch.manual_seed(count)
    return torch.randn(B, H, count, E), torch.randn(B, H, count, E)


def test_all_that_was_appended_comes_back_while_buffers_grow() -> None:
    keys, values = steps(83)  # beyond 32 and 66: the buffers grow twice
    cache = KeyValueCache()
    for t in range(83):
        key, value = cache.append(keys[:, :, t : t + 1], values[:, :, t : t + 1])
        assert cache.length == t + 1
        assert torch.equal(key, keys[:, :, : t + 1])
        assert torch.equal(value, values[:, :, : t + 1])


def test_several_tokens_at_once() -> None:
    keys, values = steps(41)
    cache = KeyValueCache()
    for start, end in [(0, 3), (3, 34), (34, 41)]:
        key, value = cache.append(keys[:, :, start:end], values[:, :, start:end])
    assert torch.equal(key, keys)
    assert torch.equal(value, values)


def test_select_takes_rows_in_any_order_and_twice() -> None:
    keys, values = steps(3)
    cache = KeyValueCache()
    cache.append(keys[:, :, :2], values[:, :, :2])
    rows = torch.tensor([4, 0, 4])
    chosen = cache.select(rows)
    key, value = chosen.append(keys[rows][:, :, 2:], values[rows][:, :, 2:])
    assert chosen.length == 3
    assert torch.equal(key, keys[rows])
    assert torch.equal(value, values[rows])


def test_a_selected_cache_shares_nothing() -> None:
    keys, values = steps(3)
    cache = KeyValueCache()
    cache.append(keys[:, :, :2], values[:, :, :2])
    chosen = cache.select(torch.arange(B))
    chosen.append(torch.full((B, H, 1, E), 99.0), torch.full((B, H, 1, E), 99.0))
    assert cache.length == 2
    key, value = cache.append(keys[:, :, 2:], values[:, :, 2:])
    assert torch.equal(key, keys)
    assert torch.equal(value, values)


def test_an_empty_cache_can_be_selected() -> None:
    keys, values = steps(1)
    key, _ = KeyValueCache().select(torch.tensor([1])).append(keys[1:2], values[1:2])
    assert torch.equal(key, keys[1:2])


def test_keys_and_values_are_selected_together() -> None:
    keys, values = steps(3)
    chosen = KeyValue(keys, values).select(torch.tensor([3, 1]))
    assert torch.equal(chosen.key_BHKE, keys[[3, 1]])
    assert torch.equal(chosen.value_BHKE, values[[3, 1]])


def test_the_sentence_of_each_block_of_hypotheses() -> None:
    # Three hypotheses a sentence; the second of four sentences has left.
    rows = torch.tensor([2, 0, 0, 8, 7, 6, 9, 11, 10])
    assert sentences_of(rows, 3).tolist() == [0, 2, 3]
    assert sentences_of(torch.tensor([4, 1, 3]), 1).tolist() == [4, 1, 3]
