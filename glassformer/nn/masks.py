"""Masks: 0 where attention may look, −∞ where it may not, added to the scores before the softmax (§3.2.3)."""

from __future__ import annotations

import torch
from torch import Tensor


def padding_mask(tokens_BS: Tensor, pad: int) -> Tensor | None:
    """Hides padding from every query. Shape B×1×1×S; None when there is nothing to hide."""
    padding_BS = tokens_BS == pad
    if not padding_BS.any():
        return None
    mask_BS = torch.zeros(tokens_BS.shape, device=tokens_BS.device).masked_fill_(padding_BS, float("-inf"))
    return mask_BS[:, None, None, :]


def look_ahead_mask(length: int, device: torch.device | None = None) -> Tensor:
    """Hides the future: position i sees positions ≤ i. Shape T×T.

    The decoder needs no padding mask beside it: padding stands at the end, which is the future of every real
    token, and what padding itself computes is never used.
    """
    return torch.full((length, length), float("-inf"), device=device).triu_(1)


def look_apart_mask(rows: int, device: torch.device | None = None) -> Tensor:
    """Hides rows of one step from each other: each sees itself alone. Shape rows×rows."""
    return torch.full((rows, rows), float("-inf"), device=device).fill_diagonal_(0)
