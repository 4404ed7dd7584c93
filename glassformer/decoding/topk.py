"""Block-wise top-k and in-place log-sum-exp."""

from __future__ import annotations

import torch
from torch import Tensor

BLOCK = 64
FEW_ROWS = 4  # below this number of rows, PyTorch's own functions are faster


def top_tokens(logits_NV: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the `count` highest logits of each row and their tokens, like `topk` but faster.

    The k highest logits lie in the k blocks with the highest maxima, so only those blocks are sorted.
    """
    V = logits_NV.shape[1]
    whole = V - V % BLOCK
    if count * BLOCK >= whole or len(logits_NV) < FEW_ROWS:
        return logits_NV.topk(count, dim=1)
    highest_NC = logits_NV[:, :whole].unflatten(1, (-1, BLOCK)).amax(dim=2)
    blocks_NC1 = highest_NC.topk(count, dim=1).indices[:, :, None]
    inside = torch.arange(BLOCK, device=logits_NV.device)
    rest = torch.arange(whole, V, device=logits_NV.device).expand(len(logits_NV), -1)
    tokens_NC = torch.cat([(blocks_NC1 * BLOCK + inside).flatten(1), rest], dim=1)
    value_NC, index_NC = logits_NV.gather(1, tokens_NC).topk(count, dim=1)
    return value_NC, tokens_NC.gather(1, index_NC)


def argmax_tokens(logits_NV: Tensor) -> Tensor:
    """Return the token with the highest logit of each row, like `argmax` but faster."""
    return logits_NV.argmax(dim=1) if len(logits_NV) < FEW_ROWS else top_tokens(logits_NV, 1)[1][:, 0]


def logsumexp_(logits_NV: Tensor, highest_N1: Tensor) -> Tensor:
    """Return log Σ exp of each row, N×1, given its maximum. Overwrites the logits, which saves a copy."""
    highest_N1 = highest_N1.clamp_min(torch.finfo(highest_N1.dtype).min)  # −∞ if every token is forbidden
    return logits_NV.sub_(highest_N1).exp_().sum(dim=1, keepdim=True).log_().add_(highest_N1)
