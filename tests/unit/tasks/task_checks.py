"""Checks that the tests of all tasks share."""

from __future__ import annotations

from itertools import islice

import pytest
import torch
from torch import nn

from glassformer.data.batching import BEGINNING
from glassformer.tasks import Task


def check_parts_sum_to_the_batch(task: Task, model: nn.Module) -> None:
    """Check that the loss of a batch is the sum over its shards, and that every row has a location."""
    for batch in islice(task.batches(1, BEGINNING), 5):
        loss, count = task.loss(model, batch)
        parts = [part for number in range(3) if (part := task.shard_batch(batch, number, 3)) is not None]
        losses = [task.loss(model, part) for part in parts]
        assert sum(n for _, n in losses) == count
        torch.testing.assert_close(torch.stack([part for part, _ in losses]).sum(), loss, rtol=1e-4, atol=1e-3)
        assert len(task.locations(batch)) == len(batch.rows)
    assert task.shard_batch(batch, len(batch.rows), len(batch.rows) + 1) is None


def check_shards_score_as_one(task: Task, model: nn.Module) -> None:
    """Check that three processes compute the same scores as one."""
    alone = task.scores([task.evaluate_shard(model, 0, 1)])
    together = task.scores([task.evaluate_shard(model, number, 3) for number in range(3)])
    assert together == pytest.approx(alone, rel=1e-5)
    assert {"loss", task.metric} <= alone.keys()
