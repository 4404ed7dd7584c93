"""glassformer ladder and ablate, tiny: stopped, resumed, reported."""

from __future__ import annotations

import json
import os
import signal
import tomllib
from pathlib import Path
from typing import Any

import pytest
from command_line import TINY, glassformer

from glassformer.lab.ladder.systems import LADDER
from glassformer.training.trainer import Trainer

TEXT = "train.en train.fr --valid valid.en valid.fr --test test.en test.fr"


@pytest.fixture(autouse=True)
def _without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plots have their own tests, and take longer than the training."""
    monkeypatch.setattr("glassformer.lab.ladder.plots.draw", lambda report, folder: [])


def stop_in_run(monkeypatch: pytest.MonkeyPatch, name: str, step: int) -> None:
    """Send Ctrl-C once, when the run of this name is at this step."""
    real, pressed = Trainer._step, list[int]()

    def pressing(self: Trainer, *arguments: Any) -> Any:
        if self.folder.path.name == name and self.state.step == step and not pressed:
            pressed.append(step)
            os.kill(os.getpid(), signal.SIGINT)
        return real(self, *arguments)

    monkeypatch.setattr(Trainer, "_step", pressing)


def test_an_interrupted_ladder_resumes(workdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stop_in_run(monkeypatch, "gru", 3)
    command = f"ladder {TEXT} -o climb {TINY}"
    stopped = glassformer(command)
    assert stopped.code == 130, stopped.err
    assert "1 of 7: RNN encoder–decoder; about " in stopped.err
    assert "stopped; repeat the command to resume" in stopped.err
    report = json.loads((workdir / "climb/report.json").read_text(encoding="utf-8"))
    assert [system["state"] for system in report["systems"]] == ["done", "unfinished"] + 5 * ["waiting"]
    first = (workdir / "climb/rnn/model.safetensors").read_bytes()

    resumed = glassformer(f"{command} --json")
    assert resumed.code == 0, resumed.err
    assert "1 of 7: RNN encoder–decoder: already finished" in resumed.err
    assert "training from step 3 to step 5" in resumed.err
    assert (workdir / "climb/rnn/model.safetensors").read_bytes() == first
    report = json.loads(resumed.out)
    assert report == json.loads((workdir / "climb/report.json").read_text(encoding="utf-8"))
    assert [system["name"] for system in report["systems"]] == [system.name for system in LADDER]
    assert {(system["state"], system["steps"], system["ended_by"]) for system in report["systems"]} == {
        ("done", 5, "steps")
    }
    weights = [system["parameters"] for system in report["systems"]]
    assert max(abs(count / weights[-1] - 1) for count in weights) < 0.1
    assert len({(workdir / "climb" / system.name / "tokenizer.json").read_bytes() for system in LADDER}) == 1
    looking = [system["name"] for system in report["systems"] if system["attention"]]
    assert looking == ["gru-additive", "gru-dot", "bigru-additive", "transformer"]
    for system in report["systems"]:
        assert len(system["gradient"]) > 5 and max(system["gradient"]) > 0
        if system["attention"]:
            assert all(sum(row) == pytest.approx(1, abs=0.02) for row in system["attention"]["weights"])

    (workdir / "climb/report.html").unlink()
    again = glassformer(command)
    assert again.code == 0 and again.err.count("already finished") == 7
    assert (workdir / "climb/report.html").exists()
    assert sum(line.startswith("Transformer ") for line in again.out.splitlines()) == 1


def test_ablations_share_the_seed_and_a_failure_is_reported(workdir: Path) -> None:
    only = "no-look-ahead-mask,transformer,learned-positions"
    command = f"ablate {TEXT} --only {only} -o twins {TINY} model.max_positions=3"
    failed = glassformer(command)
    assert failed.code == 1, failed.err
    assert "learned positions failed; continuing with the next" in failed.err
    report = json.loads((workdir / "twins/report.json").read_text(encoding="utf-8"))
    states = {system["name"]: system["state"] for system in report["systems"]}
    assert states == {"transformer": "done", "learned-positions": "failed", "no-look-ahead-mask": "done"}
    assert "learned positional embeddings have 3" in (workdir / "twins/report.html").read_text(encoding="utf-8")
    # The initial weights are those of the Transformer: before the first step only the mask makes a difference.
    runs = [workdir / "twins" / name / "run.toml" for name in ("transformer", "no-look-ahead-mask")]
    plain, cheating = (tomllib.loads(run.read_text(encoding="utf-8")) for run in runs)
    assert cheating["model"].pop("ablations") == ["no_look_ahead_mask"]
    assert plain["model"].pop("ablations") == [] and plain == cheating


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("ladder", "No training data was given"),
        (f"ladder {TEXT} --only bert", "There is no system 'bert'"),
        (f"ablate {TEXT} --budget 0", "The budget cannot be 0 minutes"),
        (f"ladder {TEXT} -o run {TINY}", "The folder contains other files"),
        (f"ladder {TEXT} model.cell=gru", "there is no setting 'model.cell'"),
        ("ladder trian.en train.fr", "workdir/train.en?"),
    ],
)
def test_wrong_arguments_are_refused(workdir: Path, command: str, said: str) -> None:
    answer = glassformer(command)
    assert answer.code == 2
    assert said in answer.err
    assert "Traceback" not in answer.err
