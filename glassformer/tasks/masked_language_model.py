"""Masked language model, BERT's pre-training (Devlin et al., 2019, §3.1): predict masked tokens from their context."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
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
from glassformer.inference.fill_mask import FilledText, MaskFiller
from glassformer.inference.run import Run
from glassformer.models.heads import MaskedLanguageModel
from glassformer.planning.sizes import BERT_PRETRAINING, TaskSizes
from glassformer.settings import Paths, Raw, Settings
from glassformer.tasks.labelled import IGNORE, predict_lines
from glassformer.tasks.language_model import LanguageModelData, Line, read_text
from glassformer.tasks.spec import TEST, TRAIN, VALID, HeldOut, TaskSpec, last_token
from glassformer.text.tokenizer import EOS, SOS, Tokenizer

SELECTED = 0.15  # share of the tokens that are predicted
MASKED, RANDOM = 0.8, 0.1  # of these: replaced by <mask>, replaced by a random token; the rest is kept


class MaskedLanguageModelData(LanguageModelData):
    """Running text, or the texts of labelled or tagged examples without their labels."""

    name = "masked_language_model"
    sizes = TaskSizes("characters", {"bert": BERT_PRETRAINING}, fixed_length=frozenset({"bert"}))

    def read(self, paths: Paths, split: str = TRAIN) -> tuple[list[Line], list[DroppedExample]]:
        return read_any_text(paths)

    def train_tokenizer(self, settings: Raw) -> Tokenizer:
        return Tokenizer.train((line.text for line in self.splits[TRAIN]), **settings, mask=True)

    def task(
        self, tokenizer: Tokenizer, settings: Settings, progress: ProgressCallback = no_progress
    ) -> MaskedLanguageModelTask:
        separate = lines_are_separate(self.settings.train)
        return MaskedLanguageModelTask(self.splits, tokenizer, settings, separate_lines=separate)


def read_any_text(paths: Paths) -> tuple[list[Line], list[DroppedExample]]:
    """Return the texts of .tsv, .conllu or text files, and the examples that are dropped."""
    files = expand_paths(paths)
    suffix = file_suffix(str(files[0]))
    if suffix == "tsv":
        examples, dropped = read_labelled(files, find_label_column(files))
        return [Line(example.text, example.place) for example in examples], dropped
    if suffix == "conllu":
        return [Line(sentence.text, sentence.place) for sentence in read_conllu(files)], []
    return read_text(paths), []


def lines_are_separate(paths: Paths) -> bool:
    """Return whether every line is a text of its own, as in data for other tasks."""
    return file_suffix(str(expand_paths(paths)[0])) in ("tsv", "conllu")


@dataclass(frozen=True)
class MaskedBatch:
    """Texts with some tokens masked. `target_BS` has the original tokens there, and `IGNORE` elsewhere."""

    tokens_BS: Tensor
    target_BS: Tensor
    rows: list[int]
    next: Position = BEGINNING


class MaskedShard(NamedTuple):
    loss: float
    right: int
    predicted: int


class MaskedLanguageModelTask:
    """Cross-entropy of the masked tokens. The mask is drawn again every time a text is read."""

    metric = "likelihood"  # mean log-probability of a masked token
    signature = f"{SELECTED:.0%} of the tokens are predicted: {MASKED:.0%} of them masked, {RANDOM:.0%} random"

    def __init__(
        self, splits: dict[str, list[Line]], tokenizer: Tokenizer, settings: Settings, *, separate_lines: bool
    ) -> None:
        self.settings, self.tokenizer, self.splits = settings, tokenizer, splits
        self.mask = _mask_of(tokenizer)
        self.max_tokens = min(settings.data.sequence, settings.model.max_positions) - 2  # type: ignore[union-attr]
        self.inputs: dict[str, PairBatches] = {}
        self.first_line: dict[str, list[int]] = {}  # split → line in which every sequence begins
        for split, lines in splits.items():
            sequences = self._sequences(lines, separate_lines)
            if not sequences:
                raise UserError("There is no text.", where=split, hint="give a file with text in it")
            self.first_line[split] = [line for line, _ in sequences]
            pairs = [([SOS, *ids], ()) for _, ids in sequences]
            self.inputs[split] = PairBatches(pairs, settings.train.batch_tokens)

    def _sequences(self, lines: list[Line], separate_lines: bool) -> list[tuple[int, list[int]]]:
        """Return the token sequences with the line that they begin in: parts of a line, or of the whole text."""
        rows = self.tokenizer.encode_batch([line.text for line in lines])
        most = self.max_tokens
        if separate_lines:
            every = ((line, ids, at) for line, ids in enumerate(rows) for at in range(0, len(ids), most))
            return [(line, ids[at : at + most]) for line, ids, at in every]
        text = np.array([token for ids in rows if ids for token in (*ids, EOS)], dtype=np.int64)
        ends = np.cumsum([len(ids) + 1 if ids else 0 for ids in rows])
        starts = np.arange(0, len(text), most)
        begins_in = np.searchsorted(ends, starts, side="right")
        return [(int(line), text[at : at + most].tolist()) for line, at in zip(begins_in, starts, strict=True)]

    def batches(self, seed: int, position: Position) -> Iterator[MaskedBatch]:
        for batch in self.inputs[TRAIN].forever(seed, position):
            yield self._mask(batch, np.random.default_rng([seed, *position]))
            position = batch.next

    def loss(self, model: Any, batch: MaskedBatch) -> tuple[Tensor, int]:
        logits_NV, target_N = self._logits(model, batch)
        smoothing = self.settings.train.label_smoothing
        return F.cross_entropy(logits_NV, target_N, label_smoothing=smoothing, reduction="sum"), len(target_N)

    def shard_batch(self, batch: MaskedBatch, index: int, count: int) -> MaskedBatch | None:
        rows = batch.rows[index::count]
        return (
            MaskedBatch(batch.tokens_BS[index::count], batch.target_BS[index::count], rows, batch.next)
            if rows
            else None
        )

    def locations(self, batch: MaskedBatch) -> list[str]:
        """The line in which each sequence begins."""
        return [self.splits[TRAIN][self.first_line[TRAIN][row]].place for row in batch.rows]

    @torch.inference_mode()
    def evaluate_shard(
        self, model: Any, index: int, count: int, *, split: str = VALID, final: bool = False
    ) -> MaskedShard:
        """Mask the same tokens every time, so that scores are comparable."""
        loss, right, predicted = 0.0, 0, 0
        for i, rows in list(enumerate(self.inputs[split].in_order()))[index::count]:
            batch = self._mask(self.inputs[split].batch(rows), np.random.default_rng(i))
            logits_NV, target_N = self._logits(model, batch)
            loss += float(F.cross_entropy(logits_NV, target_N, reduction="sum"))
            right += int((logits_NV.argmax(dim=1) == target_N).sum())
            predicted += len(target_N)
        return MaskedShard(loss, right, predicted)

    def scores(self, shards: Sequence[MaskedShard], *, split: str = VALID) -> dict[str, float]:
        predicted = max(1, sum(shard.predicted for shard in shards))
        loss = sum(shard.loss for shard in shards) / predicted
        accuracy = 100 * sum(shard.right for shard in shards) / predicted
        return {"loss": loss, "likelihood": -loss, "accuracy": accuracy, "perplexity": math.exp(min(loss, 700.0))}

    def _mask(self, batch: Batch, random: np.random.Generator) -> MaskedBatch:
        tokens_BS = batch.source_BS.numpy()
        maskable_BS = tokens_BS > EOS  # special tokens are never masked
        selected_BS = maskable_BS & (random.random(tokens_BS.shape) < SELECTED)
        if not selected_BS.any():  # a batch of very few tokens: select at least one
            selected_BS[tuple(np.argwhere(maskable_BS)[0])] = True
        roll_BS = random.random(tokens_BS.shape)
        random_BS = random.integers(self.mask + 1, len(self.tokenizer), tokens_BS.shape)
        input_BS = np.where(selected_BS & (roll_BS < MASKED), self.mask, tokens_BS)
        input_BS = np.where(selected_BS & (roll_BS >= 1 - RANDOM), random_BS, input_BS)
        target_BS = np.where(selected_BS, tokens_BS, IGNORE)
        return MaskedBatch(torch.from_numpy(input_BS), torch.from_numpy(target_BS), batch.rows, batch.next)

    def _logits(self, model: Any, batch: MaskedBatch) -> tuple[Tensor, Tensor]:
        """Return logits, N×V, and targets, N, of the selected tokens only: the others need no output projection."""
        device = next(model.parameters()).device
        hidden_ND = model.encoder(batch.tokens_BS.to(device)).flatten(0, 1)
        target_N = batch.target_BS.flatten().to(device)
        selected_N = (target_N != IGNORE).nonzero()[:, 0]
        return model.predict(hidden_ND.index_select(0, selected_N)).float(), target_N[selected_N]


def _mask_of(tokenizer: Tokenizer) -> int:
    if tokenizer.mask_id is None:
        raise UserError(
            "This tokenizer has no <mask> token.", where="--from", hint="start from a run of task=masked_language_model"
        )
    return tokenizer.mask_id


def held_out(run: Run, paths: Paths) -> HeldOut:
    lines, _ = read_any_text(paths)
    separate = lines_are_separate(paths)
    task = MaskedLanguageModelTask({TEST: lines}, run.tokenizer, run.settings, separate_lines=separate)
    return HeldOut(task, len(lines))


def show_filled(text: str, result: FilledText, as_json: bool) -> str:
    if as_json:
        return json.dumps({"text": text, "filled": result.text, "blanks": result.blanks}, ensure_ascii=False)
    blanks = (" ".join(f"{token} {chance:.3f}" for token, chance in blank.items()) for blank in result.blanks)
    return "\t".join([result.text, *blanks])


def trace(predictor: Any, text: str, question: str) -> tuple[str, Any]:
    if "___" not in text:
        return last_token(predictor, text, question)
    return predictor.predict([text])[0].text, predictor.trace(text)


SPEC = TaskSpec(
    name="masked_language_model",
    families=("bert",),
    output="tokens",
    head=lambda model: MaskedLanguageModel,
    pretrains=True,
    blanks=True,
    predictor=lambda run: MaskFiller(run.model, run.tokenizer),
    data=MaskedLanguageModelData,
    unit="masked tokens",
    held_out=held_out,
    predict=partial(predict_lines, show=show_filled),
    usage='glassformer predict {run} "… ___ …"',
    trace=trace,
    huggingface={"bert": "BertForMaskedLM"},
)
