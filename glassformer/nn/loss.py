"""Output layer, softmax and label-smoothed cross-entropy (§5.4), fused and computed in chunks of rows.

The logits of a batch are by far its largest tensor (4,096 tokens × 8,000 entries: 131 MB). Here only the logits of one
chunk exist at a time, and their gradient is computed with them. `smoothed_cross_entropy_plain` is the same, unfused.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

CHUNK = 512


def without_padding(hidden_BTD: Tensor, target_BT: Tensor, pad: int) -> tuple[Tensor, Tensor]:
    """Return the hidden states, N×D, and the targets, N, of all positions whose target is not padding."""
    hidden_ND, target_N = hidden_BTD.flatten(0, 1), target_BT.flatten().to(hidden_BTD.device)
    real_N = (target_N != pad).nonzero()[:, 0]
    if len(real_N) < len(target_N):
        hidden_ND, target_N = hidden_ND.index_select(0, real_N), target_N[real_N]
    return hidden_ND, target_N


def smoothed_cross_entropy(
    hidden_ND: Tensor, weight_VD: Tensor, target_N: Tensor, smoothing: float, bias_V: Tensor | None = None
) -> Tensor:
    """Return the loss summed over the rows. The label of the target is 1 − ε + ε/V, of every other token ε/V.

    `bias_V` is added to the logits; it gets no gradient.
    """
    if hidden_ND.device.type != "cpu" or hidden_ND.dtype != torch.float32:
        return smoothed_cross_entropy_plain(hidden_ND, weight_VD, target_N, smoothing, bias_V)
    needs_gradient = torch.is_grad_enabled() and (hidden_ND.requires_grad or weight_VD.requires_grad)
    dtype = torch.bfloat16 if torch.is_autocast_enabled("cpu") else torch.float32
    with torch.autocast("cpu", enabled=False):  # it would convert the weights for every chunk anew
        return _ChunkedCrossEntropy.apply(hidden_ND, weight_VD, target_N, smoothing, bias_V, dtype, needs_gradient)


def smoothed_cross_entropy_plain(
    hidden_ND: Tensor, weight_VD: Tensor, target_N: Tensor, smoothing: float, bias_V: Tensor | None = None
) -> Tensor:
    logits_NV = F.linear(hidden_ND, weight_VD, bias_V).float()
    return F.cross_entropy(logits_NV, target_N, label_smoothing=smoothing, reduction="sum")


def _multiply(left: Tensor, right: Tensor, out: Tensor) -> Tensor:
    """Write the product into `out`, which is fp32 also if the factors are bf16."""
    return torch.mm(left, right, out=out) if left.dtype == out.dtype else out.copy_(left @ right)


def _add_product_(total: Tensor, left: Tensor, right: Tensor) -> None:
    if left.dtype == total.dtype:
        total.addmm_(left, right)
    else:
        total += left @ right


class _ChunkedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden_ND: Tensor,
        weight_VD: Tensor,
        target_N: Tensor,
        smoothing: float,
        bias_V: Tensor | None,
        dtype: torch.dtype,
        needs_gradient: bool,
    ) -> Tensor:
        hidden_ND, weight_VD = hidden_ND.to(dtype), weight_VD.to(dtype)
        V = weight_VD.shape[0]
        total = torch.zeros((), dtype=torch.float64)
        grad_hidden_ND = torch.empty_like(hidden_ND, dtype=torch.float32) if needs_gradient else None
        grad_weight_VD = torch.zeros_like(weight_VD, dtype=torch.float32) if needs_gradient else None
        buffer_NV = torch.empty(min(CHUNK, len(target_N)), V)
        for start in range(0, len(target_N), CHUNK):
            chunk = slice(start, start + CHUNK)
            target_N1 = target_N[chunk, None]
            logits_NV = _multiply(hidden_ND[chunk], weight_VD.t(), buffer_NV[: len(target_N1)])
            if bias_V is not None:
                logits_NV.add_(bias_V)
            sum_N = logits_NV.sum(1)
            at_target_N = logits_NV.gather(1, target_N1).squeeze(1)
            highest_N1 = logits_NV.amax(1, keepdim=True)
            exp_NV = logits_NV.sub_(highest_N1).exp_()
            partition_N1 = exp_NV.sum(1, keepdim=True)
            log_partition_N = (partition_N1.log() + highest_N1).squeeze(1)
            loss_N = log_partition_N - (1 - smoothing) * at_target_N - smoothing / V * sum_N
            total += loss_N.sum(dtype=torch.float64)
            if grad_hidden_ND is not None and grad_weight_VD is not None:
                # d loss / d logits = softmax − smoothed label
                grad_NV = exp_NV.div_(partition_N1).sub_(smoothing / V)
                grad_NV.scatter_add_(1, target_N1, grad_NV.new_full(target_N1.shape, smoothing - 1))
                grad_NV = grad_NV.to(weight_VD.dtype)
                grad_hidden_ND[chunk] = grad_NV @ weight_VD
                _add_product_(grad_weight_VD, grad_NV.t(), hidden_ND[chunk])
        ctx.grads = grad_hidden_ND, grad_weight_VD
        return total.float()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        grad_hidden_ND, grad_weight_VD = ctx.grads
        return grad_hidden_ND * grads[0], grad_weight_VD * grads[0], None, None, None, None, None
