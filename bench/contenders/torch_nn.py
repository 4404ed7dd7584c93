"""Plain PyTorch: nn.Transformer with tied embeddings and sinusoidal positions."""

from __future__ import annotations

import math

import common
import torch
import torch.nn.functional as F
from torch import Tensor, nn


def sinusoid(length: int, d: int) -> Tensor:
    angle = torch.arange(length)[:, None] * torch.exp(torch.arange(0, d, 2) * (-math.log(10000.0) / d))
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)


class Net(nn.Module):
    def __init__(self, size: dict, vocab: int) -> None:
        super().__init__()
        d, layers, dropout = size["d_model"], size["layers"], size["dropout"]
        self.embedding = nn.Embedding(vocab, d)
        nn.init.normal_(self.embedding.weight, std=d**-0.5)
        self.register_buffer("positions", sinusoid(1100, d))
        self.dropout = nn.Dropout(dropout)
        self.body = nn.Transformer(d, size["heads"], layers, layers, size["d_ff"], dropout, batch_first=True)

    def embed(self, ids: Tensor) -> Tensor:
        scale = math.sqrt(self.embedding.embedding_dim)
        return self.dropout(self.embedding(ids) * scale + self.positions[: ids.shape[1]])

    def forward(self, source: Tensor, before: Tensor) -> Tensor:
        padding = source.eq(common.PAD)
        length = before.shape[1]
        hidden = self.body(
            self.embed(source),
            self.embed(before),
            tgt_mask=torch.ones(length, length, dtype=torch.bool).triu(1),
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
            tgt_is_causal=True,
        )
        return F.linear(hidden, self.embedding.weight)


class Trainer:
    def __init__(self, size: dict, vocab: int) -> None:
        torch.manual_seed(0)
        self.model = Net(size, vocab).train()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=common.LR, betas=common.BETAS, eps=common.EPSILON)

    def prepare(self, batch):
        return tuple(torch.tensor(side) for side in batch)

    def step(self, batch) -> float:
        source, before, after = batch
        self.optimizer.zero_grad(set_to_none=True)
        logits = self.model(source, before)
        loss = F.cross_entropy(
            logits.flatten(0, 1), after.flatten(), ignore_index=common.PAD, label_smoothing=common.SMOOTHING
        )
        loss.backward()
        self.optimizer.step()
        return loss.item()


def version() -> str:
    return f"torch {torch.__version__}"
