"""Answers: a question and a text in, the part of the text that answers it out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from glassformer.data.account import Bad, ExamplesReport, account, fingerprint, said_of, set_aside
from glassformer.data.batching import Batch, PairBatches, Position
from glassformer.data.corpus import text_files
from glassformer.data.preparation import Tell, silent
from glassformer.data.question_answering import BESIDE_TEXT, NOT_THERE, Asked, read_questions, windows
from glassformer.decoding.spans import NOWHERE, log_probabilities
from glassformer.errors import Message, UserError
from glassformer.inference.answerer import Span, allowed, best_of, spans_of
from glassformer.planning import choices as planning
from glassformer.settings import DataSettings, Paths, Raw, Settings, with_family
from glassformer.tasks import TEST, TRAIN, VALID, Chosen, metrics, refuse_notes
from glassformer.text.tokenizer import Tokenizer

GUESS = 2  # words of an answer that is guessed
NEAR = 10  # words


class AnswersData:
    """Questions about texts, all in memory."""

    def __init__(self, settings: DataSettings, tell: Tell = silent) -> None:
        self.labels = list[str]()
        self.splits: dict[str, list[Asked]] = {}
        bad: dict[str, list[Bad]] = {}
        for split, paths in ((TRAIN, settings.train), (VALID, settings.valid), (TEST, settings.test)):
            if paths:
                self.splits[split], bad[split] = read_asked(paths)
        astray = [asked for asked in self.splits[TRAIN] if asked.answers and asked.answer is None]
        self.splits[TRAIN] = [asked for asked in self.splits[TRAIN] if not asked.answers or asked.answer]
        bad[TRAIN] += [Bad(NOT_THERE, asked.place, asked.answers[0].text) for asked in astray]
        said = ""
        if VALID not in self.splits:
            every, texts = len(self.splits[TRAIN]), [asked.text for asked in self.splits[TRAIN]]
            self.splits[TRAIN], self.splits[VALID] = set_aside(self.splits[TRAIN], texts, str(settings.train))
            said = said_of(len(self.splits[VALID]), every, "questions")
        accounts = {
            split: account(len(self.splits[split]), bad.get(split, []), facts=_facts(self.splits[split]))
            for split in (TRAIN, VALID, TEST)
            if split in self.splits
        }
        self.report = ExamplesReport("questions", accounts, said)
        self.fingerprint = fingerprint("answers", self.splits[TRAIN], self.splits[VALID])

    def choose(self, raw: Raw, known: Tokenizer | None, precision: tuple[str, str], tell: Tell) -> Chosen:
        raw = with_family(raw)
        refuse_notes(raw)
        train = self.splits[TRAIN]
        without = sum(not asked.answers for asked in train)
        first = [
            planning.Choice(
                "data.no_answer", without > 0, Message("{n} training questions have no answer", n=f"{without:,}")
            ),
            *planning.choose_window(raw),
            *planning.choose_text_vocabulary(raw, "answers", len(train)),
        ]
        raw, choices = planning.apply(raw, first)
        every_text = dict.fromkeys(line for asked in train for line in (asked.question, asked.text))
        tokenizer = known or Tokenizer.of_text(list(every_text), **raw["tokenizer"])
        some = train[:: max(1, len(train) // 500)]
        lengths = map(len, tokenizer.encode_batch([f"{asked.question} {asked.text}" for asked in some]))
        sizes = planning.choose_text_sizes(
            raw,
            "answers",
            amount=len(train),
            tokens=sum(lengths) * len(train) // len(some),
            precision=precision,
            metric="F1",
        )
        raw, more = planning.apply(raw, sizes)
        return Chosen(raw, [*choices, *more], tokenizer)

    def task(self, tokenizer: Tokenizer, settings: Settings, tell: Tell = silent) -> AnswersTask:
        return AnswersTask(self.splits, tokenizer, settings)


class Judged(NamedTuple):
    """What a model made of a share of the windows."""

    loss: float
    places: int  # that it is the sum of
    spans: list[Span]


class AnswersTask:
    """Cross-entropy of where the answer begins and where it ends; scored by F1 over words, and by exact match."""

    metric = "f1"
    signature = (
        f"exact match and F1 over words as for SQuAD; baseline: the better of the first {GUESS} words of the text, and "
        f"those {GUESS} that have most words of the question within {NEAR} words, and none among them"
    )

    def __init__(self, splits: dict[str, list[Asked]], tokenizer: Tokenizer, settings: Settings) -> None:
        self.splits, self.settings = splits, settings
        data = settings.data
        _refuse_wide(data.window, getattr(settings.model, "max_positions", None))
        self.windows = {
            split: windows(
                [(asked.question, asked.text) for asked in questions],
                tokenizer,
                longest=data.window,
                overlap=data.overlap,
            )
            for split, questions in splits.items()
        }
        # A window is a pair without a target: batches of like length, in an order that can be gone on with.
        self.inputs = {
            split: PairBatches([(window.ids, ()) for window in made], settings.train.batch_tokens)
            for split, made in self.windows.items()
        }
        self._baselines: dict[str, dict[str, float]] = {}

    @classmethod
    def of_files(cls, paths: Paths, tokenizer: Tokenizer, settings: Settings) -> AnswersTask:
        """A held-out set alone, for a model that is there already."""
        return cls({TEST: read_asked(paths)[0]}, tokenizer, settings)

    def batches(self, seed: int, position: Position) -> Iterator[Batch]:
        return self.inputs[TRAIN].forever(seed, position)

    def loss(self, model: Any, batch: Batch) -> tuple[Tensor, int]:
        log_probability_BS2, allowed_BS = self._read(model, batch, TRAIN)
        return self._loss(log_probability_BS2, allowed_BS, batch, TRAIN, self.settings.train.label_smoothing)

    def part(self, batch: Batch, number: int, of: int) -> Batch | None:
        rows = batch.rows[number::of]
        return self.inputs[TRAIN].batch(rows, batch.next) if rows else None

    def where(self, batch: Batch) -> list[str]:
        return [self.splits[TRAIN][self.windows[TRAIN][row].row].place for row in batch.rows]

    @torch.inference_mode()
    def judge(self, model: Any, number: int, of: int, *, split: str = VALID, final: bool = False) -> Judged:
        inputs, judged = self.inputs[split], Judged(0.0, 0, [])
        for rows in inputs.in_order()[number::of]:
            batch = inputs.batch(rows)
            log_probability_BS2, allowed_BS = self._read(model, batch, split)
            loss, count = self._loss(log_probability_BS2, allowed_BS, batch, split, 0.0)
            spans = spans_of(log_probability_BS2.cpu(), [self.windows[split][row] for row in rows])
            judged = Judged(judged.loss + float(loss), judged.places + count, judged.spans + spans)
        return judged

    def scores(self, shares: list[Judged], *, split: str = VALID) -> dict[str, float]:
        questions = self.splits[split]
        spans: list[list[Span]] = [[] for _ in questions]
        for share in shares:
            for span in share.spans:
                spans[span.row].append(span)
        answers = []
        for asked, some in zip(questions, spans, strict=True):
            best = best_of(some, may_be_none=self.settings.data.no_answer)
            answers.append("" if best is None else asked.text[best.start : best.end])
        if split not in self._baselines:
            self._baselines[split] = baseline(questions)
        loss = sum(share.loss for share in shares) / max(1, sum(share.places for share in shares))
        return {"loss": loss} | answer_scores(answers, questions) | self._baselines[split]

    def _read(self, model: Any, batch: Batch, split: str) -> tuple[Tensor, Tensor]:
        device = next(model.parameters()).device
        some = [self.windows[split][row] for row in batch.rows]
        allowed_BS = allowed(some, batch.source_BS.shape[1]).to(device)
        return log_probabilities(model(batch.source_BS.to(device)), allowed_BS), allowed_BS

    def _loss(
        self, log_probability_BS2: Tensor, allowed_BS: Tensor, batch: Batch, split: str, smoothing: float
    ) -> tuple[Tensor, int]:
        """Summed over beginnings and ends. The share ε of the label is spread over where an answer may be."""
        place_B2 = torch.tensor([self._place(row, split) for row in batch.rows], device=allowed_BS.device)
        at_place_B2 = log_probability_BS2.gather(1, place_B2[:, None])[:, 0]
        spread_BS2 = log_probability_BS2.masked_fill(~allowed_BS[:, :, None], 0.0) / allowed_BS.sum(1)[:, None, None]
        loss = -(1 - smoothing) * at_place_B2.sum() - smoothing * spread_BS2.sum()
        return loss, place_B2.numel()

    def _place(self, row: int, split: str) -> tuple[int, int]:
        """The first and the last token of the answer in a window; nowhere, if it is not there."""
        window = self.windows[split][row]
        answer = self.splits[split][window.row].answer
        found = window.tokens(answer.start, answer.start + len(answer.text)) if answer else None
        return found or (NOWHERE, NOWHERE)


def _refuse_wide(window: int, longest: int | None) -> None:
    """A window that with a question is more than the model sees."""
    if longest is None or window + BESIDE_TEXT <= longest:
        return
    less = f"take data.window={longest - BESIDE_TEXT} or less, or " if longest > BESIDE_TEXT else "take "
    raise UserError(
        f"A question and {window} tokens of its text are more than the model sees: {longest}.",
        where="data.window",
        hint=f"{less}a larger model.max_positions",
    )


def read_asked(paths: Paths) -> tuple[list[Asked], list[Bad]]:
    asked, bad = read_questions(text_files(paths))
    if not asked:
        raise UserError("There are no questions.", where=str(paths), hint="give a file with questions about texts")
    return asked, bad


def _facts(questions: Sequence[Asked]) -> dict[str, int]:
    texts = {asked.text for asked in questions}
    without = sum(not asked.answers for asked in questions)
    return {
        "texts": len(texts),
        "words of text": sum(len(text.split()) for text in texts),
        "without an answer": without,
    }


def answer_scores(answers: Sequence[str], questions: Sequence[Asked]) -> dict[str, float]:
    """The mean of exact matches and of F1, in percent."""
    right = ([answer.text for answer in asked.answers] for asked in questions)
    matches = [metrics.answer_match(answer, some) for answer, some in zip(answers, right, strict=True)]
    exact, f1 = (100 * sum(part) / len(matches) for part in zip(*matches, strict=True))
    return {"exact_match": exact, "f1": f1}


def baseline(questions: Sequence[Asked]) -> dict[str, float]:
    """What guessing gives: the better of two simple rules, and its scores."""
    rules = [[guess(asked) for asked in questions] for guess in (first_words, words_near_the_question)]
    best = max((answer_scores(answers, questions) for answers in rules), key=lambda scores: scores["f1"])
    return {f"baseline_{name}": value for name, value in best.items()}


def first_words(asked: Asked) -> str:
    return " ".join(asked.text.split()[:GUESS])


def words_near_the_question(asked: Asked) -> str:
    """The words that have most words of the question near them, and none among them; the first of such."""
    words, wanted = asked.text.split(), {_bare(word) for word in asked.question.split()}
    hit = [_bare(word) in wanted for word in words]
    best = max(
        range(max(1, len(words) - GUESS + 1)),
        key=lambda i: (not any(hit[i : i + GUESS]), sum(hit[max(0, i - NEAR) : i + GUESS + NEAR])),
    )
    return " ".join(words[best : best + GUESS])


def _bare(word: str) -> str:
    return word.lower().strip("?!.,;:()[]\"'")
