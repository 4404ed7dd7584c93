"""The linear layer from hidden states to logits over the vocabulary (§3.4)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.nn.loss import consistent_cross_entropy, smoothed_cross_entropy
from glassformer.nn.probe import NO_PROBE, Probe
from glassformer.reference.layers import biased_output_projection, output_projection


class OutputProjection(nn.Module):
    """The linear layer before the softmax. Its matrix may be that of an embedding, as in the paper.

    With `bias`, a constant is added to each logit, which is not trained: `NEVER` for an entry that must not be written.
    """

    NEVER = -1e4  # e^NEVER is 0, and sums of it stay finite

    def __init__(self, weight_VD: nn.Parameter, *, bias: bool = False) -> None:
        super().__init__()
        self.weight_VD = weight_VD
        self.bias_V: Tensor | None
        self.register_buffer("bias_V", torch.zeros(len(weight_VD)) if bias else None)

    def forward(self, hidden_BTD: Tensor, probe: Probe = NO_PROBE) -> Tensor:
        """Return the logits, B×T×V."""
        logits_BTV = F.linear(hidden_BTD, self.weight_VD)
        if self.bias_V is None:
            return probe("logits", logits_BTV, output_projection, hidden_BTD, self.weight_VD)
        logits_BTV = logits_BTV + self.bias_V
        return probe("logits", logits_BTV, biased_output_projection, hidden_BTD, self.weight_VD, self.bias_V)

    def loss(self, hidden_ND: Tensor, target_N: Tensor, smoothing: float, consistency: float = 0.0) -> Tensor:
        """Return the summed cross-entropy of this layer's softmax, without ever holding all logits.

        With `consistency` (R-Drop), the first half of the rows is one pass and the second half another pass over the
        same targets; a term for the difference of both passes is added to their mean loss.
        """
        if consistency:
            return consistent_cross_entropy(hidden_ND, self.weight_VD, target_N, smoothing, consistency, self.bias_V)
        return smoothed_cross_entropy(hidden_ND, self.weight_VD, target_N, smoothing, self.bias_V)
