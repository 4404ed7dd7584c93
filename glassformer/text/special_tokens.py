"""The ids of the special tokens, which every vocabulary begins with."""

from __future__ import annotations

PAD, SOS, EOS = 0, 1, 2
