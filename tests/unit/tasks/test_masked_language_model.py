"""Masked language model: which tokens are masked, how often, and resuming."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from glassformer.data.batching import BEGINNING
from glassformer.data.preparation import no_progress
from glassformer.inference.run import build_model
from glassformer.settings import DataSettings, nest, resolve
from glassformer.tasks import VALID, read_data
from glassformer.tasks.labelled import IGNORE
from glassformer.tasks.masked_language_model import MaskedLanguageModelTask
from glassformer.text.tokenizer import EOS, PAD, SOS

SIZES = {"model.d_model": 16, "model.layers": 1, "model.dropout": 0.0, "train.batch_tokens": 320, "data.sequence": 20}


def made(file: Path, **over: Any) -> tuple[Any, MaskedLanguageModelTask, Any]:
    raw = nest({"task": "masked_language_model", "data.train": [str(file)]} | SIZES | over)
    data = read_data("masked_language_model", DataSettings.model_validate(raw["data"]), no_progress)
    raw, _, tokenizer = data.choose(raw, None, ("fp32", "tried"), no_progress)
    settings = resolve(raw)
    torch.manual_seed(1)
    task: Any = data.task(tokenizer, settings, no_progress)
    return data, task, build_model(settings, len(tokenizer)).eval()


def test_eighty_ten_ten(small: Path) -> None:
    _, task, _ = made(small / "data.txt")
    counts = dict.fromkeys(("words", "asked", "hidden", "swapped", "kept"), 0)
    for batch in islice(task.batches(1, BEGINNING), 400):
        asked_BS = batch.target_BS != IGNORE
        original_BS = torch.where(asked_BS, batch.target_BS, batch.tokens_BS)
        assert (batch.tokens_BS[~asked_BS] == original_BS[~asked_BS]).all()
        assert (original_BS[asked_BS] > EOS).all()  # never padding, the beginning or an end
        shown_N, right_N = batch.tokens_BS[asked_BS], batch.target_BS[asked_BS]
        counts["words"] += int((original_BS > EOS).sum())
        counts["asked"] += len(right_N)
        counts["hidden"] += int((shown_N == task.mask).sum())
        counts["kept"] += int((shown_N == right_N).sum())
        counts["swapped"] += int(((shown_N != task.mask) & (shown_N != right_N)).sum())
        assert task.mask not in right_N
    assert counts["asked"] / counts["words"] == pytest.approx(0.15, abs=0.01)
    assert counts["hidden"] / counts["asked"] == pytest.approx(0.8, abs=0.02)
    assert counts["kept"] / counts["asked"] == pytest.approx(0.1, abs=0.02)
    assert counts["swapped"] / counts["asked"] == pytest.approx(0.1, abs=0.02)


def test_resumed_batches_mask_the_same_tokens(small: Path) -> None:
    _, task, _ = made(small / "data.txt")
    through = list(islice(task.batches(1, BEGINNING), 30))
    again = next(task.batches(1, through[16].next))
    assert torch.equal(again.tokens_BS, through[17].tokens_BS) and again.rows == through[17].rows
    other = next(task.batches(2, BEGINNING))
    assert other.rows != through[0].rows or not torch.equal(other.tokens_BS, through[0].tokens_BS)


def test_parts_and_shards_sum_to_the_whole(small: Path) -> None:
    _, task, model = made(small / "data.txt")
    batch = next(task.batches(1, BEGINNING))
    loss, count = task.loss(model, batch)
    parts = [part for number in range(3) if (part := task.shard_batch(batch, number, 3)) is not None]
    losses = [task.loss(model, part) for part in parts]
    assert sum(n for _, n in losses) == count > 0
    torch.testing.assert_close(torch.stack([part for part, _ in losses]).sum(), loss, rtol=1e-4, atol=1e-3)
    assert task.shard_batch(batch, len(batch.rows), len(batch.rows) + 1) is None
    alone = task.scores([task.evaluate_shard(model, 0, 1)])
    assert task.scores([task.evaluate_shard(model, number, 3) for number in range(3)]) == pytest.approx(alone, rel=1e-5)
    assert alone["likelihood"] == -alone["loss"] == pytest.approx(-np.log(len(task.tokenizer)), rel=0.1)


@pytest.mark.parametrize("suffix", ["txt", "tsv", "conllu"])
def test_text_of_every_format_is_read(suffix: str, small: Path) -> None:
    """Running text is split anywhere; each separate text starts a new sequence."""
    data, task, _ = made(small / f"data.{suffix}")
    batches = task.inputs[VALID]
    rows = [row for rows in batches.in_order() for row in batches.batch(rows).source_BS.tolist()]
    for row in rows:
        ids = [token for token in row if token != PAD]
        assert ids[0] == SOS and ids[-1] == EOS and len(ids) <= 20
    lines = data.splits[VALID]
    if suffix == "txt":
        text = sum(len(ids) + 1 for ids in task.tokenizer.encode_batch([line.text for line in lines]))
        assert len(rows) == -(-text // 18)
    else:
        assert len(rows) >= len(lines)
        assert not {"yes", "no", "NOUN", "VERB"} & {word for line in lines for word in line.text.split()}
    batch = next(task.batches(1, BEGINNING))
    assert all(place.startswith(str(small / f"data.{suffix}:")) for place in task.locations(batch))
