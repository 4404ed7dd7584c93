"""The backward pass: autograd against the formulas, for every family, and against finite differences."""

from __future__ import annotations

import pytest
import torch

from glassformer.errors import UserError
from glassformer.glass.gradients import NO_TARGET, TARGET, backward_pass, gradient_of
from glassformer.glass.trace import Trace
from tests.families import EOS, SOURCE, build, traced
from tests.families import TARGET as READ

HEADS = (
    "post-norm",
    "pre-norm",
    "no scaling",
    "padded source",
    "pre-norm, free running",
    "rotary positions",
    "gpt",
    "gpt, rotary positions",
    "bert",
    "bert tagger",
    "vit",
)
OTHERS = ("gru, additive, bidirectional", "lstm, none, unidirectional", "rnn, dot, unidirectional", "window",
          "recurrent classifier")  # fmt: skip


@pytest.mark.parametrize("name", [*HEADS, *OTHERS])
def test_formulas_give_the_gradients_of_autograd(name: str) -> None:
    model = build(name)
    found = backward_pass(model, traced(name, model))
    checked = [one for one in found.names if found.difference(one) is not None]
    for one in checked:
        scale = float(found.trace[one].abs().max())
        assert (found.difference(one) or 0) <= 1e-5 * scale + 1e-9, one
        for at in ((0,) * found.trace[one].dim(), tuple(size - 1 for size in found.trace[one].shape)):
            assert float(found.trace.entry(one, at)[2]) == pytest.approx(float(found.trace[one][at]), abs=1e-5 * scale)
    layers = sum(".head_output" in one for one in checked)
    assert layers == (len(found.trace.attention_layers) if name in HEADS else 0)
    assert all(parameter.requires_grad for parameter in model.parameters())


@pytest.mark.parametrize(
    ("name", "rotated"), [("pre-norm", ()), ("rotary positions", ("rotated_query", "rotated_key"))]
)
def test_every_step_of_a_head_has_a_formula(name: str, rotated: tuple[str, ...]) -> None:
    found = backward_pass(build(name), traced(name))
    scope = ("head_output", "weights", "masked_scores", "scaled_scores", "scores", "query", "key", "value")
    for step in (*scope, *rotated):
        assert found.difference(gradient_of(f"decoder.0.self.{step}")) is not None, step
    rows = found.trace[gradient_of("decoder.0.self.masked_scores")].sum(dim=-1)
    assert rows.abs().max() < 1e-6  # the softmax only moves weight from one token to another


def test_the_loss_is_that_of_the_target_and_its_gradient_is_right() -> None:
    model = build("post-norm")
    found = backward_pass(model, traced("post-norm", model))
    written = [*READ[1:], EOS]
    log_probability = Trace.log_probabilities_of(traced("post-norm", model), written)
    assert found.losses == pytest.approx([-x for x in log_probability], rel=1e-4)
    assert found.loss == pytest.approx(-sum(log_probability) / len(written), rel=1e-4)
    logits_TV = model(torch.tensor([SOURCE]), torch.tensor([READ]))[0]
    torch.nn.functional.cross_entropy(logits_TV, torch.tensor(written)).backward()
    own = {name: parameter.grad for name, parameter in model.named_parameters()}
    assert len({one.weight.name for one in found.parameters}) == len(own)
    for one in found.parameters:
        gradient = own[one.weight.name]
        assert gradient is not None
        part = gradient if one.weight.rows is None else gradient[slice(*one.weight.rows)]
        assert one.norm == pytest.approx(float(part.norm()), rel=1e-4, abs=1e-7)


def test_the_last_token_of_a_language_model_has_no_target() -> None:
    found = backward_pass(build("gpt"), traced("gpt"))
    assert found.trace[TARGET][-1] == NO_TARGET and found.targets[-1] is None and found.losses[-1] is None
    assert not found.trace[gradient_of("logits")][-1].any()
    assert found.loss == pytest.approx(sum(filter(None, found.losses)) / (len(found.losses) - 1))


def test_parameters_that_do_not_require_gradients_stay_so() -> None:
    model = build("gpt").requires_grad_(False)
    found = backward_pass(model, traced("gpt", model))
    assert found.norm > 0 and not any(parameter.requires_grad for parameter in model.parameters())
    squares = {(one.weight.name, one.weight.rows): one.norm**2 for one in found.parameters}
    assert sum(squares.values()) == pytest.approx(found.norm**2, rel=1e-4)


def test_a_model_without_logits_has_no_loss() -> None:
    with pytest.raises(UserError, match="no logits"):
        backward_pass(build("elmo"), traced("elmo"))
