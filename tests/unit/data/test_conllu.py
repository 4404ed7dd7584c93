"""CoNLL-U: words, tags, and skipped lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from glassformer.data.conllu import read_conllu
from glassformer.errors import UserError

TEXT = """# sent_id = 1
# text = I don't.
1\tI\tI\tPRON\tPRP\t_
2-3\tdon't\t_\t_\t_\t_
2\tdo\tdo\tAUX\tVBP\t_
3\tn't\tnot\tPART\tRB\t_
3.1\tghost\tghost\tVERB\t_\t_

# text = 개가 짖는다
1\t개가\t개+가\tNOUN\tNNG+JKS\t_
2\t짖는다\t짖+는다\tVERB\tVV+EF\t_
"""


def test_words_and_tags_of_every_sentence(tmp_path: Path) -> None:
    path = tmp_path / "a.conllu"
    path.write_text(TEXT, encoding="utf-8")
    first, second = read_conllu([path])
    assert (first.words, first.tags, first.place) == (["I", "do", "n't"], ["PRON", "AUX", "PART"], f"{path}:3")
    assert (second.text, second.tags, second.place) == ("개가 짖는다", ["NOUN", "VERB"], f"{path}:10")


@pytest.mark.parametrize("line", ["1\tI\tPRON", "one\tI\tI\tPRON", "I PRON", "3\t\t_\tNOUN"])
def test_a_malformed_line_is_refused_with_its_location(line: str, tmp_path: Path) -> None:
    path = tmp_path / "a.conllu"
    path.write_text(f"# a comment\n1\tI\tI\tPRON\n{line}\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"not CoNLL-U") as caught:
        list(read_conllu([path]))
    assert caught.value.where == f"{path}:3"
