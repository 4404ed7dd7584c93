"""The pool with real worker processes: the same text as `translate`, whatever happens to a worker."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from glassformer.decoding import Sampling
from glassformer.errors import UserError
from glassformer.inference.loading import load
from glassformer.inference.translator import Translation, load_translator
from glassformer.serving.jobs import Job, JobFailed, QueueFull, Result, WorkerLost
from glassformer.serving.pool import Pool
from glassformer.serving.worker import POISON
from tests.unit.serving.random_runs import GPT, RECURRENT, TRANSFORMER, random_run, source_lines
from tests.untrained_runs import adapter_run

LINES = source_lines(60)
KILL = getattr(signal, "SIGKILL", signal.SIGTERM)  # on Windows, os.kill ends a process at once with either


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("runs")
    return {
        "first": random_run(folder / "first", TRANSFORMER),
        "second": random_run(folder / "second", TRANSFORMER, seed=2),
        "gru": random_run(folder / "gru", RECURRENT),
        "gpt": random_run(folder / "gpt", GPT, task="language_model"),
        "rotary gpt": random_run(folder / "rotary gpt", GPT | {"positions": "rotary"}, task="language_model"),
    }


@asynccontextmanager
async def started(runs: dict[str, Path], **over: Any) -> AsyncIterator[Pool]:
    pool = Pool(runs, **{"workers": 2, "engine": "auto"} | over)
    await pool.start()
    try:
        yield pool
    finally:
        await pool.stop(drain=False, timeout=5)


def best(result: Result) -> tuple[str, float]:
    return result.hypotheses[0].text, result.hypotheses[0].score


def expected(run: Path, lines: list[str], **how: Any) -> list[tuple[str, float]]:
    return [(one.text, one.score) for one in load_translator(run).translate(lines, **how)]


async def submit_all(pool: Pool, model: str, lines: list[str], **how: Any) -> list[tuple[str, float]]:
    return [best(one) for one in await asyncio.gather(*(pool.submit(Job(model, line, **how)) for line in lines))]


def test_jobs_are_decoded_as_by_translate(runs: dict[str, Path]) -> None:
    """Many at a time; other beams, sampling, n-best lists, long lines, streams; without PyTorch in the workers."""
    run, long = runs["first"], " ".join(LINES)

    async def main() -> None:
        async with started({"m": run}) as pool:
            given = pool.models["m"]
            assert (given.source_language, given.target_language, given.limits["beam"]) == ("en", "fr", 3)
            assert await submit_all(pool, "m", [*LINES, "", long]) == expected(run, [*LINES, "", long])
            assert await submit_all(pool, "m", LINES[:9], beam=1) == expected(run, LINES[:9], beam=1)
            hot = Sampling(0.7, 5, seed=9)
            sampled = await submit_all(pool, "m", LINES[:1], temperature=0.7, top_k=5, seed=9)
            assert sampled == expected(run, LINES[:1], sampling=hot)
            (listed,) = load_translator(run).translate(LINES[:1], beam=4)
            await check_options(pool, listed)
            for worker in pool.stats()["workers"]:
                loaded = Path(f"/proc/{worker['pid']}/maps")  # Linux
                assert not loaded.exists() or "libtorch" not in loaded.read_text()

    async def check_options(pool: Pool, listed: Translation) -> None:
        several = await pool.submit(Job("m", LINES[0], n_best=4, alignment=True))
        assert [one.text for one in several.hypotheses] == [one.text for one in listed.candidates]
        words = len(LINES[0].split())
        assert all(0 <= source < words for one in several.hypotheses for source, _ in one.alignment)
        assert [target for _, target in several.hypotheses[0].alignment] == list(range(len(listed.text.split())))
        forced = await pool.submit(Job("m", LINES[0], prefix="Je suis", constraints=(("gare", "station"), ("bleu",))))
        text = forced.hypotheses[0].text
        assert text.startswith("Je suis") and "bleu" in text and ("gare" in text or "station" in text)
        texts = [text async for text in pool.stream(Job("m", LINES[1], beam=1))]
        assert texts[-1] == expected(run, [LINES[1]], beam=1)[0][0]
        growing = [text async for text in pool.stream(Job("m", LINES[1], beam=1, max_length=900))]
        assert len(growing) > 1
        for wrong in (Job("m", "a", beam=65), Job("m", "a", beam=2, n_best=3), Job("m", long, prefix="Je")):
            with pytest.raises(JobFailed) as failed:
                await pool.submit(wrong)
            assert failed.value.hint
        with pytest.raises(JobFailed, match="no model 'x'"):
            await pool.submit(Job("x", "a"))

    asyncio.run(main())


def test_a_run_and_its_adapter_are_served_side_by_side(runs: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "first").symlink_to(runs["first"])
    both = {"first": tmp_path / "first", "adapter": adapter_run(tmp_path / "first", tmp_path / "adapter")}

    async def main() -> None:
        async with started(both, workers=1) as pool:
            found = {name: await submit_all(pool, name, LINES[:9]) for name in both}
        assert found == {name: expected(run, LINES[:9]) for name, run in both.items()}
        assert found["first"] != found["adapter"]

    asyncio.run(main())


def test_jobs_of_a_killed_worker_are_decoded_by_another(runs: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """One that kills two workers fails alone, while its batch-mates are answered."""
    monkeypatch.setenv(POISON, "poison")

    async def main() -> None:
        async with started({"m": runs["first"]}) as pool:
            answers = asyncio.gather(*(pool.submit(Job("m", line)) for line in LINES * 3))
            await asyncio.sleep(0)
            busy = [worker["pid"] for worker in pool.stats()["workers"] if worker["jobs"]]
            os.kill(busy[0], KILL)
            assert list(map(best, await answers)) == expected(runs["first"], LINES) * 3
            seen = pool.stats()
            assert seen["lost_workers"] == 1 and seen["retried"] > 0 and seen["poisoned"] == 0
            found = await asyncio.gather(
                *(pool.submit(Job("m", text)) for text in (*LINES[:20], "poison", *LINES[20:])), return_exceptions=True
            )
            assert isinstance(found.pop(20), WorkerLost)
            assert [best(one) for one in found if isinstance(one, Result)] == expected(runs["first"], LINES)
            assert (pool.stats()["poisoned"], pool.stats()["lost_workers"]) == (1, 3)

    asyncio.run(main())


def test_a_model_is_replaced_under_load(runs: dict[str, Path], tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(runs["first"], run)
    old, new = (expected(runs[name], LINES) for name in ("first", "second"))

    async def main() -> None:
        async with started({"m": run}, precision="fp32") as pool:
            answers = asyncio.gather(*(pool.submit(Job("m", line)) for line in LINES))
            await pool.reload("m", runs["second"])
            assert await submit_all(pool, "m", LINES) == new
            during = list(map(best, await answers))
            assert all(one in (a, b) for one, a, b in zip(during, old, new, strict=True)) and during[0] == old[0]
            (run / "run.toml").write_text("damaged", encoding="utf-8")
            with pytest.raises(UserError, match=r"settings are damaged"):
                await pool.reload("m", run)
            assert await submit_all(pool, "m", LINES[:5]) == new[:5]

    asyncio.run(main())


def test_a_full_queue_refuses_and_cancelled_jobs_leave(runs: dict[str, Path]) -> None:
    async def main() -> None:
        async with started({"m": runs["first"]}, workers=1, queue_size=3) as pool:
            long = [asyncio.create_task(pool.submit(Job("m", line, max_length=900))) for line in LINES[:40]]
            await asyncio.sleep(0)  # 16 fill the worker, 3 wait
            state = pool.stats()
            assert (state["queue"], state["refused"]) == (3, 21)
            refused = [task for task in long if task.done()]
            assert all(isinstance(task.exception(), QueueFull) for task in refused)
            for task in long:
                task.cancel()
            await asyncio.gather(*long, return_exceptions=True)
            stream = pool.stream(Job("m", LINES[0], max_length=900))
            await anext(stream)
            await stream.aclose()
            state = pool.stats()
            assert (state["queue"], state["in_flight"], state["cancelled"]) == (0, 0, 20)
            assert await submit_all(pool, "m", LINES[:1]) == expected(runs["first"], LINES[:1])

    asyncio.run(main())


def test_other_models_share_the_workers(runs: dict[str, Path]) -> None:
    """A recurrent model runs in PyTorch; a language model beyond its maximum length; stopping waits for answers."""
    prompt, length = "I am", 70
    hot = {"temperature": 0.8, "seed": 5}
    gpts = ("gpt", "rotary gpt")
    continued = {name: load(runs[name])(prompt, length=length, sampling=Sampling(**hot)) for name in gpts}

    async def main() -> None:
        pool = Pool({name: runs[name] for name in ("gru", *gpts)}, workers=1)
        await pool.start()
        for name in gpts:
            job = Job(name, prompt, max_length=length, **hot)
            written = await pool.submit(job)
            assert prompt + written.hypotheses[0].text == continued[name] and written.target_tokens == length
        assert [text async for text in pool.stream(replace(job, max_length=9))][-1] == (
            await pool.submit(replace(job, max_length=9))
        ).hypotheses[0].text
        with pytest.raises(JobFailed, match="PyTorch"):
            await pool.submit(Job("gru", "a", prefix="b"))
        with pytest.raises(JobFailed, match="predict is not available"):
            await pool.predict("gru", ["a"])
        answers = asyncio.gather(*(pool.submit(Job("gru", line)) for line in LINES[:20]))
        await asyncio.sleep(0)
        await pool.stop(drain=True, timeout=60)
        # The sums of PyTorch depend on the batch.
        assert [one[0] for one in map(best, await answers)] == [one[0] for one in expected(runs["gru"], LINES[:20])]
        with pytest.raises(WorkerLost, match="stopping"):
            await pool.submit(job)

    asyncio.run(main())


def test_memory_of_a_worker_does_not_grow(runs: dict[str, Path]) -> None:
    """Jobs that are decoded, cancelled and refused; the first round fills the buffers."""

    async def round_of_jobs(pool: Pool) -> int:
        jobs = [Job("m", line, beam=beam) for line in LINES for beam in (1, 3, 9)]
        tasks = [asyncio.create_task(pool.submit(job)) for job in (*jobs, Job("m", "a", beam=99))]
        await asyncio.sleep(0)
        for task in tasks[::7]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        (worker,) = pool._workers
        worker.statistics = {}
        worker.send(["ping"])
        while not worker.statistics:
            await asyncio.sleep(0.01)
        return worker.statistics["memory"]

    async def main() -> None:
        async with started({"m": runs["first"]}, workers=1) as pool:
            sizes = [await round_of_jobs(pool) for _ in range(6)]
            assert sizes[-1] < sizes[1] + 2**20, sizes

    asyncio.run(main())


@pytest.mark.parametrize("damage", ["absent", "empty"])
def test_a_run_that_cannot_be_loaded_is_an_error_at_the_start(damage: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    if damage == "empty":
        run.mkdir()
    with pytest.raises(UserError, match=r"run folder|not a Glassformer run"):
        asyncio.run(Pool({"m": run}, workers=2).start())
