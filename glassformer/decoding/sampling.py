"""Sampling with temperature, top-k and top-p."""

from __future__ import annotations

import random

import torch
from torch import Tensor

from glassformer.decoding import Constraint, Generator, Hypothesis, Sampling, not_finite
from glassformer.decoding.greedy import decode_single


def sample(
    model: Generator,
    source_BS: Tensor,
    sampling: Sampling,
    *,
    seeds: list[int],
    limits: list[int],
    sos: int,
    eos: int,
    constraint: Constraint | None = None,
) -> list[Hypothesis]:
    """Sample one output per sentence.

    Each sentence has its own seed, so its output does not depend on the rest of the batch; `sampling.seed` is not used.
    """
    rngs = [random.Random(seed) for seed in seeds]

    def choose(logits_NV: Tensor, sentences_N: Tensor) -> Tensor:
        return draw_tokens(logits_NV, [rngs[sentence].random() for sentence in sentences_N.tolist()], sampling)

    return decode_single(model, source_BS, choose, limits=limits, sos=sos, eos=eos, constraint=constraint)


def draw_tokens(logits_NV: Tensor, uniforms: list[float], sampling: Sampling) -> Tensor:
    """Return one token per row, given one random number between 0 and 1 per row (inverse transform sampling)."""
    logits_NV = logits_NV / sampling.temperature
    if not logits_NV.amax(dim=1).isfinite().all():
        raise not_finite()
    uniform_N1 = torch.tensor(uniforms, device=logits_NV.device)[:, None]
    probability_NV, tokens_NV = truncate(logits_NV, top_k=sampling.top_k, top_p=sampling.top_p)
    cumulative_NV = probability_NV.cumsum(dim=1)
    index_N1 = (cumulative_NV <= uniform_N1 * cumulative_NV[:, -1:]).sum(dim=1, keepdim=True)
    # A number just below 1 may round up to 1: never go beyond the last token with a positive probability.
    last_N1 = (probability_NV > 0).sum(dim=1, keepdim=True) - 1
    return tokens_NV.gather(1, torch.minimum(index_N1, last_N1))[:, 0]


def truncate(logits_NV: Tensor, *, top_k: int, top_p: float) -> tuple[Tensor, Tensor]:
    """Return the probabilities in descending order and their tokens; zero outside top-k and top-p."""
    probability_NV, tokens_NV = logits_NV.softmax(dim=1).sort(dim=1, descending=True)
    if top_k > 0:
        probability_NV, tokens_NV = probability_NV[:, :top_k], tokens_NV[:, :top_k]
        probability_NV = probability_NV / probability_NV.sum(dim=1, keepdim=True)
    # A token is kept while the tokens before it sum to less than top_p, so the most probable one always is.
    before_NV = probability_NV.cumsum(dim=1) - probability_NV
    return probability_NV.masked_fill(before_NV >= top_p, 0), tokens_NV
