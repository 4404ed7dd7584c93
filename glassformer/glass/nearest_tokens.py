"""The tokens of the vocabulary whose embeddings are most similar to the embedding of a token of the sentence."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn.functional import cosine_similarity

from glassformer.errors import Message, UserError
from glassformer.glass.trace import Trace
from glassformer.text.tokenizer import BYTE_TOKENS, SPECIAL_TOKENS, Tokenizer


@dataclass(frozen=True)
class SimilarToken:
    """A token of the vocabulary and the cosine similarity of its embedding."""

    token: int
    piece: str
    similarity: float


def nearest_tokens(found: Trace, tokenizer: Tokenizer, side: str, row: int, *, count: int = 10) -> list[SimilarToken]:
    """Return the most similar tokens to the token of a row, except itself, special tokens and bytes."""
    name = f"{side}.vectors"
    if name not in found.tensors:
        raise UserError(Message("The {side} has no token embedding.", side=side), hint="choose a model that reads text")
    if not 0 <= row < len(found[name]):
        raise UserError(
            Message("There is no row {row}.", row=row),
            hint=Message("choose a number from 0 to {last}", last=len(found[name]) - 1),
        )
    table_VD = torch.from_numpy(found.operands(name)["table"])
    similarity_V = cosine_similarity(table_VD, found[name][row][None], dim=1)
    pieces = tokenizer.pieces(range(len(table_VD)))
    hidden = {*BYTE_TOKENS, *SPECIAL_TOKENS, ""}
    itself = int(found[f"{side}.tokens"][row])
    shown = [i for i, piece in enumerate(pieces) if piece not in hidden and i != itself]
    best = similarity_V[shown].topk(min(count, len(shown)))
    return [
        SimilarToken(shown[i], pieces[shown[i]], similarity)
        for i, similarity in zip(best.indices.tolist(), best.values.tolist(), strict=True)
    ]
