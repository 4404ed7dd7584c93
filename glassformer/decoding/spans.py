"""The most probable answer span: the start and end positions whose probabilities have the highest product."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

MAX_SPAN_TOKENS = 30
NO_ANSWER_POSITION = 0  # start and end position that mean "no answer"


class BestSpans(NamedTuple):
    """The best span of each row, its log-probability, and the log-probability of no answer."""

    start_B: Tensor
    end_B: Tensor  # last token of the span
    score_B: Tensor
    no_answer_B: Tensor


def log_probabilities(logits_BS2: Tensor, allowed_BS: Tensor) -> Tensor:
    """Return log-probabilities of starting and ending at each position, B×S×2; −∞ where that is not allowed."""
    return logits_BS2.float().masked_fill(~allowed_BS[:, :, None], float("-inf")).log_softmax(dim=1)


def best_spans(log_probability_BS2: Tensor, *, max_tokens: int = MAX_SPAN_TOKENS) -> BestSpans:
    """Return the best span of at most `max_tokens` tokens per row, `NO_ANSWER_POSITION` excluded."""
    start_BS, end_BS = log_probability_BS2.unbind(2)
    no_answer_B = start_BS[:, NO_ANSWER_POSITION] + end_BS[:, NO_ANSWER_POSITION]
    length = start_BS.shape[1]
    valid_SS = torch.ones(length, length, dtype=torch.bool, device=start_BS.device).triu().tril(max_tokens - 1)
    valid_SS[NO_ANSWER_POSITION] = False
    both_BSS = (start_BS[:, :, None] + end_BS[:, None, :]).masked_fill(~valid_SS, float("-inf"))
    score_B, index_B = both_BSS.flatten(1).max(dim=1)
    return BestSpans(index_B // length, index_B % length, score_B, no_answer_B)
