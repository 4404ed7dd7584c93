"""Full and read-only disks, interrupts, closed pipes and quotas."""

from __future__ import annotations

import json
import os
import pickle
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from cases_mistakes import TRAIN, one_line
from harness import Result, assert_says, complaint, contents, run
from make_template import TINY
from making import CANARY, Malice


def glassformer(workdir: Path, command: str) -> Result:
    return run(command, workdir, bounded=False)


def test_loading_the_hostile_pickles_would_execute_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the cases with pickles would prove nothing."""
    monkeypatch.chdir(tmp_path)
    pickle.loads(pickle.dumps(Malice()))
    assert (tmp_path / CANARY).exists()


# Disks that are full or locked -------------------------------


@contextmanager
def mounted(folder: Path, options: str) -> Iterator[Callable[[str], None]]:
    """A small separate disk, and a function that mounts it again with other options."""
    folder.mkdir()

    def mount(options: str) -> None:
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", folder], capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"mounting a small disk is not permitted here: {done.stderr.strip()}")

    mount(options)
    try:
        yield lambda options: mount(f"remount,{options}")
    finally:
        subprocess.run(["umount", folder], check=True)


@pytest.mark.parametrize("size", ["16k", "64k", "128k", "256k"])
def test_training_on_a_full_disk_resumes_when_there_is_space(workdir: Path, size: str) -> None:
    with mounted(workdir / "disk", f"size={size}") as remount:
        result = glassformer(workdir, f"{TRAIN} -o disk/run")
        assert result.code == 2, result.err
        assert_says(complaint(result.err), ("No space left on device", "disk/run", "free space", "--resume"))
        assert not [name for name in contents(workdir) if name.endswith(".tmp")]
        remount("size=9m")
        begun = (workdir / "disk/run/run.toml").exists()
        again = glassformer(workdir, "train -o disk/run --resume" if begun else f"{TRAIN} -o disk/run")
        assert again.code == 0, again.err
        assert one_line(workdir, glassformer(workdir, "translate disk/run hello"))


def test_a_disk_that_is_read_only(workdir: Path) -> None:
    with mounted(workdir / "disk", "ro"):
        for command in (
            f"{TRAIN} -o disk/run",
            "translate run hello -o disk/out.fr",
            "data get phrasebook -o disk/book",
        ):
            result = glassformer(workdir, command)
            assert result.code == 2, result.err
            assert_says(complaint(result.err), ("Read-only file system", "disk/", "with -o"))


# The real program --------------------------------------------


def start(*arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "glassformer", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


def test_ctrl_c_saves_and_resume_finishes(workdir: Path) -> None:
    settings = [s for s in TINY.split() if not s.startswith(("train.steps", "train.validate_every"))]
    begun = start(
        "train", "train.en", "train.fr", "-o", "new", *settings, "train.steps=1000000", "train.validate_every=50000"
    )
    log = workdir / "new/log.jsonl"
    while begun.poll() is None and not (log.exists() and '"progress"' in log.read_text()):
        time.sleep(0.02)
    begun.send_signal(signal.SIGINT)
    _, err = begun.communicate(timeout=60)
    assert begun.returncode == 0, err
    assert b"Traceback" not in err
    assert b"stopped and saved; continue with --resume" in err
    (checkpoint,) = (workdir / "new/checkpoints").iterdir()
    step = json.loads((checkpoint / "state.json").read_text())["step"]
    assert checkpoint.name == f"step-{step}"
    again = glassformer(workdir, f"train -o new --resume train.steps={step + 3} train.validate_every=1 --json")
    assert again.code == 0, again.err
    end = json.loads(again.out)
    assert (end["reason"], end["step"]) == ("steps", step + 3)
    assert f"from step {step:,} to step {step + 3:,}" in again.err
    assert one_line(workdir, glassformer(workdir, "translate new hello"))


def test_translate_reads_standard_input_and_writes_standard_output(workdir: Path) -> None:
    """In UTF-8, whatever the locale says."""
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii"}
    process = start("translate", "run", "--json", stdin=subprocess.PIPE, env=ascii_only)
    out, err = process.communicate("한국어 🙂\n\nA cat .\n".encode(), timeout=60)
    assert process.returncode == 0, err
    assert [json.loads(line)["source"] for line in out.splitlines()] == ["한국어 🙂", "", "A cat ."]


def test_a_closed_output_pipe_is_not_an_error(workdir: Path) -> None:
    with start("info", "run") as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode in (0, 1)


def test_standard_output_on_a_full_disk(workdir: Path) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run([sys.executable, "-m", "glassformer", "info", "run"], stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 2
    assert_says(complaint(done.stderr.decode()), ("No space left on device", "standard output", "free space"))


def test_a_file_size_limit_is_reported(workdir: Path) -> None:
    """A quota, as `ulimit -f` sets it."""
    size = 40_000  # of the files of a run, only those with weights are larger
    process = start(
        *TRAIN.split(), "-o", "new", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    )
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2, err
    assert b"Traceback" not in err
    assert_says(complaint(err.decode()), ("File too large", "new/model.safetensors", "ulimit -f"))
    assert not [name for name in contents(workdir) if name.endswith(".tmp")]


def test_an_error_of_the_installed_program(workdir: Path) -> None:
    process = start("train", "trian.en", "train.fr")
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (2, b"")
    assert_says(complaint(err.decode()), ("no file trian.en", "did you mean train.en?"))
