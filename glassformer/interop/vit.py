"""ViT as Hugging Face has it: `ViTForImageClassification`, with the pixels' statistics from its image processor.

An image that has the model's size is the same to both. Of one of another shape, this model sees the middle; their
processor draws it out or together.
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
from glassformer.interop.bridge import Bridge, name_labels, refuse_others
from glassformer.interop.weights import Vocabulary, Weight, layer
from glassformer.settings import Raw, Settings, ViTSettings
from glassformer.tasks import task_with_architecture

ARCHITECTURE = "ViTForImageClassification"
PROCESSOR = "preprocessor_config.json"
BICUBIC = 3  # as Pillow numbers it
# Settings of ours that ViT has no others of.
AS_THEIRS = {"norm": "pre", "ablations": []}


class ViTBridge(Bridge):
    model_type, family, prefix, activation = "vit", "vit", "vit.", "hidden_act"
    needed: ClassVar[Raw] = {"do_rescale": True, "rescale_factor": 1 / 255}
    kept = ("config.json", PROCESSOR)
    restated = ("architectures", "qkv_bias")

    def whole(self, config: Raw, folder: Path) -> Raw:
        try:
            processor = read_json(folder / PROCESSOR, PROCESSOR, "copy the folder again")
        except FileNotFoundError:
            raise UserError(
                f"The folder does not say how pixels are scaled: there is no {PROCESSOR}.",
                where=str(folder),
                hint="save it there: AutoImageProcessor.from_pretrained(…).save_pretrained(DIR)",
            ) from None
        if not isinstance(processor, dict):
            where = str(folder / PROCESSOR)
            raise UserError("These are no settings of an image processor.", where=where, hint="copy it again")
        return processor | config

    def settings(self, config: Raw, weights: set[str]) -> tuple[str, Raw]:
        channels = config.get("num_channels", 3)
        height, width = _pair(config.get("image_size", 224))
        patch, across = _pair(config.get("patch_size", 16))
        if patch != across:
            raise UserError(
                f"The patches are not square: {patch}×{across} pixels.",
                where="config.json: patch_size",
                hint="import a model whose patches are square",
            )
        scaled = config.get("do_normalize", True)
        return task_with_architecture(ARCHITECTURE), {
            "family": "vit",
            "height": height,
            "width": width,
            "channels": channels,
            "mean": list(map(float, config.get("image_mean", [0.5] * channels))) if scaled else [0.0] * channels,
            "deviation": list(map(float, config.get("image_std", [0.5] * channels))) if scaled else [1.0] * channels,
            "patch": patch,
            "layers": config["num_hidden_layers"],
            "d_model": config["hidden_size"],
            "heads": config["num_attention_heads"],
            "d_ff": config["intermediate_size"],
            "dropout": float(config.get("hidden_dropout_prob", 0.0)),
            "activation": self.our_activation(config, "gelu", "config.json"),
            "norm_epsilon": float(config.get("layer_norm_eps", 1e-12)),
        }

    def named(self, weights: dict[str, Tensor], config: Raw) -> dict[str, Tensor]:
        """With zeros for the biases of queries, keys and values that they may leave out."""
        if config.get("qkv_bias", True):
            return weights
        zeros = torch.zeros(config["hidden_size"])
        names = (name for i in range(config["num_hidden_layers"]) for name in _query_key_value(i))
        return weights | {f"{name}.bias": zeros for name in names}

    def config(self, settings: Settings, entries: int, labels: list[str]) -> Raw:
        m = _vit(settings)
        refuse_others(m, AS_THEIRS, "Hugging Face has no ViT")
        return {
            "architectures": [ARCHITECTURE],
            "model_type": self.model_type,
            "image_size": m.height if m.height == m.width else [m.height, m.width],
            "num_channels": m.channels,
            "patch_size": m.patch,
            "hidden_size": m.d_model,
            "num_hidden_layers": m.layers,
            "num_attention_heads": m.heads,
            "intermediate_size": m.d_ff,
            "hidden_act": self.their_activation(m.activation),
            "layer_norm_eps": m.norm_epsilon,
            "hidden_dropout_prob": m.dropout,
            "attention_probs_dropout_prob": 0.0,
            "qkv_bias": True,
            **name_labels(labels),
        }

    def rules(self, settings: Settings) -> list[Weight]:
        m = _vit(settings)
        D, patches = m.d_model, "vit.embeddings.patch_embeddings.projection"
        square = (D, m.channels, m.patch, m.patch)
        every = [
            Weight("encoder.embedding.project.weight", (f"{patches}.weight",), shapes=((D, -1), square)),
            Weight("encoder.embedding.project.bias", (f"{patches}.bias",)),
            Weight("encoder.class_token.weight_D", ("vit.embeddings.cls_token",), shapes=((-1,), (1, 1, -1))),
            Weight(
                "encoder.positions.positions.weight_TD",
                ("vit.embeddings.position_embeddings",),
                shapes=((-1, D), (1, -1, D)),
            ),
            *layer("encoder.encoder_norm", "vit.layernorm"),
            *layer("output", "classifier"),
        ]
        for i in range(m.layers):
            ours, theirs = f"encoder.encoder.{i}", f"vit.encoder.layer.{i}"
            every += [
                *layer(f"{ours}.self_residual.norm", f"{theirs}.layernorm_before"),
                *layer(f"{ours}.self_attention.query_key_value", *_query_key_value(i)),
                *layer(f"{ours}.self_attention.output", f"{theirs}.attention.output.dense"),
                *layer(f"{ours}.feed_forward_residual.norm", f"{theirs}.layernorm_after"),
                *layer(f"{ours}.feed_forward.expand", f"{theirs}.intermediate.dense"),
                *layer(f"{ours}.feed_forward.contract", f"{theirs}.output.dense"),
            ]
        return every

    def write_beside(self, run: Run, out: Path) -> None:
        """How an image becomes numbers."""
        m = _vit(run.settings)
        processor = {
            "image_processor_type": "ViTImageProcessor",
            "do_resize": True,
            "size": {"height": m.height, "width": m.width},
            "resample": BICUBIC,
            **self.needed,
            "do_normalize": True,
            "image_mean": m.mean,
            "image_std": m.deviation,
        }
        write_text(out / PROCESSOR, json.dumps(processor, indent=2))

    def both(self, run: Run, model: Any, vocabulary: Vocabulary) -> tuple[Tensor, Tensor]:
        m, random = _vit(run.settings), torch.Generator().manual_seed(1)
        pixels_BCYX = torch.randint(0, 256, (3, m.channels, m.height, m.width), dtype=torch.uint8, generator=random)
        mean_C11, deviation_C11 = (torch.tensor(values)[:, None, None] for values in (m.mean, m.deviation))
        scaled_BCYX = (pixels_BCYX / 255 - mean_C11) / deviation_C11
        return run.model(pixels_BCYX), model(pixel_values=scaled_BCYX).logits


def _vit(settings: Settings) -> ViTSettings:
    assert isinstance(settings.model, ViTSettings)
    return settings.model


def _query_key_value(number: int) -> list[str]:
    """Of a layer."""
    return [f"vit.encoder.layer.{number}.attention.attention.{name}" for name in ("query", "key", "value")]


def _pair(size: Any) -> tuple[int, int]:
    """Height and width, which are said by one number where they are equal."""
    height, width = size if isinstance(size, list) else (size, size)
    return height, width
