"""Language models: the next token of a running text, or the next note of a piece, from those before it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from glassformer.data import music
from glassformer.data.batching import Position
from glassformer.data.parallel_text import expand_paths
from glassformer.data.preparation import ProgressCallback, no_progress
from glassformer.data.report import (
    DataReport,
    DroppedExample,
    describe_held_out,
    example_split,
    fingerprint,
    split_off_validation,
)
from glassformer.data.sequences import SequenceBatch, SequenceBatches
from glassformer.errors import UserError
from glassformer.planning import choices as planning
from glassformer.settings import DataSettings, Paths, Raw, Settings, with_family
from glassformer.tasks import TEST, TRAIN, VALID, Chosen, Task, refuse_notes
from glassformer.text.lines import read_lines
from glassformer.text.tokenizer import EOS, PAD, Tokenizer

BLOCKS = 50  # of a text at least, where it has so many lines: whole ones are held out
NOTES_A_SEQUENCE = 256  # four bars of four voices


class Line(NamedTuple):
    """A line of a text, or a piece of music as a line."""

    text: str
    place: str


class LanguageModelData:
    """Lines of text as one stream."""

    task_name, what, unit = "language_model", "lines", "characters"

    def __init__(self, settings: DataSettings, tell: ProgressCallback = no_progress) -> None:
        self.labels = list[str]()
        self.splits: dict[str, list[Line]] = {}
        bad: dict[str, list[DroppedExample]] = {}
        for split, paths in ((TRAIN, settings.train), (VALID, settings.valid), (TEST, settings.test)):
            if paths:
                self.splits[split], bad[split] = self.read(paths)
        said = ""
        if VALID not in self.splits:
            every = len(self.splits[TRAIN])
            self.splits[TRAIN], self.splits[VALID] = self.hold_out(self.splits[TRAIN], str(settings.train))
            said = describe_held_out(len(self.splits[VALID]), every, self.what)
        accounts = {
            split: example_split(len(lines), bad.get(split, []), facts=self.facts(lines))
            for split in (TRAIN, VALID, TEST)
            if (lines := self.splits.get(split))
        }
        self.report = DataReport(self.what, accounts, said)
        self.splits[TRAIN] = self.varied(self.splits[TRAIN], settings)
        self.fingerprint = fingerprint(self.task_name, self.splits[TRAIN], self.splits[VALID])

    @classmethod
    def read(cls, paths: Paths) -> tuple[list[Line], list[DroppedExample]]:
        lines = [
            Line(text, f"{file}:{number}")
            for file in expand_paths(paths)
            for number, text in enumerate(read_lines(file), 1)
        ]
        if not any(line.text.strip() for line in lines):
            raise UserError("There is no text.", where=str(paths), hint="give a file with text in it")
        return lines, []

    def facts(self, lines: list[Line]) -> dict[str, int]:
        words = sum(len(line.text.split()) for line in lines)
        blank = sum(not line.text.strip() for line in lines)
        return {"words": words, "characters": sum(len(line.text) + 1 for line in lines), "blank lines": blank}

    def hold_out(self, lines: list[Line], where: str) -> tuple[list[Line], list[Line]]:
        """Blocks of neighbouring lines, so that what is held out is running text too. No block is blank."""
        size, full, blocks = max(1, min(50, len(lines) // BLOCKS)), 0, list[list[Line]]()
        for line in lines:
            if line.text.strip() and (full := full % size + 1) == 1:
                blocks.append([])
            if blocks:  # blank lines before any text are no loss
                blocks[-1].append(line)
        train, valid = split_off_validation(blocks, ["\n".join(line.text for line in block) for block in blocks], where)
        return [line for block in train for line in block], [line for block in valid for line in block]

    def varied(self, lines: list[Line], settings: DataSettings) -> list[Line]:
        """What is trained on: the lines as they are."""
        return lines

    def choose(self, raw: Raw, known: Tokenizer | None, precision: tuple[str, str], tell: ProgressCallback) -> Chosen:
        raw = with_family(raw)
        amount = self.facts(self.splits[TRAIN])[self.unit]
        raw, choices = planning.apply(raw, self.choose_words(raw, amount))
        tokenizer = known or self.learn(raw["tokenizer"])
        sizes = planning.choose_text_sizes(
            raw,
            self.task_name,
            amount=amount,
            tokens=self._tokens(tokenizer, amount),
            precision=precision,
            metric="likelihood",
        )
        raw, more = planning.apply(raw, sizes)
        return Chosen(raw, [*choices, *more], tokenizer)

    def choose_words(self, raw: Raw, amount: int) -> list[planning.Choice]:
        refuse_notes(raw)
        return planning.choose_text_vocabulary(raw, self.task_name, amount)

    def learn(self, settings: Raw) -> Tokenizer:
        return Tokenizer.train((line.text for line in self.splits[TRAIN]), **settings)

    def _tokens(self, tokenizer: Tokenizer, amount: int, sample: int = 5_000) -> int:
        """Tokens an epoch, extrapolated from the first lines."""
        some = self.splits[TRAIN][:sample]
        return sum(map(len, encoded(some, tokenizer))) * amount // self.facts(some)[self.unit]

    def task(self, tokenizer: Tokenizer, settings: Settings, tell: ProgressCallback = no_progress) -> Task:
        return LanguageModelTask(self.splits, tokenizer, settings)


class MusicData(LanguageModelData):
    """Pieces for four voices, each a document of its own."""

    task_name, what, unit = "music", "pieces", "notes"

    @classmethod
    def read(cls, paths: Paths) -> tuple[list[Line], list[DroppedExample]]:
        pieces = music.read_pieces(expand_paths(paths))
        lines = [Line(music.steps_to_text(piece.steps), piece.place) for piece in pieces if piece.steps]
        if not lines:
            raise UserError("No piece has any notes.", where=str(paths), hint=music.MUSIC_FORMAT)
        return lines, [
            DroppedExample("pieces without a step", piece.place, "(empty)") for piece in pieces if not piece.steps
        ]

    def facts(self, lines: list[Line]) -> dict[str, int]:
        notes = [len(line.text.split()) for line in lines]
        pitches = {pitch for line in lines for pitch in line.text.split()}
        return {"notes": sum(notes), "steps": sum(notes) // len(music.VOICES), "different pitches": len(pitches)}

    def hold_out(self, lines: list[Line], where: str) -> tuple[list[Line], list[Line]]:
        return split_off_validation(lines, [line.text for line in lines], where)

    def varied(self, lines: list[Line], settings: DataSettings) -> list[Line]:
        """Every piece in every key that is asked for: what Bach wrote in G, he could have written in A."""
        pieces = [(music.text_to_steps(line.text), line.place) for line in lines]
        keys = range(-settings.transpose, settings.transpose + 1)
        moved = [(music.transpose(steps, key), place) for steps, place in pieces for key in keys]
        return [Line(music.steps_to_text(steps), place) for steps, place in moved if music.pitches_in_range(steps)]

    def choose_words(self, raw: Raw, amount: int) -> list[planning.Choice]:
        if raw.get("tokenizer", {}).get("kind", "notes") != "notes":
            raise UserError("Music is made of notes.", where="tokenizer.kind", hint="leave it out")
        said = f"{music.VOICES[0]} to {music.VOICES[-1]} take turns; four bars"
        return [
            planning.Choice("tokenizer.kind", "notes", "one entry a pitch"),
            planning.Choice("tokenizer.vocab", 300, "more than there are pitches"),
            planning.Choice("data.sequence", NOTES_A_SEQUENCE, said),
        ]

    def learn(self, settings: Raw) -> Tokenizer:
        return Tokenizer.from_pitches(int(pitch) for line in self.splits[TRAIN] for pitch in line.text.split())


class Judged(NamedTuple):
    loss: float
    tokens: int


class LanguageModelTask:
    """Cross-entropy of each token given those before it in its sequence."""

    metric = "likelihood"  # the mean log-probability of a token: the loss with its sign turned

    def __init__(self, splits: dict[str, list[Line]], tokenizer: Tokenizer, settings: Settings) -> None:
        self.settings, self.tokenizer, self.splits = settings, tokenizer, splits
        self.is_music = settings.task == "music"
        if self.is_music and settings.data.sequence % len(music.VOICES):
            raise UserError(
                f"A sequence of {settings.data.sequence} notes is no whole number of steps.",
                where="data.sequence",
                hint=f"take a multiple of {len(music.VOICES)}",
            )
        longest = getattr(settings.model, "max_positions", None)
        if longest is not None and settings.data.sequence > longest:
            raise UserError(
                f"A sequence of {settings.data.sequence} tokens is longer than the model sees: {longest}.",
                where="data.sequence",
                hint=f"take data.sequence={longest} or less, or a larger model.max_positions",
            )
        self.encoded = {split: encoded(lines, tokenizer) for split, lines in splits.items()}
        self.streams = {split: self._stream(lines) for split, lines in self.encoded.items()}

    def _stream(self, lines: list[np.ndarray]) -> SequenceBatches:
        return SequenceBatches(
            lines if self.is_music else [np.concatenate(lines)],
            before=self.tokenizer.newline_id,
            sequence=self.settings.data.sequence,
            batch_tokens=self.settings.train.batch_tokens,
        )

    @property
    def signature(self) -> str:
        unit = "note, the end of a piece counted" if self.is_music else f"token ({self.tokenizer.kind})"
        return f"mean log-probability (nats) a {unit}; memory begins anew every {self.settings.data.sequence} tokens"

    def batches(self, seed: int, position: Position) -> Iterator[SequenceBatch]:
        return self.streams[TRAIN].forever(seed, position)

    def loss(self, model: Any, batch: SequenceBatch) -> tuple[Tensor, int]:
        return self._loss(model, batch, self.settings.train.label_smoothing)

    def part(self, batch: SequenceBatch, number: int, of: int) -> SequenceBatch | None:
        rows = batch.rows[number::of]
        return self.streams[TRAIN].batch(rows, batch.next) if rows else None

    def where(self, batch: SequenceBatch) -> list[str]:
        """The line or piece in which each sequence begins."""
        ends = np.cumsum([len(line) for line in self.encoded[TRAIN]])
        first = [self.streams[TRAIN].first_token(row) for row in batch.rows]
        return [self.splits[TRAIN][int(line)].place for line in np.searchsorted(ends, first, side="right")]

    @torch.inference_mode()
    def judge(self, model: Any, number: int, of: int, *, split: str = VALID, final: bool = False) -> Judged:
        stream = self.streams[split]
        losses = [self._loss(model, stream.batch(rows), 0.0) for rows in stream.in_order()[number::of]]
        return Judged(sum(float(loss) for loss, _ in losses), sum(count for _, count in losses))

    def scores(self, shares: list[Judged], *, split: str = VALID) -> dict[str, float]:
        loss = sum(share.loss for share in shares) / sum(share.tokens for share in shares)
        scores = {"loss": loss, "likelihood": -loss, "perplexity": math.exp(min(loss, 700.0))}
        if self.is_music:
            scores["nats_a_note"] = loss
        if TRAIN in self.encoded:
            every = self.encoded[TRAIN], self.encoded[split]
            scores["baseline_loss"] = baseline(*every, len(self.tokenizer), back=len(music.VOICES) * self.is_music)
        return scores

    def _loss(self, model: Any, batch: SequenceBatch, smoothing: float) -> tuple[Tensor, int]:
        device = next(model.parameters()).device
        hidden_ND = model.hidden(batch.tokens_BT.to(device)).flatten(0, 1)
        target_N = batch.next_BT.flatten().to(device)
        real_N = (target_N != PAD).nonzero()[:, 0]
        if len(real_N) < len(target_N):
            hidden_ND, target_N = hidden_ND.index_select(0, real_N), target_N[real_N]
        return model.output.loss(hidden_ND, target_N, smoothing), len(target_N)


def encoded(lines: Sequence[Line], tokenizer: Tokenizer) -> list[np.ndarray]:
    """The tokens of every line with what ends it. An empty line has none, but for characters its line break."""
    if tokenizer.kind == "characters":
        rows = tokenizer.encode_batch([f"{line.text}\n" for line in lines])
        return [np.array(row, dtype=np.int64) for row in rows]
    rows = tokenizer.encode_batch([line.text for line in lines])
    return [np.array([*row, EOS] if row else [], dtype=np.int64) for row in rows]


def baseline(train: Sequence[np.ndarray], held_out: Sequence[np.ndarray], vocab: int, *, back: int = 0) -> float:
    """The loss of counting: how frequent each token is in train, plus one.

    With `back`, mixed with "the same again as so many tokens before in its line", as often as that holds in train.
    """
    counts_V = np.bincount(np.concatenate(train), minlength=vocab) + 1.0
    chance_V = counts_V / counts_V.sum()
    tokens_N = np.concatenate(held_out)
    if not back:
        return float(-np.log(chance_V[tokens_N]).mean())
    same_N = np.concatenate([_same_again(line, back) for line in train])
    again = (same_N.sum() + 1) / (len(same_N) + 2)
    chance_N = (1 - again) * chance_V[tokens_N] + again * np.concatenate([_same_again(line, back) for line in held_out])
    return float(-np.log(chance_N).mean())


def _same_again(line: np.ndarray, back: int) -> np.ndarray:
    return np.concatenate([np.zeros(min(back, len(line)), dtype=bool), line[back:] == line[:-back]])
