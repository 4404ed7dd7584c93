"""One run in several processes is the run of one process, on the same batches."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from killed import SETTINGS, bits
from processes import (
    ONE_MACHINE,
    events,
    finish,
    processes_of,
    started,
    started_by,
    torchrun,
    trained,
    training,
    wait_for_step,
    weights_at,
)
from torch import Tensor

import glassformer as gf
from glassformer.inference.run import read_weights

WITHOUT_CHANCE = SETTINGS | {"model.dropout": 0.0, "train.accumulate": 1}


@pytest.fixture(scope="session")
def alone(corpus: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return gf.train(*corpus, out=tmp_path_factory.mktemp("alone") / "run", settings=WITHOUT_CHANCE).path


def assert_same_run(run: Path, other: Path) -> None:
    """The same course and the same weights, up to the order of sums."""
    for kind, names in (("progress", ("loss", "gradient_norm", "lr")), ("validated", ("loss",))):
        course, expected = events(run, kind), events(other, kind)
        assert [event["step"] for event in course] == [event["step"] for event in expected] != []
        for event, wanted in zip(course, expected, strict=True):
            values = (event | event.get("scores", {}), wanted | wanted.get("scores", {}))
            for name in names:
                assert values[0][name] == pytest.approx(values[1][name], rel=2e-4)
    torch.testing.assert_close(last_weights(run), last_weights(other), rtol=1e-3, atol=2e-5)


def last_weights(run: Path) -> dict[str, Tensor]:
    return weights_at(run, 40)


@pytest.mark.parametrize(
    ("count", "over"),
    [
        (2, {}),  # each takes every other row of a batch
        (4, {}),
        (2, {"train.accumulate": 2, "train.batch_tokens": 128}),  # each takes every other batch
        (2, {"train.shard_model": "true"}),  # each holds half of the weights
        (3, {"train.shard_model": "true", "train.accumulate": 2}),
    ],
    ids=["2", "4", "2, whole batches", "2, sharded", "3, sharded, accumulated"],
)
def test_several_processes_train_as_one_does(
    count: int, over: dict[str, Any], corpus: tuple[str, str], alone: Path, tmp_path: Path
) -> None:
    run, settings = tmp_path / "run", WITHOUT_CHANCE | over
    done = finish(torchrun(count, training(corpus, run, settings)))
    assert done.returncode == 0, done.stderr
    assert events(run, "started")[0]["processes"] == count
    other = alone
    if "train.accumulate" in over:
        other = tmp_path / "alone"
        rest = {name: value for name, value in settings.items() if name != "train.shard_model"}
        gf.train(*corpus, out=other, settings=rest)
    assert_same_run(run, other)
    assert done.stdout.count("try it") == 1  # one process talks


RECURRENT = {name: value for name, value in WITHOUT_CHANCE.items() if name not in ("model.heads", "model.d_ff")}
RECURRENT |= {"model.family": "recurrent", "train.steps": 20, "train.checkpoint_every": 20}


@pytest.mark.parametrize("sharded", ["false", "true"], ids=["whole", "sharded"])
def test_a_recurrent_model_trains_in_two_processes_as_in_one(
    sharded: str, corpus: tuple[str, str], tmp_path: Path
) -> None:
    weights = []
    for count in (1, 2):
        run, settings = tmp_path / str(count), RECURRENT | {"train.shard_model": sharded}
        done = finish(torchrun(count, training(corpus, run, settings)))
        assert done.returncode == 0, done.stderr
        weights.append(read_weights(run / "checkpoints/step-20/model.safetensors"))
    torch.testing.assert_close(weights[0], weights[1], rtol=1e-3, atol=2e-5)


@pytest.mark.parametrize("sharded", ["false", "true"], ids=["whole", "sharded"])
def test_what_each_process_counted_becomes_one(sharded: str, corpus: tuple[str, str], tmp_path: Path) -> None:
    """Batch normalisation in two processes: other batches, so another run; but one model, which loads and resumes."""
    run = tmp_path / "run"
    settings = WITHOUT_CHANCE | {"model.normalize": "batch", "train.shard_model": sharded, "train.steps": 10}
    done = finish(torchrun(2, training(corpus, run, settings)))
    assert done.returncode == 0, done.stderr
    counted = read_weights(run / "checkpoints/step-10/model.safetensors")
    assert all(tensor.isfinite().all() for tensor in counted.values())
    assert counted["encoder.0.self_residual.norm.mean_D"].std() > 0
    done = finish(torchrun(2, training(corpus, run, settings | {"train.steps": 15}, "--resume")))
    assert done.returncode == 0, done.stderr
    assert events(run, "finished")[-1]["step"] == 15


def test_a_run_goes_on_in_another_number_of_processes(corpus: tuple[str, str], alone: Path, tmp_path: Path) -> None:
    """Three processes with whole copies, then two with halves, then one."""
    run = tmp_path / "run"
    for count, steps, sharded in ((3, 15, "false"), (2, 25, "true"), (1, 40, "false")):
        settings = WITHOUT_CHANCE | {"train.steps": steps, "train.shard_model": sharded}
        trained(torchrun(count, training(corpus, run, settings, "--resume")), run)
    torch.testing.assert_close(last_weights(run), last_weights(alone), rtol=1e-3, atol=2e-5)


LONG = SETTINGS | {"train.steps": 150, "train.validate_every": 50, "train.checkpoint_every": 10}


@pytest.fixture(scope="module")
def undisturbed(corpus: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("undisturbed") / "run"
    return trained(torchrun(2, training(corpus, run, LONG)), run)


# One process kills itself at a certain step, unless it has been started again.
KILLED = """
import os, signal
from glassformer.tasks.translation import TranslationTask
loss, calls = TranslationTask.loss, 0
def fatal(task, model, batch):
    global calls
    calls += 1
    if calls == {calls}:
        os.kill(os.getpid(), signal.SIGKILL)
    return loss(task, model, batch)
if os.environ["RANK"] == "{victim}" and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    TranslationTask.loss = fatal
"""


@pytest.mark.parametrize("victim", [0, 1])
def test_a_process_that_is_killed_is_started_again_and_the_run_goes_on(
    victim: int, corpus: tuple[str, str], undisturbed: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    program = KILLED.format(victim=victim, calls=25)
    again = (*ONE_MACHINE, "--max-restarts=1", "--monitor-interval=0.1")
    trained(started_by(program, tmp_path, training(corpus, run, LONG), *again), run)
    assert [event["step"] for event in events(run, "started")] == [0, 20]
    assert bits(run, 150) == bits(undisturbed, 150)


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks for processes in /proc")
def test_one_that_is_asked_to_stop_stops_all_and_the_run_goes_on(corpus: tuple[str, str], tmp_path: Path) -> None:
    run, settings = tmp_path / "run", SETTINGS | {"train.steps": 1_000_000, "train.validate_every": 500}
    with started(torchrun(2, training(corpus, run, settings)), tmp_path / "log") as launcher:
        wait_for_step(launcher, run, 5)
        os.kill(processes_of(run)[1], signal.SIGTERM)
        assert launcher.wait() == 0, (tmp_path / "log").read_text()
    assert events(run, "finished")[-1]["reason"] == "interrupted"


def test_a_mistake_is_told_once(corpus: tuple[str, str], tmp_path: Path) -> None:
    done = finish(torchrun(2, ["train", *corpus, "train.stepps=3", "-o", str(tmp_path / "run")]))
    assert done.returncode != 0
    assert done.stderr.count("did you mean 'train.steps'") == 1
    done = finish(torchrun(2, ["train", *corpus, "train.steps=3"]))
    assert done.stderr.count("-o RUN") == 1


# In the second process, at every third step, a batch does not fit the memory once something of it was computed.
CRAMPED = """
import os
from glassformer.tasks.translation import TranslationTask
loss, calls = TranslationTask.loss, 0
def cramped(task, model, batch):
    global calls
    calls += 1
    summed, count = loss(task, model, batch)
    if calls % 3 == 0 and len(batch.rows) > 1:
        summed.backward()
        print("cut", file=cuts, flush=True)
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 7 bytes.")
    return summed, count
if os.environ["RANK"] == "1":
    TranslationTask.loss = cramped
"""


def test_a_batch_that_does_not_fit_one_process_is_cut_there_and_nobody_waits(
    corpus: tuple[str, str], alone: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    program = f"cuts = open({str(tmp_path / 'cuts')!r}, 'w')\n{CRAMPED}"
    trained(started_by(program, tmp_path, training(corpus, run, WITHOUT_CHANCE)), run)
    assert (tmp_path / "cuts").stat().st_size > 10
    assert_same_run(run, alone)


# In the second process, numbers are not finite at steps 3 and 8.
WILD = """
import os
from glassformer.tasks.translation import TranslationTask
loss, calls = TranslationTask.loss, 0
def wild(task, model, batch):
    global calls
    calls += 1
    summed, count = loss(task, model, batch)
    return (summed * float("nan") if calls in (3, 8) else summed), count
if os.environ["RANK"] == "1":
    TranslationTask.loss = wild
"""


def test_numbers_that_are_not_finite_in_one_process_are_skipped_in_all(corpus: tuple[str, str], tmp_path: Path) -> None:
    run = tmp_path / "run"
    trained(started_by(WILD, tmp_path, training(corpus, run, WITHOUT_CHANCE)), run)
    assert [event["step"] for event in events(run, "skipped")] == [3, 8]
    assert all(line.startswith(f"{corpus[0]}:") for event in events(run, "skipped") for line in event["lines"])
    assert events(run, "finished")[0]["step"] == 40


def test_processes_with_other_text_are_refused(tmp_path: Path) -> None:
    """Two processes that read different files of one name, as two machines may."""
    for rank, lines in enumerate(("a\tb\nc\td\ne\tf\n", "a\tb\nc\td\ne\tg\n")):
        (tmp_path / str(rank)).mkdir()
        (tmp_path / str(rank) / "pairs.tsv").write_text(40 * lines.replace("a", f"a{rank}"), encoding="utf-8")
    program = f"import os; os.chdir({str(tmp_path)!r} + '/' + os.environ['RANK'])"
    done = finish(started_by(program, tmp_path, ["train", "pairs.tsv", "-o", "run"]))
    assert done.returncode != 0
    assert "have different training data or settings" in done.stderr
