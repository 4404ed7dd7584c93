"""Key–value caches return all appended tokens in order."""

from __future__ import annotations

import torch
from torch import Tensor

from glassformer.nn.cache import KeyValueCache, sentences_of

B, H, E = 5, 3, 7


def steps(count: int) -> Tensor:
    """Keys and values, 2×B×H×count×E."""
    torch.manual_seed(count)
    return torch.randn(2, B, H, count, E)


def test_appended_tokens_are_kept_while_the_buffer_grows() -> None:
    everything = steps(83)  # beyond 32 and 66: it grows twice
    cache = KeyValueCache()
    for t in range(83):
        found = cache.append(*everything[:, :, :, t : t + 1])
        assert cache.length == t + 1
        assert torch.equal(found, everything[:, :, :, : t + 1])


def test_several_tokens_at_once() -> None:
    everything = steps(41)
    cache = KeyValueCache()
    for start, end in [(0, 3), (3, 34), (34, 41)]:
        found = cache.append(*everything[:, :, :, start:end])
    assert torch.equal(found, everything)


def test_select_takes_sentences_in_any_order_and_twice() -> None:
    everything = steps(3)
    cache = KeyValueCache()
    cache.append(*everything[:, :, :, :2])
    sentences = torch.tensor([4, 0, 4])
    chosen = cache.select(sentences)
    found = chosen.append(*everything[:, sentences, :, 2:])
    assert chosen.length == 3
    assert torch.equal(found, everything[:, sentences])


def test_a_selected_cache_shares_nothing() -> None:
    everything = steps(3)
    cache = KeyValueCache()
    cache.append(*everything[:, :, :, :2])
    chosen = cache.select(torch.arange(B))
    chosen.append(*torch.full((2, B, H, 1, E), 99.0))
    assert cache.length == 2
    assert torch.equal(cache.append(*everything[:, :, :, 2:]), everything)


def test_forks_do_not_see_what_is_appended_to_each_other() -> None:
    everything, other = steps(5), torch.full((2, B, H, 1, E), 99.0)
    cache = KeyValueCache()
    cache.append(*everything[:, :, :, :2])
    first, second = cache.fork(), cache.fork()
    first.append(*everything[:, :, :, 2:3])
    assert torch.equal(second.append(*other), torch.cat([everything[:, :, :, :2], other], dim=3))
    assert torch.equal(first.append(*everything[:, :, :, 3:4]), everything[:, :, :, :4])
    assert torch.equal(cache.append(*everything[:, :, :, 2:]), everything)
    assert torch.equal(second.append(*other), torch.cat([everything[:, :, :, :2], other, other], dim=3))


def test_forks_share_memory_until_they_differ() -> None:
    everything = steps(7)
    cache = KeyValueCache()
    first = cache.append(*everything[:, :, :, :1])
    for t in range(1, 7):
        cache = cache.fork()
        assert cache.append(*everything[:, :, :, t : t + 1]).data_ptr() == first.data_ptr()


def test_an_empty_cache_can_be_selected() -> None:
    one = steps(1)[:, 1:2]
    assert torch.equal(KeyValueCache().select(torch.tensor([1])).append(*one), one)


def test_the_sentence_of_each_block_of_hypotheses() -> None:
    # Three hypotheses per sentence; the second of four sentences has left.
    rows = torch.tensor([2, 0, 0, 8, 7, 6, 9, 11, 10])
    assert sentences_of(rows, 3).tolist() == [0, 2, 3]
    assert sentences_of(torch.tensor([4, 1, 3]), 1).tolist() == [4, 1, 3]
