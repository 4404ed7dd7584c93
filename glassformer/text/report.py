"""What a corpus holds, what of it is used, and why the rest is not.

Pairs that would teach nonsense (empty, misaligned, repeated) are dropped, and every one of them is counted
under its reason with an example to look up. Text that a model is judged on is left alone, save empty pairs:
a score must not depend on what a filter finds convenient.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Iterator, Sequence, Sized
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from glassformer.errors import UserError
from glassformer.settings import Limits
from glassformer.text.corpus import Pair, ParallelFiles, read_pairs

# In the order in which they are tried: a pair is counted under the first that it meets.
REASONS = {
    "empty": "one side has no text",
    "too_long": "a side is over the limit of words or characters",
    "length_ratio": "one side is far longer than usual for the other",
    "duplicate": "the same pair came before",
    "identical": "source and target are the same text",
}
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


class _Sieve:
    """Takes pairs out of a list, one reason after the other, and keeps the account."""

    def __init__(self, pairs: Iterable[Pair]) -> None:
        self.pairs = list(pairs)
        self.read = len(self.pairs)
        self.counts = dict.fromkeys(REASONS, 0)
        self.examples: dict[str, list[Example]] = {reason: [] for reason in REASONS}

    def drop(self, reason: str, flags: Iterable[bool]) -> None:
        """Drop the pairs whose flag is true; there is one flag for each pair that is left."""
        kept, examples = [], self.examples[reason]
        for pair, bad in zip(self.pairs, flags, strict=True):
            if not bad:
                kept.append(pair)
            elif len(examples) < EXAMPLES:
                examples.append(Example(pair.file, pair.line, _cut(pair.source), _cut(pair.target)))
        self.counts[reason] += len(self.pairs) - len(kept)
        self.pairs = kept

    def account(self, correlation: float | None, notes: Sequence[str] = ()) -> Checked:
        dropped = {reason: Dropped(self.counts[reason], tuple(self.examples[reason])) for reason in REASONS}
        sources = len({pair.source for pair in self.pairs})
        return Checked(
            read=self.read,
            kept=len(self.pairs),
            dropped=dropped,
            source=_describe([pair.source for pair in self.pairs]),
            target=_describe([pair.target for pair in self.pairs]),
            repeated_sources=(len(self.pairs) - sources) / len(self.pairs) if self.pairs else 0.0,
            length_correlation=correlation,
            notes=tuple(notes),
        )


def check(pairs: Iterable[Pair], limits: Limits) -> tuple[list[Pair], Checked]:
    """The training pairs worth learning from, in their order, and the account of the others.

    Pairs are normalised already, as `read_pairs` yields them.
    """
    sieve, notes = _Sieve(pairs), []
    sieve.drop("empty", _empty(sieve.pairs))
    sieve.drop("too_long", (_too_long(pair, limits) for pair in sieve.pairs))
    # Measured before the ratio rule: that rule takes the worst of a misaligned corpus and would flatter it.
    correlation = _length_correlation(sieve.pairs)
    sieve.drop("length_ratio", _far_from_median(sieve.pairs, limits.max_ratio))
    if limits.drop_duplicates:
        sieve.drop("duplicate", _seen_before(sieve.pairs))
    if limits.drop_identical:
        same = [pair.source == pair.target for pair in sieve.pairs]
        if 2 * sum(same) > len(same):
            notes.append(
                f"{sum(same):,} of {len(same):,} pairs have the same text on both sides: "
                "copying seems to be the task, so they are kept"
            )
        else:
            sieve.drop("identical", same)
    return sieve.pairs, sieve.account(correlation, notes)


def check_held_out(pairs: Iterable[Pair]) -> tuple[list[Pair], Checked]:
    """The pairs to judge a model by: all but those with an empty side, which no score is defined on."""
    sieve = _Sieve(pairs)
    sieve.drop("empty", _empty(sieve.pairs))
    return sieve.pairs, sieve.account(_length_correlation(sieve.pairs))


def _empty(pairs: Iterable[Pair]) -> Iterator[bool]:
    return (not pair.source.strip() or not pair.target.strip() for pair in pairs)


def _too_long(pair: Pair, limits: Limits) -> bool:
    longest = max(len(pair.source), len(pair.target))
    if longest > limits.max_characters:
        return True
    # n words have at least 2n − 1 characters, so most pairs need no splitting.
    if longest <= 2 * limits.max_words:
        return False
    return max(len(pair.source.split()), len(pair.target.split())) > limits.max_words


def _lengths(pairs: Sequence[Pair]) -> tuple[np.ndarray, np.ndarray]:
    source = np.fromiter((len(pair.source) for pair in pairs), dtype=np.float64, count=len(pairs))
    target = np.fromiter((len(pair.target) for pair in pairs), dtype=np.float64, count=len(pairs))
    return source, target


def _far_from_median(pairs: Sequence[Pair], max_ratio: float) -> list[bool]:
    """Against the median, for Korean is always shorter than English, and a summary than its article."""
    if not pairs:
        return []
    source, target = _lengths(pairs)
    ratio = (source + 10) / (target + 10)  # + 10: "Go." may become "Allez-vous-en !"
    away = ratio / np.median(ratio)
    return ((away > max_ratio) | (away < 1 / max_ratio)).tolist()


def _seen_before(pairs: Iterable[Pair]) -> Iterator[bool]:
    seen: set[tuple[str, str]] = set()
    for pair in pairs:
        texts = pair[:2]
        yield texts in seen
        seen.add(texts)


def _length_correlation(pairs: Sequence[Pair]) -> float | None:
    source, target = _lengths(pairs)
    if len(pairs) < 2 or np.ptp(source) == 0 or np.ptp(target) == 0:
        return None
    return float(np.corrcoef(source, target)[0, 1])


def _cut(text: str) -> str:
    return text if len(text) <= CUT else text[: CUT - 1] + "…"


# What the text looks like -----------------------------------------------------


def _describe(texts: Sequence[str]) -> Side:
    words = np.fromiter((len(text.split()) for text in texts), dtype=np.int64, count=len(texts))
    counts, _ = np.histogram(words, bins=[*BUCKETS.values(), np.inf])
    return Side(
        mean_words=float(words.mean()) if len(texts) else 0.0,
        max_words=int(words.max()) if len(texts) else 0,
        words=dict(zip(BUCKETS, counts.tolist(), strict=True)),
        scripts=_scripts(texts),
    )


def _scripts(texts: Sequence[str]) -> dict[str, int]:
    """Characters by script, most frequent first, "other" last."""
    # Counted as code points in numpy, then named once for each distinct one: 15 times as fast as a Counter.
    counts = np.zeros(0x110000, dtype=np.int64)
    for start in range(0, len(texts), 10_000):
        chunk = "".join(texts[start : start + 10_000]).encode("utf-32-le", "surrogatepass")
        part = np.bincount(np.frombuffer(chunk, dtype="<u4"))
        counts[: len(part)] += part
    scripts: dict[str, int] = {}
    for point in np.flatnonzero(counts).tolist():
        char = chr(point)
        if not char.isspace():
            script = unicodedata.name(char, "other").split()[0] if char.isalpha() else "other"
            scripts[script] = scripts.get(script, 0) + int(counts[point])
    return dict(sorted(scripts.items(), key=lambda item: (item[0] == "other", -item[1], item[0])))


# Training text and the text held back from it ---------------------------------


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


def leakage(train: Iterable[Pair], held_out: Sequence[Pair]) -> Leakage:
    """Which held-out pairs occur in train. Both are normalised; memory grows with the held-out text only."""
    # For each text of the held-out pairs: the first place in train that has it.
    places: dict[str, dict[object, Pair | None]] = {
        "pair": {pair[:2]: None for pair in held_out},
        "source": {pair.source: None for pair in held_out},
        "target": {pair.target: None for pair in held_out},
    }
    by_pair, by_source, by_target = places.values()
    for pair in train:
        if pair.source in by_source:
            by_source[pair.source] = by_source[pair.source] or pair
            if pair[:2] in by_pair:
                by_pair[pair[:2]] = by_pair[pair[:2]] or pair
        if pair.target in by_target:
            by_target[pair.target] = by_target[pair.target] or pair
    counts = dict.fromkeys(places, 0)
    examples: list[LeakExample] = []
    for pair in held_out:
        found = {
            "pair": by_pair[pair[:2]],
            "source": by_source[pair.source],
            "target": by_target[pair.target],
        }
        leaks = [(what, place) for what, place in found.items() if place is not None]
        for what, _ in leaks:
            counts[what] += 1
        if leaks and len(examples) < EXAMPLES:
            what, place = leaks[0]
            texts = _cut(pair.source), _cut(pair.target)
            examples.append(LeakExample(what, pair.file, pair.line, place.file, place.line, *texts))
    return Leakage(len(held_out), counts["pair"], counts["source"], counts["target"], tuple(examples))


def held_out_size(pairs: Sized) -> int:
    """How many pairs to hold out: 2 %, between 50 and 1500, but never over a tenth (and at least one)."""
    count = len(pairs)
    return min(max(50, min(1500, count // 50)), max(1, count // 10))


def hold_out(pairs: Sequence[Pair], count: int) -> tuple[list[Pair], list[Pair]]:
    """Part pairs into (train, held out), each in the original order; at most `count` are held out.

    The choice hangs on the text alone, not on its order, so it is the same when the corpus is shuffled.
    All pairs of one source go to the same side. Where every source has more than `count` pairs, those of one
    source are held out all the same; where there is but one source, nothing is.
    """
    sizes: dict[str, int] = {}
    for pair in pairs:
        sizes[pair.source] = sizes.get(pair.source, 0) + 1
    order = sorted(sizes, key=lambda source: (blake2b(source.encode(), digest_size=8).digest(), source))
    chosen: set[str] = set()
    room = count
    for source in order:
        if sizes[source] <= room:
            chosen.add(source)
            room -= sizes[source]
        if room <= 0:
            break
    if not chosen and count > 0 and len(order) > 1:
        chosen.add(min(order, key=sizes.__getitem__))
    train = [pair for pair in pairs if pair.source not in chosen]
    return train, [pair for pair in pairs if pair.source in chosen]


class Splits(NamedTuple):
    train: list[Pair]
    valid: list[Pair]
    test: list[Pair]


def prepare(
    train: ParallelFiles, valid: ParallelFiles | None, test: ParallelFiles | None, limits: Limits
) -> tuple[Splits, DataReport]:
    """Read, check and report everything that a run learns from and is judged by.

    Without `valid`, a slice of train is set aside for it. Nothing leaked is removed, only reported. Raises
    UserError where too little is left: fewer than two pairs to train on, or none to judge by.
    """
    pairs, report = check(read_pairs(train), limits)
    note = ""
    if valid is None:
        kept = len(pairs)
        pairs, held_out = hold_out(pairs, held_out_size(pairs))
        note = (
            f"{len(held_out):,} of the {kept:,} training pairs were set aside for validation, because no "
            "validation text was given (chosen by a hash of the source: the same ones every time)"
        )
        # With too few pairs for a slice, the training text is what is too small: say that.
        _refuse_few(len(pairs) if held_out else 0, 2, "training", train, report, set_aside=len(held_out))
        valid_pairs, valid_report = check_held_out(held_out)
    else:
        _refuse_few(len(pairs), 2, "training", train, report)
        valid_pairs, valid_report = check_held_out(read_pairs(valid))
        _refuse_few(len(valid_pairs), 1, "validation", valid, valid_report)
    test_pairs, test_report = check_held_out(read_pairs(test)) if test else ([], None)
    if test and test_report:
        _refuse_few(len(test_pairs), 1, "test", test, test_report)
    splits = Splits(pairs, valid_pairs, test_pairs)
    leaks = {"valid": leakage(pairs, valid_pairs)}
    if test:
        leaks["test"] = leakage(pairs, test_pairs)
    sizes = {name: len(split) for name, split in zip(splits._fields, splits, strict=True) if split}
    return splits, DataReport(
        report, valid_report, test_report, held_out=note, leakage=leaks, pairs=sizes, limits=limits
    )


def _refuse_few(
    left: int, needed: int, name: str, files: ParallelFiles, report: Checked, *, set_aside: int = 0
) -> None:
    if left >= needed:
        return
    why = [f"{dropped.count:,} {reason}" for reason, dropped in report.dropped.items() if dropped.count]
    account = f"{report.read:,} read, {report.kept:,} usable"
    account += f"; dropped: {', '.join(why)}" if why else ""
    account += f"; {set_aside:,} set aside for validation" if set_aside else ""
    fix = "give more text"
    if report.read > report.kept:
        fix += ", or look at what was dropped: " + next(
            f"{dropped.examples[0].file}:{dropped.examples[0].line}"
            for dropped in report.dropped.values()
            if dropped.examples
        )
    raise UserError(f"The {name} text has too few usable pairs ({account})", where=str(files), fix=fix)


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

    def splits(self) -> dict[str, Checked]:
        """The splits that there are, by name."""
        every = {"train": self.train, "valid": self.valid, "test": self.test}
        return {name: checked for name, checked in every.items() if checked is not None}

    def to_json(self) -> dict[str, Any]:
        """The report in plain JSON types, for `data-report.json`."""
        return json.loads(json.dumps({**asdict(self), "warnings": self.warnings()}, default=Limits.model_dump))

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
