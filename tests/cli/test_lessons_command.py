"""`glassformer lessons`: an interrupted model is resumed, a finished one is kept."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from command_line import bad, good

LESSONS = [sys.executable, "-u", "-m", "glassformer", "lessons", "vit", "-o", "lessons"]


def test_an_interrupted_model_is_resumed_and_a_finished_one_is_kept(tmp_path: Path) -> None:
    with subprocess.Popen(LESSONS, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as child:
        assert child.stdout is not None
        while "step 10/200" not in child.stdout.readline():
            assert child.poll() is None
        child.send_signal(signal.SIGINT)
        rest = child.stdout.read()
    assert rest.endswith("interrupted; the same command continues\n") and child.returncode == 0
    resumed = subprocess.run(LESSONS, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert resumed.stdout.endswith("all 1 models are in lessons; open them: glassformer studio lessons/*\n")
    weights = (tmp_path / "lessons/vit/model.safetensors").read_bytes()
    again = subprocess.run(LESSONS, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "model 1" not in again.stdout
    assert (tmp_path / "lessons/vit/model.safetensors").read_bytes() == weights


def test_unknown_models_are_refused_and_the_help_is_shown() -> None:
    bad("lessons vits", "There is no lesson model 'vits'.", "gru-additive")
    assert "lessons" in good("--help").out
