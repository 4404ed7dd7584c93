"""Ensembles: several models that decode together, as one generator."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class EnsembleState:
    """The states of all members."""

    of_members: tuple[Any, ...]

    def select(self, rows: Tensor) -> EnsembleState:
        """Return the state of these rows."""
        return EnsembleState(tuple(state.select(rows) for state in self.of_members))


class Ensemble(nn.Module):
    """Several generators with the same vocabulary, which may be of different families.

    The probability of a token is the mean of its probabilities in all members, as in fairseq. The mean of the
    log-probabilities, which Marian and OpenNMT-py take by default, would let a single member rule out a token.
    """

    def __init__(self, members: Sequence[Any]) -> None:
        super().__init__()
        self.members: Any = nn.ModuleList(members)
        limits: list[int | None] = [member.max_positions for member in members]
        self.max_positions: int | None = min((limit for limit in limits if limit is not None), default=None)

    def encode(self, source_BS: Tensor) -> tuple[Any, ...]:
        """Return the encoder output of every member."""
        return tuple(member.encode(source_BS) for member in self.members)

    def start(self, memory: tuple[Any, ...], copies: int = 1) -> EnsembleState:
        """Return the state before the first token, with `copies` hypotheses for each sentence of the memory."""
        return EnsembleState(
            tuple(member.start(of_member, copies) for member, of_member in zip(self.members, memory, strict=True))
        )

    def step(self, tokens_N: Tensor, state: EnsembleState) -> tuple[Tensor, EnsembleState]:
        """Read one more token per row; return the log of the mean probabilities, N×V, and the state after it."""
        steps = [
            member.step(tokens_N, of_member) for member, of_member in zip(self.members, state.of_members, strict=True)
        ]
        log_probability_MNV = torch.stack([logits_NV.log_softmax(dim=1) for logits_NV, _ in steps])
        mean_NV = log_probability_MNV.logsumexp(dim=0) - math.log(len(steps))
        return mean_NV, EnsembleState(tuple(after for _, after in steps))
