"""Tokens drawn by chance, from the whole distribution or from its likeliest part."""

from __future__ import annotations

import random

import torch
from torch import Tensor

from glassformer.decoding import Constraint, Generator, Hypothesis
from glassformer.decoding.greedy import follow
from glassformer.errors import UserError


def sample(
    model: Generator,
    source_BS: Tensor,
    *,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    seeds: list[int],
    limits: list[int],
    sos: int,
    eos: int,
    constraint: Constraint | None = None,
) -> list[Hypothesis]:
    """Draws each token after `temperature`, from the `top_k` likeliest (0: all) that make up `top_p` of the mass.

    Each sentence has a seed of its own, so what it draws does not depend on its batch-mates.
    """
    dice = [random.Random(seed) for seed in seeds]

    def draw(logits_NV: Tensor, sentences_N: Tensor) -> Tensor:
        rolls = [dice[sentence].random() for sentence in sentences_N.tolist()]
        return drawn(logits_NV / temperature, rolls, top_k=top_k, top_p=top_p)

    return follow(model, source_BS, draw, limits=limits, sos=sos, eos=eos, constraint=constraint)


def drawn(logits_NV: Tensor, rolls: list[float], *, top_k: int, top_p: float) -> Tensor:
    """The token of each row that a roll from 0 to 1 falls on."""
    if not logits_NV.amax(dim=1).isfinite().all():
        raise UserError(
            "The model's output is not finite: there is no distribution to draw from.",
            where="logits",
            hint="the weights are damaged or training diverged: copy the run again, or train with a lower train.lr",
        )
    roll_N1 = torch.tensor(rolls, device=logits_NV.device)[:, None]
    probability_NV, tokens_NV = truncate(logits_NV, top_k=top_k, top_p=top_p)
    up_to_NV = probability_NV.cumsum(dim=1)
    place_N1 = (up_to_NV <= roll_N1 * up_to_NV[:, -1:]).sum(dim=1, keepdim=True)
    # A roll just below 1 may round up to it: never beyond the last token that has a chance.
    last_N1 = (probability_NV > 0).sum(dim=1, keepdim=True) - 1
    return tokens_NV.gather(1, torch.minimum(place_N1, last_N1))[:, 0]


def truncate(logits_NV: Tensor, *, top_k: int, top_p: float) -> tuple[Tensor, Tensor]:
    """Probabilities, likeliest first, with their tokens; zero outside of top-k and top-p."""
    probability_NV, tokens_NV = logits_NV.softmax(dim=1).sort(dim=1, descending=True)
    if top_k > 0:
        probability_NV, tokens_NV = probability_NV[:, :top_k], tokens_NV[:, :top_k]
        probability_NV = probability_NV / probability_NV.sum(dim=1, keepdim=True)
    # A token is kept while those before it have not reached top_p: the likeliest always is.
    before_NV = probability_NV.cumsum(dim=1) - probability_NV
    return probability_NV.masked_fill(before_NV >= top_p, 0), tokens_NV
