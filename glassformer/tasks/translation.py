"""Translation, and every other task that turns one line into another."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, zip_longest
from typing import Any, NamedTuple

import torch
from torch import Tensor

from glassformer.data import preparation
from glassformer.data.batching import Batch, PairBatches, Position, Share
from glassformer.data.cache import Cache
from glassformer.data.corpus import Pair, parallel_files
from glassformer.data.preparation import Splits, Tell, silent
from glassformer.data.store import Text
from glassformer.errors import UserError
from glassformer.inference.translator import Translator, with_beam
from glassformer.planning import choices as planning
from glassformer.settings import DataSettings, Raw, Settings, TransformerSettings
from glassformer.tasks import TEST, VALID, Chosen, metrics, refuse_notes
from glassformer.text.tokenizer import PAD, Tokenizer


class TranslationData:
    """Sentence pairs: those to learn from on disk, those to judge by in memory."""

    def __init__(self, settings: DataSettings, tell: Tell = silent) -> None:
        self.settings = settings
        train = [parallel_files(settings.train), *(parallel_files(other.train) for other in settings.also or ())]
        valid, test = (parallel_files(paths) if paths else None for paths in (settings.valid, settings.test))
        cache = Cache(settings.cache)
        self.splits, self.report = preparation.prepare(train, valid, test, settings, cache=cache, tell=tell)
        self.fingerprint, self.labels = self.splits.train.fingerprint, list[str]()

    def choose(self, raw: Raw, known: Tokenizer | None, precision: tuple[str, str], tell: Tell) -> Chosen:
        refuse_notes(raw)
        text = self.splits.train
        choices: list[planning.Choice] = []
        tokenizer = known
        if tokenizer is None:
            raw, choices = planning.apply(raw, planning.choose_vocabulary(raw, len(text)))
            tokenizer = preparation.learn_vocabulary(text, tell=tell, **raw["tokenizer"])
        tokens = self._longer_side_tokens(tokenizer)
        sizes = planning.choose_sizes(raw, pairs=len(text), tokens=tokens, precision=precision)
        raw, more = planning.apply(raw, sizes)
        return Chosen(raw, [*choices, *more], tokenizer)

    def task(self, tokenizer: Tokenizer, settings: Settings, tell: Tell = silent) -> TranslationTask:
        return TranslationTask(self.splits, tokenizer, settings, tell)

    def _longer_side_tokens(self, tokenizer: Tokenizer, sample: int = 20_000) -> int:
        """Tokens an epoch of the longer side of each pair, `<eos>` included; extrapolated from the first pairs."""
        text = self.splits.train
        some = encode_pairs(list(text.pairs(slice(sample))), tokenizer)
        total = sum(max(len(source), len(target)) + 1 for source, target in some)
        seen = sum(share.pairs * share.weight for share in shares(text, self.settings))
        return int(total * seen) // len(some)


class Judged(NamedTuple):
    """What a model made of a share of the held-out pairs."""

    outputs: list[str]
    loss: float
    tokens: int


class TranslationTask:
    """Cross-entropy of the target given the source; scored by BLEU on held-out pairs, or what else was asked for."""

    def __init__(self, splits: Splits, tokenizer: Tokenizer, settings: Settings, tell: Tell = silent) -> None:
        self.settings, self.tokenizer, self.splits = settings, tokenizer, splits
        self.metric: str = settings.train.metric
        self.signature = self._scored([""], [""]).signature  # here: a library that is missing is missed at once
        ids = preparation.encode(splits.train, tokenizer, tell)
        self.train = PairBatches(ids, settings.train.batch_tokens, shares=shares(splits.train, settings.data))
        self.held_out = {
            split: PairBatches(encode_pairs(pairs, tokenizer), settings.train.batch_tokens)
            for split, pairs in ((VALID, splits.valid), (TEST, splits.test))
            if pairs
        }
        self._refuse_beyond_positions()

    def batches(self, seed: int, position: Position) -> Iterator[Batch]:
        return self.train.forever(seed, position)

    def loss(self, model: Any, batch: Batch) -> tuple[Tensor, int]:
        return self._loss(model, batch, self.settings.train.label_smoothing)

    def part(self, batch: Batch, number: int, of: int) -> Batch | None:
        rows = batch.rows[number::of]
        return self.train.batch(rows, batch.next) if rows else None

    def where(self, batch: Batch) -> list[str]:
        return [f"{file}:{line}" for file, line in map(self.splits.train.place, batch.rows)]

    def judge(self, model: Any, number: int, of: int, *, split: str = VALID, final: bool = False) -> Judged:
        """Losses of all pairs, and translations by the code that `translate` uses: greedy ones of the first sentences,
        or those of all sentences by the search that was asked for.
        """
        decode = self.settings.decode if final else with_beam(self.settings.decode, 1)
        pairs = self._pairs(split, final)
        outputs = Translator(model, self.tokenizer, decode).translate([pair.source for pair in pairs[number::of]])
        return Judged([output.text for output in outputs], *self._held_out_loss(model, split, number, of))

    def scores(self, shares: list[Judged], *, split: str = VALID) -> dict[str, float]:
        outputs = deal_back([share.outputs for share in shares])
        references = [pair.target for pair in getattr(self.splits, split)[: len(outputs)]]
        scores = metrics.score(outputs, references, lowercase=self.tokenizer.lowercase)
        return {
            "loss": sum(share.loss for share in shares) / sum(share.tokens for share in shares),
            "bleu": scores.bleu.value,
            "chrf": scores.chrf.value,
            "exact_match": scores.exact_match,
            self.metric: self._scored(outputs, references).value,
        }

    def _scored(self, outputs: list[str], references: list[str]) -> metrics.Score:
        """By the score that chooses the best weights."""
        lowercase = self.tokenizer.lowercase
        match self.metric:
            case "rouge_l":
                return metrics.rouge_l(outputs, references)
            case "chrf":
                return metrics.chrf(outputs, references, lowercase=lowercase)
            case _:
                return metrics.bleu(outputs, references, lowercase=lowercase)

    def _pairs(self, split: str, final: bool) -> list[Pair]:
        pairs: list[Pair] = getattr(self.splits, split)
        return pairs if final else pairs[: self.settings.train.valid_sentences]

    def _refuse_beyond_positions(self) -> None:
        """Learned positions reach only so far."""
        model, longest = self.settings.model, max(self.train.longest, self.held_out[VALID].longest)
        if isinstance(model, TransformerSettings) and model.positions == "learned" and longest > model.max_positions:
            raise UserError(
                f"The text has a sentence of {longest:,} tokens, learned positions reach {model.max_positions:,}.",
                where="model.max_positions",
                hint=f"say model.max_positions={longest}, or leave long lines out by data.max_words",
            )

    @torch.inference_mode()
    def _held_out_loss(self, model: Any, split: str, number: int, of: int) -> tuple[float, int]:
        batches = self.held_out[split]
        losses = [self._loss(model, batches.batch(rows), 0.0) for rows in batches.in_order()[number::of]]
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


def shares(text: Text, data: DataSettings) -> list[Share]:
    """How often each corpus is seen."""
    weights = [1.0, *(other.weight for other in data.also or ())]
    return [Share(pairs, weight) for pairs, weight in zip(text.corpora, weights, strict=True)]


def encode_pairs(pairs: list[Pair], tokenizer: Tokenizer) -> list[tuple[list[int], list[int]]]:
    sources = tokenizer.encode_batch([pair.source for pair in pairs])
    targets = tokenizer.encode_batch([pair.target for pair in pairs])
    return list(zip(sources, targets, strict=True))


def deal_back(shares: list[list[str]]) -> list[str]:
    """The lines of shares that were dealt out like cards, in order again."""
    rounds = chain.from_iterable(zip_longest(*shares))
    return [line for line in rounds if line is not None]
