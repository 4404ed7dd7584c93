"""Blanks in a line and the `<mask>` token."""

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
    spaced = tokenizer.kind == "characters"  # in which spaces are tokens, which the mask does not replace
    sat = "the <mask> sat on a_b." if spaced else "the<mask> sat on a_b."
    assert shown(tokenizer, f"the {blank} sat on a_b.") == sat
    assert shown(tokenizer, f"the {blank}.").endswith("<mask>.")
    assert tokenizer.unknown_words(f"the {blank}.") == {}
    assert shown(tokenizer, f"{blank} {blank}").count("<mask>") == 2
    assert shown(tokenizer, f"고양이가 {blank}").endswith("<mask>")


def test_text_without_blanks_has_no_mask(tokenizer: Tokenizer) -> None:
    for line in ("the cat sat", "a_b", ""):
        assert tokenizer.encode_with_masks(line) == tokenizer.encode(line)
    assert tokenizer.mask_id == EOS + 1
    assert tokenizer.mask_id not in tokenizer.encode(MASK)  # in a text it is six characters


def test_only_tokenizers_for_masked_language_models_have_a_mask() -> None:
    assert Tokenizer.train(LINES, vocab=400).mask_id is None
    with pytest.raises(UserError, match="cannot be trained"):
        Tokenizer.train(LINES, vocab=400, kind="imported")
