"""Beam search: the k best hypotheses per sentence, ranked by length-normalized log-probability."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from glassformer.decoding import Constraint, Generator, Hypothesis, length_penalty
from glassformer.decoding.topk import logsumexp_, top_tokens


@dataclass(frozen=True)
class BeamStep:
    """The candidates of one step, best first, for every sentence whose search is not over.

    Attributes:
        total_BC: log-probability of each candidate.
        row_BC: the batch row of the hypothesis that the candidate extends.
        token_BC: its last token.
        kept_BK: indices of the candidates that are extended in the next step.
    """

    total_BC: Tensor
    row_BC: Tensor
    token_BC: Tensor
    kept_BK: Tensor


@torch.inference_mode()
def beam_search(
    model: Generator,
    source_BS: Tensor,
    *,
    beam: int,
    alpha: float,
    limits: list[int],
    sos: int,
    eos: int,
    constraint: Constraint | None = None,
    on_step: Callable[[BeamStep], None] | None = None,
) -> list[list[Hypothesis]]:
    """Return the `beam` best hypotheses of every sentence, best first.

    `limits` are the maximum output lengths. `on_step` is called with the candidates of every step.
    """
    device = source_BS.device
    state = model.start(model.encode(source_BS), copies=beam)
    searches = [_SentenceSearch(beam, alpha, limit) for limit in limits]
    active = list(range(len(limits)))
    # All hypotheses of a sentence are equal before the first step, so only the first one may be extended.
    total_BK = torch.full((len(active), beam), float("-inf"), device=device)
    total_BK[:, 0] = 0
    tokens_N = torch.full((len(active) * beam,), sos, device=device)
    output_NT = torch.empty(len(tokens_N), 0, dtype=torch.long, device=device)
    while active:
        logits_NV, state = model.step(tokens_N, state)
        if constraint is not None:
            constraint(output_NT, logits_NV)
        # 2·beam candidates: even if `beam` of them end here, `beam` others can be extended.
        total_BC, row_BC, token_BC = best_continuations(logits_NV, total_BK, 2 * beam)
        ends_BC = token_BC == eos
        candidates = _Candidates(output_NT, total_BC, row_BC, token_BC, ends_BC)
        stays = [i for i, sentence in enumerate(active) if not searches[sentence].update(candidates, i)]
        # Keep the first `beam` candidates that do not end.
        kept_BK = ends_BC.to(torch.int8).sort(dim=1, stable=True).indices[:, :beam]
        if on_step is not None:
            on_step(BeamStep(total_BC, row_BC, token_BC, kept_BK))
        kept_BK = kept_BK[stays]
        total_BK = total_BC[stays].gather(1, kept_BK)
        rows_N = row_BC[stays].gather(1, kept_BK).flatten()
        tokens_N = token_BC[stays].gather(1, kept_BK).flatten()
        output_NT = torch.cat([output_NT[rows_N], tokens_N[:, None]], dim=1)
        active = [active[i] for i in stays]
        if active:
            state = state.select(rows_N)
    return [search.best() for search in searches]


def best_continuations(logits_NV: Tensor, total_BK: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return log-probability, row and token (each B×C) of the best one-token extensions. Overwrites the logits."""
    B, K = total_BK.shape
    V = logits_NV.shape[1]
    # The best C of each row suffice: no sentence takes more than C from one row.
    logit_NC, token_NC = top_tokens(logits_NV, min(count, V))
    log_probability_NC = logit_NC - logsumexp_(logits_NV, logit_NC[:, :1])
    C = log_probability_NC.shape[1]
    # NaN (−∞ − −∞ if every token of a row is forbidden) would be the best candidate: topk sorts it first.
    log_probability_NC = log_probability_NC.masked_fill(log_probability_NC.isnan(), float("-inf"))
    total_BKC = total_BK[:, :, None] + log_probability_NC.view(B, K, C)
    total_BC, index_BC = total_BKC.view(B, K * C).topk(min(count, K * C), dim=1)
    token_BC = token_NC.view(B, K * C).gather(1, index_BC)
    first_row_B1 = torch.arange(B, device=total_BK.device)[:, None] * K
    return total_BC, first_row_B1 + index_BC.div(C, rounding_mode="floor"), token_BC


class _Candidates:
    """The candidates of one step as lists: a Python loop over tensors would cost more than the step."""

    def __init__(self, output_NT: Tensor, total_BC: Tensor, row_BC: Tensor, token_BC: Tensor, ends_BC: Tensor) -> None:
        self.output_NT, self.length = output_NT, output_NT.shape[1] + 1
        self.total, self.row = total_BC.tolist(), row_BC.tolist()
        self.token, self.ends = token_BC.tolist(), ends_BC.tolist()

    def tokens(self, i: int, c: int) -> list[int]:
        """Return the tokens of candidate c of sentence i, without `<eos>`."""
        before = self.output_NT[self.row[i][c]].tolist()
        return before if self.ends[i][c] else [*before, self.token[i][c]]


class _SentenceSearch:
    """The finished hypotheses of one sentence."""

    def __init__(self, beam: int, alpha: float, limit: int) -> None:
        self.beam, self.alpha, self.limit = beam, alpha, limit
        self.finished: list[Hypothesis] = []

    def update(self, step: _Candidates, i: int) -> bool:
        """Collect the candidates that end in this step; return whether the search of this sentence is over."""
        totals, ends = step.total[i], step.ends[i]
        for c in range(min(self.beam, len(totals))):
            if ends[c]:
                self._finish(step.tokens(i, c), totals[c], step.length, ended=True)
        unfinished = [c for c in range(len(totals)) if not ends[c] and totals[c] > float("-inf")]
        over = not unfinished or step.length >= self.limit or self._cannot_improve(totals[unfinished[0]], step.length)
        if over and len(self.finished) < self.beam:  # at the length limit, unfinished hypotheses count too
            for c in unfinished[: self.beam]:
                self._finish(step.tokens(i, c), totals[c], step.length, ended=False)
        return over

    def best(self) -> list[Hypothesis]:
        # Hypotheses cut off at the limit rank behind all that ended with <eos>.
        ranked = sorted(self.finished, key=lambda h: (h.finished, h.score), reverse=True)[: self.beam]
        return ranked or [Hypothesis([], float("-inf"), float("-inf"), False)]  # all tokens forbidden, or NaN

    def _finish(self, tokens: list[int], total: float, length: int, *, ended: bool) -> None:
        if total > float("-inf"):
            self.finished.append(Hypothesis(tokens, total, total / length_penalty(length, self.alpha), ended))

    def _cannot_improve(self, best_unfinished: float, length: int) -> bool:
        """Return whether `beam` hypotheses are finished and all score higher than the best unfinished one now.

        With α > 0 that one could still win by its length, but it rarely does; waiting for it costs many steps.
        """
        if len(self.finished) < self.beam:
            return False
        worst = sorted((h.score for h in self.finished), reverse=True)[self.beam - 1]
        return best_unfinished / length_penalty(length, self.alpha) <= worst
