"""Recipes of what stands on a model: its output layer, or a head."""

from __future__ import annotations

from glassformer.glass.formulas import FORMULAS
from glassformer.glass.parts import Parts
from glassformer.glass.recipes import Recipe


class HeadRecipes(Parts):
    """From hidden states to what is answered."""

    def _of_head(self, last: str) -> Recipe | None:
        hidden = {"x": self._first("summary", "pooled", "reader.0.states", "decoder.hidden", "encoder.hidden")}
        match last:
            case "pooled":
                return Recipe(FORMULAS[f"pooled, {self.model.pools}"], {"x": "encoder.hidden"})
            case "summary":
                return Recipe(FORMULAS["summary"], {"x": "pooled"}, self._linear(self.model.summary))
            case "vector":
                return Recipe(FORMULAS["vector"], {"x": "pooled"})
            case "occurs":
                return Recipe(FORMULAS["occurs"], {"tokens": "encoder.tokens", "mask": "question.mask"})
            case "logits" if "guess.norm" in self.names:
                weights = self._weight(weight=self.inner.tokens.weight_VD, bias=self.model.bias_V)
                return Recipe(FORMULAS["logits, with bias"], {"x": "guess.norm"}, weights)
            case "logits" if not hasattr(self.model.output, "weight_VD"):
                return Recipe(FORMULAS["logits, of labels"], hidden, self._linear(self.model.output))
            case "logits" if self.model.output.bias_V is not None:
                weights = self._weight(weight=self.model.output.weight_VD, bias=self.model.output.bias_V)
                return Recipe(FORMULAS["logits, with bias"], hidden, weights)
            case "logits":
                return Recipe(FORMULAS["logits"], hidden, self._weight(table=self.model.output.weight_VD))
        return None

    def _of_guess(self, last: str) -> Recipe | None:
        """The layer between BERT and the words that it guesses."""
        match last:
            case "activations":
                weights = self._linear(self.model.transform)
                return Recipe(FORMULAS[f"activations, {self.inner.activation}"], {"x": "encoder.hidden"}, weights)
            case "mean" | "deviation":
                return self._statistics("guess", "guess.activations", self.model.norm, last)
            case "norm":
                return self._normalised("guess", "guess.activations", self.model.norm)
        return None

    def _of_question(self, last: str) -> Recipe | None:
        """Where each token of a text looks at the question about it."""
        both = {"query": "question.query", "key": "encoder.hidden"}
        match last:
            case "query":
                return Recipe(FORMULAS["query, of a text"], {"x": "encoder.hidden"}, self._linear(self.model.question))
            case "scores":
                return Recipe(FORMULAS["scores, one head"], both)
            case "scaled_scores":
                tensors = {"scores": "question.scores", "query": "question.query"}
                return Recipe(FORMULAS["scaled_scores, one head"], tensors)
            case "context":
                return Recipe(FORMULAS["context"], {"weights": "question.weights", "value": "encoder.hidden"})
        return self._weighing("question", last)
