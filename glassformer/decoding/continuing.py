"""One to many: what a language model writes after a beginning, token by token, without end."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from glassformer.decoding import Generator, Reader
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

    A model with a longest sequence is given the end of what stands before, as far as that reaches.

    never  tokens that are not written
    """
    dice, state = random.Random(seed), model.start(None)
    read_T, unread_T = beginning_T[:0], beginning_T
    while True:
        with torch.inference_mode():
            if model.max_positions is not None:
                if len(read_T) + len(unread_T) > model.max_positions:
                    state, unread_T = model.start(None), _end_of(torch.cat([read_T, unread_T]), model.max_positions)
                    read_T = unread_T[:0]
                read_T = torch.cat([read_T, unread_T])
            logits_NV, state = _read(model, unread_T, state)
            logits_NV[:, list(never)] = NEVER
            unread_T = drawn(logits_NV / temperature, [dice.random()], top_k=top_k, top_p=top_p)
        yield int(unread_T)


def _read(model: Generator, tokens_T: Tensor, state: Any) -> tuple[Tensor, Any]:
    """Logits after the last of some tokens, and the state there."""
    if len(tokens_T) > 1 and isinstance(model, Reader):
        return model.read(tokens_T[None], state)
    for token_N in tokens_T.split(1):
        logits_NV, state = model.step(token_N, state)
    return logits_NV, state


def _end_of(tokens_T: Tensor, longest: int) -> Tensor:
    """The last tokens, between half of `longest` and all of it, so that there is room to go on.

    Halves are left out one by one: where a place means something, as in music, it goes on meaning it.
    """
    half = longest - longest // 2
    too_many = len(tokens_T) - longest
    return tokens_T[-(-too_many // half) * half :]
