"""Filtering on arrays equals the plain rules on text."""

from __future__ import annotations

import plain_filtering as plain
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.data import filtering
from glassformer.data.filtering import DROP_REASONS
from glassformer.data.parallel_text import SentencePair
from glassformer.settings import Limits

some_text = st.text(st.sampled_from("ab é한"), max_size=9).map(lambda text: " ".join(text.split()))
some_pairs = st.lists(st.tuples(some_text, some_text), max_size=50).map(
    lambda texts: [SentencePair(*text, line, "t.en") for line, text in enumerate(texts, 1)]
)
some_limits = st.builds(
    Limits,
    max_words=st.integers(1, 4),
    max_characters=st.integers(1, 9),
    max_ratio=st.sampled_from([1.05, 1.2, 1.5, 4.0]),
    drop_duplicates=st.booleans(),
    drop_identical=st.booleans(),
)


def measured(pairs: list[SentencePair]) -> filtering.PairMeasures:
    return filtering.measure_pairs([pair.source for pair in pairs], [pair.target for pair in pairs])


@given(some_pairs, some_limits)
def test_the_same_pairs_are_dropped_for_the_same_reasons(pairs: list[SentencePair], limits: Limits) -> None:
    decision, expected = filtering.filter_train(measured(pairs), limits), plain.check(pairs, limits)
    assert [pairs[row] for row in decision.kept] == expected.kept
    assert {reason: [pairs[row] for row in decision.rows(reason)] for reason in DROP_REASONS} == expected.dropped
    assert bool(decision.notes) == expected.copying
    assert (decision.correlation is None) == (expected.correlation is None)
    assert decision.correlation == pytest.approx(expected.correlation)


@given(some_pairs, st.integers(0, 12))
def test_the_same_pairs_are_held_out(pairs: list[SentencePair], count: int) -> None:
    held = filtering.hold_out(measured(pairs).source_hash, count)
    assert [pair for pair, out in zip(pairs, held, strict=True) if out] == plain.hold_out(pairs, count)[1]


@pytest.mark.parametrize("at_once", [1, 10, 100])
def test_measures_do_not_depend_on_blocks(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filtering, "PAIRS_PER_CHUNK", at_once)
    pairs = [SentencePair(f"a {n}", f"b {n} c", n, "f") for n in range(20)]
    parts = filtering.MeasuresBuilder()
    for some in (pairs[:7], pairs[7:8], pairs[8:]):
        parts.add(measured(some))
    for part, whole in zip(parts.build(), measured(pairs), strict=True):
        assert part.dtype == whole.dtype and part.tolist() == whole.tolist()


def test_a_pair_with_swapped_sides_has_another_hash() -> None:
    pairs = [SentencePair("a", "b", 1, "f"), SentencePair("b", "a", 2, "f"), SentencePair("a", "b", 3, "f")]
    assert filtering.filter_train(measured(pairs), Limits()).rows("duplicate").tolist() == [2]


def test_leaks_are_found_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    train = measured([SentencePair(f"s{n % 5}", f"t{n}", n, "f") for n in range(20)])
    held = measured(
        [SentencePair("s3", "t8", 1, "g"), SentencePair("s9", "t19", 2, "g"), SentencePair("s9", "t99", 3, "g")]
    )
    rows = filtering.filter_train(train, Limits()).kept[4:]
    whole = {what: found.tolist() for what, found in filtering.find_in_train(train, rows, held).items()}
    assert whole == {"pair": [8, -1, -1], "source": [8, -1, -1], "target": [8, 19, -1]}
    monkeypatch.setattr(filtering, "PAIRS_PER_CHUNK", 3)
    assert {what: found.tolist() for what, found in filtering.find_in_train(train, rows, held).items()} == whole
