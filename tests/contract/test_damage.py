"""Damaged runs: each kind of damage is reported, and the run resumes from an intact checkpoint to the same bits."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from killed import SETTINGS, bits, train_until

import glassformer as gf
from glassformer.errors import UserError
from glassformer.training.events import Event, Note

Damage = Callable[[Path], None]  # changes a run folder

FILES = ("model.safetensors", "optimizer.safetensors", "state.json", "checksums.json")


@pytest.fixture(scope="module")
def stopped(corpus: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was killed after its fifth checkpoint."""
    run = tmp_path_factory.mktemp("stopped") / "run"
    train_until("Saved", 5, *corpus, out=run, settings=SETTINGS)
    assert len(resumable(run)) == 2
    return run


@pytest.fixture(scope="module")
def foreign(corpus: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of the same shape from another run: only the seed differs."""
    settings = SETTINGS | {"train.seed": 7, "train.steps": 10}
    run = gf.train(*corpus, out=tmp_path_factory.mktemp("foreign") / "run", settings=settings).path
    return newest(run)


def resumable(run: Path) -> list[Path]:
    return sorted((run / "checkpoints").glob("step-*"), key=lambda path: int(path.name.removeprefix("step-")))


def newest(run: Path) -> Path:
    return resumable(run)[-1]


def in_newest(name: str, change: Callable[[Path], None]) -> Damage:
    return lambda run: change(newest(run) / name)


def cut_in_half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def emptied(path: Path) -> None:
    os.truncate(path, 0)


def longer(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"\0")


def bit_flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) * 2 // 3] ^= 1
    path.write_bytes(content)


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def a_dangling_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("nowhere")


def all_files_gone(run: Path) -> None:
    for file in newest(run).iterdir():
        file.unlink()


def no_checkpoint_at_all(run: Path) -> None:
    shutil.rmtree(run / "checkpoints")


def both_damaged(run: Path) -> None:
    for checkpoint in resumable(run):
        bit_flipped(checkpoint / "optimizer.safetensors")


def an_empty_folder_with_a_higher_number(run: Path) -> None:
    (run / "checkpoints" / "step-39").mkdir()


def a_file_with_a_higher_number(run: Path) -> None:
    (run / "checkpoints" / "step-39").write_text("not a checkpoint", encoding="utf-8")


def a_step_told_otherwise(run: Path) -> None:
    path = newest(run) / "state.json"
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | {"step": 1}), encoding="utf-8")


def checksums_of(content: str) -> Damage:
    return lambda run: (newest(run) / "checksums.json").write_text(content, encoding="utf-8") and None


NAMED = {
    **{f"{name} cut in half": in_newest(name, cut_in_half) for name in FILES},
    **{f"{name} emptied": in_newest(name, emptied) for name in FILES},
    **{f"{name} bit flipped": in_newest(name, bit_flipped) for name in FILES[:3]},
    **{f"{name} missing": in_newest(name, Path.unlink) for name in FILES},
    **{f"{name} a folder": in_newest(name, a_folder) for name in FILES[:2]},
    "weights a byte longer": in_newest("model.safetensors", longer),
    "weights a dangling link": in_newest("model.safetensors", a_dangling_link),
    "checksums a list": checksums_of("[]"),
    "checksums of nothing": checksums_of('{"run": "", "files": {}}'),
    "all files of it gone": all_files_gone,
    "a step told otherwise": a_step_told_otherwise,
    "an empty folder with a higher number": an_empty_folder_with_a_higher_number,
    "a file with a higher number": a_file_with_a_higher_number,
}


def half_written(run: Path) -> None:
    beside = run / "checkpoints" / ".step-26.1234.tmp"
    beside.mkdir()
    (beside / "model.safetensors").write_bytes(b"half")
    (run / ".model.safetensors.1234.tmp").write_bytes(b"half")


SILENT = {
    "the newest folder gone": lambda run: shutil.rmtree(newest(run)),
    "no checkpoint at all": no_checkpoint_at_all,
    "half-written files of a killed process": half_written,
    "a folder of another name": lambda run: (run / "checkpoints" / "step-x").mkdir(),
    "best weights missing": lambda run: (run / "model.safetensors").unlink(missing_ok=True),
    "best weights cut in half": lambda run: cut_in_half(run / "model.safetensors"),
    "half a line in the log": lambda run: cut_in_half(run / "log.jsonl"),
    "no log": lambda run: (run / "log.jsonl").unlink(),
}


def resumed(stopped: Path, tmp_path: Path, damage: Damage) -> tuple[Path, list[str]]:
    run, told = tmp_path / "run", []
    shutil.copytree(stopped, run, symlinks=True)
    damage(run)

    def listen(event: Event) -> None:
        if isinstance(event, Note):
            told.append(event.text)

    gf.train(out=run, resume=True, listener=listen)
    return run, told


@pytest.mark.parametrize("damage", NAMED.values(), ids=NAMED)
def test_a_damaged_checkpoint_is_named_and_the_one_before_is_used(
    damage: Damage,
    stopped: Path,
    uninterrupted: Path,
    tmp_path: Path,
) -> None:
    run, told = resumed(stopped, tmp_path, damage)
    assert any("is damaged" in text for text in told), told
    assert bits(run) == bits(uninterrupted)


@pytest.mark.parametrize("damage", SILENT.values(), ids=SILENT)
def test_damage_to_files_that_resuming_does_not_need_is_ignored(
    damage: Damage,
    stopped: Path,
    uninterrupted: Path,
    tmp_path: Path,
) -> None:
    run, told = resumed(stopped, tmp_path, damage)
    assert not any("is damaged" in text for text in told), told
    assert bits(run) == bits(uninterrupted)
    assert not list(run.rglob("*.tmp"))


def test_without_an_intact_checkpoint_the_best_weights_are_not_overwritten(stopped: Path, tmp_path: Path) -> None:
    before = (stopped / "model.safetensors").read_bytes()
    with pytest.raises(UserError, match=r"Every checkpoint(.|\n)*optimizer.safetensors(.|\n)*--from"):
        resumed(stopped, tmp_path, both_damaged)
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == before


def test_a_checkpoint_of_another_run_is_not_used(
    stopped: Path,
    foreign: Path,
    uninterrupted: Path,
    tmp_path: Path,
) -> None:
    run, told = resumed(
        stopped, tmp_path, lambda run: shutil.copytree(foreign, run / "checkpoints" / "step-39") and None
    )
    assert any("belongs to another run" in text for text in told), told
    assert bits(run) == bits(uninterrupted)


def test_damaged_weights_are_left_out_of_the_mean(stopped: Path, tmp_path: Path) -> None:
    kept = sorted((stopped / "checkpoints").glob("best-*"))
    if not kept:
        pytest.skip("this run's best checkpoints are its newest")
    run, told = resumed(stopped, tmp_path, lambda run: bit_flipped(run / "checkpoints" / kept[0].name / FILES[0]))
    assert gf.load(run).translate(["I am a student"])
    assert any("they are not averaged" in text for text in told) or not (run / "checkpoints" / kept[0].name).exists()


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("run.toml", cut_in_half),
        ("run.toml", Path.unlink),
        ("tokenizer.json", cut_in_half),
        ("tokenizer.json", Path.unlink),
    ],
)
def test_a_run_without_settings_or_tokenizer_is_refused(
    name: str, damage: Callable[[Path], None], stopped: Path, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=name.replace(".", r"\.")):
        resumed(stopped, tmp_path, lambda run: damage(run / name))


HOLDER = """
import sys
from pathlib import Path
from glassformer.files import exclusive_lock
with exclusive_lock(Path(sys.argv[1]) / ".lock", "training in this folder"):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_process_in_one_folder_is_refused(stopped: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(stopped, run)
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(run)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    try:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(UserError, match=f"Another process is training(.|\n)*{holder.pid}"):
            gf.train(out=run, resume=True)
    finally:
        holder.kill()  # the lock of a process that dies is released
        holder.communicate()
    gf.train(out=run, resume=True)
