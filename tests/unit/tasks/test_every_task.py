"""Properties of every task: the loss of a batch is the sum over its parts, shards combine, locations are right."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from task_checks import check_parts_sum_to_the_batch, check_shards_score_as_one

from glassformer.data.batching import BEGINNING, PairBatches
from glassformer.data.music import text_to_steps, transpose
from glassformer.data.preparation import no_progress
from glassformer.errors import UserError
from glassformer.inference.run import build_model
from glassformer.settings import (
    DataSettings,
    Settings,
    TokenizerSettings,
    check,
    nest,
    parse_overrides,
    resolve,
    tasks,
)
from glassformer.tasks import VALID, Data, Task, metrics, read_data, recognize_task, task_spec
from glassformer.tasks.language_model import LanguageModelData, baseline
from glassformer.tasks.music import MusicData
from glassformer.tasks.translation import (
    TranslationShard,
    TranslationTask,
    expected_reference_scale,
    tune_length_penalty,
)

FILES = {
    "classification": "tsv",
    "tagging": "conllu",
    "language_model": "txt",
    "music": "json",
    "contextual_embeddings": "txt",
}
FILE_OF = FILES | {"translation": "tsv"}
SIZES = {"model.d_model": 14, "model.dropout": 0.0, "train.batch_tokens": 160, "data.sequence": 20}


def made(task: str, folder: Path, **over: Any) -> tuple[Data, Settings, Task, Any]:
    """Data, settings, task and a fresh model."""
    sizes = {k: v for k, v in SIZES.items() if k != "data.sequence" or task_spec(task).output != "labels"}
    raw = nest({"task": task, "data.train": [str(folder / f"data.{FILE_OF[task]}")]} | sizes | over)
    data = read_data(task, DataSettings.model_validate(raw["data"]), no_progress)
    raw, _, tokenizer = data.choose(raw, None, ("fp32", "tried"), no_progress)
    settings = resolve(raw)
    torch.manual_seed(1)
    return (
        data,
        settings,
        data.task(tokenizer, settings, no_progress),
        build_model(settings, len(tokenizer), len(data.labels)).eval(),
    )


@pytest.mark.parametrize("kind", FILES)
def test_a_batch_is_the_sum_of_its_parts(kind: str, small: Path) -> None:
    _, _, task, model = made(kind, small)
    check_parts_sum_to_the_batch(task, model)


@pytest.mark.parametrize(
    ("kind", "over"), [("language_model", {}), ("music", {}), ("translation", {"model.heads": 2, "model.d_ff": 19})]
)
def test_consistency_compares_two_passes_with_different_dropout(kind: str, over: dict[str, Any], small: Path) -> None:
    over = over | {"model.dropout": 0.5, "train.consistency": 5.0}
    _, _, task, model = made(kind, small, **over)
    _, _, plain, _ = made(kind, small, **over | {"train.consistency": 0.0})
    batch = next(iter(task.batches(1, BEGINNING)))
    loss, count = plain.loss(model, batch)
    consistent, same_count = task.loss(model, batch)  # without dropout both passes are equal
    assert same_count == count
    torch.testing.assert_close(consistent, loss, rtol=1e-5, atol=1e-4)
    assert task.loss(model.train(), batch)[0] > loss


def test_consistency_is_refused_for_other_tasks(small: Path) -> None:
    with pytest.raises(UserError, match="consistency cannot be used for task=tagging: it is for"):
        made("tagging", small, **{"train.consistency": 5.0})


@pytest.mark.parametrize(
    ("scores", "chosen"),
    [
        ({0.6: 30.0, 1.0: 31.0, 1.4: 31.8, 1.8: 31.2}, 1.4),
        ({0.6: 30.0, 1.0: 31.4, 1.4: 31.8, 1.8: 31.7}, 1.0),  # hardly lower than the highest score
        ({0.6: 30.0, 1.0: 29.9}, 0.6),
        ({0.6: 2.0}, 0.6),  # too weak a model to be tuned
    ],
)
def test_the_smallest_length_penalty_with_nearly_the_highest_score_is_chosen(
    scores: dict[float, float], chosen: float, small: Path
) -> None:
    _, settings, task, _ = made("translation", small, **{"model.heads": 2, "model.d_ff": 19})
    assert settings.train.tune_length_penalty
    assert isinstance(task, TranslationTask)
    scale = expected_reference_scale(task.train, task.held_out[VALID])

    def evaluate() -> dict[str, float]:
        assert task.reference_scale == scale
        return {"bleu": scores[task.settings.decode.length_penalty]}

    (choice,) = tune_length_penalty(task, evaluate)
    assert (choice.path, choice.value) == ("decode.length_penalty", chosen)
    assert task.settings.decode.length_penalty == chosen
    assert task.reference_scale == 1
    assert tune_length_penalty(task, evaluate) == [choice]  # not from the last choice on


def test_bleu_of_a_task_uses_its_reference_scale(small: Path) -> None:
    _, _, task, _ = made("translation", small, **{"model.heads": 2, "model.d_ff": 19})
    assert isinstance(task, TranslationTask)
    lines = [pair.target for pair in task.splits.valid]
    assert task.scores([TranslationShard(lines, 1.0, 1)])["bleu"] == pytest.approx(100)
    task.reference_scale = 1.1
    assert task.scores([TranslationShard(lines, 1.0, 1)])["bleu"] < 95


def test_validation_references_are_expected_to_be_as_long_as_those_of_training_unless_their_domain_differs() -> None:
    def batches(*pairs: tuple[int, int]) -> PairBatches:
        return PairBatches([([5] * source, [6] * target) for source, target in pairs], 256)

    valid = batches((10, 13), (8, 7))  # and <eos>: 22 target tokens for 20 source tokens; residuals 1.9 and −1.9
    assert valid.length_ratio == 1.1
    assert valid.length_ratio_error == pytest.approx(math.hypot(1.9, 1.9) / 20)
    assert expected_reference_scale(batches((9, 11)), valid) == pytest.approx(1.2 / 1.1)
    assert expected_reference_scale(batches((9, 29)), valid) == pytest.approx(1 + 2 * valid.length_ratio_error / 1.1)
    assert expected_reference_scale(batches((9, 0)), valid) == pytest.approx(1 - 2 * valid.length_ratio_error / 1.1)


@pytest.mark.parametrize("over", [{"decode.length_penalty": 0.6}, {"decode.beam": 1}])
def test_a_given_length_penalty_is_kept(over: dict[str, Any], small: Path) -> None:
    _, settings, task, _ = made("translation", small, **{"model.heads": 2, "model.d_ff": 19} | over)
    assert not settings.train.tune_length_penalty
    assert isinstance(task, TranslationTask)
    assert tune_length_penalty(task, dict) == []


@pytest.mark.parametrize("kind", FILES)
def test_shards_of_several_processes_score_as_one(kind: str, small: Path) -> None:
    _, _, task, model = made(kind, small)
    check_shards_score_as_one(task, model)


@pytest.mark.parametrize("kind", FILES)
def test_locations_name_the_lines_of_a_batch(kind: str, small: Path) -> None:
    _, _, task, _ = made(kind, small)
    batch = next(iter(task.batches(1, BEGINNING)))
    for place in task.locations(batch):
        file, _, rest = place.replace(", piece ", ":").rpartition(":")
        assert file == str(small / f"data.{FILES[kind]}")
        assert 1 <= int(rest) <= 2000


@pytest.mark.parametrize("kind", FILES)
def test_the_report_says_what_was_held_out(kind: str, small: Path) -> None:
    data, _, _, _ = made(kind, small)
    counts = data.report.counts
    assert counts["valid"] > 0 and counts["train"] > 5 * counts["valid"]
    assert "chosen by a hash" in data.report.held_out
    assert any("dropped" in line or "read" in line for line in data.report.lines())
    again, _, _, _ = made(kind, small)
    assert again.fingerprint == data.fingerprint


def test_the_task_is_recognized_from_the_files(small: Path, tmp_path: Path) -> None:
    for task, suffix in list(FILES.items())[:-1]:  # contextual embeddings are never recognized
        found, why = recognize_task([str(small / f"data.{suffix}")])
        assert (found, bool(why)) == (task, True)
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"word {i}\tmot {i}\n" for i in range(50)), encoding="utf-8")
    for files in (["a.en", "a.de"], ["a.txt", "b.txt"], [str(pairs)], ["a.jsonl"], [["a.en"], ["a.de"]]):
        assert recognize_task(files) == ("translation", "")


def test_only_the_last_subword_of_a_word_has_a_target(small: Path) -> None:
    data, _, task, model = made("tagging", small)
    words = sum(len(sentence.words) for sentence in data.splits["train"])  # type: ignore[attr-defined]
    batches = task.train if hasattr(task, "train") else task.inputs["train"]  # type: ignore[attr-defined]
    counted = sum(task.loss(model, batches.batch(rows))[1] for rows in batches.in_order())
    assert counted == words


def test_labels_are_in_one_order_whatever_the_file_says(small: Path) -> None:
    assert made("classification", small)[0].labels == ["no", "yes"]
    assert made("tagging", small)[0].labels == ["NOUN", "VERB"]


def test_blank_lines_are_not_held_out_alone(tmp_path: Path) -> None:
    text = "\n\n" + "\n\n\n".join(f"line {i}" for i in range(40)) + "\n\n"
    (tmp_path / "a.txt").write_text(text, encoding="utf-8")
    data = LanguageModelData(DataSettings(train=[str(tmp_path / "a.txt")]))
    held_out = [line.text for line in data.splits["valid"]]
    assert 1 <= sum(map(bool, held_out)) <= 8
    every = sorted(line.text for split in data.splits.values() for line in split if line.text)
    assert every == sorted(f"line {i}" for i in range(40))
    assert held_out[0] and (len(held_out) == 3 * sum(map(bool, held_out)) or "line 39" in held_out)


def test_music_needs_sequences_of_a_multiple_of_four_tokens(small: Path) -> None:
    with pytest.raises(UserError, match=r"number of voices(.|\n)*data\.sequence(.|\n)*multiple of 4"):
        made("music", small, **{"data.sequence": 18})


def test_training_pieces_are_read_in_every_key_and_held_out_ones_as_they_are(small: Path) -> None:
    plain, moved = (made("music", small, **{"data.transpose": keys})[0] for keys in (0, 2))
    assert isinstance(plain, MusicData) and isinstance(moved, MusicData)
    assert moved.splits["valid"] == plain.splits["valid"]
    assert moved.report.to_json() == plain.report.to_json()
    five = [transpose(text_to_steps(plain.splits["train"][0].text), by) for by in range(-2, 3)]
    assert [text_to_steps(line.text) for line in moved.splits["train"][:5]] == five
    assert len(moved.splits["train"]) == 5 * len(plain.splits["train"])
    assert moved.fingerprint != plain.fingerprint


@pytest.mark.parametrize("task", [task for task in tasks() if task != "translation"])
def test_a_family_that_does_not_fit_is_refused_with_those_that_do(task: str) -> None:
    with pytest.raises(UserError) as caught:
        check(parse_overrides([f"task={task}", "model.family=transformer"]))
    assert f"cannot be used for task={task}: use {', '.join(task_spec(task).families)}" in str(caught.value)
    check(parse_overrides([f"task={task}", "model.d_model=32"]))


def test_the_default_tokenizer_settings_are_unchanged() -> None:
    assert TokenizerSettings(vocab=500).kind == "bpe"
    assert TokenizerSettings(vocab=500).added_settings_at_default() == {"kind", "lowercase"}
    assert TokenizerSettings(vocab=500, kind="characters").added_settings_at_default() == {"lowercase"}


@pytest.mark.parametrize("task", [task for task in tasks() if hasattr(task_spec(task).data, "sizes")])
def test_more_data_gets_a_larger_model(task: str) -> None:
    planned, family = task_spec(task).data.sizes, task_spec(task).families[0]  # type: ignore[attr-defined]
    sizes = planned.tables[family]
    amounts = [int(size.up_to) - 1 if size.up_to < 1e12 else 10**12 for size in sizes]
    chosen = [planned.size_for(family, amount) for amount in amounts]
    assert [size for size, _ in chosen] == list(sizes)
    assert [size.d_model for size in sizes] == sorted(size.d_model for size in sizes)
    assert f"{amounts[0]:,} {planned.unit}" in chosen[0][1]


def test_every_choice_has_its_reason(small: Path) -> None:
    raw = nest({"task": "language_model", "data.train": [str(small / "data.txt")], "model.family": "window"})
    data = read_data("language_model", DataSettings.model_validate(raw["data"]), no_progress)
    chosen = data.choose(raw, None, ("fp32", "tried"), no_progress)
    reasons = {choice.path: choice.reason for choice in chosen.choices}
    assert {"tokenizer.vocab", "model.d_hidden", "train.steps", "train.label_smoothing"} <= reasons.keys()
    assert all(reasons.values())
    settings = resolve(chosen.settings)
    assert (settings.train.label_smoothing, settings.model.family) == (0.0, "window")


def test_an_encoder_does_not_translate() -> None:
    with pytest.raises(UserError, match="set task=classification, tagging"):
        check(parse_overrides(["model.family=recurrent_encoder"]))


def test_unigram_and_repetition_baselines() -> None:
    train, held_out = [np.array([3, 3, 3, 4])], [np.array([3, 4])]
    chance = np.array([1, 1, 1, 4, 2]) / 9
    assert baseline(train, held_out, 5) == pytest.approx(-np.log(chance[[3, 4]]).mean())
    again = (2 + 1) / (4 + 2)  # of four tokens, the second and the third repeat the one before
    mixed = [(1 - again) * chance[3], (1 - again) * chance[4]]
    assert baseline(train, held_out, 5, back=1) == pytest.approx(-np.log(mixed).mean())


def test_the_loss_of_a_language_model_is_that_of_its_logits(small: Path) -> None:
    _, _, task, model = made("language_model", small)
    batch = next(iter(task.batches(1, BEGINNING)))
    loss, count = task.loss(model, batch)
    logits_NV, next_N = model(batch.tokens_BT).flatten(0, 1), batch.next_BT.flatten()
    expected = torch.nn.functional.cross_entropy(logits_NV, next_N, ignore_index=0, reduction="sum")
    torch.testing.assert_close(loss, expected, rtol=1e-4, atol=1e-3)
    assert count == int((next_N != 0).sum())
    scores = task.scores([task.evaluate_shard(model, 0, 1, split=VALID)])
    assert scores["likelihood"] == -scores["loss"]
    assert scores["perplexity"] == pytest.approx(np.exp(scores["loss"]))


def test_accuracy_and_macro_f1() -> None:
    predicted, right = [0, 0, 1, 1, 2], [0, 1, 1, 1, 0]
    assert metrics.accuracy(predicted, right) == 60
    assert metrics.macro_f1(predicted, right) == pytest.approx((50 + 80 + 0) / 3)
    assert metrics.macro_f1([1, 1], [1, 1]) == 100


def test_each_direction_is_scored_on_tokens_that_it_has_not_read(small: Path) -> None:
    _, _, task, model = made("contextual_embeddings", small)
    batch = next(iter(task.batches(1, BEGINNING)))
    there, back, tokens = (tensor.tolist() for tensor in _log_probabilities(model, batch.source_BS))
    expected = 0.0
    for row, ids in enumerate(tokens):
        length = sum(token != 0 for token in ids)
        expected -= sum(there[row][at][ids[at + 1]] for at in range(length - 1))
        expected -= sum(back[row][at][ids[at - 1]] for at in range(1, length))
    loss, count = task.loss(model, batch)
    assert loss.item() == pytest.approx(expected, rel=1e-4)
    assert count == 2 * sum(sum(token != 0 for token in ids) - 1 for ids in tokens)


@torch.inference_mode()
def _log_probabilities(model: Any, tokens_BT: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    there_BTD, back_BTD = model.states(tokens_BT)
    return model.output(there_BTD).log_softmax(-1), model.output(back_BTD).log_softmax(-1), tokens_BT
