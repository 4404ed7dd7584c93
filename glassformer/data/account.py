"""What a data set of one kind of example holds, what of it is used, and why the rest is not.

The reports of parallel text are in `report.py`; this one serves lines, labelled lines, tagged sentences and pieces.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from typing import Any, NamedTuple, TypeVar

import numpy as np

from glassformer.data.checks import hashes, held_out_size, hold_out
from glassformer.errors import UserError

EXAMPLES = 5
CUT = 120  # characters of an example
MANY_DROPPED = 0.10
RARE = 5  # examples of a label


class Bad(NamedTuple):
    """An example that is not used, and where it stands."""

    reason: str
    place: str
    text: str


@dataclass(frozen=True)
class Dropped:
    count: int
    examples: tuple[str, ...]  # with file:line


@dataclass(frozen=True)
class Account:
    """One split. `facts` are further counts by name; `labels` says how often each label occurs."""

    read: int
    kept: int
    dropped: dict[str, Dropped] = field(default_factory=dict)
    facts: dict[str, int] = field(default_factory=dict)
    labels: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class ExamplesReport:
    """All that is known about the data of a run. `what` are the examples: texts, sentences, lines, pieces."""

    what: str
    splits: dict[str, Account]
    held_out: str = ""
    notes: list[str] = field(default_factory=list)

    @property
    def counts(self) -> dict[str, int]:
        return {name: account.kept for name, account in self.splits.items()}

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"counts": self.counts, "warnings": self.warnings()}

    def warnings(self) -> list[str]:
        """What a person should look at before a long run."""
        found = []
        train = self.splits["train"]
        if train.read - train.kept > MANY_DROPPED * train.read:
            found.append(f"train: {train.read - train.kept:,} of {train.read:,} {self.what} were dropped")
        for label, count in train.labels.items():
            if count < RARE:
                found.append(f"train: the label '{label}' has {count} examples only: it will hardly be learnt")
        return found

    def lines(self) -> list[str]:
        lines: list[str] = []
        for name, account in self.splits.items():
            lines.append(f"{name}: {account.read:,} {self.what} read, {account.kept:,} kept")
            for reason, dropped in account.dropped.items():
                lines.append(f"  {dropped.count:>9,}  dropped: {reason}")
                lines += [f"             {_printable(example)}" for example in dropped.examples]
            if account.facts:
                lines.append("  " + ", ".join(f"{count:,} {fact}" for fact, count in account.facts.items()))
            every = sum(account.labels.values())
            lines += [f"  {label:>9}  {count:,} ({count / every:.1%})" for label, count in account.labels.items()]
            if name == "train" and self.held_out:
                lines.append(f"  note: {self.held_out}")
        lines += [f"note: {note}" for note in self.notes]
        return lines + [f"warning: {warning}" for warning in self.warnings()]


def account(kept: int, bad: Sequence[Bad], *, facts: dict[str, int], labels: Iterable[str] = ()) -> Account:
    """The account of one split: the most frequent label first."""
    by_reason: dict[str, list[Bad]] = {}
    for one in bad:
        by_reason.setdefault(one.reason, []).append(one)
    dropped = {
        reason: Dropped(len(some), tuple(f"{one.place}  {_cut(one.text)}" for one in some[:EXAMPLES]))
        for reason, some in by_reason.items()
    }
    return Account(kept + len(bad), kept, dropped, facts, dict(Counter(labels).most_common()))


Example = TypeVar("Example")


def set_aside(examples: Sequence[Example], texts: Sequence[str], where: str) -> tuple[list[Example], list[Example]]:
    """Train and valid, where nobody gave valid. The choice hangs on the text alone, so equal texts stay together."""
    held = hold_out(hashes(texts), held_out_size(len(examples))) if examples else np.zeros(0, dtype=bool)
    train = [example for example, out in zip(examples, held, strict=True) if not out]
    valid = [example for example, out in zip(examples, held, strict=True) if out]
    if not train or not valid:
        raise UserError(
            f"There is too little to hold some of it out: {len(examples):,} examples.",
            where=where,
            hint="give more of it, or held-out examples with --valid",
        )
    return train, valid


def said_of(valid: int, every: int, what: str, of: str = "text") -> str:
    return f"valid: {valid:,} of {every:,} {what} of train, chosen by a hash of their {of}"


def fingerprint(task: str, *splits: Sequence[Any]) -> str:
    """Changes when an example does, or its split; not when it moves in its file, which its last entry tells."""
    digest = blake2b(task.encode(), digest_size=16)
    for examples in splits:
        for example in examples:
            digest.update(repr(example[:-1]).encode())
        digest.update(b"\0")
    return digest.hexdigest()


def _cut(text: str) -> str:
    return text if len(text) <= CUT else text[: CUT - 1] + "…"


def _printable(text: str) -> str:
    """Without control characters: a corpus may hold ones that a terminal obeys."""
    return "".join(char if char.isprintable() else "\ufffd" for char in text)
