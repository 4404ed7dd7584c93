"""One file for several processes: each takes its share of the lines, and the outputs in order are the whole."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from glassformer.errors import UserError


@dataclass(frozen=True)
class Share:
    """Part `number` of `of`: the lines from `start`, counted from 0, up to `end`."""

    number: int = 1
    of: int = 1
    start: int = 0
    end: int | None = None

    def name(self, path: Path) -> Path:
        """`out.txt.03-of-16`, so that the names are in the order of the parts."""
        if self.of == 1:
            return path
        return path.with_name(f"{path.name}.{self.number:0{len(str(self.of))}d}-of-{self.of}")


def share_of(lines: int, number: int, of: int, window: int) -> Share:
    """Equal shares; cut between windows where there are enough, as lines of a window are decoded together."""
    unit = window if lines >= window * of else 1
    units = -(-lines // unit)
    start, end = (min(lines, units * n // of * unit) for n in (number - 1, number))
    return Share(number, of, start, end)


def parse(text: str, environment: Mapping[str, str] = os.environ) -> tuple[int, int]:
    """`3/16`, or `auto` for what torchrun and Slurm tell a process."""
    if text == "auto":
        for rank, size in (("RANK", "WORLD_SIZE"), ("SLURM_PROCID", "SLURM_NTASKS")):
            if rank in environment and size in environment:
                return int(environment[rank]) + 1, int(environment[size])
        raise UserError(
            "Nobody told this process its share.", where="--shard auto", hint="start it by torchrun or srun, or say 1/4"
        )
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise UserError(
            f"'{text}' is no share.", where="--shard", hint="say 1/4, 2/4, 3/4 or 4/4 for four parts, or auto"
        )
    return int(found[1]), int(found[2])
