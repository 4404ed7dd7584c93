"""Old names of tasks: settings accept them, and the data of old runs keeps its fingerprint."""

from __future__ import annotations

from pathlib import Path

import pytest

from glassformer.data.report import fingerprint
from glassformer.settings import DataSettings, check, parse_overrides, tasks
from glassformer.settings.aliases import TASKS, original_task_name
from glassformer.tasks.contextual_embeddings import ContextualEmbeddingsData


@pytest.mark.parametrize(("old", "new"), TASKS.items())
def test_an_old_name_is_replaced(old: str, new: str) -> None:
    assert new in tasks() and old not in tasks()
    raw = parse_overrides([f"task={old}"])
    assert raw == {"task": new}
    check(raw)
    assert original_task_name(new) == old


def test_a_renamed_task_resumes_the_data_of_an_old_run(tmp_path: Path) -> None:
    for split in ("train", "valid"):
        (tmp_path / split).write_text("".join(f"{split} {i}\n" for i in range(30)), encoding="utf-8")
    data = ContextualEmbeddingsData(DataSettings(train=[str(tmp_path / "train")], valid=[str(tmp_path / "valid")]))
    assert data.fingerprint == fingerprint("word_vectors", data.splits["train"], data.splits["valid"])
