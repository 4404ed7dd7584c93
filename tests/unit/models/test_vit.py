"""The Vision Transformer: comparison with PyTorch, and the properties of an encoder."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from glassformer.models.heads import FirstTokenClassifier
from glassformer.models.vit import ViT
from glassformer.nn.patches import cut_patches
from glassformer.nn.probe import Recorder
from glassformer.planning.estimate import multiplications_per_token
from glassformer.settings import ViTSettings

LABELS, D, FF, HEADS, LAYERS = 5, 21, 37, 3, 2


def settings(**over: Any) -> ViTSettings:
    sizes = {"height": 6, "width": 9, "channels": 2 + 1, "mean": [0.3, 0.4, 0.5], "deviation": [0.2, 0.3, 0.4]}
    more = {"patch": 3, "layers": LAYERS, "d_model": D, "heads": HEADS, "d_ff": FF, "dropout": 0.0}
    return ViTSettings(**(sizes | more | over))


@pytest.fixture
def model(enliven: Any) -> FirstTokenClassifier:
    torch.manual_seed(1)
    return enliven(FirstTokenClassifier(ViT(settings()), LABELS)).eval()


def pixels(count: int = 4) -> Tensor:
    return torch.randint(0, 256, (count, 3, 6, 9), dtype=torch.uint8, generator=torch.Generator().manual_seed(2))


def test_equals_torch_transformer_encoder(model: Any) -> None:
    how = {"dim_feedforward": FF, "dropout": 0.0, "activation": "gelu", "batch_first": True, "norm_first": True}
    vit, image = model.encoder, pixels().float() / 255
    mean, deviation = (torch.tensor(values)[:, None, None] for values in ([0.3, 0.4, 0.5], [0.2, 0.3, 0.4]))
    x = cut_patches((image - mean) / deviation, 3) @ vit.embedding.project.weight.T + vit.embedding.project.bias
    x = torch.cat([vit.class_token.weight_D.expand(4, 1, D), x], dim=1) + vit.positions.positions.weight_TD
    for ours in vit.encoder:
        peer = nn.TransformerEncoderLayer(D, HEADS, **how).eval()
        attention, ff = ours.self_attention, ours.feed_forward
        peer.load_state_dict(
            {
                "self_attn.in_proj_weight": attention.query_key_value.weight,
                "self_attn.in_proj_bias": attention.query_key_value.bias,
                "self_attn.out_proj.weight": attention.output.weight,
                "self_attn.out_proj.bias": attention.output.bias,
                "linear1.weight": ff.expand.weight,
                "linear1.bias": ff.expand.bias,
                "linear2.weight": ff.contract.weight,
                "linear2.bias": ff.contract.bias,
                "norm1.weight": ours.self_residual.norm.weight,
                "norm1.bias": ours.self_residual.norm.bias,
                "norm2.weight": ours.feed_forward_residual.norm.weight,
                "norm2.bias": ours.feed_forward_residual.norm.bias,
            }
        )
        x = peer(x)
    x = nn.functional.layer_norm(x, (D,), vit.encoder_norm.weight, vit.encoder_norm.bias)
    expected = x[:, 0] @ model.output.weight.T + model.output.bias
    torch.testing.assert_close(model(pixels()), expected, rtol=1e-4, atol=1e-4)


def test_batch_mates_change_nothing(model: Any) -> None:
    together = model(pixels())
    for row in range(4):
        torch.testing.assert_close(model(pixels()[row : row + 1])[0], together[row], rtol=1e-5, atol=1e-5)


def test_a_recorder_changes_neither_output_nor_gradients(model: Any) -> None:
    model.train()
    recorder, gradients, outputs = Recorder(), [], []
    for probe in ([], [recorder]):
        model.zero_grad()
        output = model(pixels(), *probe)
        output.square().sum().backward()
        outputs.append(output.detach())
        gradients.append([parameter.grad.clone() for parameter in model.parameters()])
    torch.testing.assert_close(outputs[0], outputs[1], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-3, atol=1e-4)
    weights_BHQK = recorder.tensors["encoder.1.self.weights"]
    assert weights_BHQK.shape == (4, HEADS, 7, 7)
    torch.testing.assert_close(weights_BHQK.sum(-1), torch.ones(4, HEADS, 7))
    assert {"encoder.image", "encoder.positions", "encoder.hidden", "pooled", "logits"} <= recorder.tensors.keys()


def test_the_output_depends_on_every_patch(model: Any) -> None:
    answer = model(pixels(1))
    for row in range(2):
        for column in range(3):
            changed = pixels(1)
            changed[:, :, 3 * row : 3 * row + 3, 3 * column : 3 * column + 3] ^= 255
            assert (model(changed) - answer).abs().max() > 1e-4


@pytest.mark.parametrize(
    ("over", "says"),
    [
        ({"patch": 4}, "patch = 4 does not divide an image of 6×9: use one of 1, 3"),
        ({"heads": 2}, "heads = 2 does not divide d_model = 21"),
        ({"mean": [0.5]}, "mean and deviation need one entry per channel"),
    ],
)
def test_sizes_that_do_not_fit(over: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        settings(**over)


def test_multiplications_per_token(model: Any) -> None:
    matrices = [weight for name, weight in model.encoder.named_parameters() if name.endswith("weight")]
    assert multiplications_per_token(model.encoder) == sum(weight.numel() for weight in matrices if weight.dim() == 2)
    assert settings().tokens == 7
