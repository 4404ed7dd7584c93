"""A corpus on disk, as text and as token ids: mapped into memory, so that it opens at once whatever its size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from glassformer.data.cache import Cache
from glassformer.data.corpus import Pair
from glassformer.data.report import Place
from glassformer.text.ragged import Ragged, gather_rows

IdList = Sequence[int]


# Text ----------------------------------------------------------


class BlockOfLines(NamedTuple):
    """What the index says of one block of lines."""

    file: int
    first_line: int
    rows: int
    source_bytes: int
    target_bytes: int


class LinesWriter:
    """Appends blocks of lines to `source.txt` and `target.txt`."""

    def __init__(self, folder: Path) -> None:
        self.blocks: list[BlockOfLines] = []
        self._files = [(folder / f"{side}.txt").open("wb") for side in ("source", "target")]

    def write(self, file: int, first_line: int, rows: int, source: bytes, target: bytes) -> None:
        for stream, text in zip(self._files, (source, target), strict=True):
            stream.write(text)
        self.blocks.append(BlockOfLines(file, first_line, rows, len(source), len(target)))

    def __enter__(self) -> LinesWriter:
        return self

    def __exit__(self, *error: object) -> None:
        for stream in self._files:
            stream.close()


class Lines:
    """All lines of a corpus, those too that were dropped: read by blocks, from any process."""

    def __init__(self, folder: Path, blocks: Sequence[Sequence[int]], names: Sequence[str]) -> None:
        self.folder, self.names = folder, names
        self.index = [BlockOfLines(*block) for block in blocks]
        self._first_row = _starts([block.rows for block in self.index])
        self._source_at = _starts([block.source_bytes for block in self.index])
        self._target_at = _starts([block.target_bytes for block in self.index])

    def __len__(self) -> int:
        return int(self._first_row[-1])

    @property
    def blocks(self) -> int:
        return len(self.index)

    def rows_of(self, block: int) -> tuple[int, int]:
        """The first row of a block, and the one behind its last."""
        return int(self._first_row[block]), int(self._first_row[block + 1])

    def texts(self, block: int) -> tuple[list[str], list[str]]:
        return (
            _read_lines(self.folder / "source.txt", *self._source_at[block : block + 2].tolist()),
            _read_lines(self.folder / "target.txt", *self._target_at[block : block + 2].tolist()),
        )

    def place(self, row: int) -> Place:
        block = int(np.searchsorted(self._first_row, row, side="right")) - 1
        found = self.index[block]
        return Place(self.names[found.file], found.first_line + row - int(self._first_row[block]))

    def pairs(self, rows: np.ndarray) -> Iterator[Pair]:
        """The pairs of these rows, which are ascending. Reads the blocks that they are in, one at a time."""
        for block, found in enumerate(self.index):
            if some := self.within(block, rows).tolist():
                sources, targets = self.texts(block)
                file = self.names[found.file]
                yield from (Pair(sources[row], targets[row], found.first_line + row, file) for row in some)

    def within(self, block: int, rows: np.ndarray) -> np.ndarray:
        """Those of these ascending rows that are in a block, counted from its first."""
        first, end = self.rows_of(block)
        bounds = np.array([first, end - 1]).astype(rows.dtype)  # of another type, all rows would be copied
        start, stop = np.searchsorted(rows, bounds[:1])[0], np.searchsorted(rows, bounds[1:], side="right")[0]
        return rows[start:stop].astype(np.int64) - first


class Text:
    """The training pairs of a run: lines on disk, and which of them are in use.

    fingerprint  changes when any pair of the training or validation text does
    digest       changes when any training pair does
    corpora      training pairs of each corpus, one after the other
    """

    def __init__(self, folder: Path, about: dict[str, Any], names: Sequence[str], cache: Cache) -> None:
        self.cache = cache
        self.lines = Lines(folder, about["blocks"], names)
        self.rows = np.load(folder / "train.npy", mmap_mode="r", allow_pickle=False)
        self.fingerprint, self.digest = str(about["fingerprint"]), str(about["digest"])
        self.corpora: list[int] = about["corpora"]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Pair]:
        return self.pairs()

    def pairs(self, positions: np.ndarray | slice | None = None) -> Iterator[Pair]:
        """Training pairs in order: all, or those at ascending positions."""
        return self.lines.pairs(self.rows if positions is None else self.rows[positions])

    def place(self, position: int) -> Place:
        return self.lines.place(int(self.rows[position]))


def _starts(sizes: Sequence[int]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64)


def _read_lines(path: Path, start: int, end: int) -> list[str]:
    with path.open("rb") as file:
        file.seek(start)
        return file.read(end - start).decode("utf-8").removesuffix("\n").split("\n")


# Token ids -----------------------------------------------------


class Ids:
    """Encoded pairs in one array, source ids and then target ids, pair after pair; on disk or in memory."""

    def __init__(
        self, ids: np.ndarray, starts: np.ndarray, source_lengths: np.ndarray, target_lengths: np.ndarray
    ) -> None:
        self.ids, self.starts = ids, starts
        self.source_lengths, self.target_lengths = source_lengths, target_lengths

    @classmethod
    def of(cls, pairs: Sequence[tuple[IdList, IdList]]) -> Ids:
        lengths = np.array([[len(source), len(target)] for source, target in pairs], dtype=np.uint32).reshape(-1, 2)
        ids = np.fromiter(chain.from_iterable(chain.from_iterable(pairs)), dtype=np.int64, count=int(lengths.sum()))
        return cls(ids, _starts(lengths.sum(axis=1).tolist())[:-1], lengths[:, 0], lengths[:, 1])

    @classmethod
    def open(cls, folder: Path, about: dict[str, Any]) -> Ids:
        ids = np.memmap(folder / "ids.bin", dtype=np.dtype(about["dtype"]), mode="r")
        names = ("starts", "source_lengths", "target_lengths")
        return cls(ids, *(np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in names))

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, row: int) -> tuple[list[int], list[int]]:
        start, source = int(self.starts[row]), int(self.source_lengths[row])
        end = start + source + int(self.target_lengths[row])
        return self.ids[start : start + source].tolist(), self.ids[start + source : end].tolist()

    def sides(self, rows: np.ndarray) -> tuple[Ragged, Ragged]:
        """The sources and the targets of some rows."""
        starts = self.starts[rows].astype(np.int64)
        source, target = self.source_lengths[rows].astype(np.int64), self.target_lengths[rows].astype(np.int64)
        return gather_rows(self.ids, starts, source), gather_rows(self.ids, starts + source, target)


class IdsWriter:
    """Appends encoded pairs to `ids.bin`; the index is written at the end."""

    def __init__(self, folder: Path, vocabulary: int) -> None:
        self.folder, self.dtype = folder, np.dtype(np.uint16 if vocabulary <= 2**16 else np.uint32)
        self._file = (folder / "ids.bin").open("wb")
        self._lengths: list[np.ndarray] = []

    def write(self, ids: np.ndarray, lengths: np.ndarray) -> None:
        """ids      of source, target, source, target …
        lengths  of each of these
        """
        self._file.write(ids.astype(self.dtype, copy=False).tobytes())
        self._lengths.append(lengths.astype(np.uint32))

    def __enter__(self) -> IdsWriter:
        return self

    def __exit__(self, kind: object, *rest: object) -> None:
        self._file.close()
        if kind is None:
            lengths = np.concatenate(self._lengths)
            if lengths.max() < 2**16 - 1:  # small arrays sort faster; one is left for <eos>
                lengths = lengths.astype(np.uint16)
            np.save(self.folder / "source_lengths.npy", lengths[0::2])
            np.save(self.folder / "target_lengths.npy", lengths[1::2])
            ends = np.cumsum(lengths, dtype=np.uint64)[1::2]
            np.save(self.folder / "starts.npy", np.concatenate([np.zeros(1, dtype=np.uint64), ends[:-1]]))

    def about(self) -> dict[str, Any]:
        return {"dtype": self.dtype.name}
