"""Recipes of recurrent layers, and of the attention of a recurrent decoder."""

from __future__ import annotations

from typing import Any

from glassformer.glass.formulas import FORMULAS
from glassformer.glass.parts import Parts
from glassformer.glass.recipes import Recipe


class CellRecipes(Parts):
    """What stands in a cell, between an encoder and a decoder of cells, and in the attention of the second."""

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
        below = self._first(f"{side}.input", "encoder.input") if layer == 0 else f"{side}.{layer - 1}.states"
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
        part = getattr(self.inner if hasattr(self.inner, side) else self.model, side)
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
        attention, states = decoder.attention, self._top("decoder")
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
