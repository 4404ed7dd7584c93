"""One to many: what a language model writes after a beginning, token by token, without end."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from glassformer.decoding import Generator
from glassformer.decoding.constraints import NEVER
from glassformer.decoding.sampling import drawn


def continued(
    model: Generator,
    beginning_T: Tensor,
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
    dice, state, unread_T = random.Random(seed), model.start(None), beginning_T
    while True:
        with torch.inference_mode():
            for token_N in unread_T.split(1):
                logits_NV, state = model.step(token_N, state)
            logits_NV[:, list(never)] = NEVER
            unread_T = drawn(logits_NV / temperature, [dice.random()], top_k=top_k, top_p=top_p)
        yield int(unread_T)
