"""Pegasus: `PegasusForConditionalGeneration`, the pre-norm Transformer with Marian's names and order of dimensions."""

from __future__ import annotations

from typing import ClassVar

from glassformer.interop.marian import MarianConverter
from glassformer.interop.weight_rules import WeightRule, linear_rules
from glassformer.settings import Raw, Settings


class PegasusConverter(MarianConverter):
    model_type, architecture, norm = "pegasus", "PegasusForConditionalGeneration", "pre"
    required: ClassVar[Raw] = {"scale_embedding": True, "tie_word_embeddings": True}

    def settings(self, config: Raw, weights: set[str]) -> tuple[str, Raw]:
        task, sizes = super().settings(config, weights)
        return task, sizes | {"norm": "pre"}

    def rules(self, settings: Settings) -> list[WeightRule]:
        final = [
            rule
            for side in ("encoder", "decoder")
            for rule in linear_rules(f"{side}_norm", f"model.{side}.layer_norm", feature_axes=(0,))
        ]
        return [*super().rules(settings), *final]
