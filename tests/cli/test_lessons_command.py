"""`glassformer lessons`: an interrupted model is resumed, a finished one is kept."""

from __future__ import annotations

import signal
import time
from pathlib import Path

from command_line import bad, good

from tests import forked

LESSONS = forked.command_line("lessons vit -o lessons")


def test_an_interrupted_model_is_resumed_and_a_finished_one_is_kept(tmp_path: Path) -> None:
    child = forked.start(LESSONS, tmp_path, tmp_path / "first")
    while "step 10/200" not in child.err:
        assert child.poll() is None
        time.sleep(0.02)
    child.send_signal(signal.SIGINT)
    assert child.wait() == 0 and child.out.endswith("interrupted; the same command continues\n")
    resumed = forked.start(LESSONS, tmp_path, tmp_path / "second")
    assert resumed.wait() == 0, resumed.err
    assert resumed.out.endswith("all 1 models are in lessons; open them: glassformer studio lessons/*\n")
    weights = (tmp_path / "lessons/vit/model.safetensors").read_bytes()
    again = forked.start(LESSONS, tmp_path, tmp_path / "third")
    assert again.wait() == 0 and "model 1" not in again.out
    assert (tmp_path / "lessons/vit/model.safetensors").read_bytes() == weights


def test_unknown_models_are_refused_and_the_help_is_shown() -> None:
    bad("lessons vits", "There is no lesson model 'vits'.", "gru-additive")
    assert "lessons" in good("--help").out
