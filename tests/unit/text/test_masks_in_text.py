"""Words that are left out of a line, and the entry that stands in their place."""

from __future__ import annotations

import pytest

from glassformer.errors import UserError
from glassformer.text.tokenizer import EOS, MASK, Tokenizer

LINES = ["the cat sat on the mat.", "a_b is the name of the dog, or <mask>.", "고양이가 앉았다."] * 5


@pytest.fixture(scope="module", params=["bpe", "characters"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return Tokenizer.train(LINES, vocab=400, kind=request.param, mask=True)


def shown(tokenizer: Tokenizer, line: str) -> str:
    return "".join(tokenizer.pieces(tokenizer.encode_with_masks(line))).replace("▁", " ").strip()


@pytest.mark.parametrize("blank", ["___", "__", "[MASK]", "<mask>", "[mask]"])
def test_every_blank_becomes_one_mask(tokenizer: Tokenizer, blank: str) -> None:
    spaced = tokenizer.kind == "characters"  # whose spaces are entries, and which the mask does not take with it
    sat = "the <mask> sat on a_b." if spaced else "the<mask> sat on a_b."
    assert shown(tokenizer, f"the {blank} sat on a_b.") == sat
    assert shown(tokenizer, f"the {blank}.").endswith("<mask>.")
    assert tokenizer.unknown_words(f"the {blank}.") == {}
    assert shown(tokenizer, f"{blank} {blank}").count("<mask>") == 2
    assert shown(tokenizer, f"고양이가 {blank}").endswith("<mask>")


def test_without_a_blank_nothing_is_hidden(tokenizer: Tokenizer) -> None:
    for line in ("the cat sat", "a_b", ""):
        assert tokenizer.encode_with_masks(line) == tokenizer.encode(line)
    assert tokenizer.mask_id == EOS + 1
    assert tokenizer.mask_id not in tokenizer.encode(MASK)  # in a text it is six characters


def test_only_those_for_masked_words_have_it() -> None:
    assert Tokenizer.train(LINES, vocab=400).mask_id is None
    with pytest.raises(UserError, match="cannot be trained"):
        Tokenizer.train(LINES, vocab=400, kind="imported")
