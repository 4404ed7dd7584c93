"""The command line run in this very process, and one tiny run that every test may copy and damage."""

from __future__ import annotations

import io
import shlex
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from glassformer.cli import main

TINY = (
    "model.layers=1 model.d_model=16 model.heads=2 model.d_ff=16 tokenizer.vocab=400 "
    "train.steps=5 train.validate_every=5 decode.max_length=20"
)


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str


class _Stdin(io.BytesIO):
    name = "<stdin>"


Cli = Callable[..., Result]


def run_main(arguments: list[str], stdin: bytes = b"") -> Result:
    """`glassformer …` as a shell would run it, with standard output and error kept apart."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="") for _ in range(2))
    before = sys.argv, sys.stdin, sys.stdout, sys.stderr
    sys.argv = ["glassformer", *arguments]
    sys.stdin, sys.stdout, sys.stderr = io.TextIOWrapper(_Stdin(stdin)), out, err
    code: object = 0
    try:
        main()
    except SystemExit as end:
        code = end.code or 0
    finally:
        sys.argv, sys.stdin, sys.stdout, sys.stderr = before
    assert isinstance(code, int), f"exit code {code!r}"
    return Result(code, *(_text(stream) for stream in (out, err)))


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    assert isinstance(stream.buffer, io.BytesIO)
    return stream.buffer.getvalue().decode("utf-8")


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the phrasebook (train.en, train.fr, …) and `run`, a model trained on it for five steps."""
    folder = tmp_path_factory.mktemp("workshop")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert run_main(["data", "get", "phrasebook", "--size", "200", "-o", "."]).code == 0
        made = run_main(
            shlex.split(f"train train.en train.fr --valid valid.en valid.fr --test test.en test.fr -o run {TINY}")
        )
    assert made.code == 0, made.err
    return folder


@pytest.fixture
def desk(workshop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the workshop to spoil, and the current folder."""
    folder = tmp_path / "desk"
    shutil.copytree(workshop, folder)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def cli() -> Cli:
    """`cli("translate run hello")`, or a list where a shell would need quotes."""

    def run(arguments: str | list[str], stdin: bytes = b"") -> Result:
        return run_main(shlex.split(arguments) if isinstance(arguments, str) else arguments, stdin)

    return run
