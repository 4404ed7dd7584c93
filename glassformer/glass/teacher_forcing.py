"""Teacher forcing compared with free running."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest

from glassformer.glass.trace import NextToken, Trace, trace_translation
from glassformer.inference.translator import Translator
from glassformer.text.tokenizer import EOS


@dataclass(frozen=True)
class TeacherForcingComparison:
    """Two traces of one source: the decoder reads the given target (`forced`), or its own output (`free`)."""

    forced: Trace
    free: Trace

    @property
    def target(self) -> list[str]:
        """The tokens that the forced decoder learns to predict: the given target, then `<eos>`."""
        return [*self.forced.target[1:], *self.forced.to_tokens([EOS])]

    @property
    def divergence(self) -> int | None:
        """The first step at which the free-running output differs from the target; None if it does not."""
        pairs = zip_longest(self.target, self.free.written)
        return next((step for step, (given, own) in enumerate(pairs) if given != own), None)

    def at_divergence(self, count: int = 5) -> list[NextToken]:
        """Return the most probable tokens at the divergence, where both decoders have read the same tokens."""
        step = self.divergence
        return [] if step is None or step >= len(self.free.written) else self.free.next_tokens(count)[step]


def compare_with_free_running(translator: Translator, source: str, target: str) -> TeacherForcingComparison:
    """Trace a source with teacher forcing on a target, and free-running."""
    return TeacherForcingComparison(
        trace_translation(translator, source, target), trace_translation(translator, source)
    )
