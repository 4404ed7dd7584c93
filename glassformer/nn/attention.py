"""Attention (§3.2): scaled dot-product attention, and multi-head self-attention and encoder–decoder attention."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.nn import fused
from glassformer.nn.cache import KeyValueCache
from glassformer.nn.linear import Linear
from glassformer.nn.masks import Mask
from glassformer.nn.probe import NO_PROBE, Probe
from glassformer.reference import attention as ops
from glassformer.reference.layers import add, scale_scores
from glassformer.reference.operation import Operation

EXPLICIT = ("scores", "scaled_scores", "mask", "masked_scores", "weights")  # not exposed by the fused kernel


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Mask | None = None,
    probe: Probe = NO_PROBE,
    *,
    scaled: bool = True,
    scores_operation: Operation = ops.dot_products,
) -> Tensor:
    """Compute scaled dot-product attention, softmax(Q·Kᵀ / √d_k)·V (§3.2.1).

    If no probe wants the scores or weights, PyTorch's fused kernel computes the same result without materializing them.

    Args:
        query: …×Q×E. key, value: …×K×E.
        mask: broadcast to …×Q×K.
        scaled: divide the scores by √d_k.
        scores_operation: the reference operation of the scores.

    Returns:
        The weighted values, …×Q×E.
    """
    if not any(map(probe.wants, EXPLICIT)):
        return _fused(query, key, value, mask, scale=None if scaled else 1.0)
    scores = probe("scores", query @ key.mT, scores_operation, query, key)
    if scaled:
        root = math.sqrt(query.shape[-1])
        scores = probe("scaled_scores", scores / root, scale_scores, scores, 1 / root)
    return weighted_values(scores, value, mask, probe)


def _fused(query: Tensor, key: Tensor, value: Tensor, mask: Mask | None, scale: float | None) -> Tensor:
    """Compute attention with a fused kernel: in bf16 on a CPU with the native library, otherwise with PyTorch.

    Without the native library, bf16 is converted to fp32 on a CPU, because PyTorch's bf16 backward pass is slower.
    """
    causal = mask is not None and mask.causal
    values = None if mask is None or causal else mask.values
    if query.dtype == torch.bfloat16 and query.device.type == "cpu":
        if fused.attention_fits(query, key, values):
            return fused.attention(query, key, value, values, causal=causal, scale=scale)
        with torch.autocast("cpu", enabled=False):
            query, key, value = query.float(), key.float(), value.float()
            return F.scaled_dot_product_attention(query, key, value, values, is_causal=causal, scale=scale)
    return F.scaled_dot_product_attention(query, key, value, values, is_causal=causal, scale=scale)


def weighted_values(scores: Tensor, value: Tensor, mask: Mask | None, probe: Probe) -> Tensor:
    """Add the mask to the scores, and weight the values by their softmax."""
    if mask is not None:
        mask_values = probe("mask", mask.values, mask.operation, *mask.operands)
        scores = probe("masked_scores", scores + mask_values, add, scores, mask_values)
    weights = probe("weights", scores.softmax(dim=-1), ops.attention_weights, scores)
    return weights @ value


class MultiHeadAttention(nn.Module):
    """Concat(head_1, …, head_h)·W_O, where head_i = attend(Q_i, K_i, V_i) (§3.2.2)."""

    scaled = True  # divide the scores by √d_k

    def __init__(self, d_model: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.output: Linear

    def concat(
        self, query_BHQE: Tensor, key_BHKE: Tensor, value_BHKE: Tensor, mask: Mask | None, probe: Probe
    ) -> Tensor:
        """Attend with every head, and project the concatenated head outputs by W_O."""
        head_output_BHQE = attend(query_BHQE, key_BHKE, value_BHKE, mask, probe, scaled=self.scaled)
        head_output_BHQE = probe("head_output", head_output_BHQE, ops.head_output, "weights", value_BHKE)
        output_BQD = self.output(merge_heads(head_output_BHQE))
        return probe("output", output_BQD, ops.attention_output, head_output_BHQE, *self.output.part())


class SelfAttention(MultiHeadAttention):
    """Multi-head attention of a sequence to itself: queries, keys and values all come from x."""

    def __init__(self, d_model: int, heads: int) -> None:
        super().__init__(d_model, heads)
        self.query_key_value = Linear(d_model, d_model, parts=3)  # W_Q, W_K, W_V of all heads
        self.output = Linear(d_model, d_model)  # W_O

    def forward(
        self,
        x_BTD: Tensor,
        *,
        mask: Mask | None = None,
        cache: KeyValueCache | None = None,
        rotation_TE: Tensor | None = None,
        probe: Probe = NO_PROBE,
    ) -> Tensor:
        """Return B×T×D.

        Args:
            cache: its keys and values come before those of x, which are appended to it.
            rotation_TE: `RotaryPositions`, or one row of them for all queries.
        """
        packed, H = self.query_key_value, self.heads
        query_BHQE, key_BHKE, value_BHKE = separate(split_heads(packed(x_BTD), 3, H))
        query_BHQE = probe("query", query_BHQE, ops.query, x_BTD, *packed.part(0), H)
        key_name = "key"
        key_from: tuple[Operation, *tuple[Any, ...]] = ops.key, x_BTD, *packed.part(1), H
        if rotation_TE is not None:
            query_BHQE = probe("rotated_query", rotate(query_BHQE, rotation_TE), ops.rotate, query_BHQE, rotation_TE)
            key_BHKE = rotate(probe(key_name, key_BHKE, *key_from), rotation_TE)
            key_name, key_from = "rotated_key", (ops.rotate, "key", rotation_TE)
        if cache is not None:
            key_BHKE, value_BHKE = cache.append(key_BHKE, value_BHKE).unbind(0)
        key_BHKE = probe(key_name, key_BHKE, *key_from)
        value_BHKE = probe("value", value_BHKE, ops.value, x_BTD, *packed.part(2), H)
        return self.concat(query_BHQE, key_BHKE, value_BHKE, mask, probe)


class CrossAttention(MultiHeadAttention):
    """Encoder–decoder attention: queries come from the decoder, keys and values from the encoder's output (memory).

    Keys and values do not change while a sentence is decoded, so `keys_and_values` computes them once.
    """

    def __init__(self, d_model: int, heads: int) -> None:
        super().__init__(d_model, heads)
        self.query = Linear(d_model, d_model)  # W_Q
        self.key_value = Linear(d_model, d_model, parts=2)  # W_K, W_V
        self.output = Linear(d_model, d_model)  # W_O

    def keys_and_values(self, memory_BSD: Tensor, probe: Probe = NO_PROBE) -> tuple[Tensor, Tensor]:
        """Return the keys and the values of the memory, B×H×S×E each."""
        key_BHSE, value_BHSE = separate(split_heads(self.key_value(memory_BSD), 2, self.heads))
        key_BHSE = probe("key", key_BHSE, ops.key, memory_BSD, *self.key_value.part(0), self.heads)
        value_BHSE = probe("value", value_BHSE, ops.value, memory_BSD, *self.key_value.part(1), self.heads)
        return key_BHSE, value_BHSE

    def forward(
        self, x_BTD: Tensor, key_value: tuple[Tensor, Tensor], *, mask: Mask | None = None, probe: Probe = NO_PROBE
    ) -> Tensor:
        """Return B×T×D, from x and `keys_and_values` of the memory."""
        (query_BHQE,) = split_heads(self.query(x_BTD), 1, self.heads).unbind(0)
        query_BHQE = probe("query", query_BHQE, ops.query, x_BTD, *self.query.part(), self.heads)
        return self.concat(query_BHQE, *key_value, mask, probe)


def rotate(x_BHTE: Tensor, rotation_TE: Tensor) -> Tensor:
    """Rotate each pair of entries (2i, 2i+1) by the angle whose sine and cosine are these entries of the rotation."""
    if fused.rotates(x_BHTE):
        return fused.rotate(x_BHTE, rotation_TE)
    sine, cosine = rotation_TE[:, 0::2], rotation_TE[:, 1::2]
    even, odd = x_BHTE[..., 0::2], x_BHTE[..., 1::2]
    rotated = even * cosine - odd * sine, even * sine + odd * cosine
    return torch.stack(rotated, dim=-1).flatten(-2).to(x_BHTE.dtype)


def split_heads(packed_BTD: Tensor, parts: int, heads: int) -> Tensor:
    """Split B×T×(parts·D) into parts×B×H×T×E, a view."""
    B, T, _ = packed_BTD.shape
    return packed_BTD.view(B, T, parts, heads, -1).permute(2, 0, 3, 1, 4)


def separate(parts_PBHTE: Tensor) -> list[Tensor]:
    """Return the parts of `split_heads`, B×H×T×E each.

    `unbind` along the axis that the parts have in memory makes the backward pass a single copy, a stack.
    """
    return [part_BTHE.transpose(1, 2) for part_BTHE in parts_PBHTE.permute(1, 3, 0, 2, 4).unbind(2)]


def merge_heads(x_BHQE: Tensor) -> Tensor:
    """Concatenate the heads: B×H×Q×E to B×Q×D."""
    return x_BHQE.transpose(1, 2).flatten(2)
