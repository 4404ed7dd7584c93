"""The ids of the tests are the same in every process, as pytest-xdist requires of its workers."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def collected(temporary: Path, *, hash_seed: str) -> list[str]:
    """Return the ids of all tests, in order, as another process collects them."""
    temporary.mkdir()
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    env = os.environ | {"PYTHONHASHSEED": hash_seed, "TMPDIR": str(temporary)}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=True)
    return [line for line in done.stdout.splitlines() if "::" in line]


def test_ids_depend_neither_on_time_nor_on_hash_seed_nor_on_the_temporary_folder(tmp_path: Path) -> None:
    first = collected(tmp_path / "first", hash_seed="1")
    time.sleep(1)  # time stamps, such as those of gzip, have whole seconds
    assert collected(tmp_path / "second", hash_seed="2") == first
    assert len(first) == len(set(first)) > 0
