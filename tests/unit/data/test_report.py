"""The report of a corpus: dropped pairs, held-out pairs, warnings."""

from __future__ import annotations

import json
import random
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.data import filtering, report
from glassformer.data.filtering import DROP_REASONS, held_out_size
from glassformer.data.parallel_text import SentencePair, parallel_files
from glassformer.data.preparation import check_held_out, prepare_corpus
from glassformer.data.report import FileLine, Leakage, LeakExample, PairSplit, ParallelReport
from glassformer.errors import UserError
from glassformer.settings import Limits
from glassformer.text import characters


def pairs_of(*texts: tuple[str, str], file: str = "t.en") -> list[SentencePair]:
    return [SentencePair(source, target, line, file) for line, (source, target) in enumerate(texts, 1)]


def measured(pairs: Sequence[SentencePair]) -> filtering.PairMeasures:
    return filtering.measure_pairs([pair.source for pair in pairs], [pair.target for pair in pairs])


def check(pairs: Iterable[SentencePair], limits: Limits) -> tuple[list[SentencePair], PairSplit]:
    """Filter training pairs as preparation does, without files."""
    every = list(pairs)
    measures = measured(every)
    decision = filtering.filter_train(measures, limits)
    kept = [every[row] for row in decision.kept]
    source, target = (
        characters.merge_script_counts([characters.count_scripts(pair[i] for pair in kept)]) for i in (0, 1)
    )
    return kept, report.pair_split(measures, decision, (source, target), every.__getitem__)


def hold_out(pairs: list[SentencePair], count: int) -> tuple[list[SentencePair], list[SentencePair]]:
    held = filtering.hold_out(measured(pairs).source_hash, count)
    return [p for p, out in zip(pairs, held, strict=True) if not out], [
        p for p, out in zip(pairs, held, strict=True) if out
    ]


def leakage(train: list[SentencePair], held_out: list[SentencePair]) -> Leakage:
    found = filtering.find_in_train(measured(train), np.arange(len(train)), measured(held_out))
    return report.describe_leakage(held_out, found, lambda row: FileLine(train[row].file, train[row].line))


def counts(checked: PairSplit) -> dict[str, int]:
    return {reason: dropped.count for reason, dropped in checked.dropped.items() if dropped.count}


def aligned(count: int, seed: int = 3) -> list[tuple[str, str]]:
    """Return distinct sources of 1 to 30 words, and targets of similar length."""
    chance = random.Random(seed)
    texts = []
    for number in range(count):
        words = [chance.choice(["one", "three", "seven"]) for _ in range(chance.randrange(1, 30))]
        texts.append((" ".join([f"s{number}", *words]), " ".join([f"t{number}", *words[:-1], "zwei"])))
    return texts


ORDINARY = [(f"a good day {n}", f"ein guter Tag {n}") for n in range(11)]

FROZEN_CHOICE = ["s6", "s10", "s24", "s26", "s31"]

some_text = st.text(st.sampled_from("ab é한"), max_size=12).map(lambda text: " ".join(text.split()))
some_pairs = st.lists(st.tuples(some_text, some_text), max_size=40).map(lambda texts: pairs_of(*texts))
some_limits = st.builds(
    Limits,
    max_words=st.integers(1, 5),
    max_characters=st.integers(1, 12),
    max_ratio=st.sampled_from([1.1, 1.5, 4.0]),
    drop_duplicates=st.booleans(),
    drop_identical=st.booleans(),
)


class TestCheck:
    def test_every_reason_is_counted_with_its_location(self) -> None:
        long, longer = "w " * 200 + "w", "x" * 2001
        bad = [
            ("", "leer"),  # 12
            ("blank", ""),  # 13
            (long, long.replace("w", "v")),  # 14
            ("a", longer),  # 15
            ("short", "y" * 90),  # 16
            ("z" * 90, "kurz"),  # 17
            ORDINARY[0],  # 18
            ("Berlin", "Berlin"),  # 19
        ]
        kept, checked = check(pairs_of(*ORDINARY, *bad), Limits())
        assert kept == pairs_of(*ORDINARY)
        assert (checked.read, checked.kept) == (19, 11)
        assert counts(checked) == {
            "empty": 2,
            "too_long": 2,
            "length_ratio": 2,
            "duplicate": 1,
            "identical": 1,
        }
        where = {reason: [e.line for e in dropped.examples] for reason, dropped in checked.dropped.items()}
        assert where == {
            "empty": [12, 13],
            "too_long": [14, 15],
            "length_ratio": [16, 17],
            "duplicate": [18],
            "identical": [19],
        }
        example = checked.dropped["too_long"].examples[1]
        assert (example.file, example.source, example.target) == ("t.en", "a", "x" * 119 + "…")

    def test_limits_are_inclusive(self) -> None:
        at_limit = pairs_of(("aa bb c", "A B C"), ("abcdefg", "ABCDEFG"))
        over = pairs_of(("a b c d", "A"), ("a", "ABCDEFGH"))
        limits = Limits(max_words=3, max_characters=7, max_ratio=99)
        assert check(at_limit + over, limits)[0] == at_limit

    def test_only_five_examples_of_many(self) -> None:
        _, checked = check(pairs_of(*[("", "x")] * 7), Limits())
        assert checked.dropped["empty"].count == 7
        assert [example.line for example in checked.dropped["empty"].examples] == [1, 2, 3, 4, 5]

    def test_ratio_is_measured_against_the_median(self) -> None:
        # Articles of 990 characters, summaries of 40: a ratio of about twenty is normal in this corpus.
        texts = [(f"{n:990}", f"{n:40}") for n in range(1, 10)]
        odd = [("9" * 40, "8" * 40)]  # the one pair of equal lengths
        kept, checked = check(pairs_of(*texts, *odd), Limits())
        assert len(kept) == 9 and counts(checked) == {"length_ratio": 1}
        assert checked.dropped["length_ratio"].examples[0].line == 10

    def test_ratio_bounds_in_both_directions(self) -> None:
        # The median ratio is 1, so 4 times of it is (70 + 10) / (10 + 10).
        same = [(f"{n:<10}", f"{n:>10}") for n in range(1, 8)]
        for source, target, fine in [(70, 10, True), (71, 10, False), (10, 70, True), (10, 71, False)]:
            kept, _ = check(pairs_of(*same, ("a" * source, "b" * target)), Limits())
            assert (len(kept) == 8) is fine

    def test_rules_can_be_switched_off(self) -> None:
        pairs = pairs_of(*ORDINARY, ORDINARY[0], ("Berlin", "Berlin"))
        assert check(pairs, Limits(drop_duplicates=False, drop_identical=False))[0] == pairs

    def test_copying_as_the_task_is_kept_and_noted(self) -> None:
        copies = [(f"copy {n}", f"copy {n}") for n in range(3)]
        kept, checked = check(pairs_of(*copies, *ORDINARY[:2]), Limits())
        assert len(kept) == 5 and not counts(checked)
        assert "3 of 5 pairs have the same text on both sides" in checked.notes[0]
        kept, checked = check(pairs_of(*copies, *ORDINARY[:3]), Limits())  # exactly half is not more than half
        assert len(kept) == 3 and counts(checked) == {"identical": 3} and not checked.notes

    @given(some_pairs, some_limits)
    def test_every_pair_is_kept_or_counted_as_dropped(self, pairs: list[SentencePair], limits: Limits) -> None:
        kept, checked = check(iter(pairs), limits)
        assert checked.read == len(pairs) and checked.kept == len(kept)
        assert checked.kept + sum(dropped.count for dropped in checked.dropped.values()) == checked.read
        assert list(checked.dropped) == list(DROP_REASONS)
        assert kept == [pair for pair in pairs if pair in set(kept)]  # order and identity
        for dropped in checked.dropped.values():
            assert len(dropped.examples) == min(dropped.count, 5)

    @given(some_pairs)
    def test_held_out_loses_only_empty_pairs(self, pairs: list[SentencePair]) -> None:
        kept, checked = check_held_out(pairs)
        assert kept == [pair for pair in pairs if pair.source and pair.target]
        assert counts(checked) == ({"empty": len(pairs) - len(kept)} if len(pairs) > len(kept) else {})


class TestDescription:
    def test_words(self) -> None:
        lengths = [1, 4, 5, 9, 10, 19, 20, 39, 40, 79, 80, 159, 160, 200]
        texts = [(" ".join(["w"] * n), " ".join(["v"] * n)) for n in lengths]
        _, checked = check(pairs_of(*texts), Limits())
        assert list(checked.source.words.values()) == [2] * 7
        assert list(checked.source.words) == ["1-4", "5-9", "10-19", "20-39", "40-79", "80-159", "160+"]
        assert checked.target.max_words == 200
        assert checked.target.mean_words == pytest.approx(sum(lengths) / len(lengths))

    def test_only_kept_pairs_are_described(self) -> None:
        _, checked = check(pairs_of(*ORDINARY, ("", "Привет")), Limits())
        assert "CYRILLIC" not in checked.target.scripts

    def test_scripts(self) -> None:
        _, checked = check(pairs_of(("Grüße, 3!", "안녕 世界 Да")), Limits())
        assert checked.source.scripts == {"LATIN": 5, "other": 3}
        assert checked.target.scripts == {"CJK": 2, "CYRILLIC": 2, "HANGUL": 2}

    @given(st.lists(st.text(min_size=1), min_size=1, max_size=9))
    def test_scripts_agree_with_counting_line_by_line(self, texts: list[str]) -> None:
        texts = [text for text in texts if text.strip()]
        _, checked = check_held_out(pairs_of(*[(text, "x") for text in texts]))
        expected: Counter[str] = Counter()
        for char in "".join(texts):
            if not char.isspace():
                expected[unicodedata.name(char, "other").split()[0] if char.isalpha() else "other"] += 1
        assert checked.source.scripts == dict(expected)


class TestLeakage:
    def test_counts_and_places(self) -> None:
        train = pairs_of(("a", "A"), ("b", "B"), ("c", "C"), ("a", "A"), ("a", "B"), file="train")
        held = pairs_of(("x", "X"), ("a", "A"), ("b", "Z"), ("y", "C"), ("a", "C"), ("a", "B"), file="valid")
        leak = leakage(train, held)
        assert (leak.of, leak.pairs, leak.sources, leak.targets) == (6, 2, 4, 4)
        assert leak.examples == (
            LeakExample("pair", "valid", 2, "train", 1, "a", "A"),
            LeakExample("source", "valid", 3, "train", 2, "b", "Z"),
            LeakExample("target", "valid", 4, "train", 3, "y", "C"),
            LeakExample("source", "valid", 5, "train", 1, "a", "C"),
            LeakExample("pair", "valid", 6, "train", 5, "a", "B"),
        )

    def test_none(self) -> None:
        leak = leakage(pairs_of(("a", "A")), pairs_of(("b", "B")))
        assert (leak.pairs, leak.sources, leak.targets, leak.examples) == (0, 0, 0, ())

    @given(some_pairs, some_pairs)
    def test_agrees_with_the_definition(self, train: list[SentencePair], held: list[SentencePair]) -> None:
        leak = leakage(train, held)
        assert leak.pairs == sum(pair[:2] in {p[:2] for p in train} for pair in held)
        assert leak.sources == sum(pair.source in {p.source for p in train} for pair in held)
        assert leak.targets == sum(pair.target in {p.target for p in train} for pair in held)


class TestHoldOut:
    @pytest.mark.parametrize(
        ("pairs", "size"),
        [(1, 1), (9, 1), (30, 3), (500, 50), (1_000, 50), (5_000, 100), (75_000, 1500), (10**6, 1500)],
    )
    def test_size(self, pairs: int, size: int) -> None:
        assert held_out_size(pairs) == size

    @given(some_pairs, st.integers(0, 9), st.randoms())
    def test_hold_out_depends_on_the_source_not_on_the_order(
        self, pairs: list[SentencePair], count: int, chance: random.Random
    ) -> None:
        train, held = hold_out(pairs, count)
        assert sorted(train + held) == sorted(pairs)
        assert [pair.line for pair in train] == sorted(pair.line for pair in train)
        assert [pair.line for pair in held] == sorted(pair.line for pair in held)
        assert not {pair.source for pair in train} & {pair.source for pair in held}
        shuffled = list(pairs)
        chance.shuffle(shuffled)
        assert sorted(hold_out(shuffled, count)[1]) == sorted(held)

    def test_hold_out_has_the_exact_size_if_all_sources_differ(self) -> None:
        train, held = hold_out(pairs_of(*aligned(101)), 13)
        assert (len(train), len(held)) == (88, 13)
        assert [pair.line for pair in held] != list(range(1, 14))  # a sample, not the head of the file

    def test_hold_out_is_the_same_in_every_version(self) -> None:
        _, held = hold_out(pairs_of(*[(f"s{n}", "t") for n in range(40)]), 5)
        assert [pair.source for pair in held] == FROZEN_CHOICE

    def test_a_source_with_too_many_targets_stays_in_train(self) -> None:
        many = [("often", f"t{n}") for n in range(20)]
        for extra in range(5):
            _, held = hold_out(pairs_of(*many, *[(f"{extra} {n}", "t") for n in range(5)]), 3)
            assert len(held) == 3 and "often" not in {pair.source for pair in held}

    def test_something_is_held_out_even_if_no_source_fits(self) -> None:
        pairs = pairs_of(("a", "1"), ("a", "2"), ("a", "3"), ("b", "1"), ("b", "2"))
        train, held = hold_out(pairs, 1)
        assert {pair.source for pair in held} == {"b"} and {pair.source for pair in train} == {"a"}
        assert hold_out(pairs[:3], 1) == (pairs[:3], [])


def report_on(texts: list[tuple[str, str]]) -> ParallelReport:
    return ParallelReport("pairs", {"train": check(pairs_of(*texts), Limits())[1]})


class TestWarnings:
    def test_shuffled_targets_look_misaligned(self) -> None:
        texts = aligned(500)
        targets = [target for _, target in texts]
        random.Random(5).shuffle(targets)
        shuffled = [(source, target) for (source, _), target in zip(texts, targets, strict=True)]
        assert any("train: lines may be misaligned" in warning for warning in report_on(shuffled).warnings())
        assert report_on(texts).warnings() == []
        assert not any("misaligned" in warning for warning in report_on(shuffled[:99]).warnings())

    def test_many_dropped(self) -> None:
        fine = aligned(90)
        assert report_on(fine + [("", "x")] * 10).warnings() == []
        (warning,) = report_on(fine + [("", "x")] * 11).warnings()
        assert "11 of 101 pairs (10.9%) were dropped" in warning and "one side has no text" in warning

    def test_repeated_sources(self) -> None:
        def texts(repeats: int) -> list[tuple[str, str]]:
            return [*aligned(100 - repeats), *[(aligned(1)[0][0], f"{n} drei {n}") for n in range(repeats)]]

        assert report_on(texts(29)).warnings() == []
        (warning,) = report_on(texts(30)).warnings()
        assert "30% of the pairs repeat the source" in warning

    def test_swapped_sides(self) -> None:
        korean = [(f"day {n}", f"날 {n}") for n in range(5)]
        train = check(pairs_of(*korean), Limits())[1]
        swapped = check_held_out(pairs_of(("날", "day")))[1]
        (warning,) = ParallelReport("pairs", {"train": train, "valid": swapped}).warnings()
        assert warning.startswith("valid: source and target may be swapped: the source is in HANGUL")
        assert ParallelReport("pairs", {"train": train, "valid": train}).warnings() == []

    def test_leakage(self) -> None:
        train = check(pairs_of(*ORDINARY), Limits())[1]
        leak = leakage(pairs_of(("a", "A"), ("b", "B")), pairs_of(("x", "B"), ("a", "A")))
        (warning,) = ParallelReport("pairs", {"train": train}, leakage={"test": leak}).warnings()
        assert "test: of 2 pairs, train also contains 1; it contains the source of 1 and the target of 2" in warning
        target_only = leakage(pairs_of(("b", "B")), pairs_of(("x", "B")))
        assert ParallelReport("pairs", {"train": train}, leakage={"valid": target_only}).warnings()
        carved = ParallelReport("pairs", {"train": train}, leakage={"valid": target_only}, held_out="1 was set aside")
        assert carved.warnings() == []


class TestPrepare:
    @pytest.fixture(autouse=True)
    def in_folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)

    def tsv(self, name: str, texts: list[tuple[str, str]]) -> None:
        Path(name).write_text("".join(f"{source}\t{target}\n" for source, target in texts), encoding="utf-8")

    def test_a_validation_set_is_held_out_of_train_and_reported(self) -> None:
        self.tsv("train.tsv", [*aligned(200), ("", "x")])
        splits, report = prepare_corpus(parallel_files(["train.tsv"]), None, None, Limits())
        assert (len(splits.train), len(splits.valid), splits.test) == (180, 20, [])
        assert (report.splits["train"].read, report.splits["train"].kept) == (201, 200)
        assert "20 of the 200 training pairs were held out" in report.held_out
        assert report.pairs == {"train": 180, "valid": 20}
        assert report.leakage["valid"].sources == 0 and "test" not in report.splits

    def test_given_splits_are_checked_against_train(self) -> None:
        texts = aligned(30)
        self.tsv("train.tsv", texts)
        self.tsv("valid.tsv", [texts[3], ("new", "neu"), ("", "leer")])
        self.tsv("test.tsv", [("new", "neu"), ("new", "neu"), ("same", "same")])
        files = [parallel_files([f"{name}.tsv"]) for name in ("train", "valid", "test")]
        splits, report = prepare_corpus(files[0], files[1], files[2], Limits())
        assert [len(split) for split in splits] == [30, 2, 3]
        assert report.held_out == ""
        assert counts(report.splits["valid"]) == {"empty": 1}
        assert counts(report.splits["test"]) == {}
        assert [report.leakage[name].pairs for name in ("valid", "test")] == [1, 0]
        assert report.leakage["valid"].examples[0].train_line == 4

    def test_too_little_train(self) -> None:
        self.tsv("train.tsv", [("a", "A"), ("a", "A"), ("", "B")])
        self.tsv("valid.tsv", [("b", "B")])
        with pytest.raises(UserError) as caught:
            prepare_corpus(parallel_files(["train.tsv"]), parallel_files(["valid.tsv"]), None, Limits())
        assert "3 read, 1 usable; dropped: 1 empty, 1 duplicate" in caught.value.message
        assert caught.value.where == "train.tsv" and "train.tsv:3" in caught.value.hint

    def test_too_little_train_after_holding_out(self) -> None:
        self.tsv("train.tsv", [("a", "A"), ("b", "B")])
        with pytest.raises(UserError, match="2 read, 2 usable; 1 held out for validation"):
            prepare_corpus(parallel_files(["train.tsv"]), None, None, Limits())

    def test_a_corpus_with_one_source_cannot_be_split(self) -> None:
        self.tsv("train.tsv", [("a", "A"), ("a", "B"), ("a", "C")])
        with pytest.raises(UserError, match="too few usable pairs"):
            prepare_corpus(parallel_files(["train.tsv"]), None, None, Limits())

    @pytest.mark.parametrize(("split", "name"), [("valid", "validation"), ("test", "test")])
    def test_a_held_out_set_without_usable_pairs_is_refused(self, split: str, name: str) -> None:
        self.tsv("train.tsv", ORDINARY)
        self.tsv("good.tsv", [("b", "B")])
        self.tsv(f"{split}.tsv", [("", "B"), ("c", "")])
        valid = parallel_files(["valid.tsv" if split == "valid" else "good.tsv"])
        test = parallel_files(["test.tsv"]) if split == "test" else None
        with pytest.raises(UserError, match=f"The {name} set has too few usable pairs \\(2 read, 0 usable"):
            prepare_corpus(parallel_files(["train.tsv"]), valid, test, Limits())

    def test_json_is_plain_and_complete(self) -> None:
        self.tsv("train.tsv", [*aligned(40), ("", "x")])
        self.tsv("valid.tsv", [aligned(1)[0]])
        _, report = prepare_corpus(parallel_files(["train.tsv"]), parallel_files(["valid.tsv"]), None, Limits())
        plain = report.to_json()
        assert json.loads(json.dumps(plain)) == plain
        assert plain["train"]["dropped"]["empty"]["count"] == 1
        assert plain["train"]["dropped"]["empty"]["examples"][0]["line"] == 41
        assert plain["leakage"]["valid"]["examples"][0]["what"] == "pair"
        assert plain["limits"]["max_ratio"] == 4.0 and plain["test"] is None
        assert plain["warnings"] == report.warnings() != []

    def test_lines_for_the_terminal(self) -> None:
        self.tsv("train.tsv", [*aligned(1200), ("", "\x1b[31mred")])
        self.tsv("valid.tsv", [aligned(1)[0], ("neu", "новое")])
        _, report = prepare_corpus(parallel_files(["train.tsv"]), parallel_files(["valid.tsv"]), None, Limits())
        lines = report.lines()
        text = "\n".join(lines)
        assert lines[0] == "train: 1,201 pairs read, 1,200 kept, 1 dropped (0.1%)"
        assert "1  dropped: one side has no text" in lines[1]
        assert lines[2].strip() == "train.tsv:1201  (empty) → \ufffd[31mred"  # a terminal must not interpret it
        most = max(report.splits["train"].source.words.values())
        assert f"{most:>9,} {'█' * 24}" in text
        assert "20-39 words" in text and "40-79 words" not in text  # no rows above the longest sentence
        assert "CYRILLIC 5" in text
        assert "also in train, of 2: 1 pairs, 1 sources, 1 targets" in text
        assert "valid.tsv:1 = train.tsv:1 (same pair)" in text
        assert "in use: train 1,200, valid 2" in lines
        assert lines[-1].startswith("warning: valid: of 2 pairs")
