"""The service in this process, with a real model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the service is an extra")
pytest.importorskip("py3langid", reason="the service is an extra")
from fastapi.testclient import TestClient

from glassformer.serving.app import application
from glassformer.serving.options import Limits, ServeOptions
from glassformer.serving.pool import Pool
from tests.untrained_runs import trained_run

Serve = Callable[..., TestClient]


@pytest.fixture(scope="session")
def english_french(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained_run(tmp_path_factory.mktemp("served") / "en-fr")


@pytest.fixture
def serve(english_french: Path) -> Iterator[Serve]:
    """`serve(keys=…, seconds=2)`: a client of a service with these options and limits."""
    with ExitStack() as stack:

        def start(*, queue_size: int = 100, **given: Any) -> TestClient:
            limits = {name: given.pop(name) for name in list(given) if name in Limits.__dataclass_fields__}
            options = replace(ServeOptions(**given), limits=Limits(**limits))
            pool = Pool({"en-fr": english_french}, workers=1, queue_size=queue_size)
            app = application(pool, options)
            client = TestClient(app, base_url="http://127.0.0.1:5000", raise_server_exceptions=False)
            return stack.enter_context(client)

        yield start
