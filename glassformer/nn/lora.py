"""LoRA (Hu et al., 2021): freeze each weight matrix and train a low-rank update of it, the product B·A.

It is applied to the weight matrices of the attention and feed-forward layers.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.nn.attention import MultiHeadAttention
from glassformer.nn.feed_forward import FeedForward
from glassformer.nn.linear import Linear


def merge(weight: Tensor, lora_A: Tensor, lora_B: Tensor) -> Tensor:
    """Return W + B·A."""
    return weight + lora_B @ lora_A


class LoRALinear(Linear):
    """x·(W + B·A)ᵀ + b, where W and b are the frozen weights of a linear layer.

    A is rank × inputs and B is outputs × rank. B is 0 at first, so the layer computes the same as before.
    """

    def __init__(self, layer: Linear, rank: int) -> None:
        nn.Module.__init__(self)
        self.outputs, self.parts, self.relu = layer.outputs, layer.parts, layer.relu
        self.weight = layer.weight
        self.register_parameter("bias", layer.bias)
        rows, inputs = layer.weight.shape
        self.lora_A = nn.Parameter(layer.weight.new_empty(rank, inputs).uniform_(-(inputs**-0.5), inputs**-0.5))
        self.lora_B = nn.Parameter(layer.weight.new_zeros(rows, rank))

    def forward(self, x: Tensor) -> Tensor:
        y = F.linear(x, self.weight, self.bias) + F.linear(F.linear(x, self.lora_A), self.lora_B)
        return y.relu() if self.relu else y

    @torch.no_grad()
    def merged(self) -> Linear:
        """Return an ordinary linear layer that computes the same."""
        with torch.device("meta"):  # allocates no memory: the weights are replaced below
            layer = Linear(self.weight.shape[1], self.outputs, parts=self.parts, relu=self.relu)
        layer.weight = nn.Parameter(merge(self.weight, self.lora_A, self.lora_B), requires_grad=False)
        layer.register_parameter("bias", self.bias)
        return layer


def add_lora(model: nn.Module, rank: int) -> int:
    """Freeze a model and add matrices A and B to its attention and feed-forward layers; return the number of layers."""
    model.requires_grad_(False)
    blocks = [block for block in model.modules() if isinstance(block, MultiHeadAttention | FeedForward)]
    layers = [(block, name, part) for block in blocks for name, part in block.named_children()]
    linear = [(block, name, part) for block, name, part in layers if isinstance(part, Linear)]
    for block, name, layer in linear:
        setattr(block, name, LoRALinear(layer, rank))
    return len(linear)


@contextmanager
def merged(model: nn.Module) -> Iterator[nn.Module]:
    """Replace the LoRA layers by ordinary linear layers with merged weights while the context is active."""
    layers = [(block, name, part) for block in model.modules() for name, part in block.named_children()]
    adapted = [(block, name, part) for block, name, part in layers if isinstance(part, LoRALinear)]
    for block, name, layer in adapted:
        setattr(block, name, layer.merged())
    try:
        yield model
    finally:
        for block, name, layer in adapted:
            setattr(block, name, layer)
