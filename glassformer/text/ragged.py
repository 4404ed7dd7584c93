"""Ragged arrays: rows of different lengths in one flat array."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Ragged(NamedTuple):
    """Concatenated rows and the length of each."""

    flat: np.ndarray
    lengths: np.ndarray


def gather_rows(flat: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> Ragged:
    """Return the rows of `flat` that begin at `starts`, without a Python loop."""
    before = np.cumsum(lengths) - lengths
    indices = np.repeat(starts - before, lengths) + np.arange(int(lengths.sum()))
    return Ragged(flat[indices], lengths)
