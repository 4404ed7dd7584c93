"""Reading parallel text: accepted formats, and error messages."""

from __future__ import annotations

import gzip
import io
import pickle
import sys
import unicodedata
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.data import parallel_text as corpus
from glassformer.data.parallel_text import (
    ParallelFiles,
    RawBlock,
    SentencePair,
    parallel_files,
    read_pairs,
)
from glassformer.errors import UserError
from glassformer.text import lines
from glassformer.text.lines import normalize_line, read_lines


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(name: str, content: str | bytes) -> str:
    raw = content.encode() if isinstance(content, str) else content
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    return name


def texts(*paths: str | list[str]) -> list[tuple[str, str]]:
    return [pair[:2] for pair in read_pairs(parallel_files(paths))]


def refusal(*paths: str | list[str]) -> UserError:
    with pytest.raises(UserError) as caught:
        list(read_pairs(parallel_files(paths)))
    return caught.value


class TestNormalize:
    def test_composes_hangul_and_accents(self) -> None:
        assert normalize_line("\u1112\u1161\u11ab\u1100\u1173\u11af") == "한글"
        assert normalize_line("cafe\u0301") == "caf\u00e9"

    def test_white_space_of_every_kind_becomes_one_space(self) -> None:
        assert normalize_line(" \ta\u00a0\u3000b \u2028 c\x0bd\x85e\r") == "a b c d e"

    def test_word_mark_becomes_underscore(self) -> None:
        assert normalize_line("a▁b ▁") == "a_b _"

    @given(st.text())
    def test_normalization_is_idempotent(self, text: str) -> None:
        once = normalize_line(text)
        assert normalize_line(once) == once
        assert unicodedata.is_normalized("NFC", once)
        assert once == once.strip() and "  " not in once and "▁" not in once


class TestForms:
    def test_two_files_with_numbers_and_names(self) -> None:
        write("t.en", "a  b\n\nc\n")
        write("t.de", "A\nB\nC")
        assert list(read_pairs(parallel_files(["t.en", "t.de"]))) == [
            SentencePair("a b", "A", 1, "t.en"),
            SentencePair("", "B", 2, "t.en"),
            SentencePair("c", "C", 3, "t.en"),
        ]

    def test_bom_crlf_and_nfc(self) -> None:
        write("t.en", b"\xef\xbb\xbfcafe\xcc\x81\r\nb\r\n")
        write("t.ko", "\u1112\u1161\u11ab\nB\n")
        assert texts("t.en", "t.ko") == [("caf\u00e9", "한"), ("b", "B")]

    def test_only_newline_ends_a_line(self) -> None:
        write("t.en", "a\u2028b\x0bc\x85d\x1ce\rf\ng\n")
        write("t.de", "A\nG\n")
        assert texts("t.en", "t.de") == [("a b c d e f", "A"), ("g", "G")]

    def test_gzip_is_recognized_by_content(self) -> None:
        write("t.en.gz", "a\nb\n")
        Path("t.de").write_bytes(gzip.compress(b"A\n") + gzip.compress(b"B\n"))  # two members, no suffix
        assert texts("t.en.gz", "t.de") == [("a", "A"), ("b", "B")]

    def test_tsv_ignores_further_columns_and_keeps_blank_lines(self) -> None:
        write("t.tsv", "a\tA\tnoise\tmore\n\tB\n\nd\tD\n")
        assert list(read_pairs(parallel_files(["t.tsv"]))) == [
            SentencePair("a", "A", 1, "t.tsv"),
            SentencePair("", "B", 2, "t.tsv"),
            SentencePair("", "", 3, "t.tsv"),
            SentencePair("d", "D", 4, "t.tsv"),
        ]

    def test_jsonl_source_and_target_among_other_keys(self) -> None:
        write("t.jsonl.gz", '{"id": 3, "target": "A", "source": "a\\nb"}\n{"source": "c", "target": "C"}\n')
        assert texts("t.jsonl.gz") == [("a b", "A"), ("c", "C")]

    def test_jsonl_with_two_languages_keeps_the_order_of_the_first_line(self) -> None:
        write("1.jsonl", '{"fr": "A", "en": "a"}\n{"en": "b", "fr": "B"}\n')
        write("2.jsonl", '{"en": "c", "fr": "C"}\n')
        assert texts("1.jsonl", "2.jsonl") == [("A", "a"), ("B", "b"), ("C", "c")]

    def test_tsv_shards_number_their_own_lines(self) -> None:
        write("b.tsv", "b\tB\n")
        write("a.tsv.gz", "a\tA\nc\tC\n")
        pairs = list(read_pairs(parallel_files(["b.tsv", "a.tsv.gz"])))
        assert [(pair.file, pair.line) for pair in pairs] == [("b.tsv", 1), ("a.tsv.gz", 1), ("a.tsv.gz", 2)]


class TestGrouping:
    @pytest.fixture(autouse=True)
    def shards(self) -> None:
        for stem in "ab":
            write(f"{stem}.en", f"{stem}\n")
            write(f"{stem}.de.gz", f"{stem.upper()}\n")

    @pytest.mark.parametrize(
        "paths",
        [
            ["a.en", "b.en", "a.de.gz", "b.de.gz"],
            ["a.en", "a.de.gz", "b.en", "b.de.gz"],
            ["a.en", "b.en", "b.de.gz", "a.de.gz"],  # aligned by name
            [["a.en", "b.en"], ["a.de.gz", "b.de.gz"]],
            [["a.en", "a.de.gz"], ["b.en", "b.de.gz"]],
            ["*.en", "*.de.gz"],
        ],
    )
    def test_shards(self, paths: list[str | list[str]]) -> None:
        files = parallel_files(paths)
        assert files == ParallelFiles((Path("a.en"), Path("b.en")), (Path("a.de.gz"), Path("b.de.gz")), "lines")
        assert texts(*paths) == [("a", "A"), ("b", "B")]

    def test_first_suffix_is_the_source(self) -> None:
        assert texts("a.de.gz", "a.en", "b.en", "b.de.gz") == [("A", "a"), ("B", "b")]

    def test_one_pattern_for_both_sides_is_sorted(self) -> None:
        assert texts("a.*") == [("A", "a")]

    def test_two_patterns_that_each_match_both_languages(self) -> None:
        assert texts("a.*", "b.*") == [("A", "a"), ("B", "b")]

    def test_pattern_of_tsv(self) -> None:
        for name in ("2", "1"):
            write(f"{name}.tsv", f"{name}\t{name}{name}\n")
        assert parallel_files(["*.tsv"]) == ParallelFiles((Path("1.tsv"), Path("2.tsv")), (), "tsv")

    def test_a_name_with_brackets_is_a_name(self) -> None:
        write("x[1].tsv", "a\tA\n")
        write("x1.tsv", "wrong\twrong\n")
        assert texts("x[1].tsv") == [("a", "A")]

    def test_suffixes_that_do_not_pair_up(self) -> None:
        write("c.en", "c\n")
        write("d.fr", "d\n")
        error = refusal("a.en", "b.en", "c.en", "a.de.gz")
        assert "3 × .en, 1 × .de" in error.message and "*.en" in error.hint
        assert "2 × .en, 1 × .de, 1 × .fr" in refusal("a.en", "b.en", "a.de.gz", "d.fr").message

    def test_unequal_numbers_of_shards(self) -> None:
        error = refusal(["a.en", "b.en"], ["a.de.gz"])
        assert error.message == "The source has 2 files, the target has 1"
        assert "a.en, b.en" in error.where and "same order" in error.hint

    def test_shards_are_aligned_line_by_line(self) -> None:
        write("a.en", "1\n2\n")
        write("b.de.gz", "1\n2\n")  # 3 lines on each side in all, but not in step
        error = refusal("a.en", "b.en", "a.de.gz", "b.de.gz")
        assert "a.en has 2, a.de.gz has 1" in error.message


class TestRefusedNames:
    def test_missing_file_with_the_nearest_name(self) -> None:
        write("data/train.de", "x\n")
        write("data/zebra", "x\n")
        error = refusal("data/train.d", "data/train.de")
        assert error.message == "There is no file data/train.d" and error.where == "data/train.d"
        assert error.hint == "did you mean data/train.de?"

    def test_missing_file_with_nothing_near(self) -> None:
        write("zebra", "x\n")
        assert str(Path.cwd()) in refusal("train.en", "zebra").hint

    def test_missing_folder(self) -> None:
        assert refusal("nowhere/a.tsv").hint == "there is no folder nowhere either"

    def test_folder(self) -> None:
        Path("data").mkdir()
        error = refusal("data")
        assert error.message == "This is a folder, not a file" and error.where == "data"

    def test_unreadable(self, monkeypatch: pytest.MonkeyPatch) -> None:
        # Tests may run as root, who may read any file: simulate the error of the system.
        write("t.tsv", "a\tA\n")
        monkeypatch.setattr(lines.os, "access", lambda path, mode: False)
        error = refusal("t.tsv")
        assert error.message == "t.tsv cannot be read: permission denied" and "ls -l t.tsv" in error.hint

    def test_error_of_the_system_while_opening(self, monkeypatch: pytest.MonkeyPatch) -> None:
        write("t.tsv", "a\tA\n")

        def broken(self: Path, mode: str) -> None:
            raise OSError(5, "Input/output error")

        monkeypatch.setattr(lines.Path, "open", broken)
        assert refusal("t.tsv").message == "t.tsv cannot be read: Input/output error"

    def test_pattern_that_matches_nothing(self) -> None:
        error = refusal("x*.tsv")
        assert error.message == "No file matches this pattern" and error.where == "x*.tsv"

    @pytest.mark.parametrize("name", ["train.txt", "train.en"])
    def test_one_file_alone(self, name: str) -> None:
        write(name, "x\n")
        error = refusal(name)
        assert "two aligned files or a .tsv are needed" in error.message and error.where == name

    def test_no_files(self) -> None:
        assert refusal().message == "No files were given"

    def test_mixed_forms(self) -> None:
        write("t.tsv", "a\tA\n")
        write("t.en", "a\n")
        error = refusal("t.tsv", "t.en")
        assert error.message == "These files have different formats" and error.where == "t.tsv, t.en"
        assert "source<TAB>target" in error.hint

    def test_same_file_on_both_sides(self) -> None:
        write("t.en", "a\n")
        Path("link.de").symlink_to("t.en")
        for other in ("t.en", "./t.en", "link.de"):
            error = refusal("t.en", other)
            assert error.message == "Source and target are the same file"
            assert error.where.endswith("t.en") and "train.en train.de" in error.hint


class TestRefusedContent:
    def test_latin_1(self) -> None:
        write("t.en", "a\nb\n")
        write("t.fr", "ok\ncaf\xe9\n".encode("latin-1"))
        error = refusal("t.en", "t.fr")
        assert error.message == "t.fr is not UTF-8: byte 0xE9 in line 2, column 4"
        assert error.where == "t.fr:2"
        assert "iconv -f ISO-8859-1 -t UTF-8 t.fr > utf8.t.fr" in error.hint

    def test_latin_1_in_gz(self) -> None:
        write("t.tsv.gz", b"caf\xe9\tA\n")
        assert "gzip -dc t.tsv.gz | iconv -f ISO-8859-1 -t UTF-8 > utf8.t.tsv" in refusal("t.tsv.gz").hint

    @pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
    def test_utf_16(self, encoding: str) -> None:
        write("t.tsv", "\ufeffa\tA\n".encode(encoding))
        error = refusal("t.tsv")
        assert "is UTF-16" in error.message and "iconv -f UTF-16 -t UTF-8 t.tsv" in error.hint

    def test_nul(self) -> None:
        write("t.tsv", b"a\tA\nb\0c\tB\n")
        error = refusal("t.tsv")
        assert error.message == "t.tsv does not look like text: it contains a NUL byte" and error.where == "t.tsv:2"

    def test_nul_beside_bytes_that_are_not_utf_8(self) -> None:
        write("t.tsv", b"\xff\xd8\xff\xe0\0\x10JFIF\n")
        assert "does not look like text" in refusal("t.tsv").message

    def test_binary_kinds(self) -> None:
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("a", "b")
        kinds = {
            "a ZIP archive": packed.getvalue(),
            "a Python pickle": pickle.dumps([1]),
            "a PDF document": b"%PDF-1.7\n",
            "xz data": b"\xfd7zXZ\x00\n",
        }
        for kind, content in kinds.items():
            write("t.tsv", content)
            error = refusal("t.tsv")
            assert "does not look like text" in error.message and kind in error.message and error.where == "t.tsv:1"

    @pytest.mark.parametrize(
        ("source", "target", "counts", "where"),
        [
            ("1\n2\n3\n4\n", "1\n2\n", "t.en has 4, t.de has 2", "t.en:3"),
            ("1\n", "1\n2\n3\n", "t.en has 1, t.de has 3", "t.de:2"),
        ],
    )
    def test_unequal_counts(self, source: str, target: str, counts: str, where: str) -> None:
        write("t.en", source)
        write("t.de", target)
        error = refusal("t.en", "t.de")
        assert counts in error.message and error.where.startswith(where)
        assert "line n of one file must translate line n of the other" in error.hint

    def test_unequal_by_blank_lines_only(self) -> None:
        write("t.en", "1\n")
        write("t.de", "1\n\n \n")
        assert refusal("t.en", "t.de").hint == "the extra lines are blank: delete the last 2 of t.de"

    def test_tsv_without_a_tab(self) -> None:
        write("t.tsv", "a\tA\nb B\n")
        error = refusal("t.tsv")
        assert error.message == "This line has no tab: b B" and error.where == "t.tsv:2"
        assert "source<TAB>target" in error.hint

    @pytest.mark.parametrize(
        ("line", "what"),
        [
            ('{"source": "b", "target": ', "This line is not JSON"),
            ('["b", "B"]', "This line is JSON, but not an object"),
            ('{"source": "b"}', 'lacks the key "target"; it has "source"'),
            ('{"source": "b", "target": 7}', 'The value of "target" is not text: 7'),
            ('{"source": "b", "target": null}', 'The value of "target" is not text: None'),
            ('{"source": "b", "target": "\\ud83d"}', "lone surrogate"),
        ],
    )
    def test_bad_jsonl(self, line: str, what: str) -> None:
        write("t.jsonl", '{"source": "a", "target": "A"}\n' + line + "\n")
        error = refusal("t.jsonl")
        assert what in error.message and error.where == "t.jsonl:2" and error.hint

    def test_jsonl_whose_first_line_has_no_two_texts(self) -> None:
        for line in ('{"translation": {"en": "a", "fr": "A"}}', '{"a": "x", "b": "y", "c": "z"}'):
            write("t.jsonl", line + "\n")
            error = refusal("t.jsonl")
            assert 'lacks the keys "source" and "target"' in error.message and error.where == "t.jsonl:1"

    def test_a_json_list_has_its_own_hint(self) -> None:
        write("t.jsonl", '[{"source": "a",\n"target": "A"}]\n')
        assert "jq -c '.[]'" in refusal("t.jsonl").hint

    def test_damaged_gz(self) -> None:
        packed = gzip.compress("".join(f"{n}\t{n * n}\n" for n in range(9999)).encode())
        flipped = bytearray(packed)
        flipped[len(packed) // 2] ^= 0xFF
        for damaged in (packed[:-100], bytes(flipped)):
            Path("t.tsv.gz").write_bytes(damaged)
            error = refusal("t.tsv.gz")
            assert "t.tsv.gz is a damaged .gz file" in error.message and "gzip -t t.tsv.gz" in error.hint

    def test_a_gz_name_without_gzip_data(self) -> None:
        Path("t.tsv.gz").write_text("a\tA\n")
        assert refusal("t.tsv.gz").message == "t.tsv.gz is named .gz but is not gzip data"

    @pytest.mark.parametrize("content", [b"", b"\xef\xbb\xbf"])
    @pytest.mark.parametrize("name", ["t.tsv", "t.tsv.gz", "t.jsonl"])
    def test_empty(self, name: str, content: bytes) -> None:
        write(name, content)
        error = refusal(name)
        assert error.message == f"{name} is empty (0 lines)" and error.where == name

    def test_empty_target(self) -> None:
        write("t.en", "a\n")
        write("t.de", "")
        assert refusal("t.en", "t.de").message == "t.de is empty (0 lines)"


class TestReadLines:
    def test_keeps_text_and_empty_lines(self) -> None:
        write("t.en", "\ufeff a  e\u0301▁\r\n\nb\u2028c\n\n")
        assert list(read_lines("t.en")) == [" a  e\u0301▁", "", "b\u2028c", ""]

    def test_streams(self) -> None:
        assert list(read_lines(io.BytesIO("é\r\n\nb\x85".encode()))) == ["é", "", "b\x85"]
        assert list(read_lines(io.StringIO("\ufeffé\n\u2028b\n"))) == ["é", "\u2028b"]

    def test_text_stream_is_read_as_utf_8_whatever_its_encoding_and_stays_open(self) -> None:
        stream = io.TextIOWrapper(io.BytesIO("é\rx\n".encode()), encoding="latin-1")
        assert list(read_lines(stream)) == ["é\rx"]
        assert not stream.closed

    def test_stream_that_is_not_utf_8(self) -> None:
        with pytest.raises(UserError) as caught:
            list(read_lines(io.BytesIO(b"a\n\xe9\n")))
        assert caught.value.where == "the given text:2"
        assert "iconv -f ISO-8859-1 -t UTF-8 in > out" in caught.value.hint

    def test_missing(self) -> None:
        with pytest.raises(UserError, match="There is no file gone"):
            list(read_lines("gone"))

    def test_is_lazy(self) -> None:
        write("t.en", b"a\n\xff\n")
        lines = read_lines("t.en")
        assert next(lines) == "a"
        with pytest.raises(UserError, match="line 2"):
            next(lines)

    @given(st.lists(st.text(st.characters(exclude_characters="\n\r\0", exclude_categories=["Cs"])), min_size=1))
    def test_round_trip(self, lines: list[str]) -> None:
        content = "\ufeff" + "".join(line + "\n" for line in lines)
        if content.startswith("\ufeff%PDF-") or lines[0].startswith("\ufeff"):
            return
        assert list(read_lines(io.BytesIO(content.encode()))) == lines


class TestTidyBlocks:
    """Decoding whole blocks equals decoding line by line."""

    lines = st.lists(
        st.text(st.sampled_from("ab é한\u0301\u1112\u1161\t\r\xa0\u2028\u3000\x1c\x85▁\ufeff"), max_size=8)
        | st.text(max_size=12).map(lambda text: text.replace("\n", " ").replace("\0", " "))
        | st.sampled_from(["plain", "two words", "größer", "한국어 문장", ""]),
        min_size=1,
        max_size=6,
    )

    @given(lines, lines, st.integers(1, 2), st.sampled_from(["\n", "\r\n"]), st.booleans())
    def test_two_files(self, source: list[str], target: list[str], first: int, end: str, last: bool) -> None:
        sides = [side[: min(len(source), len(target))] for side in (source, target)]
        raw, other = ((end.join(side) + (end if last or not side[-1] else "")).encode() for side in sides)
        self.compare(RawBlock("lines", "a", first, raw, "b", other))

    @given(lines, lines, st.integers(1, 2))
    def test_cells(self, source: list[str], target: list[str], first: int) -> None:
        rows = [f"{s}\t{t}\n" for s, t in zip(source, target, strict=False)]
        self.compare(RawBlock("tsv", "a", first, "".join(rows).encode()))

    def compare(self, block: RawBlock) -> None:
        tidy = block._texts_at_once()
        try:
            slow = [(normalize_line(source), normalize_line(target)) for source, target in block._line_by_line()]
        except UserError:
            assert tidy is None
            return
        if tidy is not None:
            assert list(zip(*tidy, strict=True)) == slow

    def test_only_normalized_text_is_decoded_at_once(self) -> None:
        fine = "Ein Satz.\n한국어 문장\n\nNaïve Grüße\n"
        assert RawBlock("lines", "a", 1, fine.encode(), "b", fine.encode())._texts_at_once() is not None
        assert RawBlock("tsv", "a", 1, fine.replace("\n", "\tx\n").encode())._texts_at_once() is not None
        for odd in ["a  b", " a", "a ", "a\xa0b", "a▁b", "cafe\u0301", "a\r", "\ufeffa", "PK\x03\x04"]:
            assert RawBlock("lines", "a", 1, f"{odd}\n".encode(), "b", b"b\n")._texts_at_once() is None
        assert RawBlock("lines", "a", 1, b"\xff\n", "b", b"b\n")._texts_at_once() is None

    def test_is_normalized_finds_every_whitespace_character(self) -> None:
        spaces = {chr(point) for point in range(sys.maxunicode + 1) if chr(point).isspace()}
        assert set(lines.UNUSUAL_SPACES) == spaces - {" ", "\n"}
        assert all(char.isascii() for char in lines.UNUSUAL_SPACES[:8]) and not lines.UNUSUAL_SPACES[8].isascii()

    @pytest.mark.parametrize("size", [1, 2, 3, 100])
    @pytest.mark.parametrize(("source", "target"), [(7, 7), (7, 6), (3, 7), (6, 0), (0, 6)])
    def test_the_block_size_changes_nothing(
        self, size: int, source: int, target: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write("t.en", "".join(f"s{n}\n" for n in range(source)))
        write("t.de", "".join(f"t{n}\n" for n in range(target)))

        def outcome() -> object:
            try:
                return texts("t.en", "t.de")
            except UserError as error:
                return str(error)

        whole = outcome()
        monkeypatch.setattr(corpus, "PAIRS_PER_BLOCK", size)
        assert outcome() == whole

    def test_jsonl_keys_of_the_first_line_apply_to_all_blocks(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(corpus, "PAIRS_PER_BLOCK", 2)
        write("t.jsonl", '\n\n\n{"en": "a", "fr": "b"}\n{"fr": "d", "en": "c"}\n\n{"en": "e"}\n')
        assert 'lacks the key "fr"' in refusal("t.jsonl").message and refusal("t.jsonl").where == "t.jsonl:7"
