"""Translation, and every other task that turns one line into another."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, zip_longest
from typing import Any, NamedTuple

import torch
from torch import Tensor

from glassformer import metrics
from glassformer.errors import UserError
from glassformer.settings import Settings, TransformerSettings
from glassformer.text.batching import Batch, PairBatches, Position
from glassformer.text.corpus import Pair
from glassformer.text.tokenizer import PAD, Tokenizer
from glassformer.translator import Translator, replace_beam


class Judged(NamedTuple):
    """What a model made of a share of the held-out pairs."""

    outputs: list[str]
    loss: float
    tokens: int


class TranslationTask:
    """Cross-entropy of the target given the source; scored by BLEU on held-out pairs."""

    metric = "bleu"

    def __init__(self, train: list[Pair], valid: list[Pair], tokenizer: Tokenizer, settings: Settings) -> None:
        self.settings, self.tokenizer = settings, tokenizer
        self.train = PairBatches(encode_pairs(train, tokenizer), settings.train.batch_tokens)
        self.valid = PairBatches(encode_pairs(valid, tokenizer), settings.train.batch_tokens)
        self.valid_text = valid[: settings.train.valid_sentences]
        self._places = [(pair.file, pair.line) for pair in train]
        self._refuse_beyond_positions()

    def batches(self, seed: int, position: Position) -> Iterator[Batch]:
        return self.train.forever(seed, position)

    def loss(self, model: Any, batch: Batch) -> tuple[Tensor, int]:
        return self._loss(model, batch, self.settings.train.label_smoothing)

    def part(self, batch: Batch, number: int, of: int) -> Batch | None:
        rows = batch.rows[number::of]
        return self.train.batch(rows, batch.next) if rows else None

    def where(self, batch: Batch) -> list[str]:
        return [f"{file}:{line}" for file, line in (self._places[row] for row in batch.rows)]

    def judge(self, model: Any, number: int, of: int) -> Judged:
        """Greedy translations, by the code that `translate` uses, and losses."""
        translator = Translator(model, self.tokenizer, replace_beam(self.settings.decode, 1))
        sources = [pair.source for pair in self.valid_text[number::of]]
        return Judged([t.text for t in translator.translate(sources)], *self._held_out_loss(model, number, of))

    def scores(self, shares: list[Judged]) -> dict[str, float]:
        """Loss on all held-out pairs, BLEU and chrF of translations."""
        outputs = deal_back([share.outputs for share in shares])
        scores = metrics.score(outputs, [pair.target for pair in self.valid_text])
        return {
            "loss": sum(share.loss for share in shares) / sum(share.tokens for share in shares),
            "bleu": scores.bleu.value,
            "chrf": scores.chrf.value,
            "exact_match": scores.exact_match,
        }

    def _refuse_beyond_positions(self) -> None:
        """Learned positions reach only so far."""
        model, longest = self.settings.model, max(self.train.longest, self.valid.longest)
        if isinstance(model, TransformerSettings) and model.positions == "learned" and longest > model.longest:
            raise UserError(
                f"The text has a sentence of {longest:,} tokens, learned positions reach {model.longest:,}.",
                where="model.longest",
                fix=f"say model.longest={longest}, or leave long lines out by data.max_words",
            )

    @torch.inference_mode()
    def _held_out_loss(self, model: Any, number: int, of: int) -> tuple[float, int]:
        losses = [self._loss(model, self.valid.batch(rows), 0.0) for rows in self.valid.in_order()[number::of]]
        return sum(float(loss) for loss, _ in losses), sum(count for _, count in losses)

    def _loss(self, model: Any, batch: Batch, smoothing: float) -> tuple[Tensor, int]:
        device = next(model.parameters()).device
        hidden_BTD = model.hidden(batch.source_BS.to(device), batch.target_in_BT.to(device))
        target_N = batch.target_out_BT.flatten().to(device)
        real_N = (target_N != PAD).nonzero()[:, 0]
        hidden_ND = hidden_BTD.flatten(0, 1)
        if len(real_N) < len(target_N):
            hidden_ND, target_N = hidden_ND.index_select(0, real_N), target_N[real_N]
        return model.output.loss(hidden_ND, target_N, smoothing), len(target_N)


def encode_pairs(pairs: list[Pair], tokenizer: Tokenizer) -> list[tuple[list[int], list[int]]]:
    sources = tokenizer.encode_batch([pair.source for pair in pairs])
    targets = tokenizer.encode_batch([pair.target for pair in pairs])
    return list(zip(sources, targets, strict=True))


def deal_back(shares: list[list[str]]) -> list[str]:
    """The lines of shares that were dealt out like cards, in order again."""
    rounds = chain.from_iterable(zip_longest(*shares))
    return [line for line in rounds if line is not None]
