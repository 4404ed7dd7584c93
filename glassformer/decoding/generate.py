"""Text generation with a language model, token by token after a prompt."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from glassformer.decoding import Generator, PromptReader, truncate_left
from glassformer.decoding.constraints import FORBIDDEN
from glassformer.decoding.sampling import Sampling, draw_tokens


def generate(model: Generator, prompt_T: Tensor, sampling: Sampling, *, forbidden: Sequence[int] = ()) -> Iterator[int]:
    """Yield sampled tokens without end, each conditioned on the prompt and all tokens before it.

    If the model has a maximum length, it reads only the end of a longer sequence. Tokens in `forbidden` are never
    generated.
    """
    rng, state = random.Random(sampling.seed), model.start(None)
    read_T, unread_T = prompt_T[:0], prompt_T
    while True:
        with torch.inference_mode():
            if model.max_positions is not None:
                if len(read_T) + len(unread_T) > model.max_positions:
                    unread_T = truncate_left(torch.cat([read_T, unread_T]), model.max_positions)
                    state = model.start(None)
                    read_T = unread_T[:0]
                read_T = torch.cat([read_T, unread_T])
            logits_NV, state = _read(model, unread_T, state)
            logits_NV[:, list(forbidden)] = FORBIDDEN
            unread_T = draw_tokens(logits_NV, [rng.random()], sampling)
        yield int(unread_T)


def _read(model: Generator, tokens_T: Tensor, state: Any) -> tuple[Tensor, Any]:
    """Return the logits after the last token, and the new state."""
    if len(tokens_T) > 1 and isinstance(model, PromptReader):
        return model.read(tokens_T[None], state)
    for token_N in tokens_T.split(1):
        logits_NV, state = model.step(token_N, state)
    return logits_NV, state
