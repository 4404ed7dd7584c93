"""Masks: 0 where attention may look, −∞ where it may not, added to the scores before the softmax (§3.2.3)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from glassformer.reference import attention as ops
from glassformer.reference.operation import Operation


@dataclass(frozen=True)
class Mask:
    """A mask with the reference operation that it comes from.

    Attributes:
        values: 0 or −∞, broadcast to the scores.
        operation: None for a mask that is not traced.
        causal: whether it is the look-ahead mask of a whole sequence, for which kernels have a shortcut.
    """

    values: Tensor
    operation: Operation | None = None
    operands: tuple[Any, ...] = ()
    causal: bool = False

    def select(self, rows: Tensor) -> Mask:
        """Return the mask of these rows of the batch."""
        return replace(self, values=self.values.index_select(0, rows))


def padding_mask(tokens_BS: Tensor, pad: int) -> Mask | None:
    """Hide padding from every query. B×1×1×S; None where there is no padding."""
    padding_BS = tokens_BS == pad
    if not padding_BS.any():
        return None
    mask_BS = torch.zeros(tokens_BS.shape, device=tokens_BS.device).masked_fill_(padding_BS, float("-inf"))
    return Mask(mask_BS[:, None, None, :], ops.padding_mask, (tokens_BS, pad))


def look_ahead_mask(length: int, device: torch.device | None = None) -> Mask:
    """Hide the future: position i sees positions ≤ i. T×T.

    The decoder needs no padding mask as well: padding comes last, in the future of every real token, and what
    padding itself computes is never used.
    """
    mask_TT = torch.full((length, length), float("-inf"), device=device).triu_(1)
    return Mask(mask_TT, ops.look_ahead_mask, (length,), causal=True)


def self_only_mask(rows: int, device: torch.device | None = None) -> Tensor:
    """Hide the rows of one decoding step from each other: each sees itself alone. rows×rows."""
    return torch.full((rows, rows), float("-inf"), device=device).fill_diagonal_(0)
