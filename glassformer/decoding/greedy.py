"""Greedy decoding, and the loop that greedy decoding and sampling share: one hypothesis per sentence."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from glassformer.decoding import Constraint, Generator, Hypothesis
from glassformer.decoding.topk import argmax_tokens, logsumexp_

# Given logits (N×V) and the sentence that each of the N rows belongs to, return one token per row.
TokenChooser = Callable[[Tensor, Tensor], Tensor]


def greedy(
    model: Generator, source_BS: Tensor, *, limits: list[int], sos: int, eos: int, constraint: Constraint | None = None
) -> list[Hypothesis]:
    """Choose the most probable token in every step. `limits` are the maximum output lengths."""

    def choose(logits_NV: Tensor, _: Tensor) -> Tensor:
        return argmax_tokens(logits_NV)

    return decode_single(model, source_BS, choose, limits=limits, sos=sos, eos=eos, constraint=constraint)


@torch.inference_mode()
def decode_single(
    model: Generator,
    source_BS: Tensor,
    choose: TokenChooser,
    *,
    limits: list[int],
    sos: int,
    eos: int,
    constraint: Constraint | None = None,
) -> list[Hypothesis]:
    """Extend one hypothesis per sentence by the tokens that `choose` returns; finished sentences leave the batch."""
    device = source_BS.device
    B = source_BS.shape[0]
    state = model.start(model.encode(source_BS))
    limit_N = torch.tensor(limits, device=device)
    lowest_limit = min(limits, default=0)
    sentences_N = torch.arange(B, device=device)
    total_N = torch.zeros(B, dtype=score_dtype(device), device=device)
    output_NT = torch.empty(B, 0, dtype=torch.long, device=device)
    tokens_N = torch.full((B,), sos, device=device)
    done: dict[int, Hypothesis] = {}
    while len(sentences_N):
        logits_NV, state = model.step(tokens_N, state)
        if constraint is not None:
            constraint(output_NT, logits_NV)
        tokens_N = choose(logits_NV, sentences_N)
        chosen_N1 = logits_NV.gather(1, tokens_N[:, None])
        total_N += (chosen_N1 - logsumexp_(logits_NV, logits_NV.amax(dim=1, keepdim=True)))[:, 0]
        output_NT = torch.cat([output_NT, tokens_N[:, None]], dim=1)
        ended_N = leaves_N = tokens_N == eos
        if (length := output_NT.shape[1]) >= lowest_limit:
            leaves_N = ended_N | (limit_N <= length)
        if not leaves_N.any():
            continue
        for row in leaves_N.nonzero()[:, 0].tolist():
            done[int(sentences_N[row])] = _hypothesis(output_NT[row], float(total_N[row]), bool(ended_N[row]))
        rows = (~leaves_N).nonzero()[:, 0]
        sentences_N, limit_N, total_N, output_NT, tokens_N = (
            x[rows] for x in (sentences_N, limit_N, total_N, output_NT, tokens_N)
        )
        if len(rows):
            state, lowest_limit = state.select(rows), int(limit_N.min())
    return [done[i] for i in range(B)]


def score_dtype(device: torch.device) -> torch.dtype:
    """Return the type in which log-probabilities are summed: fp64, which Apple GPUs do not have."""
    return torch.float32 if device.type == "mps" else torch.float64


def _hypothesis(tokens_T: Tensor, log_probability: float, ended: bool) -> Hypothesis:
    tokens = tokens_T.tolist()
    score = log_probability / len(tokens)
    return Hypothesis(tokens[:-1] if ended else tokens, log_probability, score, ended)
