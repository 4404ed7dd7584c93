"""Attention masks: 0 where attention is allowed and −∞ elsewhere, added to the scores before the softmax (§3.2.3)."""

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
    """Return the mask that hides padding from every query, B×1×1×S; None if there is no padding."""
    padding_BS = tokens_BS == pad
    if not padding_BS.any():
        return None
    mask_BS = torch.zeros(tokens_BS.shape, device=tokens_BS.device).masked_fill_(padding_BS, float("-inf"))
    return Mask(mask_BS[:, None, None, :], ops.padding_mask, (tokens_BS, pad))


def look_ahead_mask(length: int, device: torch.device | None = None) -> Mask:
    """Return the look-ahead mask, T×T: position i attends to positions ≤ i.

    The decoder needs no padding mask in addition: padding comes after all real tokens, which therefore cannot attend to
    it, and outputs at padding are not used.
    """
    mask_TT = torch.full((length, length), float("-inf"), device=device).triu_(1)
    return Mask(mask_TT, ops.look_ahead_mask, (length,), causal=True)


def self_only_mask(rows: int, device: torch.device | None = None) -> Tensor:
    """Return the mask, rows×rows, with which each row of a decoding step attends to itself only."""
    return torch.full((rows, rows), float("-inf"), device=device).fill_diagonal_(0)
