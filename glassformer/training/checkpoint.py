"""Checkpoints: everything that a run needs to resume to the same bits.

    checkpoints/ step-N/ model.safetensors  optimizer.safetensors  state.json  checksums.json
                 best-N/ model.safetensors  checksums.json

Each folder is written atomically, and its checksums detect later damage. The newest two can be resumed, in case the
last one is damaged. Of the older ones, the best `train.average` are kept, without the optimizer state.
`train.keep_all_checkpoints` keeps the weights of all of them; the studio shows each.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from torch import Tensor

from glassformer.data.batching import BEGINNING, Position
from glassformer.files import atomic_write, checksum, read_json, remove
from glassformer.inference.run import WeightsFile, save_weights
from glassformer.operating_system import replace


@dataclass(frozen=True)
class Validation:
    """The result of one validation."""

    step: int
    score: float
    loss: float

    @property
    def rank(self) -> tuple[float, float]:
        """Sort key: higher is better, and among equal scores the lower loss is."""
        return -math.inf if math.isnan(self.score) else round(self.score, 2), -math.inf if self.is_nan else -self.loss

    @property
    def is_nan(self) -> bool:
        """Whether the model computes no numbers: training has diverged."""
        return math.isnan(self.loss)


@dataclass
class TrainState:
    """The progress of a run, without the weights and the optimizer state."""

    step: int = 0
    position: Position = BEGINNING
    best: list[Validation] = field(default_factory=list)  # best first
    without_better: int = 0  # validations since the best
    skipped: int = 0  # steps whose loss or gradient was not finite
    skipped_in_a_row: int = 0
    seconds: float = 0.0


class Checkpoints:
    """The checkpoints of a run.

    Args:
        folder: where they are stored.
        keep: how many of the best are kept.
        keep_all: keep all of them.
        run: identity of the run; checkpoints of another run are refused.
    """

    RESUMABLE = 2  # number of newest checkpoints that keep their optimizer state

    def __init__(self, folder: Path, keep: int, *, keep_all: bool = False, run: str = "") -> None:
        self.folder, self.keep, self.keep_all, self.run = folder, keep, keep_all, run

    def path(self, step: int) -> Path:
        return self.folder / f"step-{step}"

    def save(self, state: TrainState, weights: Mapping[str, Tensor], optimizer: Mapping[str, Tensor]) -> Path:
        path = self.path(state.step)
        with atomic_write(path) as temporary:
            temporary.mkdir()
            save_weights(temporary / "model.safetensors", weights)
            save_weights(temporary / "optimizer.safetensors", optimizer)
            (temporary / "state.json").write_text(json.dumps(dataclasses.asdict(state)), encoding="utf-8")
            _write_checksums(temporary, self.run)
        self._tidy(state)
        return path

    def steps(self) -> list[int]:
        """Return the steps of the checkpoints with optimizer state, oldest first."""
        return self._numbers("step")

    def damage(self, step: int) -> str:
        """Return what is wrong with a checkpoint, or an empty string."""
        return _damage(self.path(step), ("model.safetensors", "optimizer.safetensors", "state.json"), self.run)

    def load(self, step: int) -> tuple[TrainState, Mapping[str, Tensor], Mapping[str, Tensor]]:
        """Return state, weights and optimizer state of a checkpoint; tensors are read lazily from its files."""
        path = self.path(step)
        weights = WeightsFile(path / "model.safetensors")
        optimizer = WeightsFile(path / "optimizer.safetensors")
        state = read_json(path / "state.json", "The state of the training", f"delete {path}")
        return _from_json(state), weights, optimizer

    def damage_of_weights(self, step: int) -> str:
        """Return what is wrong with the weights of one of the best, or an empty string."""
        return _damage(self._folder_of(step), ("model.safetensors",), self.run)

    def steps_with_weights(self) -> list[int]:
        """Return the steps of all checkpoints, with or without optimizer state, oldest first."""
        return sorted({*self._numbers("step"), *self._numbers("best")})

    def weights_file(self, step: int) -> Path:
        return self._folder_of(step) / "model.safetensors"

    def weights(self, step: int) -> Mapping[str, Tensor]:
        return WeightsFile(self.weights_file(step))

    def average(self, steps: list[int]) -> Mapping[str, Tensor]:
        """Return the mean weights of several checkpoints; each tensor is computed when it is read."""
        return _Average([self.weights(step) for step in steps])

    def _best(self, step: int) -> Path:
        return self.folder / f"best-{step}"

    def _folder_of(self, step: int) -> Path:
        return self._best(step) if self._best(step).exists() else self.path(step)

    def _numbers(self, kind: str) -> list[int]:
        names = (path.name.removeprefix(f"{kind}-") for path in self.folder.glob(f"{kind}-*"))
        return sorted(int(name) for name in names if name.isdigit())

    def _tidy(self, state: TrainState) -> None:
        """Delete all but the newest (to resume) and the best (to average)."""
        best = {validation.step for validation in state.best[: self.keep]}
        if self.keep_all:
            best |= {step for step in self.steps_with_weights() if step <= state.step}
        resumable = {step for step in self.steps() if step <= state.step}
        for step in self.steps():
            if step in sorted(resumable)[-self.RESUMABLE :]:
                continue
            if step in best and not self._best(step).exists():
                replace(self.path(step), self._best(step))
            else:
                remove(self.path(step))
        for step in self._numbers("best"):
            if step not in best:
                remove(self._best(step))
            else:
                for name in ("optimizer.safetensors", "state.json"):
                    (self._best(step) / name).unlink(missing_ok=True)


class _Average(Mapping[str, Tensor]):
    """The mean of several sets of weights with the same names, computed lazily."""

    def __init__(self, weights: list[Mapping[str, Tensor]]) -> None:
        self._weights = weights

    def __getitem__(self, name: str) -> Tensor:
        total = self._weights[0][name].double()
        for weights in self._weights[1:]:
            total += weights[name]
        return (total / len(self._weights)).float()

    def __iter__(self) -> Iterator[str]:
        return iter(self._weights[0])

    def __len__(self) -> int:
        return len(self._weights[0])


def _write_checksums(folder: Path, run: str) -> None:
    """Record the checksums of the files in a folder and the identity of the run."""
    sums = {file.name: checksum(file) for file in sorted(folder.iterdir())}
    (folder / "checksums.json").write_text(json.dumps({"run": run, "files": sums}, indent=1), encoding="utf-8")


def _damage(folder: Path, needed: tuple[str, ...], run: str) -> str:
    """Compare files with their recorded checksums; return what is wrong, or an empty string."""
    try:
        recorded = json.loads((folder / "checksums.json").read_text(encoding="utf-8"))
        expected = {name: recorded["files"][name] for name in needed}
        if recorded["run"] != run:
            return "it belongs to another run"
    except (FileNotFoundError, NotADirectoryError):
        return "it has no checksums" if folder.is_dir() else "it is not a folder"
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        return f"its checksums cannot be read ({type(error).__name__})"
    for name, written in expected.items():
        try:
            if checksum(folder / name) != written:
                return f"{name} is not what was written"
        except OSError as error:
            return f"{name}: {error.strerror or error}"
    return ""


def _from_json(raw: dict[str, object]) -> TrainState:
    fields = {field.name: raw[field.name] for field in dataclasses.fields(TrainState) if field.name in raw}
    fields["position"] = Position(*fields["position"])  # type: ignore[misc]
    fields["best"] = [Validation(**v) for v in fields["best"]]  # type: ignore[attr-defined]
    return TrainState(**fields)  # type: ignore[arg-type]
