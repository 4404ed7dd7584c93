"""Operations of bf16 training on a CPU, each in one pass by the native library (engine/csrc/training.h).

Each computes the same as the PyTorch operations of the layer that calls it, forward and backward, with sums in fp32.
Layers call them only if `available` or the more specific check says so.
"""

from __future__ import annotations

from ctypes import CDLL, byref, c_double
from functools import cache
from typing import Any

import torch
from torch import Tensor

from glassformer.engine.library import AttentionShape, Heads, Unavailable, check, library

MAX_LENGTH = 256  # of the sequences that `attention` takes: their attention weights fit into the second-level cache


@cache
def _library() -> CDLL | None:
    try:
        return library()
    except Unavailable:  # no compiler, or disabled
        return None


def available() -> bool:
    """Return whether the native library can be loaded. It is compiled if necessary."""
    return _library() is not None


def attention_fits(query_BHQE: Tensor, key_BHKE: Tensor, mask: Tensor | None) -> bool:
    """Return whether `attention` takes these tensors: bf16, four axes, short sequences, no mask but that of padding."""
    if not query_BHQE.dtype == key_BHKE.dtype == torch.bfloat16:
        return False
    if query_BHQE.dim() != 4 or key_BHKE.shape[:2] != query_BHQE.shape[:2]:
        return False
    (B, _, Q, _), K = query_BHQE.shape, key_BHKE.shape[2]
    is_padding_mask = mask is None or mask.shape == (B, 1, 1, K)
    return is_padding_mask and min(Q, K) > 0 and max(Q, K) <= MAX_LENGTH and available()


def attention(
    query_BHQE: Tensor,
    key_BHKE: Tensor,
    value_BHKE: Tensor,
    mask_B11K: Tensor | None = None,
    *,
    causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """Return softmax(scale·Q·Kᵀ + mask)·V, B×H×Q×E, in a layout in which the heads of a query are adjacent.

    Args:
        mask_B11K: added to the scores of every query. The weights of a query without a visible key are 0.
        causal: query i sees the keys ≤ i.
        scale: 1/√d_k by default.
    """
    mask_BK = None if mask_B11K is None else mask_B11K.flatten(1).float().contiguous()
    scale = query_BHQE.shape[-1] ** -0.5 if scale is None else scale
    return _Attention.apply(query_BHQE, key_BHKE, value_BHKE, mask_BK, causal, scale)


def _adjacent(x_BHTE: Tensor) -> Tensor:
    """Return the tensor with adjacent numbers in each row; usually it is the tensor itself."""
    return x_BHTE if x_BHTE.stride(-1) == 1 else x_BHTE.contiguous()


def _heads_like(x_BHTE: Tensor) -> Tensor:
    """Return an uninitialized tensor of this shape in which the heads of a token are adjacent."""
    B, H, T, E = x_BHTE.shape
    return x_BHTE.new_empty(B, T, H, E).transpose(1, 2)


def _pointer(x_BHTE: Tensor) -> Any:
    return byref(Heads(x_BHTE.data_ptr(), *x_BHTE.stride()[:3]))


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, mask_BK: Tensor | None, causal: bool, scale: float
    ) -> Tensor:
        query, key, value = map(_adjacent, (query, key, value))
        (B, H, Q, E), K = query.shape, key.shape[2]
        ctx.shape = AttentionShape(batch=B, heads=H, queries=Q, keys=K, size=E, causal=int(causal), scale=scale)
        ctx.shape.mask = None if mask_BK is None else mask_BK.data_ptr()
        ctx.mask_BK = mask_BK  # so that its memory is kept
        ctx.save_for_backward(query, key, value)
        out = _heads_like(query)
        check(library().gf_train_attention(byref(ctx.shape), *map(_pointer, (query, key, value, out))))
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        inputs = ctx.saved_tensors
        outputs = tuple(map(_heads_like, inputs))
        tensors = (*inputs, _adjacent(grads[0]), *outputs)
        check(library().gf_train_attention_backward(byref(ctx.shape), *map(_pointer, tensors)))
        return (*outputs, None, None, None)


def rotates(x_BHTE: Tensor) -> bool:
    """Return whether `rotate` takes this tensor: bf16 on a CPU."""
    return x_BHTE.dtype == torch.bfloat16 and x_BHTE.device.type == "cpu" and available()


def rotate(x_BHTE: Tensor, rotation_TE: Tensor) -> Tensor:
    """Return the tensor with each pair of neighbouring entries turned, in a layout with adjacent heads.

    Args:
        rotation_TE: sines and cosines, interleaved, in fp32; one row for all tokens, or one per token.
    """
    return _Rotate.apply(x_BHTE, rotation_TE.contiguous(), 1)


class _Rotate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, rotation: Tensor, direction: int) -> Tensor:
        ctx.rotation, ctx.direction = rotation, direction
        x, out = _adjacent(x), _heads_like(x)
        to = rotation.data_ptr(), len(rotation), direction
        check(library().gf_train_rotate(*x.shape, _pointer(x), *to, _pointer(out)))
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return _Rotate.apply(grads[0], ctx.rotation, -ctx.direction), None, None


def cross_entropy_(logits_NV: Tensor, target_N: Tensor, smoothing: float, bias_V: Tensor | None = None) -> float:
    """Return the summed label-smoothed cross-entropy of bf16 logits, and replace the logits by their gradients.

    Args:
        bias_V: added to the logits.
    """
    (N, V), loss, target_N = logits_NV.shape, c_double(), target_N.contiguous()
    pointers = target_N.data_ptr(), None if bias_V is None else bias_V.data_ptr()
    check(library().gf_train_cross_entropy(logits_NV.data_ptr(), N, V, *pointers, smoothing, byref(loss)))
    return loss.value


def consistent_cross_entropy_(
    first_NV: Tensor,
    second_NV: Tensor,
    target_N: Tensor,
    smoothing: float,
    consistency: float,
    bias_V: Tensor | None = None,
) -> float:
    """Return the summed loss of two passes over the same rows (R-Drop), and replace the logits by their gradients."""
    (N, V), loss, target_N = first_NV.shape, c_double(), target_N.contiguous()
    logits = first_NV.data_ptr(), second_NV.data_ptr()
    pointers = target_N.data_ptr(), None if bias_V is None else bias_V.data_ptr()
    check(library().gf_train_consistency(*logits, N, V, *pointers, smoothing, consistency, byref(loss)))
    return loss.value


def adds(x: Tensor, y: Tensor) -> bool:
    """Return whether `add_dropout` takes these tensors: on a CPU, x in fp32, and y in bf16, as autocast makes it."""
    types = x.dtype == torch.float32 and y.dtype == torch.bfloat16
    return types and x.shape == y.shape and x.device.type == y.device.type == "cpu" and available()


def add_dropout(x: Tensor, y: Tensor, bytes_: Tensor, threshold: int) -> Tensor:
    """Return x + Dropout(y) in fp32, for x in fp32 and y in bf16: values whose byte is below the threshold are dropped.

    Args:
        bytes_: one random byte per value, as a flat tensor.
    """
    return _AddDropout.apply(x.contiguous(), y.contiguous(), bytes_, threshold)


class _AddDropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, bytes_: Tensor, threshold: int) -> Tensor:
        ctx.save_for_backward(bytes_)
        ctx.threshold, ctx.scale = threshold, 256 / (256 - threshold)
        out = torch.empty_like(x)
        pointers = x.data_ptr(), y.data_ptr(), bytes_.data_ptr()
        check(library().gf_train_add_dropout(*pointers, x.numel(), threshold, ctx.scale, out.data_ptr()))
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (bytes_,) = ctx.saved_tensors
        grad = grads[0].contiguous()
        grad_y = torch.empty_like(grad, dtype=torch.bfloat16)
        pointers = grad.data_ptr(), bytes_.data_ptr()
        check(
            library().gf_train_add_dropout_backward(
                *pointers, grad.numel(), ctx.threshold, ctx.scale, grad_y.data_ptr()
            )
        )
        return grad, grad_y, None, None


def normalizes(x: Tensor) -> bool:
    """Return whether `layer_norm` is to be used: for fp32 on a CPU, if autocast runs matmuls in bf16."""
    autocast = torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") == torch.bfloat16
    return autocast and x.dtype == torch.float32 and x.device.type == "cpu" and available()


def layer_norm(x_ND: Tensor, weight_D: Tensor, bias_D: Tensor, epsilon: float) -> Tensor:
    """Return the normalized rows of an fp32 tensor, …×D, in bf16."""
    return _LayerNorm.apply(x_ND.contiguous(), weight_D, bias_D, epsilon)


class _LayerNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x_ND: Tensor, weight_D: Tensor, bias_D: Tensor, epsilon: float) -> Tensor:
        D = len(weight_D)
        N = x_ND.numel() // D
        out_ND, statistics_N2 = torch.empty_like(x_ND, dtype=torch.bfloat16), x_ND.new_empty(N, 2)
        ctx.save_for_backward(x_ND, statistics_N2, weight_D)
        pointers = weight_D.data_ptr(), bias_D.data_ptr()
        results = out_ND.data_ptr(), statistics_N2.data_ptr()
        check(library().gf_train_layer_norm(x_ND.data_ptr(), N, D, *pointers, epsilon, *results))
        return out_ND

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x_ND, statistics_N2, weight_D = ctx.saved_tensors
        grad_ND, grad_x_ND = grads[0].contiguous(), torch.empty_like(x_ND)
        grad_weight_D, grad_bias_D = torch.zeros_like(weight_D), torch.zeros_like(weight_D)
        check(
            library().gf_train_layer_norm_backward(
                *(tensor.data_ptr() for tensor in (grad_ND, x_ND, statistics_N2)),
                *(len(statistics_N2), len(weight_D)),
                *(tensor.data_ptr() for tensor in (weight_D, grad_x_ND, grad_weight_D, grad_bias_D)),
            )
        )
        return grad_x_ND, grad_weight_D, grad_bias_D, None
