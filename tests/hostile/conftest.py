"""The folder that every hostile case starts from: data of every kind, and a tiny trained run of every task."""

from __future__ import annotations

from pathlib import Path

import pytest
import stock as making


@pytest.fixture(scope="session")
def stock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return making.make(tmp_path_factory.mktemp("hostile"))
