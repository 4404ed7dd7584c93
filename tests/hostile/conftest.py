"""The folder that every hostile case starts from: data of every kind, and a tiny trained run of every task."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import make_template
import pytest


@pytest.fixture(scope="session")
def template(made_once: Callable[..., Path]) -> Path:
    return made_once("hostile", make_template.make) / "template"
