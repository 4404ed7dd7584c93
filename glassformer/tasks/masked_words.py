"""Masked words, BERT's pre-training (Devlin et al., 2019, §3.1): some tokens of a text are hidden, to be guessed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.data.batching import BEGINNING, Batch, PairBatches, Position
from glassformer.data.conllu import read_conllu
from glassformer.data.labelled import find_label_column, read_labelled
from glassformer.data.parallel_text import expand_paths, file_suffix
from glassformer.data.preparation import ProgressCallback, no_progress
from glassformer.data.report import DroppedExample
from glassformer.errors import UserError
from glassformer.settings import DataSettings, Paths, Raw, Settings
from glassformer.tasks import TEST, TRAIN, VALID
from glassformer.tasks.labelled import NOT_ASKED
from glassformer.tasks.language_model import LanguageModelData, Line
from glassformer.text.tokenizer import EOS, SOS, Tokenizer

ASKED = 0.15  # of the tokens
HIDDEN, SWAPPED = 0.8, 0.1  # of those: replaced by <mask>, by any other token; the rest is left as it is


class MaskedWordsData(LanguageModelData):
    """Running text, or the texts of examples that have labels or tags: those are not looked at."""

    task_name = "masked_words"

    def __init__(self, settings: DataSettings, tell: ProgressCallback = no_progress) -> None:
        self.are_apart = stand_apart(settings.train)
        super().__init__(settings, tell)

    @classmethod
    def read(cls, paths: Paths) -> tuple[list[Line], list[DroppedExample]]:
        files = expand_paths(paths)
        suffix = file_suffix(str(files[0]))
        if suffix == "tsv":
            examples, bad = read_labelled(files, find_label_column(files))
            return [Line(example.text, example.place) for example in examples], bad
        if suffix == "conllu":
            return [Line(sentence.text, sentence.place) for sentence in read_conllu(files)], []
        return super().read(paths)

    def learn(self, settings: Raw) -> Tokenizer:
        return Tokenizer.train((line.text for line in self.splits[TRAIN]), **settings, mask=True)

    def task(self, tokenizer: Tokenizer, settings: Settings, tell: ProgressCallback = no_progress) -> MaskedWordsTask:
        return MaskedWordsTask(self.splits, tokenizer, settings, are_apart=self.are_apart)


def stand_apart(paths: Paths) -> bool:
    """Whether every line is a text of its own, as in data for other tasks."""
    return file_suffix(str(expand_paths(paths)[0])) in ("tsv", "conllu")


@dataclass(frozen=True)
class Masked:
    """Texts with some tokens hidden. `target_BS` has what stood there, and `NOT_ASKED` elsewhere."""

    tokens_BS: Tensor
    target_BS: Tensor
    rows: list[int]
    next: Position = BEGINNING


class Judged(NamedTuple):
    loss: float
    right: int
    asked: int


class MaskedWordsTask:
    """Cross-entropy of what was hidden. Which tokens those are is drawn anew whenever a text is seen."""

    metric = "likelihood"  # the mean log-probability of a hidden token
    signature = f"{ASKED:.0%} of the tokens are asked: {HIDDEN:.0%} of them hidden, {SWAPPED:.0%} exchanged"

    def __init__(
        self, splits: dict[str, list[Line]], tokenizer: Tokenizer, settings: Settings, *, are_apart: bool
    ) -> None:
        self.settings, self.tokenizer, self.splits = settings, tokenizer, splits
        self.mask = _mask_of(tokenizer)
        self.most = min(settings.data.sequence, settings.model.max_positions) - 2  # type: ignore[union-attr]
        self.inputs: dict[str, PairBatches] = {}
        self.first_line: dict[str, list[int]] = {}  # of each split, where every sequence begins
        for split, lines in splits.items():
            sequences = self._sequences(lines, are_apart)
            if not sequences:
                raise UserError("There is no text.", where=split, hint="give a file with text in it")
            self.first_line[split] = [line for line, _ in sequences]
            pairs = [([SOS, *ids], ()) for _, ids in sequences]
            self.inputs[split] = PairBatches(pairs, settings.train.batch_tokens)

    @classmethod
    def of_files(cls, paths: Paths, tokenizer: Tokenizer, settings: Settings) -> MaskedWordsTask:
        """A held-out set alone, for a model that is there already."""
        lines, _ = MaskedWordsData.read(paths)
        return cls({TEST: lines}, tokenizer, settings, are_apart=stand_apart(paths))

    def _sequences(self, lines: list[Line], are_apart: bool) -> list[tuple[int, list[int]]]:
        """Tokens that are read in one go, with the line that they begin in: parts of a line, or of the whole text."""
        rows = self.tokenizer.encode_batch([line.text for line in lines])
        most = self.most
        if are_apart:
            every = ((line, ids, at) for line, ids in enumerate(rows) for at in range(0, len(ids), most))
            return [(line, ids[at : at + most]) for line, ids, at in every]
        text = np.array([token for ids in rows if ids for token in (*ids, EOS)], dtype=np.int64)
        ends = np.cumsum([len(ids) + 1 if ids else 0 for ids in rows])
        starts = np.arange(0, len(text), most)
        begins_in = np.searchsorted(ends, starts, side="right")
        return [(int(line), text[at : at + most].tolist()) for line, at in zip(begins_in, starts, strict=True)]

    def batches(self, seed: int, position: Position) -> Iterator[Masked]:
        for batch in self.inputs[TRAIN].forever(seed, position):
            yield self._masked(batch, np.random.default_rng([seed, *position]))
            position = batch.next

    def loss(self, model: Any, batch: Masked) -> tuple[Tensor, int]:
        logits_NV, target_N = self._guesses(model, batch)
        smoothing = self.settings.train.label_smoothing
        return F.cross_entropy(logits_NV, target_N, label_smoothing=smoothing, reduction="sum"), len(target_N)

    def part(self, batch: Masked, number: int, of: int) -> Masked | None:
        rows = batch.rows[number::of]
        return Masked(batch.tokens_BS[number::of], batch.target_BS[number::of], rows, batch.next) if rows else None

    def where(self, batch: Masked) -> list[str]:
        """The line in which each sequence begins."""
        return [self.splits[TRAIN][self.first_line[TRAIN][row]].place for row in batch.rows]

    @torch.inference_mode()
    def judge(self, model: Any, number: int, of: int, *, split: str = VALID, final: bool = False) -> Judged:
        """The same tokens are hidden every time, so that scores can be compared."""
        loss, right, asked = 0.0, 0, 0
        for i, rows in list(enumerate(self.inputs[split].in_order()))[number::of]:
            batch = self._masked(self.inputs[split].batch(rows), np.random.default_rng(i))
            logits_NV, target_N = self._guesses(model, batch)
            loss += float(F.cross_entropy(logits_NV, target_N, reduction="sum"))
            right += int((logits_NV.argmax(dim=1) == target_N).sum())
            asked += len(target_N)
        return Judged(loss, right, asked)

    def scores(self, shares: Sequence[Judged], *, split: str = VALID) -> dict[str, float]:
        asked = max(1, sum(share.asked for share in shares))
        loss = sum(share.loss for share in shares) / asked
        accuracy = 100 * sum(share.right for share in shares) / asked
        return {"loss": loss, "likelihood": -loss, "accuracy": accuracy, "perplexity": math.exp(min(loss, 700.0))}

    def _masked(self, batch: Batch, random: np.random.Generator) -> Masked:
        tokens_BS = batch.source_BS.numpy()
        words_BS = tokens_BS > EOS  # padding, beginning and end are never asked
        asked_BS = words_BS & (random.random(tokens_BS.shape) < ASKED)
        if not asked_BS.any():  # a batch of very few tokens
            asked_BS[tuple(np.argwhere(words_BS)[0])] = True
        roll_BS = random.random(tokens_BS.shape)
        any_BS = random.integers(self.mask + 1, len(self.tokenizer), tokens_BS.shape)
        shown_BS = np.where(asked_BS & (roll_BS < HIDDEN), self.mask, tokens_BS)
        shown_BS = np.where(asked_BS & (roll_BS >= 1 - SWAPPED), any_BS, shown_BS)
        target_BS = np.where(asked_BS, tokens_BS, NOT_ASKED)
        return Masked(torch.from_numpy(shown_BS), torch.from_numpy(target_BS), batch.rows, batch.next)

    def _guesses(self, model: Any, batch: Masked) -> tuple[Tensor, Tensor]:
        """Logits and right tokens of all that is asked, N×V and N: the others need no output layer."""
        device = next(model.parameters()).device
        hidden_ND = model.encoder(batch.tokens_BS.to(device)).flatten(0, 1)
        target_N = batch.target_BS.flatten().to(device)
        asked_N = (target_N != NOT_ASKED).nonzero()[:, 0]
        return model.predict(hidden_ND.index_select(0, asked_N)).float(), target_N[asked_N]


def _mask_of(tokenizer: Tokenizer) -> int:
    if tokenizer.mask_id is None:
        raise UserError(
            "This tokenizer has no entry that hides a word.", where="--from", hint="begin with a run of masked_words"
        )
    return tokenizer.mask_id
