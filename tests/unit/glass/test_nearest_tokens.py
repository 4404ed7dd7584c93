"""The nearest tokens of the vocabulary by cosine similarity."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from glassformer.errors import UserError
from glassformer.glass.nearest_tokens import nearest_tokens
from glassformer.inference.loading import load

FROZEN = Path(__file__).parents[2] / "compat" / "runs" / "format-1"


def test_the_nearest_tokens_have_the_largest_cosines() -> None:
    translator = load(FROZEN)
    found, tokenizer = translator.trace("I am a student"), translator.tokenizer
    best = nearest_tokens(found, tokenizer, "encoder", 1, count=5)
    table = found.weights["source_embedding.weight_VD"]
    word = int(found["encoder.tokens"][1])
    cosines = torch.nn.functional.cosine_similarity(table, table[word][None], dim=1)
    assert [one.similarity for one in best] == pytest.approx([float(cosines[one.token]) for one in best])
    assert [one.similarity for one in best] == sorted((one.similarity for one in best), reverse=True)
    words = [
        i for i, piece in enumerate(tokenizer.pieces(range(len(table)))) if not piece.startswith("<") and i != word
    ]
    assert best[0].similarity == pytest.approx(float(cosines[words].max()))
    assert tokenizer.pieces([best[0].token]) == [best[0].piece] and word not in {one.token for one in best}
    for side, row in (("encoder", 99), ("nowhere", 0)):
        with pytest.raises(UserError):
            nearest_tokens(found, tokenizer, side, row)
