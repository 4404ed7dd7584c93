"""Adam (§5.3) over one flat vector of all weights, and the learning rate's course."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from glassformer.settings import TrainSettings

BETAS, EPSILON = (0.9, 0.98), 1e-9  # §5.3
MOMENTS = ("exp_avg", "exp_avg_sq")  # as PyTorch calls them


def learning_rate(step: int, s: TrainSettings) -> float:
    """Rises linearly to `lr` for `warmup` steps, then falls with 1/√step (§5.3), or along a cosine to 0 at the last."""
    if step <= s.warmup:
        return s.lr * step / s.warmup
    if s.schedule == "inverse_sqrt":
        return s.lr * math.sqrt(s.warmup / step)
    return s.lr * (1 + math.cos(math.pi * (step - s.warmup) / (s.steps - s.warmup))) / 2


class FlatAdam:
    """All weights lie in one vector and all gradients in another: one norm, one clip, one fused update a step.

    The model's parameters become views into these vectors, so the model must be on its device already.
    """

    def __init__(self, model: nn.Module) -> None:
        named = list(model.named_parameters())
        self.names = [name for name, _ in named]
        self.shapes = [parameter.shape for _, parameter in named]
        weights = torch.cat([parameter.detach().flatten() for _, parameter in named])
        self.gradient = torch.zeros_like(weights)
        for (_, parameter), weight, gradient in zip(
            named, self._views(weights), self._views(self.gradient), strict=True
        ):
            parameter.data, parameter.grad = weight, gradient
        self.weights = nn.Parameter(weights)
        self.weights.grad = self.gradient
        self._adam = torch.optim.Adam([self.weights], betas=BETAS, eps=EPSILON, fused=True)

    def update(self, *, lr: float, count: int, clip: float) -> float:
        """One step along the gradient of the summed losses divided by their count. Returns the gradient's norm.

        Where that is no finite number, nothing changes.
        """
        self.gradient.div_(count)
        norm = float(self.gradient.norm())
        if math.isfinite(norm):
            if clip and norm > clip:
                self.gradient.mul_(clip / norm)
            self._adam.param_groups[0]["lr"] = lr
            self._adam.step()
        self.forget()
        return norm

    def forget(self) -> None:
        """Gives up the gradients so far."""
        self.gradient.zero_()

    def state(self) -> dict[str, Tensor]:
        """Both moments of every weight, by name, and the number of updates."""
        inner = self._adam.state.get(self.weights)
        if not inner:
            return {}
        named = {"updates": inner["step"].clone().reshape(1)}
        for key in MOMENTS:
            named |= {f"{key}.{n}": view for n, view in zip(self.names, self._views(inner[key]), strict=True)}
        return named

    def moments(self) -> list[Tensor]:
        """The same as they lie in memory, to be written to."""
        inner = self._adam.state[self.weights]
        if not inner:
            inner["step"] = torch.zeros((), device=self.gradient.device)
            inner |= {key: torch.zeros_like(self.gradient) for key in MOMENTS}
        return list(inner.values())

    def load(self, state: Mapping[str, Tensor]) -> None:
        if not state:
            return
        self._adam.state[self.weights] = {
            "step": state["updates"].reshape(()).to(self.weights.device),
            **{
                key: torch.cat([state[f"{key}.{name}"].flatten() for name in self.names]).to(self.weights.device)
                for key in MOMENTS
            },
        }

    def _views(self, flat: Tensor) -> list[Tensor]:
        parts = flat.split([shape.numel() for shape in self.shapes])
        return [part.view(shape) for part, shape in zip(parts, self.shapes, strict=True)]
