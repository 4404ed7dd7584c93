"""Extractive question answering: predict the span of a text that answers a question."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import islice
from typing import Any, NamedTuple

import torch
from torch import Tensor

from glassformer.data.batching import Batch, PairBatches
from glassformer.data.parallel_text import expand_paths, file_suffix
from glassformer.data.preparation import ProgressCallback, no_progress
from glassformer.data.question_answering import (
    ANSWER_NOT_FOUND,
    RESERVED_TOKENS,
    QuestionExample,
    is_question_file,
    make_windows,
    read_questions,
)
from glassformer.data.report import DroppedExample, ExampleSplit, example_split
from glassformer.decoding.spans import NO_ANSWER_POSITION, log_probabilities
from glassformer.errors import Message, UserError
from glassformer.inference.question_answering import (
    QuestionAnswerer,
    WindowSpan,
    allowed_positions,
    best_window_span,
    window_spans,
)
from glassformer.inference.run import Run
from glassformer.models.heads import MatchingSpanFinder, SpanFinder
from glassformer.planning import choices as planning
from glassformer.planning.sizes import BERT_SIZES, QUESTIONS, TaskSizes
from glassformer.settings import DataSettings, Paths, Raw, RecurrentEncoderSettings, Settings
from glassformer.tasks import metrics
from glassformer.tasks.examples import BatchedTask, ExamplesData
from glassformer.tasks.labelled import LINES_PER_BATCH
from glassformer.tasks.spec import TEST, TRAIN, VALID, HeldOut, PredictRequest, TaskSpec, common_suffix
from glassformer.text.tokenizer import Tokenizer

GUESS = 2  # words of a baseline answer
NEAR = 10  # words around it that are compared with the question
CONTEXT = 40  # characters shown before and after an answer


class QuestionAnsweringData(ExamplesData[QuestionExample]):
    """Questions about texts, from .json files in the format of SQuAD."""

    name, examples, metric_name = "question_answering", "questions", "F1"
    sizes = TaskSizes("questions", {"recurrent_encoder": QUESTIONS, "bert": BERT_SIZES})

    def read(self, paths: Paths, split: str = TRAIN) -> tuple[list[QuestionExample], list[DroppedExample]]:
        questions, dropped = read_asked(paths)
        if split != TRAIN:
            return questions, dropped
        missing = [asked for asked in questions if asked.answers and asked.answer is None]
        kept = [asked for asked in questions if not asked.answers or asked.answer]
        return kept, dropped + [
            DroppedExample(ANSWER_NOT_FOUND, asked.place, asked.answers[0].text) for asked in missing
        ]

    def account(self, examples: list[QuestionExample], dropped: list[DroppedExample]) -> ExampleSplit:
        texts = {asked.text for asked in examples}
        facts = {
            "texts": len(texts),
            "words of text": sum(len(text.split()) for text in texts),
            "without an answer": sum(not asked.answers for asked in examples),
        }
        return example_split(len(examples), dropped, facts=facts)

    def choose_tokenizer(self, raw: Raw) -> list[planning.Choice]:
        without = sum(not asked.answers for asked in self.splits[TRAIN])
        return [
            planning.Choice(
                "data.no_answer", without > 0, Message("{n} questions of train have no answer", n=f"{without:,}")
            ),
            *planning.choose_window(raw),
            *super().choose_tokenizer(raw),
        ]

    def max_positions(self, raw: Raw) -> tuple[int, str]:
        window = raw.get("data", {}).get("window") or DataSettings.model_fields["window"].default
        return window + RESERVED_TOKENS, "room for a window of text and a question"

    def train_tokenizer(self, settings: Raw) -> Tokenizer:
        texts = dict.fromkeys(line for asked in self.splits[TRAIN] for line in (asked.question, asked.text))
        return Tokenizer.train(list(texts), **settings)

    def tokens_per_epoch(self, tokenizer: Tokenizer) -> int:
        train = self.splits[TRAIN]
        sample = train[:: max(1, len(train) // 500)]
        lengths = map(len, tokenizer.encode_batch([f"{asked.question} {asked.text}" for asked in sample]))
        return sum(lengths) * len(train) // len(sample)

    def task(
        self, tokenizer: Tokenizer, settings: Settings, progress: ProgressCallback = no_progress
    ) -> QuestionAnsweringTask:
        return QuestionAnsweringTask(self.splits, tokenizer, settings)


class SpanShard(NamedTuple):
    """The result of a shard of the windows."""

    loss: float
    places: int  # number of terms of the loss
    spans: list[WindowSpan]


class QuestionAnsweringTask(BatchedTask[Batch]):
    """Cross-entropy of the first and of the last token of the answer; scored by F1 over words and exact match."""

    metric = "f1"
    signature = (
        f"exact match and F1 over words as for SQuAD; baseline: the better of the first {GUESS} words of the text and "
        f"the {GUESS} words with the most words of the question within {NEAR} words"
    )

    def __init__(self, splits: dict[str, list[QuestionExample]], tokenizer: Tokenizer, settings: Settings) -> None:
        self.splits, self.settings = splits, settings
        data = settings.data
        _refuse_long_window(data.window, settings.model.max_length)
        self.windows = {
            split: make_windows(
                [(asked.question, asked.text) for asked in questions],
                tokenizer,
                longest=data.window,
                overlap=data.overlap,
            )
            for split, questions in splits.items()
        }
        # A window is a pair without a target: batches of similar length, in an order that can be resumed.
        self.inputs = {
            split: PairBatches([(window.ids, ()) for window in made], settings.train.batch_tokens)
            for split, made in self.windows.items()
        }
        self._baselines: dict[str, dict[str, float]] = {}

    def loss(self, model: Any, batch: Batch) -> tuple[Tensor, int]:
        log_probability_BS2, allowed_BS = self._read(model, batch, TRAIN)
        return self._loss(log_probability_BS2, allowed_BS, batch, TRAIN, self.settings.train.label_smoothing)

    def locations(self, batch: Batch) -> list[str]:
        return [self.splits[TRAIN][self.windows[TRAIN][row].row].place for row in batch.rows]

    @torch.inference_mode()
    def evaluate_shard(
        self, model: Any, index: int, count: int, *, split: str = VALID, final: bool = False
    ) -> SpanShard:
        shard = SpanShard(0.0, 0, [])
        for batch in self.shard_of(split, index, count):
            log_probability_BS2, allowed_BS = self._read(model, batch, split)
            loss, count = self._loss(log_probability_BS2, allowed_BS, batch, split, 0.0)
            spans = window_spans(log_probability_BS2.cpu(), [self.windows[split][row] for row in batch.rows])
            shard = SpanShard(shard.loss + float(loss), shard.places + count, shard.spans + spans)
        return shard

    def scores(self, shards: list[SpanShard], *, split: str = VALID) -> dict[str, float]:
        questions = self.splits[split]
        spans: list[list[WindowSpan]] = [[] for _ in questions]
        for shard in shards:
            for span in shard.spans:
                spans[span.row].append(span)
        answers = []
        for asked, some in zip(questions, spans, strict=True):
            best = best_window_span(some, allow_no_answer=self.settings.data.no_answer)
            answers.append("" if best is None else asked.text[best.start : best.end])
        if split not in self._baselines:
            self._baselines[split] = baseline(questions)
        loss = sum(shard.loss for shard in shards) / max(1, sum(shard.places for shard in shards))
        return {"loss": loss} | answer_scores(answers, questions) | self._baselines[split]

    def _read(self, model: Any, batch: Batch, split: str) -> tuple[Tensor, Tensor]:
        device = next(model.parameters()).device
        some = [self.windows[split][row] for row in batch.rows]
        allowed_BS = allowed_positions(some, batch.source_BS.shape[1]).to(device)
        return log_probabilities(model(batch.source_BS.to(device)), allowed_BS), allowed_BS

    def _loss(
        self, log_probability_BS2: Tensor, allowed_BS: Tensor, batch: Batch, split: str, smoothing: float
    ) -> tuple[Tensor, int]:
        """Return the loss summed over first and last tokens; label smoothing is spread over the allowed positions."""
        place_B2 = torch.tensor([self._place(row, split) for row in batch.rows], device=allowed_BS.device)
        at_place_B2 = log_probability_BS2.gather(1, place_B2[:, None])[:, 0]
        spread_BS2 = log_probability_BS2.masked_fill(~allowed_BS[:, :, None], 0.0) / allowed_BS.sum(1)[:, None, None]
        loss = -(1 - smoothing) * at_place_B2.sum() - smoothing * spread_BS2.sum()
        return loss, place_B2.numel()

    def _place(self, row: int, split: str) -> tuple[int, int]:
        """Return the first and the last token of the answer in a window; `NO_ANSWER_POSITION` if it has none."""
        window = self.windows[split][row]
        answer = self.splits[split][window.row].answer
        found = window.tokens(answer.start, answer.start + len(answer.text)) if answer else None
        return found or (NO_ANSWER_POSITION, NO_ANSWER_POSITION)


def _refuse_long_window(window: int, longest: int | None) -> None:
    if longest is None or window + RESERVED_TOKENS <= longest:
        return
    smaller = f"data.window={longest - RESERVED_TOKENS} or less, or " if longest > RESERVED_TOKENS else ""
    raise UserError(
        f"A question and data.window={window} tokens of text exceed the maximum length of the model, {longest}.",
        where="data.window",
        hint=f"set {smaller}a larger model.max_positions",
    )


def read_asked(paths: Paths) -> tuple[list[QuestionExample], list[DroppedExample]]:
    asked, bad = read_questions(expand_paths(paths))
    if not asked:
        raise UserError("There are no questions.", where=str(paths), hint="give a file with questions about texts")
    return asked, bad


def answer_scores(answers: Sequence[str], questions: Sequence[QuestionExample]) -> dict[str, float]:
    """Return the mean exact match and F1, in percent."""
    right = ([answer.text for answer in asked.answers] for asked in questions)
    matches = [metrics.answer_match(answer, some) for answer, some in zip(answers, right, strict=True)]
    exact, f1 = (100 * sum(part) / len(matches) for part in zip(*matches, strict=True))
    return {"exact_match": exact, "f1": f1}


def baseline(questions: Sequence[QuestionExample]) -> dict[str, float]:
    """Return the scores of the better of two simple rules."""
    rules = [[guess(asked) for asked in questions] for guess in (first_words, words_near_the_question)]
    best = max((answer_scores(answers, questions) for answers in rules), key=lambda scores: scores["f1"])
    return {f"baseline_{name}": value for name, value in best.items()}


def first_words(asked: QuestionExample) -> str:
    return " ".join(asked.text.split()[:GUESS])


def words_near_the_question(asked: QuestionExample) -> str:
    """Return the first words with the most words of the question near them and none of these among them."""
    words, wanted = asked.text.split(), {_bare(word) for word in asked.question.split()}
    hit = [_bare(word) in wanted for word in words]
    best = max(
        range(max(1, len(words) - GUESS + 1)),
        key=lambda i: (not any(hit[i : i + GUESS]), sum(hit[max(0, i - NEAR) : i + GUESS + NEAR])),
    )
    return " ".join(words[best : best + GUESS])


def _bare(word: str) -> str:
    return word.lower().strip("?!.,;:()[]\"'")


def held_out(run: Run, paths: Paths) -> HeldOut:
    questions, _ = read_asked(paths)
    return HeldOut(QuestionAnsweringTask({TEST: questions}, run.tokenizer, run.settings), len(questions))


def recognize(files: list[str]) -> str:
    if common_suffix(files) == "json" and all(is_question_file(file) for file in expand_paths(list(files))):
        return "a .json file that begins with a brace holds questions about texts"
    return ""


def questions_of(request: PredictRequest) -> Iterator[tuple[str, str]]:
    """Yield questions and texts: two arguments, the entries of a .json file, or lines with a tab between them."""
    file = request.input_file
    if request.texts:
        if len(request.texts) != 2:
            given = f"Two texts are needed, a question and the text to search; {len(request.texts)} given."
            raise UserError(given, hint='glassformer predict RUN "the question" "the text"')
        yield request.texts[0], request.texts[1]
    elif file is not None and file_suffix(file) == "json":
        yield from ((asked.question, asked.text) for asked in read_questions([file])[0])
    else:
        for number, line in enumerate(request.lines(), 1):
            question, tab, text = line.partition("\t")
            if not tab:
                where = f"{file or 'standard input'}:{number}"
                raise UserError("This line has no tab.", where=where, hint="write question<TAB>text on every line")
            yield question, text


def predict(answerer: QuestionAnswerer, request: PredictRequest) -> Iterator[str]:
    """Yield one line per question: the answer, its position in the text, its probability, and its context."""
    questions = questions_of(request)
    while batch := list(islice(questions, LINES_PER_BATCH)):
        for (question, text), found in zip(batch, answerer.predict(batch), strict=True):
            if request.as_json:
                yield json.dumps({"question": question} | asdict(found), ensure_ascii=False) + "\n"
            elif found.answer is None:
                yield f"(no answer in the text)\t\t{found.probability:.3f}\n"
            else:
                before, after = text[: found.start][-CONTEXT:], text[found.end :][:CONTEXT]
                context = " ".join(f"{before}[{found.answer}]{after}".split())
                yield f"{found.answer}\t{found.start}–{found.end}\t{found.probability:.3f}\t{context}\n"


def trace(answerer: Any, text: str, question: str) -> tuple[str, Any]:
    if not question.strip():
        raise UserError("The question is empty.", hint="type a question about the text")
    found = answerer.trace(question, text)
    return found.answer or "", found


SPEC = TaskSpec(
    name="question_answering",
    families=("recurrent_encoder", "bert"),
    input="question",
    output="span",
    head=lambda model: MatchingSpanFinder if isinstance(model, RecurrentEncoderSettings) else SpanFinder,
    predictor=lambda run: QuestionAnswerer(run.model, run.tokenizer, run.settings.data),
    data=QuestionAnsweringData,
    recognize=recognize,
    held_out=held_out,
    predict=predict,
    usage='glassformer predict {run} "the question" "the text"',
    trace=trace,
    huggingface={"bert": "BertForQuestionAnswering"},
)
