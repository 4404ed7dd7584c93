"""Which tensors and weights a named tensor comes from: a formula, filled in.

Names in a trace stand in the order in which they were computed, and every sub-layer ends with what it hands on. So a
sub-layer reads what stands right before it, and whether it normalises before or after is seen from the order, too.
"""

from __future__ import annotations

from typing import Any

from glassformer.glass.cell_recipes import CellRecipes
from glassformer.glass.formulas import FORMULAS, Array
from glassformer.glass.head_recipes import HeadRecipes
from glassformer.glass.recipes import NoFormula, Recipe

INPUTS = ("tokens", "pixels")  # what comes from outside: text as ids, an image as bytes


class Parents(CellRecipes, HeadRecipes):
    """The recipe of every tensor of a trace: `parents.of("encoder.0.self.scores")`."""

    def of(self, name: str) -> Recipe | None:
        """Return the recipe of a tensor; None for an input. Raise `NoFormula` where none is known."""
        *path, last = name.split(".")
        if last in INPUTS or (last == "segments" and not hasattr(self.model, "end")):
            return None
        match path:
            case [("encoder" | "decoder") as side]:
                recipe = self._of_side(side, last)
            case [side, layer, ("self" | "cross" | "ff") as kind] if layer.isdigit():
                recipe = self._of_sub_layer(side, int(layer), kind, last)
            case ["decoder", "cross"]:
                recipe = self._of_alignment(last)
            case ["guess"]:
                recipe = self._of_guess(last)
            case ["question"]:
                recipe = self._of_question(last)
            case ["reader" | "backwards" as reader] if last == "input":
                recipe = self._input_of(reader)
            case [side, layer, *direction] if layer.isdigit():
                recipe = self._of_cell(side, int(layer), direction, last)
            case _:
                recipe = self._of_head(last)
        if recipe is None:
            raise NoFormula(name)
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
            case "embedding" if f"{side}.image" in self.names:
                return self._patches()
            case "embedding":
                scaled = self._part(side, "embedding").scale != 1
                return Recipe(FORMULAS["embedding" if scaled else "the same"], {"x": f"{side}.vectors"})
            case "image":
                scaling = self.inner.scaling
                numbers = {"mean": scaling.mean, "deviation": scaling.deviation}
                return Recipe(FORMULAS["image"], {"pixels": f"{side}.pixels"}, {}, numbers)
            case "segments":
                numbers = {"end": self.model.end, "kinds": self.inner.kinds}
                return Recipe(FORMULAS["segments"], {"tokens": f"{side}.tokens"}, {}, numbers)
            case "segment_vectors":
                table = self._weight(table=self.inner.segments.weight_VD)
                return Recipe(FORMULAS["segment_vectors"], {"tokens": f"{side}.segments"}, table)
            case "sum":
                three = {"x": f"{side}.embedding", "y": f"{side}.segment_vectors", "z": f"{side}.positions"}
                return Recipe(FORMULAS["sum, of vectors"], three)
            case "positions":
                return self._positions(side)
            case "input":
                return self._input(side)
            case "mean" | "deviation":
                return self._statistics(side, self._stream(side, "mean"), self._norm(side), last)
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

    def _patches(self) -> Recipe:
        weights = self._linear(self.inner.embedding.project) | self._weight(first=self.inner.class_token.weight_D)
        numbers = {"side": self.inner.embedding.side}
        return Recipe(FORMULAS["embedding, of patches"], {"image": "encoder.image"}, weights, numbers)

    def _input(self, side: str) -> Recipe:
        if hasattr(self.inner, "input_norm"):
            return self._normalised(side, f"{side}.sum", self._norm(side))
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
        if f"{side}.mean" in self.names and not hasattr(self.inner, "input_norm"):
            return self._normalised(side, self._stream(side, "mean"), self._norm(side))
        if "decoder.cross.output" in self.names and side == "decoder":
            return Recipe(FORMULAS["the same"], {"x": "decoder.cross.output"})
        if "backwards.input" in self.names:
            return Recipe(FORMULAS["states, turned"], {"there": self._top("forwards"), "back": self._top("backwards")})
        return Recipe(FORMULAS["the same"], {"x": self._handed_on(side, last)})

    def _input_of(self, reader: str) -> Recipe:
        """What recurrent layers read that stand on, or beside, others."""
        if reader == "backwards":
            return Recipe(FORMULAS["turned"], {"x": "encoder.input"})
        tensors = {"x": "encoder.hidden", "context": "question.context", "occurs": "occurs"}
        return Recipe(FORMULAS["input, of a reader"], tensors)

    def _norm(self, side: str) -> Any:
        """Of what a side hands on; BERT normalises what it reads instead."""
        return getattr(self.inner, "input_norm", None) or getattr(self.inner, f"{side}_norm")

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
                return Recipe(FORMULAS[f"activations, {ff.activation}"], {"x": x}, self._linear(ff.expand))
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
