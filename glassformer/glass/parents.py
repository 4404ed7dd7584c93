"""Which tensors and weights a named tensor comes from: a formula, filled in.

Names in a trace stand in the order in which they were computed, and every sub-layer ends with what it hands on. So a
sub-layer reads what stands right before it, and whether it normalises before or after is seen from the order, too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from glassformer.errors import UserError
from glassformer.glass.formulas import FORMULAS, Array
from glassformer.glass.recipes import Recipe, Weight

INPUTS = ("tokens",)  # what comes from outside: text as ids


class Parents:
    """The recipe of every tensor of a trace. `parents.of("encoder.0.self.scores")`; None for what was put in."""

    def __init__(self, model: nn.Module, tensors: Mapping[str, Tensor], *, free_running: bool = False) -> None:
        self.tensors, self.free_running = tensors, free_running
        self._order = list(tensors)
        self.names = {name: place for place, name in enumerate(self._order)}
        self.model: Any = model
        # A head stands on a model of its own.
        self.inner: Any = model.encoder if hasattr(getattr(model, "encoder", None), "embedding") else model
        self.weights = dict(model.named_parameters()) | dict(model.named_buffers())
        self._called = {id(weight): name for name, weight in self.weights.items()}

    def of(self, name: str) -> Recipe | None:
        *path, last = name.split(".")
        if last in INPUTS:
            return None
        match path:
            case [("encoder" | "decoder") as side]:
                recipe = self._of_side(side, last)
            case [side, layer, ("self" | "cross" | "ff") as kind] if layer.isdigit():
                recipe = self._of_sub_layer(side, int(layer), kind, last)
            case ["decoder", "cross"]:
                recipe = self._of_alignment(last)
            case [side, layer, *direction] if layer.isdigit():
                recipe = self._of_cell(side, int(layer), direction, last)
            case _:
                recipe = self._of_head(last)
        if recipe is None:
            raise KeyError(f"no formula for {name}")
        return recipe

    def recompute(self, name: str) -> Array | None:
        """A tensor of the trace, computed again from its parents; None for what was put in."""
        recipe = self.of(name)
        return None if recipe is None else recipe.compute(self.tensors, self.weights)

    # -------------------------------------------------------------------------------- the two ends

    def _of_side(self, side: str, last: str) -> Recipe | None:
        match last:
            case "vectors":
                table = self._part(side, "embedding").weight_VD
                return Recipe(FORMULAS["vectors"], {"tokens": f"{side}.tokens"}, self._weight(table=table))
            case "embedding":
                return Recipe(FORMULAS["embedding"], {"x": f"{side}.vectors"})
            case "positions":
                return self._positions(side)
            case "input":
                return self._input(side)
            case "mean" | "deviation":
                return self._statistics(side, self._stream(side, "mean"), self._last_norm(side), last)
            case "window":
                return Recipe(FORMULAS["window"], {"x": f"{side}.input"}, numbers={"size": self.inner.window})
            case "memory" | "hidden":
                return self._end(side, last)
        return None

    def _positions(self, side: str) -> Recipe:
        table = self._part(side, "positions").positions
        if (weight := getattr(table, "weight_TD", None)) is not None:
            length = {"length": self._length(side)}
            return Recipe(FORMULAS["positions, learned"], {}, self._weight(table=weight), length)
        return Recipe(FORMULAS["positions, sinusoidal"], {}, {}, {"length": self._length(side), "width": table.d_model})

    def _input(self, side: str) -> Recipe:
        if f"{side}.positions" not in self.names:
            return Recipe(FORMULAS["the same"], {"x": f"{side}.embedding"})
        both = {"x": f"{side}.embedding", "y": f"{side}.positions"}
        if (project := getattr(self._part(side, "positions"), "project", None)) is not None:
            return Recipe(FORMULAS["input, concatenated"], both, self._linear(project))
        return Recipe(FORMULAS["input, added"], both)

    def _end(self, side: str, last: str) -> Recipe:
        """What a side hands on: normalised once more where layers normalise first."""
        if "decoder.window" in self.names:
            return Recipe(FORMULAS["hidden, of a window"], {"x": "decoder.window"}, self._linear(self.inner.combine))
        if f"{side}.mean" in self.names:
            return self._normalised(side, self._stream(side, "mean"), self._last_norm(side))
        if "decoder.cross.output" in self.names and side == "decoder":
            return Recipe(FORMULAS["the same"], {"x": "decoder.cross.output"})
        return Recipe(FORMULAS["the same"], {"x": self._handed_on(side, last)})

    def _of_head(self, last: str) -> Recipe | None:
        hidden = self._first("pooled", "decoder.hidden", "encoder.hidden")
        match last:
            case "pooled":
                return Recipe(FORMULAS["pooled"], {"x": "encoder.hidden"})
            case "logits" if hasattr(self.model.output, "weight_VD"):
                return Recipe(FORMULAS["logits"], {"x": hidden}, self._weight(table=self.model.output.weight_VD))
            case "logits":
                return Recipe(FORMULAS["logits, of labels"], {"x": hidden}, self._linear(self.model.output))
        return None

    # -------------------------------------------------------------------------------- Transformer layers

    def _of_sub_layer(self, side: str, layer: int, kind: str, last: str) -> Recipe | None:
        at = f"{side}.{layer}.{kind}"
        inside: Any = getattr(self.inner, side)[layer]
        part = {"self": "self_attention", "cross": "cross_attention", "ff": "feed_forward"}[kind]
        around = getattr(
            inside, {"self": "self_residual", "cross": "cross_residual", "ff": "feed_forward_residual"}[kind]
        )
        stream = self._stream(at)
        first = "activations" if kind == "ff" else "query"
        before = f"{at}.norm" in self.names and self.names[f"{at}.norm"] < self.names[f"{at}.{first}"]
        result = f"{at}.residual" if f"{at}.residual" in self.names else f"{at}.output"
        match last:
            case "residual":
                return Recipe(FORMULAS["residual"], {"x": stream, "y": f"{at}.output"})
            case "mean" | "deviation":
                return self._statistics(at, stream if before else result, around.norm, last)
            case "norm":
                return self._normalised(at, stream if before else result, around.norm)
        x = f"{at}.norm" if before else stream
        if kind == "ff":
            return self._of_feed_forward(at, getattr(inside, part), x, last)
        return self._of_attention(at, getattr(inside, part), x, last)

    def _of_feed_forward(self, at: str, ff: Any, x: str, last: str) -> Recipe | None:
        match last:
            case "activations":
                return Recipe(FORMULAS["activations"], {"x": x}, self._linear(ff.expand))
            case "output":
                return Recipe(
                    FORMULAS["output, of feed-forward"], {"x": f"{at}.activations"}, self._linear(ff.contract)
                )
        return None

    def _of_attention(self, at: str, attention: Any, x: str, last: str) -> Recipe | None:
        cross = at.endswith(".cross")
        match last:
            case "query" | "key" | "value":
                part = ("query", "key", "value").index(last)
                if not cross:
                    weights = self._linear(attention.query_key_value, (part, 3))
                else:
                    weights = (
                        self._linear(attention.key_value, (part - 1, 2)) if part else self._linear(attention.query)
                    )
                read = "encoder.memory" if cross and part else x
                return Recipe(FORMULAS[last], {"x": read}, weights, {"heads": attention.heads})
            case "scores":
                formula = "scores, so far" if self.free_running and at.startswith("decoder") and not cross else "scores"
                return Recipe(FORMULAS[formula], {"query": f"{at}.query", "key": f"{at}.key"})
            case "scaled_scores":
                return Recipe(FORMULAS["scaled_scores"], {"scores": f"{at}.scores", "query": f"{at}.query"})
            case "context":
                return Recipe(FORMULAS["context"], {"weights": f"{at}.weights", "value": f"{at}.value"})
            case "output":
                return Recipe(
                    FORMULAS["output, of heads"], {"context": f"{at}.context"}, self._linear(attention.output)
                )
        return self._weighing(at, last)

    def _weighing(self, at: str, last: str) -> Recipe | None:
        """From scores to weights: what every attention ends with."""
        scores = self._first(f"{at}.scaled_scores", f"{at}.scores")
        match last:
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
            numbers = {"epsilon": norm.EPSILON}
            return Recipe(FORMULAS["deviation, running"], {}, self._weight(variance=norm.variance_D), numbers)
        if last == "mean":
            return Recipe(FORMULAS["mean"], {"x": x})
        return Recipe(FORMULAS["deviation"], {"x": x, "mean": f"{at}.mean"}, {}, {"epsilon": norm.EPSILON})

    def _normalised(self, at: str, x: str, norm: Any) -> Recipe:
        if f"{at}.mean" not in self.names:
            return Recipe(FORMULAS["the same"], {"x": x})
        tensors = {"x": x, "mean": f"{at}.mean", "deviation": f"{at}.deviation"}
        return Recipe(FORMULAS["norm"], tensors, self._weight(weight=norm.weight, bias=norm.bias))

    # -------------------------------------------------------------------------------- recurrent layers

    def _of_cell(self, side: str, layer: int, direction: list[str], last: str) -> Recipe | None:
        at = ".".join([side, str(layer), *direction])
        if last in ("start", "start_cell"):
            return self._bridge(layer, last)
        cell, kind = self._cell(side, layer, direction)
        numbers = {"backwards": direction == ["backwards"]}
        match last:
            case "states" if cell is None:
                return Recipe(
                    FORMULAS["states, both ways"], {"there": f"{at}.forwards.states", "back": f"{at}.backwards.states"}
                )
            case "states":
                return self._states(at, kind, numbers)
            case "cell":
                roles = {"forget": "forget_gate", "cell": "cell", "enter": "input_gate", "new": "candidate"}
                tensors = {role: f"{at}.{name}" for role, name in roles.items()} | self._start(at, "start_cell")
                return Recipe(FORMULAS["cell"], tensors, {}, numbers)
        gates = () if cell is None else cell.shows[: cell.parts]  # in the order in which their weights lie
        if last not in gates:
            return None
        part = (gates.index(last), len(gates))
        below = f"{side}.input" if layer == 0 else f"{side}.{layer - 1}.states"
        tensors = {"x": below, "states": f"{at}.states"} | self._start(at, "start")
        weights = self._named(cell.input, part, "w", "b") | self._named(cell.state, part, "u", "d")
        if at == "decoder.0" and hasattr(self.inner.decoder, "context"):
            tensors["context"] = "decoder.cross.context"
            weights["c"] = self._weight_of(self.inner.decoder.context.weight, part)
        if kind == "GRUCell" and last == "candidate":
            return Recipe(FORMULAS["candidate, reset"], tensors | {"reset": f"{at}.reset_gate"}, weights, numbers)
        formula = "gate" if last.endswith("_gate") else last
        return Recipe(FORMULAS[formula], tensors, weights, numbers)

    def _states(self, at: str, kind: str, numbers: dict[str, Any]) -> Recipe:
        match kind:
            case "RNNCell":
                return Recipe(FORMULAS["states, rnn"], {"x": f"{at}.sum"})
            case "LSTMCell":
                return Recipe(FORMULAS["states, lstm"], {"out": f"{at}.output_gate", "cell": f"{at}.cell"})
        tensors = {"update": f"{at}.update_gate", "states": f"{at}.states", "new": f"{at}.candidate"}
        return Recipe(FORMULAS["states, gru"], tensors | self._start(at, "start"), {}, numbers)

    def _start(self, at: str, name: str) -> dict[str, str]:
        return {"start": f"{at}.{name}"} if f"{at}.{name}" in self.names else {}

    def _cell(self, side: str, layer: int, direction: list[str]) -> tuple[Any, str]:
        """The cell of a layer; none where a layer has two, one a direction."""
        part = getattr(self.inner, side)
        if hasattr(part, "cell") and layer == 0:  # the decoder that looks before each step
            return part.cell, type(part.cell).__name__
        if hasattr(part, "cell"):
            stack: Any = part.above.layers[layer - 1]
        else:
            stack = getattr(part, "stack", part).layers[layer]
        cell = stack.backwards if direction == ["backwards"] else stack.forwards
        both_ways = stack.backwards is not None and not direction
        return (None, "") if both_ways else (cell, type(cell).__name__)

    def _bridge(self, layer: int, last: str) -> Recipe:
        bridge = self.inner.bridge
        below = f"encoder.{bridge.beside[layer]}"
        if bridge.joins is None:
            return Recipe(FORMULAS["start"], {"x": f"{below}.{'cell' if last == 'start_cell' else 'states'}"})
        tensors = {"there": f"{below}.forwards.states", "back": f"{below}.backwards.states"}
        if f"{below}.forwards.cell" in self.names:
            tensors |= {"cell_there": f"{below}.forwards.cell", "cell_back": f"{below}.backwards.cell"}
        part = (int(last == "start_cell"), len(tensors) // 2)
        return Recipe(FORMULAS[f"{last}, bridged"], tensors, self._linear(bridge.joins[layer], part))

    def _of_alignment(self, last: str) -> Recipe | None:
        """Attention of a recurrent decoder, of which there is one."""
        at, decoder = "decoder.cross", self.inner.decoder
        top = max(int(name.split(".")[1]) for name in self.names if re.fullmatch(r"decoder\.\d+\.states", name))
        attention, states = decoder.attention, f"decoder.{top}.states"
        match last:
            case "key" if hasattr(attention, "key"):
                return Recipe(
                    FORMULAS["key, projected"], {"x": "encoder.memory"}, self._weight(weight=attention.key.weight)
                )
            case "key":
                return Recipe(FORMULAS["the same"], {"x": "encoder.memory"})
            case "query":
                tensors = {"states": "decoder.0.states", "start": "decoder.0.start"}
                return Recipe(FORMULAS["query, projected"], tensors, self._weight(weight=attention.query.weight))
            case "scores" if hasattr(attention, "score_D"):
                tensors = {"query": f"{at}.query", "key": f"{at}.key"}
                return Recipe(FORMULAS["scores, additive"], tensors, self._weight(score=attention.score_D))
            case "scores":
                return Recipe(FORMULAS["scores, dot"], {"query": states, "key": f"{at}.key"})
            case "context":
                return Recipe(FORMULAS["context"], {"weights": f"{at}.weights", "value": "encoder.memory"})
            case "output":
                tensors = {"context": f"{at}.context", "state": states}
                weights = self._weight(weight=decoder.attentional.combine.weight)
                return Recipe(FORMULAS["output, attentional"], tensors, weights)
        return self._weighing(at, last)

    # -------------------------------------------------------------------------------- looking things up

    def _part(self, side: str, what: str) -> Any:
        """`source_embedding`, `target_positions`, or where there is one side only `embedding`."""
        name = f"{'source' if side == 'encoder' else 'target'}_{what}"
        return getattr(self.inner, name) if hasattr(self.inner, name) else getattr(self.inner, what)

    def _stream(self, at: str, first: str = "") -> str:
        """What a sub-layer reads: the tensor that was computed right before the first of its own."""
        mine = f"{at}.{first}" if first else next(name for name in self._order if name.startswith(f"{at}."))
        return self._order[self.names[mine] - 1]

    def _handed_on(self, side: str, last: str) -> str:
        """The last tensor of the uppermost layer."""
        before = self._order[: self.names[f"{side}.{last}"]]
        return next(name for name in reversed(before) if re.match(rf"{side}\.\d+\.|{side}\.input$", name))

    def _first(self, *names: str) -> str:
        return next(name for name in names if name in self.names)

    def _last_norm(self, side: str) -> Any:
        return getattr(self.inner, f"{side}_norm")

    def _length(self, side: str) -> int:
        return len(self.tensors[f"{side}.tokens"])

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
