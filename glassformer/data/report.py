"""What a corpus holds, what of it is used, and why the rest is not, in numbers and in words.

Pairs that would teach nonsense (empty, misaligned, repeated) are dropped, and every one of them is counted
under its reason with an example to look up. Text that a model is judged on is left alone, save empty pairs:
a score must not depend on what a filter finds convenient.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np

from glassformer.data.checks import REASONS, Decision, Measures
from glassformer.data.corpus import Pair
from glassformer.settings import Limits

EXAMPLES = 5
CUT = 120  # characters of an example
BUCKETS = {"1-4": 1, "5-9": 5, "10-19": 10, "20-39": 20, "40-79": 40, "80-159": 80, "160+": 160}

# What is worth a person's attention.
MANY_DROPPED = 0.10
MANY_REPEATED = 0.30
LOW_CORRELATION, ENOUGH_PAIRS = 0.3, 100


@dataclass(frozen=True)
class Example:
    file: str
    line: int
    source: str
    target: str


@dataclass(frozen=True)
class Dropped:
    count: int
    examples: tuple[Example, ...]


@dataclass(frozen=True)
class Side:
    """One side of the pairs kept. `words` counts sentences by their number of words (see BUCKETS).

    `scripts` counts letters by script (LATIN, HANGUL, CJK …); "other" is the rest, spaces aside.
    """

    mean_words: float
    max_words: int
    words: dict[str, int]
    scripts: dict[str, int]


@dataclass(frozen=True)
class Checked:
    """Counts of one split: read == kept + the sum of the counts in `dropped`.

    repeated_sources    the share of kept pairs whose source came before
    length_correlation  of the two sides' lengths in characters, before the ratio rule; None if undefined
    """

    read: int
    kept: int
    dropped: dict[str, Dropped]
    source: Side
    target: Side
    repeated_sources: float
    length_correlation: float | None
    notes: tuple[str, ...] = ()


def checked(
    measures: Measures,
    decision: Decision,
    scripts: tuple[dict[str, int], dict[str, int]],
    pair_at: Callable[[int], Pair],
) -> Checked:
    """The account of one split; `pair_at(row)` gives a pair to show, `scripts` are those of the pairs kept."""
    dropped = {}
    for reason in REASONS:
        rows = decision.rows(reason)
        examples = (pair_at(row) for row in rows[:EXAMPLES].tolist())
        shown = (Example(pair.file, pair.line, _cut(pair.source), _cut(pair.target)) for pair in examples)
        dropped[reason] = Dropped(len(rows), tuple(shown))
    kept = decision.kept
    sources = len(np.unique(measures.source_hash[kept]))
    return Checked(
        read=len(measures),
        kept=len(kept),
        dropped=dropped,
        source=_side(measures.source_words[kept], scripts[0]),
        target=_side(measures.target_words[kept], scripts[1]),
        repeated_sources=(len(kept) - sources) / len(kept) if len(kept) else 0.0,
        length_correlation=decision.correlation,
        notes=decision.notes,
    )


def _side(words: np.ndarray, scripts: dict[str, int]) -> Side:
    counts, _ = np.histogram(words, bins=[*BUCKETS.values(), np.inf])
    return Side(
        mean_words=float(words.mean()) if len(words) else 0.0,
        max_words=int(words.max()) if len(words) else 0,
        words=dict(zip(BUCKETS, counts.tolist(), strict=True)),
        scripts=scripts,
    )


def _cut(text: str) -> str:
    return text if len(text) <= CUT else text[: CUT - 1] + "…"


# What of the held-out text stands in train ------------------------------------


@dataclass(frozen=True)
class LeakExample:
    """A held-out pair, and the first place in train that has the same `what`: pair, source or target."""

    what: str
    file: str
    line: int
    train_file: str
    train_line: int
    source: str
    target: str


@dataclass(frozen=True)
class Leakage:
    """How many of `of` held-out pairs the model has seen in training: the pair, its source, its target.

    A pair that leaks as a whole counts in all three.
    """

    of: int
    pairs: int
    sources: int
    targets: int
    examples: tuple[LeakExample, ...]


class Place(NamedTuple):
    file: str
    line: int


def leakage(held_out: Sequence[Pair], found: Mapping[str, np.ndarray], place_of: Callable[[int], Place]) -> Leakage:
    """Puts what `checking.first_in_train` found into words; `place_of(row)` says where a row of train stands."""
    leaks = np.stack([found[what] for what in ("pair", "source", "target")]) >= 0
    examples = []
    for i in np.flatnonzero(leaks.any(axis=0))[:EXAMPLES].tolist():
        what = next(what for what in ("pair", "source", "target") if found[what][i] >= 0)
        pair, place = held_out[i], place_of(int(found[what][i]))
        texts = _cut(pair.source), _cut(pair.target)
        examples.append(LeakExample(what, pair.file, pair.line, place.file, place.line, *texts))
    pairs, sources, targets = leaks.sum(axis=1).tolist()
    return Leakage(len(held_out), pairs, sources, targets, tuple(examples))


# The report -------------------------------------------------------------------


@dataclass(frozen=True)
class DataReport:
    """All that is known about the text of a run.

    held_out  says that valid was carved out of train, or is empty; `train` then counts the pairs of both
    leakage   for "valid" and "test": what of them stands in train
    notes     further remarks to show to a person
    pairs     what each split holds in the end
    limits    what train was checked against
    """

    train: Checked
    valid: Checked | None = None
    test: Checked | None = None
    held_out: str = ""
    leakage: dict[str, Leakage] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    pairs: dict[str, int] = field(default_factory=dict)
    limits: Limits = field(default_factory=lambda: Limits())

    @property
    def counts(self) -> dict[str, int]:
        return self.pairs

    def splits(self) -> dict[str, Checked]:
        """The splits that there are, by name."""
        every = {"train": self.train, "valid": self.valid, "test": self.test}
        return {name: checked for name, checked in every.items() if checked is not None}

    def to_json(self) -> dict[str, Any]:
        """The report in plain JSON types, for `data-report.json`."""
        return json.loads(json.dumps({**asdict(self), "warnings": self.warnings()}, default=Limits.model_dump))

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> DataReport:
        """The report that `to_json` described."""
        train, valid, test = (plain[name] and _checked_from(plain[name]) for name in ("train", "valid", "test"))
        leaks = {
            name: Leakage(**leak | {"examples": tuple(LeakExample(**example) for example in leak["examples"])})
            for name, leak in plain["leakage"].items()
        }
        rest = {name: plain[name] for name in ("held_out", "notes", "pairs")}
        return cls(train, valid, test, leakage=leaks, limits=Limits(**plain["limits"]), **rest)

    def warnings(self) -> list[str]:
        """What a person should look at before a long run, each in one sentence."""
        found = _train_warnings(self.train)
        for name, checked in self.splits().items():
            if name == "valid" and self.held_out:
                continue  # the same text as train: once is enough
            found += _alignment_warnings(name, checked, self.train)
        for name, leak in self.leakage.items():
            # Short answers recur in any corpus: of a slice that we cut ourselves, a shared target is no news.
            carved = name == "valid" and bool(self.held_out)
            if leak.pairs or leak.sources or (leak.targets and not carved):
                found.append(
                    f"{name}: of {leak.of:,} pairs, train holds {leak.pairs:,} as they are, the source of "
                    f"{leak.sources:,} and the target of {leak.targets:,}: scores on them flatter the model"
                )
        return found

    def lines(self) -> list[str]:
        """The report as plain text for a terminal, one item a line."""
        lines: list[str] = []
        for name, checked in self.splits().items():
            lines += _split_lines(name, checked)
            if name == "train" and self.held_out:
                lines.append(f"  note: {self.held_out}")
            if name in self.leakage:
                lines += _leakage_lines(self.leakage[name])
        lines += [f"note: {note}" for note in self.notes]
        if self.pairs:
            lines.append("in use: " + ", ".join(f"{name} {count:,}" for name, count in self.pairs.items()))
        lines += [f"warning: {warning}" for warning in self.warnings()]
        return lines


def _checked_from(plain: dict[str, Any]) -> Checked:
    dropped = {
        reason: Dropped(account["count"], tuple(Example(**example) for example in account["examples"]))
        for reason, account in plain["dropped"].items()
    }
    sides = {name: Side(**plain[name]) for name in ("source", "target")}
    return Checked(**plain | sides | {"dropped": dropped, "notes": tuple(plain["notes"])})


def _train_warnings(train: Checked) -> list[str]:
    found = []
    dropped = train.read - train.kept
    if dropped > MANY_DROPPED * train.read:
        worst = max(train.dropped, key=lambda reason: train.dropped[reason].count)
        found.append(
            f"train: {dropped:,} of {train.read:,} pairs ({_percent(dropped, train.read)}) were dropped, "
            f"most of them because {REASONS[worst]}"
        )
    if train.repeated_sources >= MANY_REPEATED:
        found.append(
            f"train: {train.repeated_sources:.0%} of the pairs repeat a source that came before: "
            "a model can learn only one answer to each"
        )
    return found


def _alignment_warnings(name: str, checked: Checked, train: Checked) -> list[str]:
    found = []
    correlation = checked.length_correlation
    if correlation is not None and correlation < LOW_CORRELATION and checked.kept >= ENOUGH_PAIRS:
        found.append(
            f"{name}: lines may be misaligned: long sources do not go with long targets "
            f"(correlation of lengths {correlation:.2f}, where translations have 0.7 or more)"
        )
    source, target = _main_script(train.source), _main_script(train.target)
    if source != target and (_main_script(checked.source), _main_script(checked.target)) == (target, source):
        found.append(
            f"{name}: the sides may be swapped: the source is in {target} and the target in {source}, "
            "the other way round than in train"
        )
    return found


def _main_script(side: Side) -> str:
    return max(side.scripts, key=lambda script: (script != "other", side.scripts[script]), default="")


def _split_lines(name: str, checked: Checked) -> list[str]:
    dropped = checked.read - checked.kept
    lines = [
        f"{name}: {checked.read:,} pairs read, {checked.kept:,} kept, {dropped:,} dropped "
        f"({_percent(dropped, checked.read)})"
    ]
    for reason, account in checked.dropped.items():
        if account.count:
            lines.append(f"  {account.count:>9,}  {reason}: {REASONS[reason]}")
            lines += [_example_line(example) for example in account.examples]
    for side, described in (("source", checked.source), ("target", checked.target)):
        lines += _side_lines(side, described)
    if checked.length_correlation is not None:
        lines.append(f"  correlation of the sides' lengths: {checked.length_correlation:.2f}")
    lines.append(f"  sources that came before: {checked.repeated_sources:.1%}")
    return lines + [f"  note: {note}" for note in checked.notes]


def _side_lines(name: str, side: Side) -> list[str]:
    lines = [f"  {name}: {side.mean_words:.1f} words on average, {side.max_words:,} at most"]
    most = max(side.words.values())
    for bucket, count in side.words.items():
        bar = "█" * max(round(24 * count / most), 1) if count else ""
        lines.append(f"    {bucket:>6} words {count:>9,} {bar}".rstrip())
    every = sum(side.scripts.values())
    shares = (f"{script} {count:,} ({_percent(count, every)})" for script, count in side.scripts.items())
    lines.append(f"    characters: {', '.join(shares) or 'none'}")
    return lines


def _leakage_lines(leak: Leakage) -> list[str]:
    lines = [
        f"  also in train, of {leak.of:,}: {leak.pairs:,} pairs, {leak.sources:,} sources, {leak.targets:,} targets"
    ]
    for example in leak.examples:
        places = f"{example.file}:{example.line} = {example.train_file}:{example.train_line}"
        lines.append(f"             {places} (same {example.what})  {_printable(example.source)}")
    return lines


def _example_line(example: Example) -> str:
    texts = f"{_printable(example.source) or '(empty)'} → {_printable(example.target) or '(empty)'}"
    return f"             {example.file}:{example.line}  {texts}"


def _printable(text: str) -> str:
    """Without control characters: a corpus may hold ones that a terminal obeys."""
    return "".join(char if char.isprintable() else "\ufffd" for char in text)


def _percent(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "0.0%"
