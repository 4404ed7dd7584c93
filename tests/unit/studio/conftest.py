"""The studio of a real run: the phrasebook's, trained once and frozen."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the studio is an extra")
from fastapi.testclient import TestClient

from glassformer.studio.app import studio

FROZEN = Path(__file__).parents[2] / "compat" / "runs" / "format-1"
HERE = "http://127.0.0.1:8000"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A copy to spoil."""
    return Path(shutil.copytree(FROZEN, tmp_path / "phrasebook"))


@pytest.fixture
def visitor(run: Path) -> Iterator[TestClient]:
    with TestClient(studio([run]), base_url=HERE) as client:
        yield client
