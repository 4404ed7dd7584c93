"""Threads that share a model of the native engine."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from glassformer.engine.model import Worker
from tests.unit.engine.random_models import EOS, TRANSFORMER, options, random_model

pytestmark = pytest.mark.usefixtures("native")


@pytest.mark.parametrize("precision", [0, 1])
def test_two_threads_translate_as_one_does(precision: int) -> None:
    model = random_model(TRANSFORMER | {"d_model": 48, "heads": 3, "d_ff": 67, "precision": precision}, scale=0.3)
    sources = [[3 + (i * j) % 16 for j in range(1 + i % 7)] + [EOS] for i in range(60)]
    expected = [Worker(model).translate([s], options(beam=3), [17]) for s in sources]
    barrier = threading.Barrier(2)

    def run(order: list[int]) -> dict[int, object]:
        worker = Worker(model)
        barrier.wait()  # both at the same time
        return {i: worker.translate([sources[i]], options(beam=3), [17]) for i in order}

    with ThreadPoolExecutor(2) as pool:
        forward, backward = pool.map(run, (list(range(60)), list(range(59, -1, -1))))
    assert [forward[i] for i in range(60)] == expected == [backward[i] for i in range(60)]


def test_cancelling_ends_a_running_translation() -> None:
    """The translation has so many steps that it cannot finish before it is cancelled."""
    model = random_model(TRANSFORMER, scale=0.3)
    worker, ended = Worker(model), threading.Event()
    limit = 200_000

    def run() -> str:
        try:
            worker.translate([[3, 4, EOS]], options(min_length=limit), [limit])
        except ValueError as error:
            return str(error)
        finally:
            ended.set()
        return "not cancelled"

    with ThreadPoolExecutor(1) as pool:
        said = pool.submit(run)
        while not ended.wait(0.01):  # one that comes before the start has no effect
            worker.cancel()
    assert said.result() == "cancelled"
    assert worker.translate([[3, 4, EOS]], options(), [5]) == Worker(model).translate([[3, 4, EOS]], options(), [5])
