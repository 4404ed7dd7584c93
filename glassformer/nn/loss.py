"""Output layer, softmax and label-smoothed cross-entropy (§5.4), fused and computed in chunks of rows.

The logits of a batch are by far its largest tensor (4,096 tokens × 8,000 entries: 131 MB). Here only the logits of one
chunk exist at a time, and their gradient is computed with them. `smoothed_cross_entropy_plain` is the same, unfused.

`consistent_cross_entropy` adds the consistency loss of R-Drop (Liang et al., 2021): every row is computed twice, with
different dropout, and the two distributions should agree.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.nn import fused

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
    dtype = torch.bfloat16 if torch.is_autocast_enabled("cpu") else torch.float32
    needs_gradient = torch.is_grad_enabled() and (hidden_ND.requires_grad or weight_VD.requires_grad)
    with torch.autocast("cpu", enabled=False):  # it would convert the weights for every chunk anew
        return _ChunkedCrossEntropy.apply(hidden_ND, weight_VD, target_N, smoothing, bias_V, dtype, needs_gradient)


def smoothed_cross_entropy_plain(
    hidden_ND: Tensor, weight_VD: Tensor, target_N: Tensor, smoothing: float, bias_V: Tensor | None = None
) -> Tensor:
    logits_NV = F.linear(hidden_ND, weight_VD, bias_V).float()
    return F.cross_entropy(logits_NV, target_N, label_smoothing=smoothing, reduction="sum")


def consistent_cross_entropy(
    hidden_ND: Tensor,
    weight_VD: Tensor,
    target_N: Tensor,
    smoothing: float,
    consistency: float,
    bias_V: Tensor | None = None,
) -> Tensor:
    """Return the summed loss of two passes: (CE₁ + CE₂)/2 + consistency · (KL(p₁‖p₂) + KL(p₂‖p₁))/4.

    The first half of the rows is one pass, the second half another pass over the same targets. This is the loss of
    R-Drop, whose α is `consistency`, halved to have the scale of the cross-entropy. It is for training only.
    """
    if hidden_ND.device.type != "cpu" or hidden_ND.dtype != torch.float32:
        return consistent_cross_entropy_plain(hidden_ND, weight_VD, target_N, smoothing, consistency, bias_V)
    dtype = torch.bfloat16 if torch.is_autocast_enabled("cpu") else torch.float32
    with torch.autocast("cpu", enabled=False):
        return _ChunkedConsistency.apply(hidden_ND, weight_VD, target_N, smoothing, consistency, bias_V, dtype)


def consistent_cross_entropy_plain(
    hidden_ND: Tensor,
    weight_VD: Tensor,
    target_N: Tensor,
    smoothing: float,
    consistency: float,
    bias_V: Tensor | None = None,
) -> Tensor:
    cross_entropy = smoothed_cross_entropy_plain(hidden_ND, weight_VD, target_N, smoothing, bias_V)
    first_NV, second_NV = F.linear(hidden_ND, weight_VD, bias_V).float().log_softmax(1).chunk(2)
    divergence = ((first_NV.exp() - second_NV.exp()) * (first_NV - second_NV)).sum()  # KL(p₁‖p₂) + KL(p₂‖p₁)
    return cross_entropy / 2 + consistency / 4 * divergence


def _multiply(left: Tensor, right: Tensor, out: Tensor) -> Tensor:
    """Write the product into `out`, which is fp32 also if the factors are bf16."""
    return torch.mm(left, right, out=out) if left.dtype == out.dtype else out.copy_(left @ right)


def _add_product_(total: Tensor, left: Tensor, right: Tensor) -> None:
    if left.dtype == total.dtype:
        total.addmm_(left, right)
    else:
        total += left @ right


def _cross_entropy_(logits_NV: Tensor, target_N1: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """Return the summed loss, in fp64, and the gradient of the logits, which takes their place."""
    V = logits_NV.shape[1]
    sum_N = logits_NV.sum(1)
    at_target_N = logits_NV.gather(1, target_N1).squeeze(1)
    highest_N1 = logits_NV.amax(1, keepdim=True)
    exp_NV = logits_NV.sub_(highest_N1).exp_()
    partition_N1 = exp_NV.sum(1, keepdim=True)
    log_partition_N = (partition_N1.log() + highest_N1).squeeze(1)
    loss_N = log_partition_N - (1 - smoothing) * at_target_N - smoothing / V * sum_N
    # d loss / d logits = softmax − smoothed label
    grad_NV = exp_NV.div_(partition_N1).sub_(smoothing / V)
    grad_NV.scatter_add_(1, target_N1, grad_NV.new_full(target_N1.shape, smoothing - 1))
    return loss_N.sum(dtype=torch.float64), grad_NV


def _consistent_cross_entropy(
    first_logits_NV: Tensor, second_logits_NV: Tensor, target_N1: Tensor, smoothing: float, consistency: float
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Return the summed loss of two passes, in fp64, and the gradients of the logits of both."""
    V = first_logits_NV.shape[1]
    log_first_NV, log_second_NV = torch.log_softmax(first_logits_NV, 1), torch.log_softmax(second_logits_NV, 1)
    first_NV, second_NV = log_first_NV.exp(), log_second_NV.exp()
    difference_NV = log_first_NV - log_second_NV
    total, grads = torch.zeros((), dtype=torch.float64), []
    for log_NV, own_NV, other_NV, sign in (
        (log_first_NV, first_NV, second_NV, 1),
        (log_second_NV, second_NV, first_NV, -1),
    ):
        # KL(own‖other) = Σ own·(log own − log other), one per row
        divergence_N1 = (own_NV * difference_NV).sum(1, keepdim=True).mul_(sign)
        loss_N1 = (smoothing - 1) * log_NV.gather(1, target_N1) - smoothing / V * log_NV.sum(1, keepdim=True)
        total += (loss_N1 / 2 + consistency / 4 * divergence_N1).sum(dtype=torch.float64)
        # d CE / d logits = own − smoothed label
        # d (KL(own‖other) + KL(other‖own)) / d logits = own·(log own − log other − KL(own‖other)) + own − other
        grad_NV = (difference_NV * sign).sub_(divergence_N1).add_(1).mul_(own_NV).sub_(other_NV)
        grad_NV.mul_(consistency / 4).add_(own_NV, alpha=0.5).sub_(smoothing / V / 2)
        grads.append(grad_NV.scatter_add_(1, target_N1, grad_NV.new_full(target_N1.shape, (smoothing - 1) / 2)))
    return total, (grads[0], grads[1])


class _ChunkedLoss(torch.autograd.Function):
    """A loss whose `forward` also computes the gradients of hidden states and weights and keeps them in `ctx.grads`."""

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        grad_hidden_ND, grad_weight_VD = ctx.grads
        return grad_hidden_ND * grads[0], grad_weight_VD * grads[0], None, None, None, None, None


class _ChunkedCrossEntropy(_ChunkedLoss):
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
        native = dtype == torch.bfloat16 and fused.available()
        buffer_NV = torch.empty(0 if native else min(CHUNK, len(target_N)), V)
        for start in range(0, len(target_N), CHUNK):
            chunk = slice(start, start + CHUNK)
            if native:
                logits_NV = hidden_ND[chunk] @ weight_VD.t()
                total += fused.cross_entropy_(logits_NV, target_N[chunk], smoothing, bias_V)
                grad_NV = logits_NV  # no longer the logits
            else:
                target_N1 = target_N[chunk, None]
                logits_NV = _multiply(hidden_ND[chunk], weight_VD.t(), buffer_NV[: len(target_N1)])
                if bias_V is not None:
                    logits_NV.add_(bias_V)
                loss, grad_NV = _cross_entropy_(logits_NV, target_N1, smoothing)
                total += loss
            if grad_hidden_ND is not None and grad_weight_VD is not None:
                grad_NV = grad_NV.to(weight_VD.dtype)
                grad_hidden_ND[chunk] = grad_NV @ weight_VD
                _add_product_(grad_weight_VD, grad_NV.t(), hidden_ND[chunk])
        ctx.grads = grad_hidden_ND, grad_weight_VD
        return total.float()


class _ChunkedConsistency(_ChunkedLoss):
    @staticmethod
    def forward(
        ctx: Any,
        hidden_ND: Tensor,
        weight_VD: Tensor,
        target_N: Tensor,
        smoothing: float,
        consistency: float,
        bias_V: Tensor | None,
        dtype: torch.dtype,
    ) -> Tensor:
        hidden_ND, weight_VD = hidden_ND.to(dtype), weight_VD.to(dtype)
        N = len(hidden_ND) // 2
        total = torch.zeros((), dtype=torch.float64)
        grad_hidden_ND = torch.empty_like(hidden_ND, dtype=torch.float32)
        grad_weight_VD = torch.zeros_like(weight_VD, dtype=torch.float32)
        native = dtype == torch.bfloat16 and fused.available()
        for start in range(0, N, CHUNK):
            chunks = slice(start, min(start + CHUNK, N)), slice(N + start, min(N + start + CHUNK, 2 * N))
            target = target_N[chunks[0]]
            if native:
                first, second = (hidden_ND[chunk] @ weight_VD.t() for chunk in chunks)
                total += fused.consistent_cross_entropy_(first, second, target, smoothing, consistency, bias_V)
                grads = first, second  # no longer the logits
            else:
                first, second = (_logits(hidden_ND[chunk], weight_VD, bias_V) for chunk in chunks)
                loss, grads = _consistent_cross_entropy(first, second, target[:, None], smoothing, consistency)
                total += loss
            for chunk, grad_NV in zip(chunks, grads, strict=True):
                grad_NV = grad_NV.to(weight_VD.dtype)
                grad_hidden_ND[chunk] = grad_NV @ weight_VD
                _add_product_(grad_weight_VD, grad_NV.t(), hidden_ND[chunk])
        ctx.grads = grad_hidden_ND, grad_weight_VD
        return total.float()


def _logits(hidden_ND: Tensor, weight_VD: Tensor, bias_V: Tensor | None) -> Tensor:
    logits_NV = (hidden_ND @ weight_VD.t()).float()
    return logits_NV if bias_V is None else logits_NV.add_(bias_V)
