"""The likeliest span: of all beginnings and ends, the pair whose probabilities have the highest product."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

LONGEST = 30  # tokens of an answer
NOWHERE = 0  # the position that an answer begins and ends at where there is none


class Spans(NamedTuple):
    """For each row: the best span, its log-probability, and that of there being none."""

    start_B: Tensor
    end_B: Tensor  # its last token
    score_B: Tensor
    none_B: Tensor


def log_probabilities(logits_BS2: Tensor, allowed_BS: Tensor) -> Tensor:
    """Of beginning and of ending at each position, B×S×2; −∞ where that is not allowed."""
    return logits_BS2.float().masked_fill(~allowed_BS[:, :, None], float("-inf")).log_softmax(dim=1)


def best_spans(log_probability_BS2: Tensor, *, longest: int = LONGEST) -> Spans:
    """No span begins at `NOWHERE`, ends before it begins, or is longer than `longest` tokens."""
    start_BS, end_BS = log_probability_BS2.unbind(2)
    none_B = start_BS[:, NOWHERE] + end_BS[:, NOWHERE]
    length = start_BS.shape[1]
    fits_SS = torch.ones(length, length, dtype=torch.bool, device=start_BS.device).triu().tril(longest - 1)
    fits_SS[NOWHERE] = False
    both_BSS = (start_BS[:, :, None] + end_BS[:, None, :]).masked_fill(~fits_SS, float("-inf"))
    score_B, place_B = both_BSS.flatten(1).max(dim=1)
    return Spans(place_B // length, place_B % length, score_B, none_B)
