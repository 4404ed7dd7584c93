from __future__ import annotations

import pytest

from glassformer.text.languages import language_name, languages_of_files


@pytest.mark.parametrize(
    ("train", "codes"),
    [
        (["data/train.en", "data/train.ko.gz"], ("en", "ko")),
        ([["a.de", "b.de"], ["a.fr", "b.fr"]], ("de", "fr")),
        (["train.en", "train.en"], None),
        (["train.src", "train.tgt"], None),
        (["pairs.tsv"], None),
    ],
    ids=["gz", "shards", "same", "unknown suffix", "one file"],
)
def test_languages_follow_from_file_names(train: list[str | list[str]], codes: tuple[str, str] | None) -> None:
    assert languages_of_files(train) == codes


def test_an_unknown_code_is_its_own_name() -> None:
    assert (language_name("ko"), language_name("xx")) == ("Korean", "xx")
