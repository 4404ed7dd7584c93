"""Where a model's tensors and weights are to be found: what every recipe needs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from glassformer.errors import UserError
from glassformer.glass.formulas import FORMULAS
from glassformer.glass.recipes import NoFormula, Recipe, Weight


class Parts:
    """The tensors of a trace in their order, the weights of a model by name, and recipes that all layers share."""

    def __init__(self, model: nn.Module, tensors: Mapping[str, Tensor], *, free_running: bool = False) -> None:
        self.tensors, self.free_running = tensors, free_running
        self._order = list(tensors)
        self.names = {name: place for place, name in enumerate(self._order)}
        self.model: Any = model
        # A head stands on a model of its own.
        self.inner: Any = model.encoder if hasattr(getattr(model, "encoder", None), "encoder") else model
        self.weights = dict(model.named_parameters()) | dict(model.named_buffers())
        self._called = {id(weight): name for name, weight in self.weights.items()}

    def _weighing(self, at: str, last: str) -> Recipe | None:
        """From scores to weights: what every attention ends with."""
        scores = self._first(f"{at}.scaled_scores", f"{at}.scores")
        match last:
            case "mask" if at == "question":
                return Recipe(
                    FORMULAS["mask, of a question"], {"tokens": "encoder.tokens"}, {}, {"end": self.model.end}
                )
            case "mask":
                return Recipe(FORMULAS["mask"], numbers={"length": self._length("decoder")})
            case "masked_scores":
                return Recipe(FORMULAS["masked_scores"], {"x": scores, "y": f"{at}.mask"})
            case "weights":
                return Recipe(FORMULAS["weights"], {"scores": self._first(f"{at}.masked_scores", scores)})
        return None

    def _statistics(self, at: str, x: str, norm: Any, last: str) -> Recipe:
        if (mean := getattr(norm, "mean_D", None)) is not None:
            if last == "mean":
                return Recipe(FORMULAS["mean, running"], {}, self._weight(x=mean))
            numbers = {"epsilon": norm.epsilon}
            return Recipe(FORMULAS["deviation, running"], {}, self._weight(variance=norm.variance_D), numbers)
        if last == "mean":
            return Recipe(FORMULAS["mean"], {"x": x})
        return Recipe(FORMULAS["deviation"], {"x": x, "mean": f"{at}.mean"}, {}, {"epsilon": norm.epsilon})

    def _normalised(self, at: str, x: str, norm: Any) -> Recipe:
        if f"{at}.mean" not in self.names:
            return Recipe(FORMULAS["the same"], {"x": x})
        tensors = {"x": x, "mean": f"{at}.mean", "deviation": f"{at}.deviation"}
        return Recipe(FORMULAS["norm"], tensors, self._weight(weight=norm.weight, bias=norm.bias))

    def _part(self, side: str, what: str) -> Any:
        """`source_embedding`, `target_positions`, or where there is one side only `embedding`."""
        # BERT has three tables, and calls that of the tokens so.
        names = (f"{'source' if side == 'encoder' else 'target'}_{what}", what, "tokens")
        return next(getattr(self.inner, name) for name in names if hasattr(self.inner, name))

    def _stream(self, at: str, first: str = "") -> str:
        """What a sub-layer reads: the tensor that was computed right before the first of its own."""
        mine = f"{at}.{first}" if first else next(name for name in self._order if name.startswith(f"{at}."))
        return self._order[self.names[mine] - 1]

    def _handed_on(self, side: str, last: str) -> str:
        """The last tensor of the uppermost layer."""
        before = self._order[: self.names[f"{side}.{last}"]]
        return next(name for name in reversed(before) if re.match(rf"{side}\.\d+\.|{side}\.input$", name))

    def _top(self, side: str) -> str:
        """The states of the uppermost recurrent layer."""
        top = max(int(name.split(".")[1]) for name in self.names if re.fullmatch(rf"{side}\.\d+\.states", name))
        return f"{side}.{top}.states"

    def _first(self, *names: str) -> str:
        for name in names:
            if name in self.names:
                return name
        raise NoFormula(names[0])  # a trace that was cut down to a few tensors

    def _length(self, side: str) -> int:
        return len(self.tensors[self._first(f"{side}.embedding")])

    def _linear(self, linear: Any, part: tuple[int, int] = (0, 1)) -> dict[str, Weight]:
        """Its matrix and bias, or the i-th of several that lie side by side."""
        return self._named(linear, part, "weight", "bias")

    def _named(self, linear: Any, part: tuple[int, int], weight: str, bias: str) -> dict[str, Weight]:
        return {weight: self._weight_of(linear.weight, part), bias: self._weight_of(linear.bias, part)}

    def _weight(self, **weights: Any) -> dict[str, Weight]:
        return {name: self._weight_of(weight) for name, weight in weights.items()}

    def _weight_of(self, weight: Any, part: tuple[int, int] = (0, 1)) -> Weight:
        if weight is None:
            raise UserError(
                "A model packed as integers has no weights to compute with.", fix="load it with precision fp32"
            )
        place, of = part
        size = len(weight) // of
        return Weight(self._called[id(weight)], None if of == 1 else (place * size, (place + 1) * size))
