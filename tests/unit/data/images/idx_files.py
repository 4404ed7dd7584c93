"""An idx file, written after the format's description."""

from __future__ import annotations

import numpy as np


def idx(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + np.array(array.shape, dtype=">u4").tobytes() + array.tobytes()
