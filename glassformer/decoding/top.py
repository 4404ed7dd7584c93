"""The few best of many."""

from __future__ import annotations

import torch
from torch import Tensor

BLOCK = 64


def top_tokens(logits_NV: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` highest logits of each row and their tokens, highest first: what `topk` gives, sooner.

    The best k lie in the k blocks whose maxima are highest, so only those blocks are sorted.
    """
    V = logits_NV.shape[1]
    whole = V - V % BLOCK
    if count * BLOCK >= whole:  # no block could be left out
        return logits_NV.topk(count, dim=1)
    highest_NC = logits_NV[:, :whole].unflatten(1, (-1, BLOCK)).amax(dim=2)
    blocks_NC1 = highest_NC.topk(count, dim=1).indices[:, :, None]
    inside = torch.arange(BLOCK, device=logits_NV.device)
    rest = torch.arange(whole, V, device=logits_NV.device).expand(len(logits_NV), -1)
    tokens_NC = torch.cat([(blocks_NC1 * BLOCK + inside).flatten(1), rest], dim=1)
    value_NC, place_NC = logits_NV.gather(1, tokens_NC).topk(count, dim=1)
    return value_NC, tokens_NC.gather(1, place_NC)
