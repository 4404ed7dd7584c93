"""Results of the benchmarks over time: one JSON file per measurement, kept per CPU model, and their comparison."""

from __future__ import annotations

import json
import math
import re
import statistics
import subprocess
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from glassformer.errors import UserError
from glassformer.files import read_json, write_text
from glassformer.lab.bench.runner import BENCH, OURS, SCALING, Row
from glassformer.machine import cores
from glassformer.operating_system import cpu_name

MEASURES = {  # what is compared, and whether more is better
    "tokens_per_second": True, "sentences_per_second": True, "share_of_bare_step": True,
    "seconds": False, "peak_megabytes": False,
}  # fmt: skip
MIN_ROUNDS = 3
MIN_CHANGE = 0.03  # smaller changes are not reported, however precise the measurement is
NOISE_FACTOR = 3
DEVIATIONS_PER_MAD = 1.4826  # of a normal distribution
KEPT = "name two files that glassformer bench has written"
SAME = ("kind", "cpu", "threads")  # results that differ in one of these cannot be compared


@dataclass(frozen=True)
class Change:
    """One measure of one case in two results.

    Attributes:
        gain: logarithm of the ratio of the medians; negative is worse.
        noise: standard deviation of the logarithm of a single measurement, from the median absolute deviation.
    """

    case: str
    measure: str
    old: float
    new: float
    gain: float
    noise: float

    @property
    def limit(self) -> float:
        """The smallest gain or loss that exceeds the noise."""
        return max(math.log1p(MIN_CHANGE), NOISE_FACTOR * self.noise)

    @property
    def is_regression(self) -> bool:
        return self.gain < -self.limit

    @property
    def verdict(self) -> str:
        if self.is_regression:
            return "REGRESSION"
        return "better" if self.gain > self.limit else "within the noise"

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"limit": self.limit, "verdict": self.verdict}


def keep(kind: str, rows: list[Row], command: str, folder: Path) -> Path:
    """Write a new file with the results in the folder of this CPU model and return its path."""
    import torch

    now, commit = datetime.now(UTC), _commit()
    result = {
        "kind": kind,
        "command": command,
        "date": now.isoformat(timespec="seconds"),
        "version": version("glassformer"),
        "commit": commit,
        "cpu": cpu_name(),
        "threads": cores(),
        "torch": torch.__version__,
        "rows": [vars(row) for row in rows],
    }
    name = f"{kind}-{now:%Y-%m-%d-%H%M%S}-{commit or version('glassformer')}.json"
    path = folder / re.sub(r"[^\w.]+", "-", cpu_name()).strip("-") / name
    write_text(path, json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    return path


def _commit() -> str:
    """Return the commit of the clone that the benchmarks are run from; it ends with -dirty if files were changed."""
    command = ["git", "-C", str(BENCH.parent), "describe", "--always", "--dirty", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):  # no git, or not a clone
        return ""


def compare(old: Path, new: Path) -> list[Change]:
    """Return every change between two results of Glassformer on the same CPU model.

    Raises:
        UserError: if the results are of different benchmarks or machines, have no case in common, or have fewer than
            three rounds.
    """
    before, after = _load(old), _load(new)
    for name in SAME:
        if before[name] != after[name]:
            message = f"These results cannot be compared: {name} is {before[name]!r} and {after[name]!r}."
            raise UserError(message, where=str(new), hint="measure both versions with the same command on one machine")
    rows = {row.case: row for row in _rows(after, new)}
    changes = [
        _change(row.case, measure, row, rows[row.case], more_is_better)
        for row in _rows(before, old)
        if row.case in rows
        for measure, more_is_better in MEASURES.items()
        if all(result.get(measure, 0) > 0 for result in row.results + rows[row.case].results)
    ]
    if not changes:
        hint = "measure both versions with the same command"
        raise UserError("These results have no case in common.", where=str(new), hint=hint)
    return changes


def missing_cases(old: Path, new: Path) -> list[str]:
    """Return the cases of the old result that the new one lacks, for example because they failed."""
    measured = {row.case for row in _rows(_load(new), new)}
    return [row.case for row in _rows(_load(old), old) if row.case not in measured]


def _load(path: Path) -> dict[str, Any]:
    try:
        found = read_json(path, "The result", KEPT)
    except FileNotFoundError:
        raise UserError("There is no such result.", where=str(path), hint=KEPT) from None
    if not isinstance(found, dict) or not {*SAME, "rows"} <= found.keys():
        raise UserError("This is not a kept result of a benchmark.", where=str(path), hint=KEPT)
    return found


def _rows(result: dict[str, Any], path: Path) -> list[Row]:
    try:
        every = TypeAdapter(list[Row]).validate_python(result["rows"])
    except ValidationError as error:
        wrong = error.errors()[0]
        message = f"This result is damaged: rows.{'.'.join(map(str, wrong['loc']))}: {wrong['msg']}."
        raise UserError(message, where=str(path), hint=KEPT) from None
    rows = [row for row in every if row.contender in (OURS, SCALING)]
    if any(len(row.results) < MIN_ROUNDS for row in rows):
        message = f"The noise is unknown: a result needs at least {MIN_ROUNDS} rounds."
        raise UserError(message, where=str(path), hint=f"measure again with --rounds {MIN_ROUNDS} or more")
    return rows


def _change(case: str, measure: str, old: Row, new: Row, more_is_better: bool) -> Change:
    before, after = old.median(measure), new.median(measure)
    gain = math.log(after / before) * (1 if more_is_better else -1)
    deviations = [deviation for row in (old, new) for deviation in _deviations(row, measure)]
    return Change(case, measure, before, after, gain, DEVIATIONS_PER_MAD * statistics.median(deviations))


def _deviations(row: Row, measure: str) -> list[float]:
    """Return the deviations from the median, as logarithms, without that of the median itself, which is always 0."""
    middle = row.median(measure)
    return sorted(abs(math.log(result[measure] / middle)) for result in row.results)[len(row.results) % 2 :]


def table(changes: list[Change]) -> list[str]:
    """Return the comparison as a Markdown table."""
    lines = ["| case | measure | old | new | change | noise limit | verdict |", "|---|---|---|---|---|---|---|"]
    for one in changes:
        digits = 3 if one.old < 10 else 0
        lines.append(
            f"| {one.case} | {one.measure.replace('_', ' ')} | {one.old:,.{digits}f} | {one.new:,.{digits}f} "
            f"| {one.new / one.old - 1:+.1%} | ±{math.expm1(one.limit):.1%} | {one.verdict} |"
        )
    return lines
