"""A lexical shortlist: the tokens that may occur in the translation of a sentence.

It restricts the output layer, which for a small model is a large part of every decoder step. It is learned from the
training corpus (`data/lexicon.py`) and saved in the run folder.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from glassformer.errors import UserError
from glassformer.files import read_json, write_text
from glassformer.text.special_tokens import EOS

CANDIDATES = 30  # target tokens per source token
FREQUENT = 100  # target tokens that are part of every shortlist


class Shortlist:
    """For each source token, the target tokens that may translate it.

    Args:
        candidates: target tokens by source token. A token may always be copied.
        always: target tokens of every shortlist.
    """

    def __init__(self, candidates: Mapping[int, Sequence[int]], always: Iterable[int]) -> None:
        self.candidates = {token: frozenset((token, *targets)) for token, targets in candidates.items()}
        self.always = frozenset((EOS, *always))

    def tokens(self, sources: Iterable[Iterable[int]]) -> list[int]:
        """Return the sorted tokens that may occur in the translations of these sources."""
        read = set().union(*sources)
        return sorted(self.always.union(read, *(self.candidates.get(token, ()) for token in read)))

    def save(self, path: Path) -> None:
        """Write the shortlist as JSON."""
        candidates = {str(token): sorted(targets) for token, targets in sorted(self.candidates.items())}
        write_text(path, json.dumps({"always": sorted(self.always), "candidates": candidates}, separators=(",", ":")))

    @classmethod
    def load(cls, path: Path, vocab: int) -> Shortlist:
        """Read and check a shortlist for a vocabulary of this size."""
        try:
            raw = read_json(path, "The shortlist of the run", "train again, or translate without --shortlist")
        except FileNotFoundError:
            hint = "translate without --shortlist; train writes a shortlist for Transformers"
            raise UserError("This run has no shortlist.", where=str(path), hint=hint) from None
        try:
            candidates = {int(token): list(map(int, targets)) for token, targets in raw["candidates"].items()}
            always = list(map(int, raw["always"]))
        except (KeyError, TypeError, ValueError, AttributeError):
            raise _damaged(path) from None
        if any(not 0 <= token < vocab for tokens in (candidates, always, *candidates.values()) for token in tokens):
            raise _damaged(path)
        return cls(candidates, always)


def _damaged(path: Path) -> UserError:
    return UserError("The shortlist of the run is damaged.", where=str(path), hint="translate without --shortlist")
