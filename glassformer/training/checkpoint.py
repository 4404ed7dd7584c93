"""Checkpoints: everything a run needs to go on as if nothing had happened.

    checkpoints/ step-N/ model.safetensors  optimizer.safetensors  state.json  checksums.json
                 best-N/ model.safetensors  checksums.json

A folder appears whole or not at all, and its checksums tell whether it is still what was written. The newest two can
be resumed: should the last be damaged, there is one before. Of older ones the best few stay, as weights alone (with
`train.film` all of them: each is a frame of the film that the studio shows).
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from torch import Tensor

from glassformer.data.batching import BEGINNING, Position
from glassformer.files import read_json, remove, writing
from glassformer.inference.run import WeightsFile, save_weights


@dataclass(frozen=True)
class Validation:
    step: int
    score: float
    loss: float

    @property
    def rank(self) -> tuple[float, float]:
        """Higher is better; of equal scores the lower loss."""
        return round(self.score, 2), -self.loss


@dataclass
class TrainState:
    """Where a run stands, beside its weights and the optimizer's moments."""

    step: int = 0
    position: Position = BEGINNING
    best: list[Validation] = field(default_factory=list)  # best first
    without_better: int = 0  # validations since the best
    skipped: int = 0  # steps whose numbers were not finite
    skipped_in_a_row: int = 0
    seconds: float = 0.0


class Checkpoints:
    RESUMABLE = 2  # how many can be resumed

    def __init__(self, folder: Path, keep: int, *, film: bool = False, run: str = "") -> None:
        """
        keep  how many of the best stay
        film  whether all stay
        run   what tells this run from others, so that a checkpoint of another is not taken for its own
        """
        self.folder, self.keep, self.film, self.run = folder, keep, film, run

    def path(self, step: int) -> Path:
        return self.folder / f"step-{step}"

    def save(self, state: TrainState, weights: Mapping[str, Tensor], optimizer: Mapping[str, Tensor]) -> Path:
        path = self.path(state.step)
        with writing(path) as beside:
            beside.mkdir()
            save_weights(beside / "model.safetensors", weights)
            save_weights(beside / "optimizer.safetensors", optimizer)
            (beside / "state.json").write_text(json.dumps(dataclasses.asdict(state)), encoding="utf-8")
            _seal(beside, self.run)
        self._tidy(state)
        return path

    def steps(self) -> list[int]:
        """Those that can be resumed if they are whole, oldest first."""
        return self._numbers("step")

    def damage(self, step: int) -> str:
        """What is wrong with a checkpoint; nothing if it is whole."""
        return _damage(self.path(step), ("model.safetensors", "optimizer.safetensors", "state.json"), self.run)

    def load(self, step: int) -> tuple[TrainState, Mapping[str, Tensor], Mapping[str, Tensor]]:
        """State, weights and optimizer of a whole checkpoint. Tensors are read from its files when asked for."""
        path = self.path(step)
        weights = WeightsFile(path / "model.safetensors")
        optimizer = WeightsFile(path / "optimizer.safetensors")
        state = read_json(path / "state.json", "The state of the training", f"delete {path}")
        return _from_json(state), weights, optimizer

    def damage_of_weights(self, step: int) -> str:
        """What is wrong with the weights of one of the best."""
        return _damage(self._of(step), ("model.safetensors",), self.run)

    def kept(self) -> list[int]:
        """Those whose weights are there, oldest first."""
        return sorted({*self._numbers("step"), *self._numbers("best")})

    def weights_file(self, step: int) -> Path:
        return self._of(step) / "model.safetensors"

    def weights(self, step: int) -> Mapping[str, Tensor]:
        return WeightsFile(self.weights_file(step))

    def average(self, steps: list[int]) -> Mapping[str, Tensor]:
        """The mean of the weights of several checkpoints, computed for each tensor when it is asked for."""
        return _Average([self.weights(step) for step in steps])

    def _best(self, step: int) -> Path:
        return self.folder / f"best-{step}"

    def _of(self, step: int) -> Path:
        return self._best(step) if self._best(step).exists() else self.path(step)

    def _numbers(self, kind: str) -> list[int]:
        names = (path.name.removeprefix(f"{kind}-") for path in self.folder.glob(f"{kind}-*"))
        return sorted(int(name) for name in names if name.isdigit())

    def _tidy(self, state: TrainState) -> None:
        """Keeps the newest to resume from and the best to average; what goes leaves in one move."""
        best = {validation.step for validation in state.best[: self.keep]}
        if self.film:
            best |= {step for step in self.kept() if step <= state.step}
        resumable = {step for step in self.steps() if step <= state.step}
        for step in self.steps():
            if step in sorted(resumable)[-self.RESUMABLE :]:
                continue
            if step in best and not self._best(step).exists():
                os.replace(self.path(step), self._best(step))
            else:
                remove(self.path(step))
        for step in self._numbers("best"):
            if step not in best:
                remove(self._best(step))
            else:
                for name in ("optimizer.safetensors", "state.json"):
                    (self._best(step) / name).unlink(missing_ok=True)


class _Average(Mapping[str, Tensor]):
    """The mean of several sets of weights with the same names."""

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


def _seal(folder: Path, run: str) -> None:
    """Writes down what the files of a folder hold, and whose they are."""
    sums = {file.name: _checksum(file) for file in sorted(folder.iterdir())}
    (folder / "checksums.json").write_text(json.dumps({"run": run, "files": sums}, indent=1), encoding="utf-8")


def _damage(folder: Path, needed: tuple[str, ...], run: str) -> str:
    """What is wrong with the files that are needed of a sealed folder; nothing if they are as they were written."""
    try:
        seal = json.loads((folder / "checksums.json").read_text(encoding="utf-8"))
        expected = {name: seal["files"][name] for name in needed}
        if seal["run"] != run:
            return "it belongs to another run"
    except (FileNotFoundError, NotADirectoryError):
        return "it has no checksums" if folder.is_dir() else "it is not a folder"
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        return f"its checksums cannot be read ({type(error).__name__})"
    for name, written in expected.items():
        try:
            if _checksum(folder / name) != written:
                return f"{name} is not what was written"
        except OSError as error:
            return f"{name}: {error.strerror or error}"
    return ""


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def _from_json(raw: dict[str, object]) -> TrainState:
    fields = {field.name: raw[field.name] for field in dataclasses.fields(TrainState) if field.name in raw}
    fields["position"] = Position(*fields["position"])  # type: ignore[misc]
    fields["best"] = [Validation(**v) for v in fields["best"]]  # type: ignore[attr-defined]
    return TrainState(**fields)  # type: ignore[arg-type]
