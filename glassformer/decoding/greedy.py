"""One path a sentence: the likeliest token at every step, or whichever token a rule picks."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from glassformer.decoding import Constraint, Generator, Hypothesis
from glassformer.decoding.top import likeliest, log_normalizer_

# Logits N×V and the sentences that the N rows belong to → one token a row.
Choice = Callable[[Tensor, Tensor], Tensor]


def greedy(
    model: Generator,
    source_BS: Tensor,
    *,
    limits: list[int],
    sos: int,
    eos: int,
    constraint: Constraint | None = None,
) -> list[Hypothesis]:
    """The likeliest next token, always. `limits`: most tokens of each output."""
    return follow(
        model,
        source_BS,
        lambda logits_NV, _: likeliest(logits_NV),
        limits=limits,
        sos=sos,
        eos=eos,
        constraint=constraint,
    )


@torch.inference_mode()
def follow(
    model: Generator,
    source_BS: Tensor,
    choose: Choice,
    *,
    limits: list[int],
    sos: int,
    eos: int,
    constraint: Constraint | None = None,
) -> list[Hypothesis]:
    """Extends one hypothesis a sentence by what `choose` picks; finished sentences leave the batch."""
    device = source_BS.device
    B = source_BS.shape[0]
    state = model.start(model.encode(source_BS))
    limit_N = torch.tensor(limits, device=device)
    soonest = min(limits, default=0)
    sentences_N = torch.arange(B, device=device)
    total_N = torch.zeros(B, dtype=torch.float64, device=device)
    output_NT = torch.empty(B, 0, dtype=torch.long, device=device)
    tokens_N = torch.full((B,), sos, device=device)
    done: dict[int, Hypothesis] = {}
    while len(sentences_N):
        logits_NV, state = model.step(tokens_N, state)
        if constraint is not None:
            constraint(output_NT, logits_NV)
        tokens_N = choose(logits_NV, sentences_N)
        chosen_N1 = logits_NV.gather(1, tokens_N[:, None])
        total_N += (chosen_N1 - log_normalizer_(logits_NV, logits_NV.amax(dim=1, keepdim=True)))[:, 0]
        output_NT = torch.cat([output_NT, tokens_N[:, None]], dim=1)
        ended_N = leaves_N = tokens_N == eos
        if (length := output_NT.shape[1]) >= soonest:
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
            state, soonest = state.select(rows), int(limit_N.min())
    return [done[i] for i in range(B)]


def _hypothesis(tokens_T: Tensor, log_probability: float, ended: bool) -> Hypothesis:
    tokens = tokens_T.tolist()
    score = log_probability / len(tokens)
    return Hypothesis(tokens[:-1] if ended else tokens, log_probability, score, ended)
