"""Adam (§5.3) and Muon on one flat vector of all weights, weight decay (AdamW), and learning rate schedules."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import partial

import torch
from torch import Tensor, nn
from torch.optim.adam import adam

from glassformer.settings import TrainSettings
from glassformer.training import muon
from glassformer.training.threads import SINGLE_THREAD, ThreadPool

BETAS, EPSILON = (0.9, 0.98), 1e-9  # §5.3
MOMENTS = ("exp_avg", "exp_avg_sq")  # the names that PyTorch uses


def learning_rate(step: int, s: TrainSettings, elapsed: float = 0.0) -> float:
    """Return the learning rate of a step: linear warmup to `lr`, then 1/√step (§5.3), or cosine or linear decay to 0.

    `elapsed` is the share of `train.minutes` that has passed. The decay ends with the steps or with the minutes,
    whichever comes first.
    """
    if step <= s.warmup:
        return s.lr * step / s.warmup
    if s.schedule == "inverse_sqrt":
        return s.lr * math.sqrt(s.warmup / step)
    progress = max((step - s.warmup) / (s.steps - s.warmup), min(elapsed, 1.0))
    return s.lr * (1 - progress if s.schedule == "linear" else (1 + math.cos(math.pi * progress)) / 2)


@torch.no_grad()
def apply_weight_decay(parameters: Iterable[Tensor], *, lr: float, weight_decay: float) -> None:
    """Apply the weight decay of AdamW to all matrices; biases and normalization are exempt."""
    if weight_decay:
        for parameter in parameters:
            if parameter.dim() > 1:
                parameter.mul_(1 - lr * weight_decay)


class FlatOptimizer:
    """Adam on one vector of all weights and one of all gradients: one norm, one clip, one fused update per step.

    Frozen weights (`requires_grad=False`) are not part of the vectors.

    With `matrix_lr_ratio`, Muon updates the matrices of linear layers, which then come first in the vectors; their
    learning rate is `matrix_lr_ratio` times that of the other weights.

    The parameters of the model become views into these vectors, so the model must be on its device already.
    `threads` update several matrices at the same time.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        weight_decay: float = 0.0,
        matrix_lr_ratio: float | None = None,
        muon_dtype: torch.dtype = torch.float32,
        threads: ThreadPool = SINGLE_THREAD,
    ) -> None:
        self.threads = threads
        self.weight_decay, self.matrix_lr_ratio, self.muon_dtype = weight_decay, matrix_lr_ratio, muon_dtype
        parts = {} if matrix_lr_ratio is None else muon.matrices(model)
        trained = [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
        named = sorted(trained, key=lambda item: item[0] not in parts)
        self.parts = [parts[name] for name, _ in named if name in parts]
        self.muon_size = sum(parameter.numel() for name, parameter in named if name in parts)
        self.names = [name for name, _ in named]
        self.shapes = [parameter.shape for _, parameter in named]
        weights = torch.cat([parameter.detach().flatten() for _, parameter in named])
        self.gradient = torch.zeros_like(weights)
        for (_, parameter), weight, gradient in zip(named, self.views(weights), self.views(self.gradient), strict=True):
            parameter.data, parameter.grad = weight, gradient
        self.weights = nn.Parameter(weights)
        self.weights.grad = self.gradient
        self._state: dict[str, Tensor] = {}  # "step" and both moments; empty before the first update

    def step(self, *, lr: float, count: int, clip: float) -> float:
        """Update the weights with the summed gradient divided by the count; return the gradient norm.

        If the norm is not finite, the weights do not change.
        """
        self.gradient.div_(count)
        norm = float(self.gradient.norm())
        if math.isfinite(norm):
            if clip and norm > clip:
                self.gradient.mul_(clip / norm)
            self._apply(lr)
        self.zero_grad()
        return norm

    @torch.no_grad()
    def _apply(self, lr: float) -> None:
        """Apply one update.

        This calls the function `adam` because the class `torch.optim.Adam` imports the compiler of PyTorch, which
        takes over a second per process.
        """
        apply_weight_decay(self.views(self.weights.data), lr=lr, weight_decay=self.weight_decay)
        step, *tensors = self.state_tensors()
        weights, gradient, first, second = (tensor[self.muon_size :] for tensor in (*self._flat(), *tensors))
        adam(
            [weights], [gradient], [first], [second], [], [step], fused=True, amsgrad=False,
            beta1=BETAS[0], beta2=BETAS[1], lr=lr, weight_decay=0.0, eps=EPSILON, maximize=False,
        )  # fmt: skip
        views = zip(*(self.views(tensor) for tensor in (*self._flat(), tensors[0])), strict=True)
        matrices = [muon.Matrix(w, g, m, parts) for (w, g, m), parts in zip(views, self.parts, strict=False)]
        update = partial(muon.update_, lr=lr * (self.matrix_lr_ratio or 0), dtype=self.muon_dtype)
        self.threads.run([partial(update, batch) for batch in muon.batches(matrices, count=self.threads.threads)])

    def _flat(self) -> tuple[Tensor, Tensor]:
        return self.weights.data, self.gradient

    def zero_grad(self) -> None:
        """Reset the accumulated gradient."""
        self.gradient.zero_()

    def state(self) -> dict[str, Tensor]:
        """Return both moments of every weight by name, and the number of updates."""
        if not self._state:
            return {}
        named = {"updates": self._state["step"].clone().reshape(1)}
        for key in MOMENTS:
            named |= {f"{key}.{n}": view for n, view in zip(self.names, self.views(self._state[key]), strict=True)}
        return named

    def state_tensors(self) -> list[Tensor]:
        """Return the number of updates and both moments as stored, to be overwritten in place."""
        if not self._state:
            self._state = {"step": torch.zeros((), device=self.gradient.device)}
            self._state |= {key: torch.zeros_like(self.gradient) for key in MOMENTS}
        return list(self._state.values())

    def load(self, state: Mapping[str, Tensor]) -> None:
        if not state:
            return
        self._state = {
            "step": state["updates"].reshape(()).to(self.weights.device),
            **{
                key: torch.cat([state[f"{key}.{name}"].flatten() for name in self.names]).to(self.weights.device)
                for key in MOMENTS
            },
        }

    def views(self, flat: Tensor) -> list[Tensor]:
        """Return the part of each parameter in a vector of all weights or gradients, in the order of `names`."""
        parts = flat.split([shape.numel() for shape in self.shapes])
        return [part.view(shape) for part, shape in zip(parts, self.shapes, strict=True)]
