"""Beam search: the k best hypotheses a sentence, ranked by length-normalised log-probability."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from glassformer.decoding import Constraint, Generator, Hypothesis
from glassformer.decoding.top import log_normalizer_, top_tokens


def normalizer(length: int, alpha: float) -> float:
    """((5 + length) / 6)^α of Wu et al. (2016), which the paper uses with α = 0.6 (§6.1)."""
    return ((5 + length) / 6) ** alpha


@dataclass(frozen=True)
class Considered:
    """What a step had to choose from: the candidates of every sentence that is searched still, best first, B×C.

    A row is that of the hypothesis that a candidate extends. `kept_BK` says which go on, where the search does.
    """

    total_BC: Tensor  # log-probability
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
    watch: Callable[[Considered], None] | None = None,
) -> list[list[Hypothesis]]:
    """The hypotheses of every sentence, best first, `beam` of them. `limits`: most tokens of each output.

    watch  is shown what every step chose from
    """
    device = source_BS.device
    state = model.start(model.encode(source_BS), copies=beam)
    search = [_Sentence(beam, alpha, limit) for limit in limits]
    alive = list(range(len(limits)))
    # All hypotheses of a sentence begin alike; only the first may be extended in the first step.
    total_BK = torch.full((len(alive), beam), float("-inf"), device=device)
    total_BK[:, 0] = 0
    tokens_N = torch.full((len(alive) * beam,), sos, device=device)
    output_NT = torch.empty(len(tokens_N), 0, dtype=torch.long, device=device)
    while alive:
        logits_NV, state = model.step(tokens_N, state)
        if constraint is not None:
            constraint(output_NT, logits_NV)
        # 2·beam candidates: even if beam of them end here, beam others go on.
        total_BC, row_BC, token_BC = best_continuations(logits_NV, total_BK, 2 * beam)
        ends_BC = token_BC == eos
        continuations = _Continuations(output_NT, total_BC, row_BC, token_BC, ends_BC)
        stays = [i for i, sentence in enumerate(alive) if not search[sentence].take(continuations, i)]
        # Of the candidates that do not end, the first `beam` go on, in the sentences that do.
        kept_BK = ends_BC.to(torch.int8).sort(dim=1, stable=True).indices[:, :beam]
        if watch is not None:
            watch(Considered(total_BC, row_BC, token_BC, kept_BK))
        kept_BK = kept_BK[stays]
        total_BK = total_BC[stays].gather(1, kept_BK)
        rows_N = row_BC[stays].gather(1, kept_BK).flatten()
        tokens_N = token_BC[stays].gather(1, kept_BK).flatten()
        output_NT = torch.cat([output_NT[rows_N], tokens_N[:, None]], dim=1)
        alive = [alive[i] for i in stays]
        if alive:
            state = state.select(rows_N)
    return [sentence.best() for sentence in search]


def best_continuations(logits_NV: Tensor, total_BK: Tensor, candidates: int) -> tuple[Tensor, Tensor, Tensor]:
    """The best one-token extensions of each sentence: their log-probability, row and token, each B×C.

    Writes over the logits.
    """
    B, K = total_BK.shape
    V = logits_NV.shape[1]
    # The best C of each row suffice: no sentence takes more than C from one row.
    logit_NC, token_NC = top_tokens(logits_NV, min(candidates, V))
    within_NC = logit_NC - log_normalizer_(logits_NV, logit_NC[:, :1])
    C = within_NC.shape[1]
    total_BKC = total_BK[:, :, None] + within_NC.view(B, K, C)
    total_BC, place_BC = total_BKC.view(B, K * C).topk(min(candidates, K * C), dim=1)
    token_BC = token_NC.view(B, K * C).gather(1, place_BC)
    first_row_B1 = torch.arange(B, device=total_BK.device)[:, None] * K
    return total_BC, first_row_B1 + place_BC.div(C, rounding_mode="floor"), token_BC


class _Continuations:
    """The candidates of one step, as lists: a Python loop over tensors would cost more than the step."""

    def __init__(self, output_NT: Tensor, total_BC: Tensor, row_BC: Tensor, token_BC: Tensor, ends_BC: Tensor) -> None:
        self.output_NT, self.length = output_NT, output_NT.shape[1] + 1
        self.total, self.row = total_BC.tolist(), row_BC.tolist()
        self.token, self.ends = token_BC.tolist(), ends_BC.tolist()

    def tokens(self, i: int, c: int) -> list[int]:
        """Candidate c of sentence i, without its `<eos>`."""
        before = self.output_NT[self.row[i][c]].tolist()
        return before if self.ends[i][c] else [*before, self.token[i][c]]


class _Sentence:
    """The finished hypotheses of one sentence, and whether better ones can still come."""

    def __init__(self, beam: int, alpha: float, limit: int) -> None:
        self.beam, self.alpha, self.limit = beam, alpha, limit
        self.finished: list[Hypothesis] = []

    def take(self, new: _Continuations, i: int) -> bool:
        """Collects what ends in this step; says whether the search of this sentence is over."""
        totals, ends = new.total[i], new.ends[i]
        for c in range(min(self.beam, len(totals))):
            if ends[c]:
                self._finish(new.tokens(i, c), totals[c], new.length, ended=True)
        going = [c for c in range(len(totals)) if not ends[c] and totals[c] > float("-inf")]
        over = not going or new.length >= self.limit or self._rest_is_behind(totals[going[0]], new.length)
        if over and len(self.finished) < self.beam:  # the limit came first: what is still open counts too
            for c in going[: self.beam]:
                self._finish(new.tokens(i, c), totals[c], new.length, ended=False)
        return over

    def best(self) -> list[Hypothesis]:
        # What was cut off by the limit stands behind everything that ended by itself.
        ranked = sorted(self.finished, key=lambda h: (h.finished, h.score), reverse=True)[: self.beam]
        return ranked or [Hypothesis([], float("-inf"), float("-inf"), False)]  # all was forbidden, or not a number

    def _finish(self, tokens: list[int], total: float, length: int, *, ended: bool) -> None:
        if total > float("-inf"):
            self.finished.append(Hypothesis(tokens, total, total / normalizer(length, self.alpha), ended))

    def _rest_is_behind(self, best_going: float, length: int) -> bool:
        """Whether `beam` outputs are finished and all better than the best of the others is now.

        That one could still win by its length where α > 0, but rarely does; waiting for it costs many steps.
        """
        if len(self.finished) < self.beam:
            return False
        worst = sorted((h.score for h in self.finished), reverse=True)[self.beam - 1]
        return best_going / normalizer(length, self.alpha) <= worst
