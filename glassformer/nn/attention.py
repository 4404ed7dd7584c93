"""Attention (§3.2): the mathematics in `attend`, and the two ways in which the model uses it."""

from __future__ import annotations

import math

import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.nn.linear import Linear
from glassformer.nn.probe import NO_PROBE, Probe
from glassformer.nn.state import KeyValueCache


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    probe: Probe = NO_PROBE,
    *,
    scaled: bool = True,
) -> Tensor:
    """Scaled dot-product attention, softmax(Q·Kᵀ / √d_k)·V (§3.2.1); without the root where not `scaled`.

    query …×Q×E, key and value …×K×E, mask broadcast to …×Q×K (0 or −∞). Gives …×Q×E.
    When nobody looks at scores or weights, PyTorch's fused kernel computes the same without keeping them.
    """
    if not any(map(probe.wants, ("scores", "scaled_scores", "mask", "masked_scores", "weights"))):
        return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=None if scaled else 1.0)
    scores = probe("scores", query @ key.mT)
    if scaled:
        scores = probe("scaled_scores", scores / math.sqrt(query.shape[-1]))
    return weighted(scores, value, mask, probe)


def weighted(scores: Tensor, value: Tensor, mask: Tensor | None, probe: Probe) -> Tensor:
    """The values, weighed by the softmax of the scores: what every attention ends with."""
    if mask is not None:
        scores = probe("masked_scores", scores + probe("mask", mask))
    weights = probe("weights", scores.softmax(dim=-1))
    return weights @ value


class SelfAttention(nn.Module):
    """Multi-head attention (§3.2.2) of a sequence to itself: queries, keys and values all come from x."""

    def __init__(self, d_model: int, heads: int, *, scaled: bool = True) -> None:
        super().__init__()
        self.heads, self.scale = heads, None if scaled else 1.0  # None: 1/√d_k
        self.query_key_value = Linear(d_model, d_model, parts=3)  # W_Q, W_K, W_V of all heads
        self.output = Linear(d_model, d_model)  # W_O

    def forward(
        self,
        x_BTD: Tensor,
        *,
        mask: Tensor | None = None,
        cache: KeyValueCache | None = None,
        probe: Probe = NO_PROBE,
    ) -> Tensor:
        query_key_value_3BHTE = split_heads(self.query_key_value(x_BTD), 3, self.heads)
        query_BHQE, key_BHKE, value_BHKE = query_key_value_3BHTE.unbind(0)
        if cache is not None:
            key_BHKE, value_BHKE = cache.append(query_key_value_3BHTE[1:]).unbind(0)
        return _heads_output(self, query_BHQE, key_BHKE, value_BHKE, mask, probe)

    def lean(self, x_BTD: Tensor, cache: KeyValueCache | None, mask: Tensor | None) -> Tensor:
        """`forward`, when nobody looks."""
        query_key_value_3BHTE = split_heads(self.query_key_value.product(x_BTD), 3, self.heads)
        key_value_2BHKE = query_key_value_3BHTE[1:]
        if cache is not None:
            key_value_2BHKE = cache.append(key_value_2BHKE)
        key_BHKE, value_BHKE = key_value_2BHKE.unbind(0)
        context_BHQE = F.scaled_dot_product_attention(
            query_key_value_3BHTE[0], key_BHKE, value_BHKE, attn_mask=mask, scale=self.scale
        )
        return self.output.product(merge_heads(context_BHQE))


class CrossAttention(nn.Module):
    """Multi-head attention of the decoder to the encoder's output: keys and values come from the memory.

    They do not change while a sentence is decoded, so `remember` computes them once.
    """

    def __init__(self, d_model: int, heads: int, *, scaled: bool = True) -> None:
        super().__init__()
        self.heads, self.scale = heads, None if scaled else 1.0  # None: 1/√d_k
        self.query = Linear(d_model, d_model)
        self.key_value = Linear(d_model, d_model, parts=2)
        self.output = Linear(d_model, d_model)

    def remember(self, memory_BSD: Tensor) -> Tensor:
        """Keys and values, 2×B×H×K×E."""
        return split_heads(self.key_value(memory_BSD), 2, self.heads)

    def forward(
        self, x_BTD: Tensor, key_value_2BHKE: Tensor, *, mask: Tensor | None = None, probe: Probe = NO_PROBE
    ) -> Tensor:
        (query_BHQE,) = split_heads(self.query(x_BTD), 1, self.heads).unbind(0)
        key_BHKE, value_BHKE = key_value_2BHKE.unbind(0)
        return _heads_output(self, query_BHQE, key_BHKE, value_BHKE, mask, probe)

    def lean(self, x_BTD: Tensor, key_value_2BHKE: Tensor, mask: Tensor | None) -> Tensor:
        """`forward`, when nobody looks."""
        query_BHQE = split_heads(self.query.product(x_BTD), 1, self.heads)[0]
        key_BHKE, value_BHKE = key_value_2BHKE.unbind(0)
        context_BHQE = F.scaled_dot_product_attention(
            query_BHQE, key_BHKE, value_BHKE, attn_mask=mask, scale=self.scale
        )
        return self.output.product(merge_heads(context_BHQE))


def split_heads(packed_BTD: Tensor, parts: int, heads: int) -> Tensor:
    """B×T×(parts·D) to parts×B×H×T×E. Taken apart by `unbind`, whose gradient is one stack; indices have one each."""
    B, T, _ = packed_BTD.shape
    return packed_BTD.view(B, T, parts, heads, -1).permute(2, 0, 3, 1, 4)


def merge_heads(context_BHQE: Tensor) -> Tensor:
    """B×H×Q×E to B×Q×D: the heads side by side again."""
    return context_BHQE.transpose(1, 2).flatten(2)


def _heads_output(
    attention: SelfAttention | CrossAttention,
    query_BHQE: Tensor,
    key_BHKE: Tensor,
    value_BHKE: Tensor,
    mask: Tensor | None,
    probe: Probe,
) -> Tensor:
    """Concat(head_1 … head_h)·W_O, where head_i = attend(Q_i, K_i, V_i)."""
    query_BHQE = probe("query", query_BHQE)
    key_BHKE = probe("key", key_BHKE)
    value_BHKE = probe("value", value_BHKE)
    scaled = attention.scale is None
    context_BHQE = probe("context", attend(query_BHQE, key_BHKE, value_BHKE, mask, probe, scaled=scaled))
    return probe("output", attention.output(merge_heads(context_BHQE)))
