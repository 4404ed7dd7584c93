"""Teacher forcing beside free running: where a model that reads its own words first leaves the given ones."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest

from glassformer.glass.trace import Choice, Trace


@dataclass(frozen=True)
class Beside:
    """Two traces of one source: one read the given target, the other what it had written itself."""

    forced: Trace
    free: Trace

    @property
    def divergence(self) -> int | None:
        """The first step at which the free run writes another piece than was given; None if it never does."""
        pairs = zip_longest(self.forced.written, self.free.written)
        return next((step for step, (given, own) in enumerate(pairs) if given != own), None)

    def at_divergence(self, most: int = 5) -> list[Choice]:
        """What it thought likeliest there. Both had read the same until then, so both thought the same."""
        step = self.divergence
        return [] if step is None or step >= len(self.free.written) else self.free.choices(most)[step]
