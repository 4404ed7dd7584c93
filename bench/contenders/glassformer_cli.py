"""The command `glassformer translate` in this process: from the shell to the first translated line."""

from __future__ import annotations

import sys
from pathlib import Path

import common


class Decoder:
    """Runs the command once. The length of the output is set in run.toml."""

    def __init__(self, folder: Path, size: dict, vocab: int, precision: str, threads: int) -> None:
        self.run, self.precision = str(folder / "glassformer"), precision
        self.line = common.load(folder, "meta")["first_line"]

    def translate(self, batches, beam: int, length: int) -> None:
        assert sum(map(len, batches)) == 1
        sys.argv = ["glassformer", "translate", self.run, "--precision", self.precision, "--beam", str(beam), self.line]
        from glassformer.cli import main

        try:
            main()
        except SystemExit as end:  # how a command ends
            if end.code:
                raise


def version() -> str:
    from importlib.metadata import version as installed

    return f"glassformer {installed('glassformer')}"
