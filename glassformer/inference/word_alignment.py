"""Word alignment from encoder–decoder attention, in the native engine.

The attention weights of a middle decoder layer align the token that the decoder reads with the source (Chen et al.,
2020: "Accurate Word Alignment Induction from Neural Machine Translation", SHIFT-ATT). In a decoder with one layer, they
align the token that it predicts.
"""

from __future__ import annotations

from collections.abc import Sequence

from glassformer.engine.session import Session
from glassformer.text.lines import WORD_MARK
from glassformer.text.special_tokens import SOS
from glassformer.text.tokenizer import Tokenizer

Pairs = list[tuple[int, int]]


def word_alignment(session: Session, tokenizer: Tokenizer, source: Sequence[int], output: Sequence[int]) -> Pairs:
    """Return (source word, output word) pairs, from 0, where words are separated by spaces.

    Every output word is aligned with the source word that it attends to most.

    Args:
        source: token ids with `<eos>`.
        output: token ids without `<eos>`.
    """
    if not output or len(source) < 2:
        return []
    layers = session.model.shape.decoder_layers
    read_first = layers > 1
    weights = session.cross_attention(source, [SOS, *output], (layers - 1) // 2)
    rows = weights[1:] if read_first else weights[:-1]  # one per output token
    of_source, of_output = word_indices(source[:-1], tokenizer), word_indices(output, tokenizer)
    totals = [[0.0] * (of_source[-1] + 1) for _ in range(of_output[-1] + 1)]
    for word, row in zip(of_output, rows, strict=True):
        for column, weight in zip(of_source, row, strict=False):  # without <eos>
            totals[word][column] += weight
    return [(max(range(len(row)), key=row.__getitem__), word) for word, row in enumerate(totals)]


def word_indices(ids: Sequence[int], tokenizer: Tokenizer) -> list[int]:
    """Return for each token the index of its word; words are separated by spaces."""
    if tokenizer.kind == "bpe":
        starts = [piece.startswith(WORD_MARK) for piece in tokenizer.pieces(ids)]
    else:
        words = [len(tokenizer.decode(ids[: i + 1]).split()) for i in range(len(ids))]
        starts = [now > before for before, now in zip([0, *words], words, strict=False)]
    indices, word = [], -1
    for start in starts:
        word = max(0, word + start)
        indices.append(word)
    return indices
