"""Each intervention has the effect of the same change of the model's weights or settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from glassformer.errors import UserError
from glassformer.glass.effects import ablate_heads, intervention_effect
from glassformer.glass.interventions import (
    EXAMPLES,
    Average,
    CutResidual,
    ForceToken,
    Intervention,
    Interventions,
    RemoveMask,
    RemovePositions,
    SetRow,
    Silence,
    parse_intervention,
)
from glassformer.glass.trace import Trace, trace_free_running, trace_teacher_forced
from glassformer.inference.translator import Translator
from glassformer.models.ablations import NoResidual
from glassformer.nn.positional_encoding import NoPositions
from glassformer.reference.embeddings import given
from glassformer.settings import DecodeSettings
from glassformer.text.tokenizer import Tokenizer
from tests.families import EOS, SOS, SOURCE, TARGET, VOCAB, perturb, pieces, recurrent

D, H, E = 21, 3, 7
CLOSE = {"atol": 2e-5, "rtol": 1e-5}
ROTARY = {"positions": "rotary", "d_model": 30}


# Its tokens are numbers, so that every sequence of ids can be written as text.
TOKENIZER = Tokenizer.from_pitches(range(VOCAB - 4))


def translator(model: Any) -> Translator:
    return Translator(model, TOKENIZER, DecodeSettings(max_length=9))


def text_of(ids: list[int]) -> str:
    return " ".join(TOKENIZER.pieces(ids))


def changed(model: nn.Module, *changes: Intervention) -> Trace:
    return trace_teacher_forced(model, pieces, SOURCE, TARGET, wrap=Interventions(changes))


def without_output_of_head(model: Any) -> None:
    model.encoder[1].self_attention.output.weight[:, 2 * E : 3 * E] = 0


def without_query_of_head(model: Any) -> None:
    """Set all scores of the head to 0, so that its softmax is uniform."""
    packed = model.decoder[2].self_attention.query_key_value
    packed.weight[E : 2 * E] = 0
    packed.bias[E : 2 * E] = 0


def without_residual(model: Any) -> None:
    model.encoder[0].feed_forward_residual.add = NoResidual()


def without_mask(model: Any) -> None:
    model.target_mask = lambda target_BT: None


def without_positions(model: Any) -> None:
    model.source_positions = NoPositions()


def without_rotation(model: Any) -> None:
    """Replace the encoder's layers by layers that are given no rotation."""
    for layer in model.encoder:
        forward = layer.forward
        layer.forward = lambda *inputs, rotation_SE, forward=forward: forward(*inputs)


BY_HAND: dict[str, tuple[Intervention, Callable[[Any], None]]] = {
    "silence": (Silence("encoder.1.self", 2), without_output_of_head),
    "average": (Average("decoder.2.self", 1), without_query_of_head),
    "cut": (CutResidual("encoder.0.ff"), without_residual),
    "no mask": (RemoveMask(), without_mask),
    "no positions": (RemovePositions("encoder"), without_positions),
    "no rotation": (RemovePositions("encoder"), without_rotation),
}


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("name", BY_HAND)
def test_an_intervention_equals_the_same_change_of_the_model(tiny_model: Any, name: str, norm: str) -> None:
    change, by_hand = BY_HAND[name]
    settings = {"norm": norm} | (ROTARY if name == "no rotation" else {})
    model, other = tiny_model(**settings), tiny_model(**settings)
    unchanged_TV = trace_teacher_forced(model, pieces, SOURCE, TARGET)["logits"]
    with torch.no_grad():
        by_hand(other)
    expected_TV = trace_teacher_forced(other, pieces, SOURCE, TARGET)["logits"]
    assert (expected_TV - unchanged_TV).abs().max() > 1e-3
    torch.testing.assert_close(changed(model, change)["logits"], expected_TV, **CLOSE)


def test_interventions_compose(tiny_model: Any) -> None:
    model, other = tiny_model(), tiny_model()
    with torch.no_grad():
        without_output_of_head(other)
        without_positions(other)
    expected_TV = trace_teacher_forced(other, pieces, SOURCE, TARGET)["logits"]
    both = Silence("encoder.1.self", 2), RemovePositions("encoder")
    torch.testing.assert_close(changed(model, *both)["logits"], expected_TV, **CLOSE)


def test_a_row_with_all_weight_on_one_token_outputs_its_value(tiny_model: Any) -> None:
    model = tiny_model()
    found = changed(model, SetRow("decoder.1.cross", 2, 3, (0, 0, 0, 1, 0, 0)))
    at = "decoder.1.cross"
    torch.testing.assert_close(found[f"{at}.head_output"][2, 3], found[f"{at}.value"][2, 3], **CLOSE)
    untouched = trace_teacher_forced(model, pieces, SOURCE, TARGET)
    assert torch.equal(found[f"{at}.weights"][:, :3], untouched[f"{at}.weights"][:, :3])
    assert torch.equal(found[f"{at}.weights"][:2], untouched[f"{at}.weights"][:2])


@pytest.mark.parametrize(
    ("change", "tensors", "settings"),
    [
        (SetRow("encoder.0.self", 1, 2, (0, 0, 1, 0, 0, 0)), ["encoder.0.self.weights"], {}),
        (CutResidual("encoder.1.ff"), ["encoder.1.ff.residual"], {}),
        (RemovePositions("decoder"), ["decoder.positions"], {}),
        (RemovePositions("decoder"), ["decoder.rotation"], ROTARY),
        (RemoveMask("decoder.1.self"), ["decoder.1.self.mask"], {}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_trace_marks_what_was_changed_and_everything_else_recomputes(
    tiny_model: Any, change: Intervention, tensors: list[str], settings: dict[str, Any]
) -> None:
    model = tiny_model(**settings)
    found, unchanged = changed(model, change), trace_teacher_forced(model, pieces, SOURCE, TARGET)
    assert [layer.name for layer in found.attention_layers] == [layer.name for layer in unchanged.attention_layers]
    assert {name: x.shape for name, x in found.tensors.items()} == {n: x.shape for n, x in unchanged.tensors.items()}
    inputs = [name for name, made in found.graph.items() if made.operation.compute is given]
    assert set(inputs) == {*tensors, "encoder.tokens", "decoder.tokens"}
    for name, tensor in found.tensors.items():
        again = found.recompute(name)
        assert (again is None) == (name in [*tensors, "encoder.tokens", "decoder.tokens"])
        if again is not None:
            torch.testing.assert_close(torch.tensor(again).to(tensor.dtype).expand(tensor.shape), tensor, **CLOSE)


@pytest.mark.parametrize(
    ("change", "settings"),
    [
        (Silence("decoder.1.cross", 0), {}),
        (Average("decoder.0.self", 2), {}),
        (SetRow("decoder.1.cross", 2, 3, (0, 0, 0, 1, 0, 0)), {}),
        (SetRow("decoder.1.self", 2, 3, (0.5, 0, 0, 0.5, 0)), {}),
        (CutResidual("decoder.0.cross"), {}),
        (RemovePositions("decoder"), {}),
        (RemovePositions("decoder"), ROTARY),
    ],
    ids=lambda value: f"{type(value).__name__} {value}",
)
def test_step_by_step_equals_one_pass(tiny_model: Any, change: Intervention, settings: dict[str, Any]) -> None:
    model = tiny_model(**settings)
    given = dict(enumerate([*TARGET[1:], EOS]))
    wrap = Interventions([change])
    stepped = trace_free_running(model, pieces, SOURCE, sos=SOS, eos=-1, limit=5, forced=given, wrap=wrap)
    at_once = changed(model, change)
    torch.testing.assert_close(stepped["logits"], at_once["logits"], **CLOSE)
    for layer in at_once.attention_layers:  # also at keys that were not written yet
        torch.testing.assert_close(stepped[layer.name], at_once[layer.name], **CLOSE)


def effect(model: Any, *changes: Intervention, target: list[int] | None = None) -> Any:
    return intervention_effect(translator(model), text_of(SOURCE[:-1]), changes, target and text_of(target))


def of_tokens(logits_TV: Tensor, written: list[int]) -> list[float]:
    return [float(row.log_softmax(-1)[token]) for row, token in zip(logits_TV, written, strict=True)]


def test_intervention_effect_is_the_difference_of_two_models(tiny_model: Any) -> None:
    model, other = tiny_model(), tiny_model()
    with torch.no_grad():
        without_output_of_head(other)
    written = [*TARGET[1:], EOS]
    found = effect(model, Silence("encoder.1.self", 2), target=TARGET[1:])
    logits = (trace_teacher_forced(m, pieces, SOURCE, TARGET)["logits"] for m in (model, other))
    before, after = (of_tokens(logits_TV, written) for logits_TV in logits)
    assert found.before == pytest.approx(before, abs=1e-4)
    assert found.after == pytest.approx(after, abs=1e-4)
    assert found.change == pytest.approx(sum(after) - sum(before), abs=1e-4)
    own = trace_free_running(other, pieces, SOURCE, sos=SOS, eos=EOS, limit=9)
    assert found.output_after == own["decoder.tokens"].tolist()[1:]


def test_a_forced_token_is_written_and_read(tiny_model: Any) -> None:
    model = tiny_model()
    own = effect(model).output_before
    token = 3 + (own[2] - 2) % (VOCAB - 3)
    found = effect(model, ForceToken(2, token))
    assert found.output_after[:3] == [*own[:2], token]
    prefix = torch.tensor([[SOS, *found.output_after[:3]]])
    with torch.inference_mode():
        assert int(model(torch.tensor([SOURCE]), prefix)[0, -1].argmax()) == found.output_after[3]


def test_head_ablation_equals_silencing_each_head(tiny_model: Any) -> None:
    model, written = tiny_model(), [*TARGET[1:], EOS]
    unchanged = trace_teacher_forced(model, pieces, SOURCE, TARGET)
    for kind, at, layers in (("encoder", "encoder.{}.self", 2), ("cross", "decoder.{}.cross", 3)):
        grid = ablate_heads(translator(model), text_of(SOURCE[:-1]), text_of(TARGET[1:]), kind=kind)
        base = sum(of_tokens(unchanged["logits"], written))
        assert grid.log_probability == pytest.approx(base, abs=1e-4)
        for layer in range(layers):
            for head in range(H):
                one = changed(model, Silence(at.format(layer), head))["logits"]
                expected = sum(of_tokens(one, written)) - base
                assert grid.change[layer][head] == pytest.approx(expected, abs=1e-4), (kind, layer, head)
        assert len(grid.change) == layers


@pytest.mark.parametrize("attention", ["additive", "dot"])
def test_interventions_on_the_attention_of_a_recurrent_decoder(attention: str) -> None:
    torch.manual_seed(1)
    model = perturb(recurrent(attention=attention)).eval()
    look = SetRow("decoder.cross", 0, 2, (0, 1, 0, 0, 0, 0))
    found = trace_free_running(model, pieces, SOURCE, sos=SOS, eos=-1, limit=4, wrap=Interventions([look]))
    torch.testing.assert_close(found["decoder.cross.context"][0, 2], found["encoder.memory"][1], **CLOSE)
    assert abs(effect(model, look, target=TARGET[1:]).change) > 1e-4
    with pytest.raises(UserError, match="no cross attention heads"):
        ablate_heads(translator(model), text_of(SOURCE[:-1]), text_of(TARGET[1:]), kind="cross")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (Silence("encoder.7.self", 0), r"named encoder\.7\.self\.head_output.*encoder\.0\.self, encoder\.1\.self"),
        (Silence("encoder.0.self", 3), r"encoder\.0\.self has no head 3.*0 to 2"),
        (SetRow("encoder.0.self", 0, 1, (0.5, 0.5)), "6 weights from 0 to 1 with the sum 1"),
        (SetRow("encoder.0.self", 0, 1, (1, 1, 0, 0, 0, 0)), "with the sum 1"),
        (CutResidual("encoder.0.self"), "has no tensor residual"),
        (RemovePositions(), "has no tensor positions"),
    ],
)
def test_an_intervention_without_a_matching_tensor_is_refused(tiny_model: Any, change: Intervention, says: str) -> None:
    with pytest.raises(UserError, match=f"(?s){says}"):
        effect(tiny_model(positions="none", ablations=["no_residual"]), change)


def test_parse_intervention() -> None:
    read = [parse_intervention(form, lambda piece: {"chat": 17}[piece]) for form in EXAMPLES]
    assert read == [
        Silence("encoder.0.self", 2),
        Average("decoder.1.cross", 0),
        SetRow("decoder.1.cross", 0, 3, (0.0, 0.5, 0.5)),
        CutResidual("encoder.1.ff"),
        RemoveMask(),
        RemovePositions("encoder"),
        ForceToken(3, 17),
    ]


@pytest.mark.parametrize(
    "text", ["mute=encoder.0.self.1", "silence", "silence=2", "row=decoder.0.cross.0.1:a,b", "force=x:chat"]
)
def test_invalid_interventions_are_refused(text: str) -> None:
    with pytest.raises(UserError, match=r"(?s)not a valid intervention.*silence=encoder\.0\.self\.2"):
        parse_intervention(text, lambda piece: 17)
