"""A run in several processes equals the run in one process on the same batches."""

from __future__ import annotations

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
    forked_ranks,
    started_by,
    torchrun,
    trained_in,
    training,
    wait_for_step,
    weights_at,
)
from torch import Tensor

import glassformer as gf
from glassformer.inference.run import read_weights

# Few validations of short sentences: in several processes, most of all with a sharded model, they cost more than the
# steps.
FEW = {"train.steps": 10, "train.validate_every": 10, "train.checkpoint_every": 5}
FEW |= {"train.valid_sentences": 2, "decode.max_length": 4}
WITHOUT_CHANCE = SETTINGS | FEW | {"model.dropout": 0.0, "train.accumulate": 1}


@pytest.fixture(scope="session")
def alone(corpus: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return gf.train(*corpus, out=tmp_path_factory.mktemp("alone") / "run", settings=WITHOUT_CHANCE).path


def assert_same_run(run: Path, other: Path) -> None:
    """Assert equal losses and weights, up to the order of sums."""
    for kind, names in (("progress", ("loss", "gradient_norm", "lr")), ("validated", ("loss",))):
        course, expected = events(run, kind), events(other, kind)
        assert [event["step"] for event in course] == [event["step"] for event in expected] != []
        for event, wanted in zip(course, expected, strict=True):
            values = (event | event.get("scores", {}), wanted | wanted.get("scores", {}))
            for name in names:
                assert values[0][name] == pytest.approx(values[1][name], rel=2e-4)
    torch.testing.assert_close(last_weights(run), last_weights(other), rtol=1e-3, atol=2e-5)


def last_weights(run: Path) -> dict[str, Tensor]:
    return weights_at(run, 10)


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
    ranks = forked_ranks(count, training(corpus, run, settings), tmp_path)
    assert ranks.wait() == 0, ranks.err
    assert events(run, "started")[0]["processes"] == count
    other = alone
    if "train.accumulate" in over:
        other = tmp_path / "alone"
        rest = {name: value for name, value in settings.items() if name != "train.shard_model"}
        gf.train(*corpus, out=other, settings=rest)
    assert_same_run(run, other)
    assert ranks.out.count("try it") == 1  # only rank 0 prints


def test_torchrun_trains_as_one_process_does(corpus: tuple[str, str], alone: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    done = finish(torchrun(2, training(corpus, run, WITHOUT_CHANCE)))
    assert done.returncode == 0, done.stderr
    assert events(run, "started")[0]["processes"] == 2
    assert_same_run(run, alone)
    assert done.stdout.count("try it") == 1


RECURRENT = {name: value for name, value in WITHOUT_CHANCE.items() if name not in ("model.heads", "model.d_ff")}
RECURRENT |= {"model.family": "recurrent", "train.steps": 3, "train.validate_every": 3, "train.checkpoint_every": 3}


@pytest.mark.parametrize("sharded", ["false", "true"], ids=["whole", "sharded"])
def test_a_recurrent_model_trains_in_two_processes_as_in_one(
    sharded: str, corpus: tuple[str, str], tmp_path: Path
) -> None:
    weights, few = [], []
    for file in corpus:  # a sharded recurrent model gathers its weights at every token
        few.append(tmp_path / Path(file).name)
        few[-1].write_text("".join(Path(file).read_text(encoding="utf-8").splitlines(True)[:40]), encoding="utf-8")
    for count in (1, 2):
        run, settings = tmp_path / str(count), RECURRENT | {"train.shard_model": sharded}
        trained_in(count, training([str(file) for file in few], run, settings), run)
        weights.append(read_weights(run / "checkpoints/step-3/model.safetensors"))
    torch.testing.assert_close(weights[0], weights[1], rtol=1e-3, atol=2e-5)


@pytest.mark.parametrize("sharded", ["false", "true"], ids=["whole", "sharded"])
def test_running_statistics_are_combined_over_processes(sharded: str, corpus: tuple[str, str], tmp_path: Path) -> None:
    """Batch normalization in two processes sees other batches; the saved model is one and can be loaded and resumed."""
    run = tmp_path / "run"
    settings = WITHOUT_CHANCE | {"model.normalize": "batch", "train.shard_model": sharded, "train.steps": 4}
    trained_in(2, training(corpus, run, settings), run)
    counted = read_weights(run / "checkpoints/step-4/model.safetensors")
    assert all(tensor.isfinite().all() for tensor in counted.values())
    assert counted["encoder.0.self_residual.norm.mean_D"].std() > 0
    trained_in(2, training(corpus, run, settings | {"train.steps": 6}, "--resume"), run)
    assert events(run, "finished")[-1]["step"] == 6


def test_a_run_resumes_with_another_number_of_processes(corpus: tuple[str, str], alone: Path, tmp_path: Path) -> None:
    """Three processes with replicas, then two with shards, then one."""
    run = tmp_path / "run"
    for count, steps, sharded in ((3, 3, "false"), (2, 6, "true"), (1, 10, "false")):
        settings = WITHOUT_CHANCE | {"train.steps": steps, "train.shard_model": sharded}
        trained_in(count, training(corpus, run, settings, "--resume"), run)
    torch.testing.assert_close(last_weights(run), last_weights(alone), rtol=1e-3, atol=2e-5)


LONG = SETTINGS | FEW | {"train.steps": 18, "train.validate_every": 18, "train.checkpoint_every": 5}


@pytest.fixture(scope="module")
def undisturbed(corpus: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("undisturbed") / "run"
    return trained_in(2, training(corpus, run, LONG), run)


# One process kills itself at a certain step, unless it was restarted.
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


def test_torchrun_restarts_processes_and_the_run_resumes(
    corpus: tuple[str, str], undisturbed: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    program = KILLED.format(victim=1, calls=13)
    again = (*ONE_MACHINE, "--max-restarts=1", "--monitor-interval=0.1")
    done = finish(started_by(program, tmp_path, training(corpus, run, LONG), *again))
    assert done.returncode == 0, done.stderr
    assert [event["step"] for event in events(run, "started")] == [0, 10]
    assert bits(run, 18) == bits(undisturbed, 18)


def test_the_run_resumes_after_rank_0_was_killed(corpus: tuple[str, str], undisturbed: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    program = "import os; os.environ['TORCHELASTIC_RESTART_COUNT'] = '0'\n" + KILLED.format(victim=0, calls=13)
    assert forked_ranks(2, training(corpus, run, LONG), tmp_path, program).wait() != 0
    trained_in(2, training(corpus, run, LONG), run)  # the same command, as torchrun repeats it
    assert [event["step"] for event in events(run, "started")] == [0, 10]
    assert bits(run, 18) == bits(undisturbed, 18)


def test_a_stop_signal_to_one_process_stops_all_and_the_run_resumes(corpus: tuple[str, str], tmp_path: Path) -> None:
    run, settings = tmp_path / "run", SETTINGS | {"train.steps": 1_000_000, "train.validate_every": 500}
    ranks = forked_ranks(2, training(corpus, run, settings), tmp_path)
    try:
        wait_for_step(ranks, run, 5)
        ranks.children[1].send_signal(signal.SIGTERM)
        assert ranks.wait() == 0, ranks.err
    finally:
        ranks.kill()
    assert events(run, "finished")[-1]["reason"] == "interrupted"


def test_a_user_error_is_printed_once(corpus: tuple[str, str], tmp_path: Path) -> None:
    ranks = forked_ranks(2, ["train", *corpus, "train.stepps=3", "-o", str(tmp_path / "run")], tmp_path)
    assert ranks.wait() != 0
    assert ranks.err.count("did you mean 'train.steps'") == 1
    ranks = forked_ranks(2, ["train", *corpus, "train.steps=3"], tmp_path)
    assert ranks.wait() != 0
    assert ranks.err.count("-o RUN") == 1


# In the second process, every third step runs out of memory after part of the batch was computed.
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


def test_a_batch_too_large_for_one_process_is_split_there_only(
    corpus: tuple[str, str], alone: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    program = f"cuts = open({str(tmp_path / 'cuts')!r}, 'w')\n{CRAMPED}"
    trained_in(2, training(corpus, run, WITHOUT_CHANCE), run, program)
    assert (tmp_path / "cuts").read_text().count("cut") >= 2
    assert_same_run(run, alone)


# In the second process, the gradient is not finite at steps 3 and 6.
WILD = """
import os
from glassformer.tasks.translation import TranslationTask
loss, calls = TranslationTask.loss, 0
def wild(task, model, batch):
    global calls
    calls += 1
    summed, count = loss(task, model, batch)
    return (summed * float("nan") if calls in (3, 6) else summed), count
if os.environ["RANK"] == "1":
    TranslationTask.loss = wild
"""


def test_a_non_finite_gradient_in_one_process_skips_the_step_in_all(corpus: tuple[str, str], tmp_path: Path) -> None:
    run = tmp_path / "run"
    trained_in(2, training(corpus, run, WITHOUT_CHANCE), run, WILD)
    assert [event["step"] for event in events(run, "skipped")] == [3, 6]
    assert all(line.startswith(f"{corpus[0]}:") for event in events(run, "skipped") for line in event["lines"])
    assert events(run, "finished")[0]["step"] == 10


def test_processes_with_different_data_are_refused(tmp_path: Path) -> None:
    """Two processes read different files with the same name, as on two machines."""
    for rank, lines in enumerate(("a\tb\nc\td\ne\tf\n", "a\tb\nc\td\ne\tg\n")):
        (tmp_path / str(rank)).mkdir()
        (tmp_path / str(rank) / "pairs.tsv").write_text(40 * lines.replace("a", f"a{rank}"), encoding="utf-8")
    program = f"import os; os.chdir({str(tmp_path)!r} + '/' + os.environ['RANK'])"
    ranks = forked_ranks(2, ["train", "pairs.tsv", "-o", "run"], tmp_path, program)
    assert ranks.wait() != 0
    assert "have different training data or settings" in ranks.err
