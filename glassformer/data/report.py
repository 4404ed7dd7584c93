"""The data report: how many examples were read, kept and dropped, with the reasons and where to find them.

Every task has a `DataReport`. Parallel text has a `ParallelReport`, which adds the statistics of both sides and the
overlap between the held-out splits and the training split.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from glassformer.data.filtering import DROP_REASONS, FilterResult, PairMeasures
from glassformer.data.parallel_text import SentencePair
from glassformer.settings import Limits

MAX_EXAMPLES = 5
MAX_EXAMPLE_CHARACTERS = 120
WORD_BUCKETS = {"1-4": 1, "5-9": 5, "10-19": 10, "20-39": 20, "40-79": 40, "80-159": 80, "160+": 160}

# Thresholds of the warnings.
MANY_DROPPED = 0.10
MANY_REPEATED = 0.30
RARE_LABEL = 5  # examples
LOW_CORRELATION, ENOUGH_PAIRS = 0.3, 100


# Reports of any task ----------------------------------------------------------


class DroppedExample(NamedTuple):
    """An example that is not used: why, its file and line, and its text."""

    reason: str
    place: str
    text: str


@dataclass(frozen=True)
class Dropped:
    """The number of examples dropped for one reason, and the first few of them with file and line."""

    count: int
    examples: tuple[Any, ...]  # str, or DroppedPair


@dataclass(frozen=True)
class SplitReport:
    """Counts of one split: `read` equals `kept` plus the sum of the counts in `dropped`."""

    read: int
    kept: int
    dropped: dict[str, Dropped]

    def details(self) -> list[str]:
        """Return further lines for the terminal."""
        return []

    def warnings(self) -> list[str]:
        """Return warnings about this split as training data."""
        return []


@dataclass(frozen=True)
class ExampleSplit(SplitReport):
    """One split of single examples. `facts` holds further counts by name, `labels` the frequency of each label."""

    facts: dict[str, int] = field(default_factory=dict)
    labels: dict[str, int] = field(default_factory=dict)

    def details(self) -> list[str]:
        total = sum(self.labels.values())
        facts = [f"{count:,} {fact}" for fact, count in self.facts.items()]
        labels = [f"  {label:>9}  {count:,} ({count / total:.1%})" for label, count in self.labels.items()]
        return [f"  {', '.join(facts)}", *labels] if facts else labels

    def warnings(self) -> list[str]:
        return [
            f"train: the label '{label}' has only {count} examples, too few to learn it"
            for label, count in self.labels.items()
            if count < RARE_LABEL
        ]


@dataclass(frozen=True)
class DataReport:
    """The report on the data of a run.

    what      plural name of the examples: texts, sentences, lines, pairs …
    splits    by name; "train" is always present
    held_out  says that the validation split was taken from the training data, or is empty
    notes     further remarks to show
    """

    what: str
    splits: Mapping[str, SplitReport]
    held_out: str = ""
    notes: list[str] = field(default_factory=list)

    @property
    def counts(self) -> dict[str, int]:
        """Number of examples that each split has in the end."""
        return {name: split.kept for name, split in self.splits.items()}

    def to_json(self) -> dict[str, Any]:
        """Return the report in plain JSON types, for `data-report.json`."""
        return asdict(self) | {"counts": self.counts, "warnings": self.warnings()}

    def warnings(self) -> list[str]:
        """Return what the user should check before a long run, one sentence each."""
        found = []
        train = self.splits["train"]
        dropped = train.read - train.kept
        if dropped > MANY_DROPPED * train.read:
            most = max(train.dropped, key=lambda reason: train.dropped[reason].count)
            found.append(
                f"train: {dropped:,} of {train.read:,} {self.what} ({_percent(dropped, train.read)}) were dropped, "
                f"most of them for this reason: {_describe(most)}"
            )
        return found + train.warnings()

    def lines(self) -> list[str]:
        """Return the report as plain text for a terminal, one item per line."""
        lines: list[str] = []
        for name, split in self.splits.items():
            dropped = split.read - split.kept
            share = f"{dropped:,} dropped ({_percent(dropped, split.read)})"
            lines.append(f"{name}: {split.read:,} {self.what} read, {split.kept:,} kept, {share}")
            for reason, some in split.dropped.items():
                if some.count:
                    lines.append(f"  {some.count:>9,}  dropped: {_describe(reason)}")
                    lines += [f"             {_printable(str(example))}" for example in some.examples]
            lines += split.details()
            if name == "train" and self.held_out:
                lines.append(f"  note: {self.held_out}")
            lines += self._overlap_lines(name)
        lines += [f"note: {note}" for note in self.notes]
        lines.append("in use: " + ", ".join(f"{name} {count:,}" for name, count in self.counts.items()))
        return lines + [f"warning: {warning}" for warning in self.warnings()]

    def _overlap_lines(self, split: str) -> list[str]:
        return []


def example_split(
    kept: int, dropped: Sequence[DroppedExample], *, facts: dict[str, int], labels: Iterable[str] = ()
) -> ExampleSplit:
    """Return the report of one split, the most frequent label first."""
    by_reason: dict[str, list[DroppedExample]] = {}
    for example in dropped:
        by_reason.setdefault(example.reason, []).append(example)
    reasons = {
        reason: Dropped(len(some), tuple(f"{one.place}  {_shorten(one.text)}" for one in some[:MAX_EXAMPLES]))
        for reason, some in by_reason.items()
    }
    return ExampleSplit(kept + len(dropped), kept, reasons, facts, dict(Counter(labels).most_common()))


def describe_held_out(valid: int, total: int, what: str, of: str = "text") -> str:
    """Return the sentence that says how the validation split was chosen."""
    return f"valid: {valid:,} of the {total:,} training {what} were held out, chosen by a hash of their {of}"


def fingerprint(task: str, *splits: Sequence[Any]) -> str:
    """Return a hash of the examples and of their assignment to splits.

    The last field of an example, its location in the file, is ignored.
    """
    digest = blake2b(task.encode(), digest_size=16)
    for examples in splits:
        for example in examples:
            digest.update(repr(example[:-1]).encode())
        digest.update(b"\0")
    return digest.hexdigest()


# Reports of parallel text -----------------------------------------------------


@dataclass(frozen=True)
class DroppedPair:
    """A sentence pair that is not used, with its file and line."""

    file: str
    line: int
    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}  {self.source or '(empty)'} → {self.target or '(empty)'}"


@dataclass(frozen=True)
class SideStatistics:
    """Statistics of one side of the pairs that are kept.

    words    number of sentences by length in words, see WORD_BUCKETS
    scripts  number of letters by script (LATIN, HANGUL, CJK …); "other" is everything else except spaces
    """

    mean_words: float
    max_words: int
    words: dict[str, int]
    scripts: dict[str, int]

    @property
    def main_script(self) -> str:
        return max(self.scripts, key=lambda script: (script != "other", self.scripts[script]), default="")

    def lines(self, name: str) -> list[str]:
        lines = [f"  {name}: {self.mean_words:.1f} words on average, {self.max_words:,} at most"]
        most = max(self.words.values())
        filled = [position for position, count in enumerate(self.words.values()) if count] or [-1]
        for bucket, count in list(self.words.items())[filled[0] : filled[-1] + 1]:
            bar = "█" * max(round(24 * count / most), 1) if count else ""
            lines.append(f"    {bucket:>6} words {count:>9,} {bar}".rstrip())
        total = sum(self.scripts.values())
        shares = (f"{script} {count:,} ({_percent(count, total)})" for script, count in self.scripts.items())
        return [*lines, f"    characters: {', '.join(shares) or 'none'}"]


@dataclass(frozen=True)
class PairSplit(SplitReport):
    """One split of parallel text.

    repeated_sources    fraction of the kept pairs whose source occurred in an earlier pair
    length_correlation  of the two sides' lengths in characters, before the ratio rule; None if undefined
    """

    source: SideStatistics
    target: SideStatistics
    repeated_sources: float
    length_correlation: float | None
    notes: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> PairSplit:
        dropped = {
            reason: Dropped(some["count"], tuple(DroppedPair(**example) for example in some["examples"]))
            for reason, some in plain["dropped"].items()
        }
        sides = {name: SideStatistics(**plain[name]) for name in ("source", "target")}
        return cls(**plain | sides | {"dropped": dropped, "notes": tuple(plain["notes"])})

    def details(self) -> list[str]:
        lines = [*self.source.lines("source"), *self.target.lines("target")]
        if self.length_correlation is not None:
            lines.append(f"  correlation of source and target length: {self.length_correlation:.2f}")
        lines.append(f"  repeated sources: {self.repeated_sources:.1%}")
        return lines + [f"  note: {note}" for note in self.notes]

    def warnings(self) -> list[str]:
        if self.repeated_sources < MANY_REPEATED:
            return []
        return [
            f"train: {self.repeated_sources:.0%} of the pairs repeat the source of an earlier pair; "
            "a model can learn only one translation of each source"
        ]

    def alignment_warnings(self, name: str, train: PairSplit) -> list[str]:
        """Return warnings about misaligned lines and about swapped sides, compared with the training split."""
        found = []
        correlation = self.length_correlation
        if correlation is not None and correlation < LOW_CORRELATION and self.kept >= ENOUGH_PAIRS:
            found.append(
                f"{name}: lines may be misaligned: the lengths of source and target have a correlation of "
                f"{correlation:.2f}; translations usually have 0.7 or more"
            )
        source, target = train.source.main_script, train.target.main_script
        if source != target and (self.source.main_script, self.target.main_script) == (target, source):
            found.append(
                f"{name}: source and target may be swapped: the source is in {target} and the target in {source}, "
                "the reverse of train"
            )
        return found


def pair_split(
    measures: PairMeasures,
    result: FilterResult,
    scripts: tuple[dict[str, int], dict[str, int]],
    pair_at: Callable[[int], SentencePair],
) -> PairSplit:
    """Return the report of one split. `pair_at(row)` returns an example, `scripts` counts those of the kept pairs."""
    dropped = {}
    for reason in DROP_REASONS:
        rows = result.rows(reason)
        pairs = (pair_at(row) for row in rows[:MAX_EXAMPLES].tolist())
        shown = (DroppedPair(pair.file, pair.line, _shorten(pair.source), _shorten(pair.target)) for pair in pairs)
        dropped[reason] = Dropped(len(rows), tuple(shown))
    kept = result.kept
    sources = len(np.unique(measures.source_hash[kept]))
    return PairSplit(
        read=len(measures),
        kept=len(kept),
        dropped=dropped,
        source=_side_statistics(measures.source_words[kept], scripts[0]),
        target=_side_statistics(measures.target_words[kept], scripts[1]),
        repeated_sources=(len(kept) - sources) / len(kept) if len(kept) else 0.0,
        length_correlation=result.correlation,
        notes=result.notes,
    )


def _side_statistics(words: np.ndarray, scripts: dict[str, int]) -> SideStatistics:
    counts, _ = np.histogram(words, bins=[*WORD_BUCKETS.values(), np.inf])
    return SideStatistics(
        mean_words=float(words.mean()) if len(words) else 0.0,
        max_words=int(words.max()) if len(words) else 0,
        words=dict(zip(WORD_BUCKETS, counts.tolist(), strict=True)),
        scripts=scripts,
    )


class FileLine(NamedTuple):
    """A line of a file, counted from 1."""

    file: str
    line: int


@dataclass(frozen=True)
class LeakExample:
    """A held-out pair, and the first training pair with the same `what`: "pair", "source" or "target"."""

    what: str
    file: str
    line: int
    train_file: str
    train_line: int
    source: str
    target: str


@dataclass(frozen=True)
class Leakage:
    """How many of `of` held-out pairs also occur in train: as a pair, by their source, by their target.

    A pair that occurs as a whole counts in all three.
    """

    of: int
    pairs: int
    sources: int
    targets: int
    examples: tuple[LeakExample, ...]


def describe_leakage(
    held_out: Sequence[SentencePair], found: Mapping[str, np.ndarray], place_of: Callable[[int], FileLine]
) -> Leakage:
    """Summarize the result of `filtering.find_in_train`. `place_of(row)` returns file and line of a training row."""
    leaks = np.stack([found[what] for what in ("pair", "source", "target")]) >= 0
    examples = []
    for i in np.flatnonzero(leaks.any(axis=0))[:MAX_EXAMPLES].tolist():
        what = next(what for what in ("pair", "source", "target") if found[what][i] >= 0)
        pair, place = held_out[i], place_of(int(found[what][i]))
        texts = _shorten(pair.source), _shorten(pair.target)
        examples.append(LeakExample(what, pair.file, pair.line, place.file, place.line, *texts))
    pairs, sources, targets = leaks.sum(axis=1).tolist()
    return Leakage(len(held_out), pairs, sources, targets, tuple(examples))


@dataclass(frozen=True)
class ParallelReport(DataReport):
    """The report on parallel text.

    leakage  for "valid" and "test": which of their pairs also occur in train
    pairs    number of pairs of each split in the end; the validation split may come out of `splits["train"]`
    limits   the rules that train was filtered by
    """

    splits: Mapping[str, PairSplit]
    leakage: dict[str, Leakage] = field(default_factory=dict)
    pairs: dict[str, int] = field(default_factory=dict)
    limits: Limits = field(default_factory=lambda: Limits())

    @property
    def counts(self) -> dict[str, int]:
        return self.pairs

    def to_json(self) -> dict[str, Any]:
        plain = asdict(self)
        del plain["what"]
        splits = dict.fromkeys(("train", "valid", "test")) | plain.pop("splits")
        return json.loads(json.dumps(splits | plain | {"warnings": self.warnings()}, default=Limits.model_dump))

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> ParallelReport:
        """Return the report that `to_json` wrote."""
        splits = {name: PairSplit.from_json(plain[name]) for name in ("train", "valid", "test") if plain[name]}
        leaks = {
            name: Leakage(**leak | {"examples": tuple(LeakExample(**example) for example in leak["examples"])})
            for name, leak in plain["leakage"].items()
        }
        rest = {name: plain[name] for name in ("held_out", "notes", "pairs")}
        return cls("pairs", splits, leakage=leaks, limits=Limits(**plain["limits"]), **rest)

    def warnings(self) -> list[str]:
        found = super().warnings()
        for name, split in self.splits.items():
            if name == "valid" and self.held_out:
                continue  # part of train, which was checked already
            found += split.alignment_warnings(name, self.splits["train"])
        for name, leak in self.leakage.items():
            # Short sentences recur in any corpus: a shared target says little if valid was taken from train.
            from_train = name == "valid" and bool(self.held_out)
            if leak.pairs or leak.sources or (leak.targets and not from_train):
                found.append(
                    f"{name}: of {leak.of:,} pairs, train also contains {leak.pairs:,}; it contains the source of "
                    f"{leak.sources:,} and the target of {leak.targets:,}. Scores on these pairs are too high."
                )
        return found

    def _overlap_lines(self, split: str) -> list[str]:
        if split not in self.leakage:
            return []
        leak = self.leakage[split]
        counts = f"{leak.pairs:,} pairs, {leak.sources:,} sources, {leak.targets:,} targets"
        lines = [f"  also in train, of {leak.of:,}: {counts}"]
        for example in leak.examples:
            places = f"{example.file}:{example.line} = {example.train_file}:{example.train_line}"
            lines.append(f"             {places} (same {example.what})  {_printable(example.source)}")
        return lines


# ------------------------------------------------------------------------------


def _describe(reason: str) -> str:
    return DROP_REASONS.get(reason, reason)


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_EXAMPLE_CHARACTERS else text[: MAX_EXAMPLE_CHARACTERS - 1] + "…"


def _printable(text: str) -> str:
    """Replace control characters, which a terminal would interpret."""
    return "".join(char if char.isprintable() else "\ufffd" for char in text)


def _percent(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "0.0%"
