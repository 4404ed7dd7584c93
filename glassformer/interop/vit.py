"""ViT: `ViTForImageClassification`, with the mean and standard deviation of the pixels from its image processor.

Images of the model's size give the same result in both libraries. Images of another shape are cropped to the center
here; Hugging Face's processor stretches them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from glassformer.errors import UserError
from glassformer.files import read_json, write_text
from glassformer.inference.run import Run
from glassformer.interop.converter import ENCODER_SIZES, HuggingFaceConverter, labels_config, require_settings
from glassformer.interop.weight_rules import VocabularyMap, WeightRule, linear_rules
from glassformer.settings import Raw, Settings, ViTSettings
from glassformer.tasks import task_with_architecture

ARCHITECTURE = "ViTForImageClassification"
PROCESSOR = "preprocessor_config.json"
BICUBIC = 3  # the number in Pillow
# The only settings that can be exported.
SUPPORTED = {"norm": "pre", "ablations": []}


class ViTConverter(HuggingFaceConverter):
    model_type, family, prefix, activation = "vit", "vit", "vit.", "hidden_act"
    sizes = ENCODER_SIZES
    required: ClassVar[Raw] = {"do_rescale": True, "rescale_factor": 1 / 255}
    kept_files = ("config.json", PROCESSOR)
    overridden = ("architectures", "qkv_bias")

    def complete_config(self, config: Raw, folder: Path) -> Raw:
        try:
            processor = read_json(folder / PROCESSOR, PROCESSOR, "copy the folder again")
        except FileNotFoundError:
            hint = "write it: AutoImageProcessor.from_pretrained(…).save_pretrained(DIR)"
            raise UserError(f"The image processor file {PROCESSOR} is missing.", where=str(folder), hint=hint) from None
        if not isinstance(processor, dict):
            where = str(folder / PROCESSOR)
            hint = "copy the folder again"
            raise UserError("The file does not contain the settings of an image processor.", where=where, hint=hint)
        return processor | config

    def settings(self, config: Raw, weights: set[str]) -> tuple[str, Raw]:
        channels = config.get("num_channels", 3)
        height, width = _pair(config.get("image_size", 224))
        patch, across = _pair(config.get("patch_size", 16))
        if patch != across:
            raise UserError(
                f"The patches are not square: {patch}×{across} pixels.",
                where="config.json: patch_size",
                hint="import a model with square patches",
            )
        scaled = config.get("do_normalize", True)
        return task_with_architecture(ARCHITECTURE), self.import_sizes(config) | {
            "height": height,
            "width": width,
            "channels": channels,
            "mean": list(map(float, config.get("image_mean", [0.5] * channels))) if scaled else [0.0] * channels,
            "deviation": list(map(float, config.get("image_std", [0.5] * channels))) if scaled else [1.0] * channels,
            "patch": patch,
            "dropout": float(config.get("hidden_dropout_prob", 0.0)),
            "activation": self.import_activation(config, "gelu", "config.json"),
            "norm_epsilon": float(config.get("layer_norm_eps", 1e-12)),
        }

    def normalize_names(self, weights: dict[str, Tensor], config: Raw) -> dict[str, Tensor]:
        """Add zero biases of query, key and value if the model has none."""
        if config.get("qkv_bias", True):
            return weights
        zeros = torch.zeros(config["hidden_size"])
        names = (name for i in range(config["num_hidden_layers"]) for name in _query_key_value(i))
        return weights | {f"{name}.bias": zeros for name in names}

    def config(self, settings: Settings, entries: int, labels: list[str]) -> Raw:
        m = _vit(settings)
        require_settings(m, SUPPORTED, "ViT")
        return self.export_sizes(m, ARCHITECTURE) | {
            "image_size": m.height if m.height == m.width else [m.height, m.width],
            "num_channels": m.channels,
            "patch_size": m.patch,
            "layer_norm_eps": m.norm_epsilon,
            "hidden_dropout_prob": m.dropout,
            "attention_probs_dropout_prob": 0.0,
            "qkv_bias": True,
            **labels_config(labels),
        }

    def rules(self, settings: Settings) -> list[WeightRule]:
        m = _vit(settings)
        D, patches = m.d_model, "vit.embeddings.patch_embeddings.projection"
        square = (D, m.channels, m.patch, m.patch)
        every = [
            WeightRule("encoder.embedding.project.weight", (f"{patches}.weight",), shapes=((D, -1), square)),
            WeightRule("encoder.embedding.project.bias", (f"{patches}.bias",)),
            WeightRule("encoder.class_token.weight_D", ("vit.embeddings.cls_token",), shapes=((-1,), (1, 1, -1))),
            WeightRule(
                "encoder.positions.positions.weight_TD",
                ("vit.embeddings.position_embeddings",),
                shapes=((-1, D), (1, -1, D)),
            ),
            *linear_rules("encoder.encoder_norm", "vit.layernorm"),
            *linear_rules("output", "classifier"),
        ]
        for i in range(m.layers):
            ours, external = f"encoder.encoder.{i}", f"vit.encoder.layer.{i}"
            every += [
                *linear_rules(f"{ours}.self_residual.norm", f"{external}.layernorm_before"),
                *linear_rules(f"{ours}.self_attention.query_key_value", *_query_key_value(i)),
                *linear_rules(f"{ours}.self_attention.output", f"{external}.attention.output.dense"),
                *linear_rules(f"{ours}.feed_forward_residual.norm", f"{external}.layernorm_after"),
                *linear_rules(f"{ours}.feed_forward.expand", f"{external}.intermediate.dense"),
                *linear_rules(f"{ours}.feed_forward.contract", f"{external}.output.dense"),
            ]
        return every

    def write_processor(self, run: Run, out: Path) -> None:
        """Write the image processor."""
        m = _vit(run.settings)
        processor = {
            "image_processor_type": "ViTImageProcessor",
            "do_resize": True,
            "size": {"height": m.height, "width": m.width},
            "resample": BICUBIC,
            **self.required,
            "do_normalize": True,
            "image_mean": m.mean,
            "image_std": m.deviation,
        }
        write_text(out / PROCESSOR, json.dumps(processor, indent=2))

    def logits_of_both(self, run: Run, model: Any, vocabulary: VocabularyMap) -> tuple[Tensor, Tensor]:
        m, random = _vit(run.settings), torch.Generator().manual_seed(1)
        pixels_BCYX = torch.randint(0, 256, (3, m.channels, m.height, m.width), dtype=torch.uint8, generator=random)
        mean_C11, deviation_C11 = (torch.tensor(values)[:, None, None] for values in (m.mean, m.deviation))
        scaled_BCYX = (pixels_BCYX / 255 - mean_C11) / deviation_C11
        return run.model(pixels_BCYX), model(pixel_values=scaled_BCYX).logits


def _vit(settings: Settings) -> ViTSettings:
    assert isinstance(settings.model, ViTSettings)
    return settings.model


def _query_key_value(number: int) -> list[str]:
    """Return the names of the query, key and value layers of a layer."""
    return [f"vit.encoder.layer.{number}.attention.attention.{name}" for name in ("query", "key", "value")]


def _pair(size: Any) -> tuple[int, int]:
    """Return height and width; one number means that they are equal."""
    height, width = size if isinstance(size, list) else (size, size)
    return height, width
