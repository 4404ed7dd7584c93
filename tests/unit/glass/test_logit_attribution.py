"""The shares of a logit difference add up to it; heads by token, and ablation against an intervention."""

from __future__ import annotations

import pytest
import torch

from glassformer.errors import UserError
from glassformer.glass.interventions import InterventionProbe, Silence
from glassformer.glass.logit_attribution import head_ablations, logit_difference
from tests.families import ALONE, TRANSFORMERS, build, traced

STEP, TOKEN, OTHER = 2, 13, 31
DECODERS = [*TRANSFORMERS, "pre-norm, free running", "padded source", *(name for name in ALONE if "gpt" in name)]


@pytest.mark.parametrize("name", DECODERS)
def test_the_shares_add_up(name: str) -> None:
    found = traced(name)
    difference = logit_difference(found, STEP, TOKEN, OTHER)
    assert difference.value == pytest.approx(
        float(found["logits"][STEP, TOKEN] - found["logits"][STEP, OTHER]), abs=1e-5
    )
    assert sum(share.value for share in difference.shares) == pytest.approx(difference.value, abs=2e-4)
    heads = [share for share in difference.shares if share.kind == "head"]
    in_stream = [] if "no residual" in name else [one for one in found.attention_layers if one.kind != "encoder"]
    assert len(heads) == sum(len(found[layer.name]) for layer in in_stream)
    for share in heads:
        names = found.source if share.attention == "cross" else found.target
        assert len(share.tokens) == len(names) and sum(share.tokens) == pytest.approx(share.value, abs=1e-6)
    assert not heads or any(abs(share.value) > 1e-3 for share in heads)


def test_a_head_does_not_attend_to_later_tokens() -> None:
    shares = logit_difference(traced("gpt"), STEP, TOKEN, OTHER).shares
    assert all(not any(share.tokens[STEP + 1 :]) for share in shares if share.kind == "head")


@pytest.mark.parametrize(("name", "positions"), [("pre-norm", {"positions"}), ("rotary positions", set())])
def test_the_positions_have_a_share_of_their_own(name: str, positions: set[str]) -> None:
    kinds = {share.kind for share in logit_difference(traced(name), STEP, TOKEN, OTHER).shares}
    assert kinds == {"embedding", "head", "ff", "bias"} | positions


@torch.inference_mode()
def test_ablation_is_the_effect_of_silencing_a_head() -> None:
    model = build("post-norm")
    found = traced("post-norm", model)
    ablations = {one.kind: one.change for one in head_ablations(model, found, STEP, TOKEN, OTHER)}
    assert {kind: len(change) for kind, change in ablations.items()} == {"encoder": 2, "decoder": 3, "cross": 3}
    inputs = [found[f"{side}.tokens"][None] for side in ("encoder", "decoder")]
    for kind, part in (("encoder", "encoder.1.self"), ("cross", "decoder.1.cross")):
        logits_V = model(*inputs, InterventionProbe([Silence(part, 2)]))[0, STEP]
        change = float(logits_V[TOKEN] - logits_V[OTHER]) - logit_difference(found, STEP, TOKEN, OTHER).value
        assert ablations[kind][1][2] == pytest.approx(change, abs=1e-4)


@pytest.mark.parametrize(
    ("name", "request_", "text"),
    [
        ("gru, dot, unidirectional", (0, 3, 4), "no decoder layers"),
        ("post-norm", (99, 3, 4), "no step 99"),
        ("post-norm", (0, 99, 4), "no token 99"),
        ("post-norm", (0, 4, 4), "the same"),
    ],
)
def test_invalid_comparisons_are_refused(name: str, request_: tuple[int, int, int], text: str) -> None:
    with pytest.raises(UserError, match=text):
        logit_difference(traced(name), *request_)
