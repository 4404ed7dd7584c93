"""Run the command line in this process, so that a hundred commands take seconds."""

from __future__ import annotations

import io
import shlex
import sys
from dataclasses import dataclass

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


def glassformer(arguments: str | list[str], stdin: bytes = b"") -> Result:
    """Run `glassformer …` as a shell would; give a list if an argument needs quotes."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="") for _ in range(2))
    before = sys.argv, sys.stdin, sys.stdout, sys.stderr
    sys.argv = ["glassformer", *(shlex.split(arguments) if isinstance(arguments, str) else arguments)]
    sys.stdin, sys.stdout, sys.stderr = io.TextIOWrapper(_Stdin(stdin)), out, err
    code: object = 0
    try:
        main()
    except SystemExit as end:
        code = end.code or 0
    finally:
        sys.argv, sys.stdin, sys.stdout, sys.stderr = before
    assert isinstance(code, int), f"exit code {code!r}"
    return Result(code, _text(out), _text(err))


def good(arguments: str | list[str], stdin: bytes = b"") -> Result:
    """Run a command that must succeed."""
    result = glassformer(arguments, stdin)
    assert result.code == 0, result.err
    return result


def bad(arguments: str | list[str], *says: str, stdin: bytes = b"") -> Result:
    """Run a command that must be refused with a message that contains these texts."""
    result = glassformer(arguments, stdin)
    assert result.code == 2, result.out + result.err
    assert "Traceback" not in result.err
    for words in says:
        assert words in result.err, result.err
    return result


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    assert isinstance(stream.buffer, io.BytesIO)
    return stream.buffer.getvalue().decode("utf-8")
