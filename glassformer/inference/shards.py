"""Shards of an input file: each process handles one range of lines, and the outputs are concatenated in order."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from glassformer.errors import UserError


@dataclass(frozen=True)
class Shard:
    """Shard `number` of `count`: the lines from `start` (counted from 0) to before `end`."""

    number: int = 1
    count: int = 1
    start: int = 0
    end: int | None = None

    def output_path(self, path: Path) -> Path:
        """Return the output file of this shard, such as `out.txt.03-of-16`; the names sort in order."""
        if self.count == 1:
            return path
        return path.with_name(f"{path.name}.{self.number:0{len(str(self.count))}d}-of-{self.count}")


def shard_of(lines: int, number: int, count: int, window: int) -> Shard:
    """Return an equal shard of a file; with enough lines, cut between windows, whose lines are decoded together."""
    unit = window if lines >= window * count else 1
    units = -(-lines // unit)
    start, end = (min(lines, units * n // count * unit) for n in (number - 1, number))
    return Shard(number, count, start, end)


def parse_shard(text: str, environment: Mapping[str, str] = os.environ) -> tuple[int, int]:
    """Return (number, count) of `3/16`, or of `auto`: the rank and world size set by torchrun or Slurm."""
    if text == "auto":
        for rank, size in (("RANK", "WORLD_SIZE"), ("SLURM_PROCID", "SLURM_NTASKS")):
            if rank in environment and size in environment:
                return int(environment[rank]) + 1, int(environment[size])
        hint = "start it with torchrun or srun, or give the shard: --shard 1/4"
        raise UserError("No rank and world size are set for this process.", where="--shard auto", hint=hint)
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise UserError(
            f"'{text}' is not a shard.", where="--shard", hint="use 1/4, 2/4, 3/4 or 4/4 for four shards, or auto"
        )
    return int(found[1]), int(found[2])
