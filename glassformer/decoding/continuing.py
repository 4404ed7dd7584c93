"""One to many: what a language model writes after a beginning, token by token, without end."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import torch

from glassformer.decoding import Generator
from glassformer.decoding.constraints import NEVER
from glassformer.decoding.sampling import drawn


def continued(
    model: Generator,
    beginning: Sequence[int],
    *,
    temperature: float,
    top_k: int,
    top_p: float,
    seed: int,
    never: Sequence[int] = (),
) -> Iterator[int]:
    """Tokens drawn one after the other, each given all before it, for as long as somebody asks.

    never  tokens that are not written
    """
    dice, device = random.Random(seed), next(model.parameters()).device  # type: ignore[attr-defined]
    state, waiting = model.start(None), list(beginning)
    while True:
        with torch.inference_mode():
            for token in waiting:
                logits_NV, state = model.step(torch.tensor([token], device=device), state)
            logits_NV[:, list(never)] = NEVER
            token = int(drawn(logits_NV / temperature, [dice.random()], top_k=top_k, top_p=top_p))
        yield token
        waiting = [token]
