"""Shards of a file: together they contain each line once."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from glassformer.errors import UserError
from glassformer.inference.shards import Shard, parse_shard, shard_of


@pytest.mark.parametrize("lines", [0, 1, 5, 16, 17, 1000, 2048, 16 * 2048, 16 * 2048 + 3, 100_001])
@pytest.mark.parametrize("of", [1, 3, 16])
def test_shards_cover_the_file_without_gaps(lines: int, of: int) -> None:
    shares = [shard_of(lines, number, of, window=2048) for number in range(1, of + 1)]
    assert (shares[0].start, shares[-1].end) == (0, lines)
    assert all(before.end == after.start for before, after in pairwise(shares))
    sizes = [share.end - share.start for share in shares]
    assert max(sizes) - min(sizes) <= (2048 + 2047 if lines >= 2048 * of else 1)


def test_large_files_are_cut_between_windows() -> None:
    assert all(shard_of(100_001, number, 7, window=2048).start % 2048 == 0 for number in range(1, 8))


def test_names_sort_in_the_order_of_the_shards() -> None:
    names = [Shard(number, 16).output_path(Path("a/out.txt")).name for number in range(1, 17)]
    assert names == sorted(names)
    assert names[2] == "out.txt.03-of-16"
    assert Shard().output_path(Path("out.txt")) == Path("out.txt")


def test_auto_reads_rank_and_world_size() -> None:
    assert parse_shard("3/16") == (3, 16)
    assert parse_shard("auto", {"RANK": "0", "WORLD_SIZE": "4"}) == (1, 4)
    assert parse_shard("auto", {"SLURM_PROCID": "3", "SLURM_NTASKS": "4"}) == (4, 4)


@pytest.mark.parametrize("text", ["", "0/4", "5/4", "1", "a/b", "1/0", "-1/4", "1/4/2", "auto"])
def test_invalid_shards_are_refused(text: str) -> None:
    with pytest.raises(UserError, match="shard"):
        parse_shard(text, {})
