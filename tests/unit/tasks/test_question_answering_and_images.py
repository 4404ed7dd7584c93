"""Question answering and images: parts and shards sum to the whole, and examples are located."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from task_checks import check_parts_sum_to_the_batch, check_shards_score_as_one

from glassformer.data.batching import BEGINNING
from glassformer.data.preparation import no_progress
from glassformer.data.question_answering import RESERVED_TOKENS, AnswerSpan, QuestionExample
from glassformer.errors import UserError
from glassformer.inference.run import build_model
from glassformer.inference.run_folder import vocab_size
from glassformer.models.bert import BERT
from glassformer.models.heads import MatchingSpanFinder, SpanFinder, question_of, segments_of
from glassformer.models.recurrent_encoder import RecurrentEncoder
from glassformer.planning.choices import choose_window
from glassformer.settings import BertSettings, DataSettings, RecurrentEncoderSettings, Settings, nest, resolve
from glassformer.tasks import Data, Task, read_data, recognize_task, task_spec
from glassformer.tasks.question_answering import baseline, words_near_the_question
from tests.image_folders import write_images

NAMES = ["Ana", "Ben", "Cho", "Dia", "Eli"]
SIZES = {
    "image_classification": {"model.d_model": 16, "model.patch": 4, "train.batch_tokens": 120, "data.flip": True},
    "question_answering": {"model.d_model": 14, "train.batch_tokens": 300, "data.window": 24, "data.overlap": 9},
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("data")
    write_images(folder, 30, width=12)
    paragraphs = []
    for number in range(60):
        name, year = NAMES[number % 5], str(1900 + number)
        text = "well " * (number % 9) + f"the tower of {name} stands since {year} by the river " + "now " * (number % 7)
        answers = [{"text": year, "answer_start": text.index(year)}] if number % 6 else []
        entry = {"question": f"since when does the tower of {name} stand ?", "answers": answers}
        paragraphs.append({"context": text, "qas": [entry]})
    (folder / "qa.json").write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}), encoding="utf-8")
    return {"image_classification": str(folder / "images"), "question_answering": str(folder / "qa.json")}


def made(kind: str, path: str, **over: Any) -> tuple[Data, Settings, Task, Any]:
    raw = nest({"task": kind, "data.train": [path], "model.dropout": 0.0} | SIZES[kind] | over)
    read = read_data(kind, DataSettings.model_validate(raw["data"]), no_progress)
    raw, _, tokenizer = read.choose(raw, None, ("fp32", "tried"), no_progress)
    settings = resolve(raw)
    torch.manual_seed(1)
    model = build_model(settings, vocab_size(tokenizer), len(read.labels)).eval()
    return read, settings, read.task(tokenizer, settings, no_progress), model


@pytest.mark.parametrize("kind", SIZES)
def test_a_batch_is_the_sum_of_its_parts(kind: str, data: dict[str, str]) -> None:
    _, _, task, model = made(kind, data[kind])
    check_parts_sum_to_the_batch(task, model)


@pytest.mark.parametrize("kind", SIZES)
def test_shards_of_several_processes_score_as_one(kind: str, data: dict[str, str]) -> None:
    _, _, task, model = made(kind, data[kind])
    check_shards_score_as_one(task, model)


@pytest.mark.parametrize("kind", SIZES)
def test_the_data_tells_the_task_and_is_the_same_again(kind: str, data: dict[str, str]) -> None:
    assert recognize_task([data[kind]])[0] == kind
    one, _, task, _ = made(kind, data[kind])
    assert "chosen by a hash" in one.report.held_out
    assert one.report.counts["valid"] > 0
    assert made(kind, data[kind])[0].fingerprint == one.fingerprint
    batch = next(iter(task.batches(1, BEGINNING)))
    for place in task.locations(batch):
        assert place.startswith(data[kind])


def test_images_are_converted_to_the_given_format(data: dict[str, str]) -> None:
    read, settings, task, model = made("image_classification", data["image_classification"])
    assert (settings.model.height, settings.model.width, settings.model.channels) == (8, 12, 1)  # type: ignore[union-attr]
    assert read.labels == ["cat", "dog"] and settings.tokenizer is None and settings.data.shift == 0
    _, settings, task, model = made(
        "image_classification", data["image_classification"], **{"model.height": 16, "model.channels": 3}
    )
    batch = next(iter(task.batches(1, BEGINNING)))
    assert batch.pixels_BCYX.shape[1:] == (3, 16, 12)
    assert len(settings.model.mean) == 3  # type: ignore[union-attr]
    assert task.loss(model, batch)[1] == len(batch.rows)


def test_the_loss_is_the_cross_entropy_of_the_answer_positions(data: dict[str, str]) -> None:
    _, settings, task, model = made("question_answering", data["question_answering"], **{"train.label_smoothing": 0.0})
    assert settings.data.no_answer
    batch = next(iter(task.batches(1, BEGINNING)))
    loss, count = task.loss(model, batch)
    logits_BS2, expected = model(batch.source_BS).detach(), 0.0
    for i, row in enumerate(batch.rows):
        window = task.windows["train"][row]  # type: ignore[attr-defined]
        answer = task.splits["train"][window.row].answer  # type: ignore[attr-defined]
        place = window.tokens(answer.start, answer.start + 4) if answer else None
        seen = [0, *range(window.first, len(window.ids))]
        for side, at in enumerate(place or (0, 0)):
            logits_S = logits_BS2[i, seen, side]
            expected += float(logits_S.logsumexp(0) - logits_BS2[i, at, side])
    assert count == 2 * len(batch.rows)
    assert float(loss.detach()) == pytest.approx(expected, rel=1e-4)


def test_label_smoothing_stays_where_an_answer_may_be(data: dict[str, str]) -> None:
    _, _, task, model = made("question_answering", data["question_answering"], **{"train.label_smoothing": 0.3})
    assert torch.isfinite(task.loss(model, next(iter(task.batches(1, BEGINNING))))[0])


def test_heads_for_answers_see_the_question(padded: Any) -> None:
    reader = RecurrentEncoderSettings(layers=1, d_model=8, dropout=0.0)
    bert = BertSettings(layers=1, d_model=8, heads=1, d_ff=8, max_positions=9, dropout=0.0)
    assert (
        task_spec("question_answering").head(reader) is MatchingSpanFinder
        and task_spec("question_answering").head(bert) is SpanFinder
    )
    assert task_spec("language_model").head(reader) is None
    tokens_BS = torch.tensor([[1, 7, 8, 2, 9, 8, 2, 0], [1, 7, 2, 5, 7, 9, 4, 2]])
    assert question_of(tokens_BS).int().tolist() == [[0, 1, 1, 0, 0, 0, 0, 0], [0, 1, 0, 0, 0, 0, 0, 0]]
    assert segments_of(tokens_BS).tolist() == [[0, 0, 0, 0, 1, 1, 1, 1], [0, 0, 0, 1, 1, 1, 1, 1]]
    recurrent = RecurrentEncoderSettings(layers=1, d_model=12, dropout=0.0)
    bert = BertSettings(layers=1, d_model=12, heads=3, d_ff=17, max_positions=8, dropout=0.0)
    for model in (MatchingSpanFinder(RecurrentEncoder(recurrent, 11, pad=0)), SpanFinder(BERT(bert, 11, pad=0))):
        model.eval()
        logits_BS2 = model(tokens_BS)
        alone = model(tokens_BS[:1, :7])
        assert logits_BS2.shape == (2, 8, 2)
        torch.testing.assert_close(logits_BS2[0, :7], alone[0], rtol=1e-5, atol=1e-6)


def test_bert_for_question_answering(data: dict[str, str]) -> None:
    bert = {"model.family": "bert", "model.d_model": 12, "model.layers": 1, "train.label_smoothing": 0.0}
    _, settings, task, model = made("question_answering", data["question_answering"], **bert)
    assert isinstance(model, SpanFinder)
    assert settings.model.max_positions == 24 + RESERVED_TOKENS  # type: ignore[union-attr]
    batch = next(iter(task.batches(1, BEGINNING)))
    assert batch.source_BS.shape[1] <= settings.model.max_positions  # type: ignore[union-attr]
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(30):
        loss, count = task.loss(model, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()) / count)
    assert losses[-1] < losses[0] / 3  # it memorizes one batch
    with pytest.raises(UserError, match="exceed the maximum length of the model, 80"):
        made("question_answering", data["question_answering"], **bert, **{"model.max_positions": 80})


def test_a_window_is_limited_by_the_positions_of_a_pre_trained_encoder() -> None:
    chosen = choose_window({"model": {"max_positions": 256}})
    assert {choice.path: choice.value for choice in chosen} == {
        "data.window": 256 - RESERVED_TOKENS,
        "data.overlap": 47,
    }
    assert choose_window({"model": {"max_positions": 512}}) == choose_window({"model": {}}) == []


def test_question_answering_baseline() -> None:
    text = "Long ago there was nothing. The tower of Ana stands since 1883 by the river."
    asked = QuestionExample(
        "since when does the tower of Ana stand?", text, (AnswerSpan("1883", text.index("1883")),), "here"
    )
    assert words_near_the_question(asked) not in ("", "tower of")
    scores = baseline([asked])
    assert scores.keys() == {"baseline_exact_match", "baseline_f1"} and 0 <= scores["baseline_f1"] <= 100
