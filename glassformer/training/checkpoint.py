"""Checkpoints: everything a run needs to go on as if nothing had happened.

    checkpoints/step-N/ model.safetensors  optimizer.safetensors  state.json

A folder appears whole or not at all. The newest can be resumed; of the others the best few stay, as weights alone.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from glassformer.errors import UserError
from glassformer.files import writing
from glassformer.run import read_weights, save_weights
from glassformer.text.batching import BEGINNING, Position


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
    seconds: float = 0.0


class Checkpoints:
    def __init__(self, folder: Path, keep: int) -> None:
        self.folder, self.keep = folder, keep

    def path(self, step: int) -> Path:
        return self.folder / f"step-{step}"

    def save(self, state: TrainState, weights: dict[str, Tensor], optimizer: dict[str, Tensor]) -> Path:
        path = self.path(state.step)
        with writing(path) as beside:
            beside.mkdir()
            save_weights(beside / "model.safetensors", weights)
            save_weights(beside / "optimizer.safetensors", optimizer)
            (beside / "state.json").write_text(json.dumps(_to_json(state)), encoding="utf-8")
        self._tidy(state)
        return path

    def newest(self) -> int | None:
        """The step of the newest checkpoint that can be resumed."""
        steps = [step for step in self.steps() if (self.path(step) / "optimizer.safetensors").exists()]
        return max(steps, default=None)

    def steps(self) -> list[int]:
        names = (path.name.removeprefix("step-") for path in self.folder.glob("step-*"))
        return sorted(int(name) for name in names if name.isdigit())

    def load(self, step: int) -> tuple[TrainState, dict[str, Tensor], dict[str, Tensor]]:
        """State, weights and optimizer; also sets PyTorch's random state."""
        path = self.path(step)
        weights = read_weights(path / "model.safetensors")
        optimizer = read_weights(path / "optimizer.safetensors")
        try:
            state = _from_json(json.loads((path / "state.json").read_text(encoding="utf-8")))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(
                f"The checkpoint is damaged: {error}.",
                where=str(path),
                fix="delete that folder to go on from the one before",
            ) from None
        return state, weights, optimizer

    def weights(self, step: int) -> dict[str, Tensor]:
        return read_weights(self.path(step) / "model.safetensors")

    def average(self, steps: list[int]) -> dict[str, Tensor]:
        """The mean of the weights of several checkpoints."""
        total: dict[str, Tensor] = {}
        for step in steps:
            for name, tensor in self.weights(step).items():
                total[name] = total[name] + tensor.double() if name in total else tensor.double()
        return {name: (tensor / len(steps)).float() for name, tensor in total.items()}

    def _tidy(self, state: TrainState) -> None:
        """Keeps the best few for averaging, and only the newest with its optimizer."""
        wanted = {validation.step for validation in state.best[: self.keep]} | {state.step}
        for step in self.steps():
            if step not in wanted:
                shutil.rmtree(self.path(step), ignore_errors=True)
            elif step != state.step:
                (self.path(step) / "optimizer.safetensors").unlink(missing_ok=True)


def _to_json(state: TrainState) -> dict[str, object]:
    random = torch.get_rng_state().numpy().tobytes()
    return dataclasses.asdict(state) | {"random": base64.b64encode(random).decode("ascii")}


def _from_json(raw: dict[str, object]) -> TrainState:
    fields = dict(raw)
    random = np.frombuffer(base64.b64decode(str(fields.pop("random"))), dtype=np.uint8)
    torch.set_rng_state(torch.from_numpy(random.copy()))
    fields["position"] = Position(*fields["position"])  # type: ignore[misc]
    fields["best"] = [Validation(**v) for v in fields["best"]]  # type: ignore[attr-defined]
    return TrainState(**fields)  # type: ignore[arg-type]
