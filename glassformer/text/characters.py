"""Which characters a text has, and how often."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from functools import lru_cache

import numpy as np


def occurrences(lines: Iterable[str]) -> np.ndarray:
    """How often each code point occurs, up to the highest of them."""
    # In numpy, as 32-bit numbers: 15 times as fast as a Counter.
    points = np.frombuffer("".join(lines).encode("utf-32-le", "surrogatepass"), dtype="<u4")
    return np.bincount(points, minlength=1)


def scripts(lines: Iterable[str]) -> dict[str, int]:
    """Characters by script (LATIN, HANGUL, CJK …); "other" is the rest, spaces aside."""
    counts = occurrences(lines)
    found: dict[str, int] = {}
    for point in np.flatnonzero(counts).tolist():
        if script := _script(point):
            found[script] = found.get(script, 0) + int(counts[point])
    return found


@lru_cache(maxsize=100_000)
def _script(point: int) -> str:
    char = chr(point)
    if char.isspace():
        return ""
    return unicodedata.name(char, "other").split()[0] if char.isalpha() else "other"


def most_frequent_first(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Scripts of all parts together, "other" last."""
    total: dict[str, int] = {}
    for part in counts:
        for script, count in part.items():
            total[script] = total.get(script, 0) + count
    return dict(sorted(total.items(), key=lambda item: (item[0] == "other", -item[1], item[0])))
