"""Import and export of ViT models of `transformers` with random weights: equal outputs and gradients."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from torch import Tensor

import glassformer as gf
from glassformer.errors import UserError
from glassformer.inference.run import Run, load_run
from glassformer.interop.huggingface import export_run, import_run
from glassformer.interop.vit import PROCESSOR, ViTConverter
from glassformer.interop.weight_rules import VocabularyMap, import_weights

transformers = pytest.importorskip("transformers")

CLOSE = {"atol": 1e-5, "rtol": 1e-5}
SIZES = {"hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 17}
NAMES = {0: "boot", 1: "bag", 2: "shirt"}
MODELS: dict[str, dict[str, Any]] = {
    "28 pixels in grey": {"image_size": 28, "patch_size": 7, "num_channels": 1},
    "28 pixels in patches of 4": {"image_size": 28, "patch_size": 4, "num_channels": 1, "layer_norm_eps": 1e-3},
    "32 pixels in colour": {"image_size": 32, "patch_size": 4, "num_channels": 3},
    "without biases": {"image_size": 32, "patch_size": 8, "num_channels": 3, "qkv_bias": False},
    "of another shape": {"image_size": [14, 28], "patch_size": 7, "num_channels": 3, "hidden_act": "gelu_new"},
}


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    yield


def vit(folder: Path, **over: Any) -> Any:
    """Write a Hugging Face model with biases and norms away from 0 and 1, so that omitting one changes the output."""
    named = {"id2label": NAMES, "label2id": {label: number for number, label in NAMES.items()}}
    model = transformers.ViTForImageClassification(transformers.ViTConfig(**(SIZES | named | over)))
    torch.manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += (0.3 if parameter.dim() == 1 else 0.1) * torch.randn_like(parameter)
    model.eval().save_pretrained(folder)
    height, width = _sides(over["image_size"])
    channels = over["num_channels"]
    statistics = {"image_mean": [0.3, 0.4, 0.6][:channels], "image_std": [0.2, 0.3, 0.25][:channels]}
    transformers.ViTImageProcessor(size={"height": height, "width": width}, **statistics).save_pretrained(folder)
    return model


def _sides(size: int | list[int]) -> tuple[int, int]:
    height, width = size if isinstance(size, list) else (size, size)
    return height, width


@pytest.fixture(params=MODELS)
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Any, Run]:
    """Return the Hugging Face model, and our model of the same folder."""
    return vit(tmp_path / "theirs", **MODELS[request.param]), import_run(tmp_path / "theirs", tmp_path / "run")


def images(run: Run, count: int = 5) -> Tensor:
    m: Any = run.settings.model
    return torch.randint(0, 256, (count, m.channels, m.height, m.width), dtype=torch.uint8)


def seen_there(folder: Path, pixels_BCYX: Tensor) -> Tensor:
    """Return images preprocessed by the image processor of transformers."""
    processor = transformers.AutoImageProcessor.from_pretrained(folder)
    arrays = [pixels_CYX.permute(1, 2, 0).squeeze(-1).numpy() for pixels_CYX in pixels_BCYX]
    given: Tensor = processor([Image.fromarray(array) for array in arrays], return_tensors="pt")["pixel_values"]
    return given


@torch.no_grad()
def test_outputs_agree(pair: tuple[Any, Run], tmp_path: Path) -> None:
    theirs, run = pair
    pixels_BCYX = images(run)
    expected_BL = theirs(pixel_values=seen_there(tmp_path / "theirs", pixels_BCYX)).logits
    assert expected_BL.std() > 0.1
    torch.testing.assert_close(run.model(pixels_BCYX), expected_BL, **CLOSE)
    with torch.inference_mode():
        torch.testing.assert_close(run.model(pixels_BCYX), expected_BL, **CLOSE)


def test_gradients_agree(pair: tuple[Any, Run], tmp_path: Path) -> None:
    """The gradient of each of our weights is the converted gradient of the Hugging Face model."""
    theirs, run = pair
    run.model.requires_grad_(True)
    pixels_BCYX = images(run)
    expected_BL, ours_BL = (
        theirs(pixel_values=seen_there(tmp_path / "theirs", pixels_BCYX)).logits,
        run.model(pixels_BCYX),
    )
    upstream_BL = torch.randn_like(ours_BL)
    expected_BL.backward(upstream_BL)
    ours_BL.backward(upstream_BL)
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.copy_(parameter.grad)
    theirs.save_pretrained(tmp_path / "gradients")
    converter, config = ViTConverter(), json.loads((tmp_path / "theirs" / "config.json").read_text())
    gradients = converter.normalize_names(load_file(tmp_path / "gradients" / "model.safetensors"), config)
    expected = import_weights(converter.rules(run.settings), gradients, VocabularyMap.identity(0), None, tmp_path)
    compared = 0
    for name, parameter in run.model.named_parameters():
        scale = float(expected[name].abs().max())
        if scale == 0:  # biases that the Hugging Face model lacks
            assert name.endswith("query_key_value.bias") and not config["qkv_bias"]
            continue
        torch.testing.assert_close(parameter.grad, expected[name], atol=1e-5 * max(1.0, scale), rtol=1e-4, msg=name)
        compared += 1
    assert compared >= 30 - 2 * (not config["qkv_bias"])


@torch.no_grad()
def test_export_of_an_imported_model_gives_the_original(pair: tuple[Any, Run], tmp_path: Path) -> None:
    theirs, run = pair
    assert export_run(run.folder.path, tmp_path / "out") < 1e-5
    again, before = type(theirs).from_pretrained(tmp_path / "out"), theirs.state_dict()
    for name, weight in again.state_dict().items():
        assert torch.equal(weight, before[name]) if name in before else not weight.any(), name
    assert again.config.id2label == NAMES
    pixels_BCYX = images(run)
    given = seen_there(tmp_path / "out", pixels_BCYX)
    torch.testing.assert_close(again(pixel_values=given).logits, run.model(pixels_BCYX), **CLOSE)


def test_an_image_file_gets_the_label_of_transformers(tmp_path: Path) -> None:
    theirs = vit(tmp_path / "theirs", **MODELS["32 pixels in colour"])
    run = import_run(tmp_path / "theirs", tmp_path / "run")
    assert run.labels == list(NAMES.values()) and not (tmp_path / "run" / "tokenizer.json").exists()
    assert "32×32" in (tmp_path / "run" / "README.md").read_text(encoding="utf-8")
    Image.fromarray(np.random.default_rng(1).integers(0, 256, (32, 32, 3), dtype=np.uint8)).save(tmp_path / "a.png")
    processor = transformers.AutoImageProcessor.from_pretrained(tmp_path / "theirs")
    given = processor(Image.open(tmp_path / "a.png"), return_tensors="pt")
    with torch.no_grad():
        chance_L = theirs(**given).logits[0].softmax(-1)
    labeller = gf.load(tmp_path / "run")
    (answer,) = labeller.predict([tmp_path / "a.png"])
    assert answer.label == NAMES[int(chance_L.argmax())]
    assert answer.probabilities == pytest.approx({NAMES[n]: chance for n, chance in enumerate(chance_L.tolist())})
    assert labeller.trace(tmp_path / "a.png").class_token_attention(0).shape == (8, 8)


@pytest.mark.parametrize("colour", [False, True])
def test_transformers_loads_an_exported_run(colour: bool, tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    for label in ("cat", "dog"):
        (tmp_path / "images" / label).mkdir(parents=True)
        for number in range(20):
            array = random.integers(0, 256, (8, 12, 3) if colour else (8, 12), dtype=np.uint8)
            Image.fromarray(array).save(tmp_path / f"images/{label}/{number}.png")
    tiny = {"model.layers": 2, "model.d_model": 12, "model.patch": 4, "train.steps": 3, "train.batch_tokens": 64}
    run = gf.train(str(tmp_path / "images"), out=tmp_path / "run", settings=tiny)
    assert export_run(run.path, tmp_path / "out") < 1e-5
    model = transformers.AutoModelForImageClassification.from_pretrained(tmp_path / "out").eval()
    processor = transformers.AutoImageProcessor.from_pretrained(tmp_path / "out")
    file = tmp_path / "images/dog/3.png"
    with torch.no_grad():
        chance_L = model(**processor(Image.open(file), return_tensors="pt")).logits[0].softmax(-1)
    expected = {model.config.id2label[number]: chance for number, chance in enumerate(chance_L.tolist())}
    assert gf.load(run.path).predict([file])[0].probabilities == pytest.approx(expected, rel=1e-4)
    again = import_run(tmp_path / "out", tmp_path / "again")
    assert gf.load(again.folder.path).predict([file])[0].probabilities == pytest.approx(expected, rel=1e-4)
    assert again.settings.model == load_run(run.path).settings.model


def test_unsupported_settings_are_refused(tmp_path: Path) -> None:
    folder, new = tmp_path / "theirs", tmp_path / "run"
    vit(folder, **MODELS["28 pixels in grey"])
    config, processor = (json.loads((folder / name).read_text()) for name in ("config.json", PROCESSOR))

    def changed(name: str = "config.json", **over: Any) -> Path:
        before = config if name == "config.json" else processor
        (folder / name).write_text(json.dumps(before | over))
        return folder

    with pytest.raises(UserError, match="patches are not square: 7×14 pixels"):
        import_run(changed(patch_size=[7, 14]), new)
    with pytest.raises(UserError, match="activation 'quick_gelu'"):
        import_run(changed(hidden_act="quick_gelu"), new)
    with pytest.raises(UserError, match=r"patch = 5 does not divide an image of 28×28"):
        import_run(changed(patch_size=5), new)
    with pytest.raises(UserError, match=r"vit\.encoder\.layer\.2\..* is missing"):
        import_run(changed(num_hidden_layers=3), new)
    with pytest.raises(UserError, match="does not match config"):
        import_run(changed(hidden_size=9), new)
    with pytest.raises(UserError, match=r"do not fit the model.*weight_TD"):
        import_run(changed(image_size=56), new)
    with pytest.raises(UserError, match="'num_hidden_layers' is missing"):
        (folder / "config.json").write_text(json.dumps({"model_type": "vit"}))
        import_run(folder, new)
    changed()
    with pytest.raises(UserError, match="rescale_factor = 1"):
        import_run(changed(PROCESSOR, rescale_factor=1), new)
    with pytest.raises(UserError, match="mean and deviation need one entry per channel"):
        import_run(changed(PROCESSOR, image_mean=[0.5] * 3), new)
    (folder / PROCESSOR).write_text("{")
    with pytest.raises(UserError, match=r"preprocessor_config\.json is damaged"):
        import_run(folder, new)
    (folder / PROCESSOR).unlink()
    with pytest.raises(UserError, match=r"image processor file(.|\n)*AutoImageProcessor"):
        import_run(folder, new)
    changed(PROCESSOR, do_normalize=False)
    weights = load_file(folder / "model.safetensors")
    save_file(
        {name: weight for name, weight in weights.items() if "classifier" not in name}, folder / "model.safetensors"
    )
    with pytest.raises(UserError, match=r"classifier\.weight is missing"):
        import_run(folder, new)
    assert not new.exists()
    save_file(weights, folder / "model.safetensors")
    assert import_run(folder, new).settings.model.mean == [0.0]  # pixels that are not scaled


def test_a_vit_with_ablations_is_not_exported(tmp_path: Path) -> None:
    vit(tmp_path / "theirs", **MODELS["28 pixels in grey"])
    import_run(tmp_path / "theirs", tmp_path / "run")
    settings = tmp_path / "run" / "run.toml"
    settings.write_text(settings.read_text().replace("ablations = []", 'ablations = ["no_scaling"]'))
    with pytest.raises(UserError, match=r"does not support ablations = \['no_scaling'\](.|\n)*model.ablations=\[\]"):
        export_run(tmp_path / "run", tmp_path / "out")
    assert not (tmp_path / "out").exists()
