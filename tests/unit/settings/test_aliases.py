"""Old names of settings are accepted, and checkpoints of older versions keep their identity."""

from __future__ import annotations

from typing import Any

import pytest

from glassformer.settings import current_names, original_names

VIT_FLAGS = {"normalize": "layer", "residual": True, "scale_scores": True}


@pytest.mark.parametrize(
    ("model", "original"),
    [
        (
            {"family": "transformer", "norm": "post", "positions": "learned", "max_positions": 64},
            {"family": "transformer", "norm": "post", "positions": "learned", "longest": 64},
        ),
        (
            {"family": "transformer", "norm": "pre", "ablations": ["batch_norm", "no_look_ahead_mask"], "d_ff": 8},
            {"family": "transformer", "norm": "pre", "normalize": "batch", "look_ahead_mask": False, "d_ff": 8},
        ),
        ({"family": "vit", "norm": "pre", "d_ff": 8}, {"family": "vit", "norm": "pre"} | VIT_FLAGS | {"d_ff": 8}),
        (
            {"family": "vit", "norm": "pre", "ablations": ["no_scaling"]},
            {"family": "vit", "norm": "pre"} | VIT_FLAGS | {"scale_scores": False},
        ),
        ({"family": "gpt", "max_positions": 19}, {"family": "gpt", "longest": 19}),
    ],
)
def test_original_names_are_the_inverse_of_current_names(model: dict[str, Any], original: dict[str, Any]) -> None:
    found = original_names({"task": "translation", "model": model})["model"]
    assert list(found.items()) == list(original.items())  # the order counts: the identity is a hash of the text
    assert current_names({"model": found})["model"] == model
