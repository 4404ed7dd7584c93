"""Language models: predict the next token of a text from the tokens before it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from glassformer.data.filtering import split_off_validation
from glassformer.data.parallel_text import expand_paths
from glassformer.data.preparation import ProgressCallback, no_progress
from glassformer.data.report import DroppedExample, ExampleSplit, example_split
from glassformer.data.sequences import SequenceBatch, SequenceBatches
from glassformer.errors import UserError
from glassformer.inference.generator import MAX_NEW_TOKENS, TextGenerator
from glassformer.inference.run import Run
from glassformer.nn.loss import without_padding
from glassformer.planning.sizes import GPT_SIZES, RUNNING_TEXT, RecurrentSize, Size, TaskSizes
from glassformer.settings import Paths, Settings
from glassformer.tasks.examples import SAMPLE, BatchedTask, ExamplesData, likelihood_scores
from glassformer.tasks.spec import TEST, TRAIN, VALID, HeldOut, PredictRequest, Task, TaskSpec, common_suffix
from glassformer.text.lines import read_lines
from glassformer.text.tokenizer import EOS, PAD, Tokenizer

FAMILIES = ("recurrent_lm", "window", "gpt")
TABLES: dict[str, tuple[Size, ...] | tuple[RecurrentSize, ...]] = {
    "recurrent_lm": RUNNING_TEXT,
    "window": RUNNING_TEXT,
    "gpt": GPT_SIZES,
}
MIN_BLOCKS = 50  # validation text is held out in blocks; a text with enough lines has at least this many


class Line(NamedTuple):
    """A line of a text, or a piece of music as a line."""

    text: str
    place: str


class LanguageModelData(ExamplesData[Line]):
    """Lines of text, read as one sequence."""

    name, examples, metric_name = "language_model", "lines", "likelihood"
    sizes = TaskSizes("characters", TABLES, fixed_length=frozenset({"gpt"}))

    def read(self, paths: Paths, split: str = TRAIN) -> tuple[list[Line], list[DroppedExample]]:
        return read_text(paths), []

    def account(self, examples: list[Line], dropped: list[DroppedExample]) -> ExampleSplit:
        return example_split(len(examples), dropped, facts=self.facts(examples))

    @staticmethod
    def facts(lines: list[Line]) -> dict[str, int]:
        """Return counts for the report; the unit of `sizes` is one of them."""
        words = sum(len(line.text.split()) for line in lines)
        blank = sum(not line.text.strip() for line in lines)
        return {"words": words, "characters": sum(len(line.text) + 1 for line in lines), "blank lines": blank}

    def hold_out(self, examples: list[Line], where: str) -> tuple[list[Line], list[Line]]:
        """Hold out blocks of consecutive lines, none of them blank, so that validation text is running text too."""
        size, full, blocks = max(1, min(50, len(examples) // MIN_BLOCKS)), 0, list[list[Line]]()
        for line in examples:
            if line.text.strip() and (full := full % size + 1) == 1:
                blocks.append([])
            if blocks:  # blank lines before the first text are dropped
                blocks[-1].append(line)
        train, valid = split_off_validation(blocks, ["\n".join(line.text for line in block) for block in blocks], where)
        return [line for block in train for line in block], [line for block in valid for line in block]

    @property
    def amount(self) -> int:
        return self.facts(self.splits[TRAIN])[self.sizes.unit]

    def tokens_per_epoch(self, tokenizer: Tokenizer) -> int:
        sample = self.splits[TRAIN][:SAMPLE]
        return sum(map(len, encode_lines(sample, tokenizer))) * self.amount // self.facts(sample)[self.sizes.unit]

    def task(self, tokenizer: Tokenizer, settings: Settings, progress: ProgressCallback = no_progress) -> Task:
        return LanguageModelTask(self.splits, tokenizer, settings)


def read_text(paths: Paths) -> list[Line]:
    lines = [
        Line(text, f"{file}:{number}")
        for file in expand_paths(paths)
        for number, text in enumerate(read_lines(file), 1)
    ]
    if not any(line.text.strip() for line in lines):
        raise UserError("There is no text.", where=str(paths), hint="give a file with text in it")
    return lines


class LossShard(NamedTuple):
    loss: float
    tokens: int


class LanguageModelTask(BatchedTask[SequenceBatch]):
    """Cross-entropy of each token given the tokens before it in its sequence."""

    metric = "likelihood"  # mean log-probability of a token: the negative loss
    copy_distance = 0  # the baseline also predicts the token this far back; 0 if it does not

    def __init__(self, splits: dict[str, list[Line]], tokenizer: Tokenizer, settings: Settings) -> None:
        self.settings, self.tokenizer, self.splits = settings, tokenizer, splits
        longest = settings.model.max_length
        if longest is not None and settings.data.sequence > longest:
            raise UserError(
                f"data.sequence={settings.data.sequence} is longer than the maximum length of the model, {longest}.",
                where="data.sequence",
                hint=f"set data.sequence={longest} or less, or a larger model.max_positions",
            )
        self.encoded = {split: encode_lines(lines, tokenizer) for split, lines in splits.items()}
        self.inputs: dict[str, SequenceBatches] = {split: self._stream(lines) for split, lines in self.encoded.items()}

    def _stream(self, lines: list[np.ndarray]) -> SequenceBatches:
        return SequenceBatches(
            self.documents(lines),
            before=self.tokenizer.newline_id,
            sequence=self.settings.data.sequence,
            batch_tokens=self.settings.train.batch_tokens,
        )

    def documents(self, lines: list[np.ndarray]) -> list[np.ndarray]:
        """Return the documents that the lines belong to: sequences do not cross their borders."""
        return [np.concatenate(lines)]

    @property
    def signature(self) -> str:
        return self.signature_per(f"token ({self.tokenizer.kind})")

    def signature_per(self, unit: str) -> str:
        return (
            f"mean log-probability (nats) per {unit}; the context is reset every {self.settings.data.sequence} tokens"
        )

    def loss(self, model: Any, batch: SequenceBatch) -> tuple[Tensor, int]:
        return self._loss(model, batch, self.settings.train.label_smoothing, self.settings.train.consistency)

    def locations(self, batch: SequenceBatch) -> list[str]:
        """Return the line or piece in which each sequence begins."""
        ends = np.cumsum([len(line) for line in self.encoded[TRAIN]])
        first = [self.inputs[TRAIN].first_token(row) for row in batch.rows]
        return [self.splits[TRAIN][int(line)].place for line in np.searchsorted(ends, first, side="right")]

    @torch.inference_mode()
    def evaluate_shard(
        self, model: Any, index: int, count: int, *, split: str = VALID, final: bool = False
    ) -> LossShard:
        losses = [self._loss(model, batch, 0.0) for batch in self.shard_of(split, index, count)]
        return LossShard(sum(float(loss) for loss, _ in losses), sum(tokens for _, tokens in losses))

    def scores(self, shards: list[LossShard], *, split: str = VALID) -> dict[str, float]:
        loss = sum(shard.loss for shard in shards) / sum(shard.tokens for shard in shards)
        scores = likelihood_scores(loss)
        if TRAIN in self.encoded:
            both = self.encoded[TRAIN], self.encoded[split]
            scores["baseline_loss"] = baseline(*both, len(self.tokenizer), back=self.copy_distance)
        return scores

    def _loss(self, model: Any, batch: SequenceBatch, smoothing: float, consistency: float = 0.0) -> tuple[Tensor, int]:
        device, passes = next(model.parameters()).device, 2 if consistency else 1
        hidden_BTD = model.hidden(batch.tokens_BT.repeat(passes, 1).to(device))
        hidden_ND, target_N = without_padding(hidden_BTD, batch.next_BT.repeat(passes, 1), PAD)
        return model.output.loss(hidden_ND, target_N, smoothing, consistency), len(target_N) // passes


def encode_lines(lines: Sequence[Line], tokenizer: Tokenizer) -> list[np.ndarray]:
    """Return the tokens of every line with `<eos>`, or with "\n" for characters. An empty line has no `<eos>`."""
    if tokenizer.kind == "characters":
        rows = tokenizer.encode_batch([f"{line.text}\n" for line in lines])
        return [np.array(row, dtype=np.int64) for row in rows]
    rows = tokenizer.encode_batch([line.text for line in lines])
    return [np.array([*row, EOS] if row else [], dtype=np.int64) for row in rows]


def baseline(train: Sequence[np.ndarray], held_out: Sequence[np.ndarray], vocab: int, *, back: int = 0) -> float:
    """Return the loss of a unigram model with add-one smoothing.

    With `back`, it is mixed with a model that repeats the token `back` positions before in the same line; the weight of
    the mixture is the relative frequency of such repetitions in train.
    """
    counts_V = np.bincount(np.concatenate(train), minlength=vocab) + 1.0
    chance_V = counts_V / counts_V.sum()
    tokens_N = np.concatenate(held_out)
    if not back:
        return float(-np.log(chance_V[tokens_N]).mean())
    repeats_N = np.concatenate([_repeats(line, back) for line in train])
    weight = (repeats_N.sum() + 1) / (len(repeats_N) + 2)
    chance_N = (1 - weight) * chance_V[tokens_N] + weight * np.concatenate([_repeats(line, back) for line in held_out])
    return float(-np.log(chance_N).mean())


def _repeats(line: np.ndarray, back: int) -> np.ndarray:
    return np.concatenate([np.zeros(min(back, len(line)), dtype=bool), line[back:] == line[:-back]])


def held_out(run: Run, paths: Paths) -> HeldOut:
    lines = read_text(paths)
    return HeldOut(LanguageModelTask({TEST: lines}, run.tokenizer, run.settings), len(lines))


def predict(model: TextGenerator, request: PredictRequest) -> Iterator[str]:
    """Yield each prompt and its continuation, token by token."""
    for prompt in request.lines():
        pieces = model.stream(prompt, length=request.length or MAX_NEW_TOKENS, sampling=request.sampling)
        if request.as_json:
            yield json.dumps({"prompt": prompt, "continuation": "".join(pieces)}, ensure_ascii=False) + "\n"
        else:
            yield prompt
            yield from pieces
            yield "\n"


def recognize(files: list[str]) -> str:
    return "one .txt file is running text" if common_suffix(files) == "txt" and len(files) == 1 else ""


SPEC = TaskSpec(
    name="language_model",
    families=FAMILIES,
    output="tokens",
    consistency=True,
    predictor=lambda run: TextGenerator(run.model, run.tokenizer),
    data=LanguageModelData,
    unit="tokens",
    recognize=recognize,
    held_out=held_out,
    predict=predict,
    predict_uses=frozenset({"sampling"}),
    huggingface={"gpt": "GPT2LMHeadModel"},
)
