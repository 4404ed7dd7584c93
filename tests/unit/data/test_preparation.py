"""Preparation does not depend on the block size, on the number of processes, or on the cache."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import plain_filtering as plain
import pytest

from glassformer.data import parallel_text as corpus
from glassformer.data import preparation
from glassformer.data import process_pool as parallel
from glassformer.data.cache import Cache
from glassformer.data.filtering import held_out_size
from glassformer.data.parallel_text import SentencePair, parallel_files, read_pairs
from glassformer.data.preparation import Splits, encode_corpus, prepare_corpus, train_tokenizer
from glassformer.data.report import ParallelReport
from glassformer.errors import UserError
from glassformer.settings import Limits
from glassformer.text.tokenizer import Tokenizer

Texts = list[tuple[str, str]]


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def messy(count: int, seed: int = 1) -> Texts:
    """Return pairs, some of which are empty, too long, one-sided, repeated or the same on both sides."""
    dice = random.Random(seed)
    words = ["Haus", "größer", "한국어", "naïve", "the", "a", "cat", "42", "…"]
    texts: Texts = []
    for _ in range(count):
        source = " ".join(dice.choices(words, k=dice.randint(1, 12)))
        target = " ".join(dice.choices(words, k=dice.randint(1, 12)))
        kind = dice.random()
        if kind < 0.1:
            target = ""
        elif kind < 0.2 and texts:
            source, target = dice.choice(texts)
        elif kind < 0.3:
            target = source
        elif kind < 0.4:
            target = target * 30
        texts.append((source, target))
    return texts


def write(name: str, texts: Texts) -> corpus.ParallelFiles:
    Path(name).write_text("".join(f"{source}\t{target}\n" for source, target in texts), encoding="utf-8")
    return parallel_files([name])


def in_small_blocks(monkeypatch: pytest.MonkeyPatch, processes: int) -> None:
    monkeypatch.setattr(corpus, "PAIRS_PER_BLOCK", 13)
    monkeypatch.setattr(parallel, "cores", lambda: processes)


def everything(splits: Splits, report: ParallelReport) -> dict[str, Any]:
    return {
        "train": list(splits.train.pairs()),
        "valid": splits.valid,
        "test": splits.test,
        "places": [splits.train.place(n) for n in range(len(splits.train))],
        "fingerprint": splits.train.fingerprint,
        "report": report.to_json(),
    }


class TestText:
    @pytest.mark.parametrize("seed", [1, 2, 3])
    def test_agrees_with_the_plain_rules(self, seed: int) -> None:
        files = write("train.tsv", messy(300, seed))
        splits, report = prepare_corpus(files, None, None, Limits(max_words=10))
        pairs = list(read_pairs(files))
        expected = plain.check(pairs, Limits(max_words=10))
        train, valid = plain.hold_out(expected.kept, held_out_size(len(expected.kept)))
        assert (list(splits.train), splits.valid) == (train, valid)
        assert [splits.train.place(n) for n in range(len(train))] == [(pair.file, pair.line) for pair in train]
        assert splits.train.fingerprint == plain.fingerprint(train, valid)
        for reason, dropped in report.splits["train"].dropped.items():
            assert dropped.count == len(expected.dropped[reason])
            assert [example.line for example in dropped.examples] == [p.line for p in expected.dropped[reason][:5]]
            assert len({dropped.count for dropped in report.splits["train"].dropped.values()}) > 1
        assert report.splits["train"].repeated_sources == pytest.approx(
            1 - len({pair.source for pair in expected.kept}) / len(expected.kept)
        )

    @pytest.mark.parametrize(("processes", "method"), [(1, "fork"), (3, "fork"), (2, "spawn")])
    def test_blocks_and_processes_change_nothing(
        self, processes: int, method: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(parallel, "start_method", lambda: method)
        files = write("train.tsv", messy(400))
        write("valid.tsv", messy(20, seed=7))
        test = parallel_files(["valid.tsv"])
        whole = everything(*prepare_corpus(files, None, test, Limits(), cache=Cache("one")))
        in_small_blocks(monkeypatch, processes)
        assert everything(*prepare_corpus(files, None, test, Limits(), cache=Cache("two"))) == whole

    def test_a_cached_corpus_reports_the_current_file_names(self, monkeypatch: pytest.MonkeyPatch) -> None:
        texts = messy(100)
        first = everything(*prepare_corpus(write("a.tsv", texts), None, None, Limits()))
        monkeypatch.setattr(preparation, "_check", None)  # it must not be made again
        again = everything(*prepare_corpus(write("b.tsv", texts), None, None, Limits()))
        assert json.dumps(again, default=str) == json.dumps(first, default=str).replace("a.tsv", "b.tsv")

    def test_fingerprint_changes_with_any_pair_and_nothing_else(self) -> None:
        texts = [(f"source {n}", f"target {n}") for n in range(40)]
        valid = [("held", "out")]

        def fingerprint(train: Texts, held_out: Texts, limits: Limits | None = None) -> str:
            files = write("train.tsv", train), write("valid.tsv", held_out)
            return prepare_corpus(*files, None, limits or Limits())[0].train.fingerprint

        same = fingerprint(texts, valid)
        assert fingerprint(texts, valid) == same
        assert fingerprint([*texts, ("", "dropped")], valid) == same
        assert fingerprint(texts, valid, Limits(max_words=199)) == same
        assert fingerprint([*texts[:-1], ("source 39", "target 38")], valid) != same
        assert fingerprint(texts, [("held", "in")]) != same
        assert fingerprint([texts[1], texts[0], *texts[2:]], valid) != same

    def test_errors_of_worker_processes_are_raised_unchanged(self, monkeypatch: pytest.MonkeyPatch) -> None:
        in_small_blocks(monkeypatch, 3)
        lines = [f"a {n}\tb {n}".encode() for n in range(200)]
        lines[170], lines[57], lines[190] = b"\xff\tb", b"no tab", b"c\0\td"
        Path("bad.tsv").write_bytes(b"\n".join(lines))
        with pytest.raises(UserError, match="This line has no tab") as caught:
            prepare_corpus(parallel_files(["bad.tsv"]), None, None, Limits())
        assert caught.value.where == "bad.tsv:58"
        assert not list(Cache().folder.glob("*.tmp"))

    def test_a_corpus_that_changes_while_it_is_read_is_not_cached(self, monkeypatch: pytest.MonkeyPatch) -> None:
        files = write("train.tsv", messy(50))
        check = preparation._check

        def meddled(*arguments: Any) -> dict[str, Any]:
            write("train.tsv", messy(51))
            return check(*arguments)

        monkeypatch.setattr(preparation, "_check", meddled)
        with pytest.raises(UserError, match="changed while they were read"):
            prepare_corpus(files, None, None, Limits(), cache=Cache("kept"))
        assert Cache("kept").entries() == []

    def test_a_pipe_is_read_once(self) -> None:
        texts = [(f"source {n}", f"target {n}") for n in range(40)]
        for _ in range(2):
            reader, writer = os.pipe()
            with os.fdopen(writer, "w") as file:
                file.writelines(f"{source}\t{target}\n" for source, target in texts)
            files = corpus.ParallelFiles((Path(f"/dev/fd/{reader}"),), (), "tsv")
            splits, _ = prepare_corpus(files, None, None, Limits())
            os.close(reader)
            assert len(splits.train) == 36


class TestSeveralCorpora:
    def test_corpora_are_concatenated_and_the_first_of_equal_pairs_is_kept(self) -> None:
        one = write("one.tsv", [(f"one {n}", f"eins {n}") for n in range(30)])
        two = write("two.tsv", [*((f"two {n}", f"zwei {n}") for n in range(20)), ("one 3", "eins 3")])
        valid = write("valid.tsv", [("held", "out")])
        splits, report = prepare_corpus([one, two], valid, None, Limits())
        assert splits.train.corpora == [30, 20]
        (example,) = report.splits["train"].dropped["duplicate"].examples
        assert (example.file, example.line) == ("two.tsv", 21)
        assert splits.train.place(31) == ("two.tsv", 2)

    def test_held_out_pairs_are_removed_from_their_corpus(self) -> None:
        one = write("one.tsv", [(f"one {n}", f"eins {n}") for n in range(100)])
        two = write("two.tsv", [(f"two {n}", f"zwei {n}") for n in range(50)])
        splits, _ = prepare_corpus([one, two], None, None, Limits())
        held = [pair.file for pair in splits.valid]
        assert splits.train.corpora == [100 - held.count("one.tsv"), 50 - held.count("two.tsv")]
        assert len(held) == 15


class TestVocabularyAndIds:
    def prepared(self, texts: Texts) -> Splits:
        return prepare_corpus(write("train.tsv", texts), None, None, Limits())[0]

    def test_the_vocabulary_is_that_of_all_lines_in_order(self) -> None:
        text = self.prepared(messy(300)).train
        lines = [line for pair in text for line in (pair.source, pair.target)]
        learnt = train_tokenizer(text, 320)
        assert learnt.to_json() == Tokenizer.train_bpe(lines, vocab=320).to_json()
        assert train_tokenizer(text, 320).to_json() == learnt.to_json()
        assert train_tokenizer(text, 300).to_json() != learnt.to_json()
        assert train_tokenizer(text, 320, lowercase=True).lowercase
        assert train_tokenizer(text, 320, kind="characters").kind == "characters"

    def test_a_large_corpus_is_sampled_evenly(self, monkeypatch: pytest.MonkeyPatch) -> None:
        text = self.prepared([(f"s {n}", f"t {n}") for n in range(200)]).train
        monkeypatch.setattr(preparation, "VOCABULARY_PAIRS", 60)
        seen: list[str] = []
        learn = Tokenizer.train_bpe
        monkeypatch.setattr(Tokenizer, "train_bpe", lambda lines, **how: learn(seen.extend(lines) or seen, **how))
        train_tokenizer(text, 300)
        every = [line for pair in text for line in (pair.source, pair.target)]
        assert seen == [line for i in range(60) for line in every[2 * (i * 180 // 60) :][:2]]

    @pytest.mark.parametrize("processes", [1, 3])
    def test_ids_are_those_of_the_tokenizer(self, processes: int, monkeypatch: pytest.MonkeyPatch) -> None:
        in_small_blocks(monkeypatch, processes)
        text = self.prepared(messy(400)).train
        tokenizer = train_tokenizer(text, 320)
        ids = encode_corpus(text, tokenizer)
        assert [ids[n] for n in range(len(ids))] == [
            (tokenizer.encode(pair.source), tokenizer.encode(pair.target)) for pair in text
        ]
        assert ids.ids.dtype == np.uint16 and isinstance(ids.ids, np.memmap)

    def test_a_block_without_kept_pairs(self, monkeypatch: pytest.MonkeyPatch) -> None:
        in_small_blocks(monkeypatch, 1)
        text = self.prepared([("a good", "day"), *[("", "x")] * 40, *((f"w {n}", f"v {n}") for n in range(30))]).train
        tokenizer = train_tokenizer(text, 300)
        ids = encode_corpus(text, tokenizer)
        assert [ids[n][0] for n in range(len(ids))] == [tokenizer.encode(pair.source) for pair in text]

    def test_token_ids_are_cached_by_text_and_tokenizer(self) -> None:
        text = self.prepared(messy(200)).train
        one, two = train_tokenizer(text, 300), train_tokenizer(text, 310)
        assert encode_corpus(text, one)[0] == encode_corpus(text, one)[0] != encode_corpus(text, two)[0]
        assert len(list(text.cache.folder.glob("ids-*"))) >= 2


def test_reading_pairs_flattens_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    files = write("train.tsv", messy(100))
    whole = list(read_pairs(files))
    monkeypatch.setattr(corpus, "PAIRS_PER_BLOCK", 7)
    assert list(read_pairs(files)) == whole
    assert whole[57] == SentencePair(*messy(100)[57], 58, "train.tsv")
