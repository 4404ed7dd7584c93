"""`HuggingFaceConverter`: the conversion of one model family between Hugging Face transformers and Glassformer."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from torch import Tensor

from glassformer.errors import UserError
from glassformer.inference.run import Run
from glassformer.interop.weight_rules import VocabularyMap, WeightRule
from glassformer.settings import MODELS, AnyModel, Raw, Settings
from glassformer.text.tokenizer import Tokenizer

# Hugging Face names and ours; of several, the first is written on export.
ACTIVATIONS = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "swish": "swish",
    "silu": "swish",
}


# The sizes of an encoder, as BERT and ViT call them.
ENCODER_SIZES = {
    "layers": "num_hidden_layers",
    "d_model": "hidden_size",
    "heads": "num_attention_heads",
    "d_ff": "intermediate_size",
}


class HuggingFaceConverter:
    """Converts the settings, weights and tokenizer of one model family in both directions."""

    model_type: str  # in config.json
    family: str  # model.family
    prefix: str  # of the names of all weights except the head; older files omit it
    activation: str  # the name of the setting in config.json
    sizes: ClassVar[dict[str, str]]  # our settings that config.json has under another name
    required: ClassVar[Raw] = {}  # the only supported values of settings without a counterpart
    kept_files: ClassVar[tuple[str, ...]] = ("config.json",)  # copied back when an imported model is exported
    overridden: ClassVar[tuple[str, ...]] = ("architectures",)  # settings of config.json rewritten on export

    def exports(self, model: AnyModel) -> bool:
        """Return whether a model with these settings is exported by this converter."""
        return isinstance(model, MODELS[self.family])

    def complete_config(self, config: Raw, folder: Path) -> Raw:
        """Return config.json together with settings from other files of the folder."""
        return config

    def normalize_names(self, weights: dict[str, Tensor], config: Raw) -> dict[str, Tensor]:
        """Return the weights under the names used in `rules`."""
        return weights

    def settings(self, config: Raw, weights: set[str]) -> tuple[str, Raw]:
        """Return our task and model settings for a config.json and the names of its weights."""
        raise NotImplementedError

    def config(self, settings: Settings, entries: int, labels: list[str]) -> Raw:
        """Return the config.json for our settings."""
        raise NotImplementedError

    def rules(self, settings: Settings) -> list[WeightRule]:
        """Return the rules for all weights."""
        raise NotImplementedError

    def feature_order(self, settings: Settings) -> Tensor | None:
        """Return the Hugging Face index of each of our residual dimensions; None if the order is the same."""
        return None

    def extra_weights(self, config: Raw, order_D: Tensor | None) -> dict[str, Tensor]:
        """Return weights that Hugging Face expects and our models lack. `order_D`: see `feature_order`."""
        return {}

    def tokenizer(self, config: Raw, folder: Path) -> Tokenizer | None:
        """Return the tokenizer with our token ids; None for models that do not read text."""
        return None

    def vocabulary(self, config: Raw, folder: Path) -> VocabularyMap:
        """Return the mapping of token ids."""
        return VocabularyMap.identity(0)

    def write_processor(self, run: Run, out: Path) -> None:
        """Write the tokenizer or image processor files for a run that was not imported."""
        raise NotImplementedError

    def logits_of_both(self, run: Run, model: Any, vocabulary: VocabularyMap) -> tuple[Tensor, Tensor]:
        """Return the outputs of our model and of the exported model for the same random input."""
        raise NotImplementedError

    def check(self, config: Raw, where: str) -> None:
        """Refuse a model with unsupported settings."""
        for name, right in self.required.items():
            if config.get(name, right) != right:
                raise UserError(
                    f"{name} = {config[name]} is not supported for {self.model_type} models.",
                    where=where,
                    hint=f"import a model with {name} = {right}",
                )

    def import_sizes(self, config: Raw) -> Raw:
        return {"family": self.family} | {ours: config[external] for ours, external in self.sizes.items()}

    def export_sizes(self, model: Any, architecture: str) -> Raw:
        sizes = {external: getattr(model, ours) for ours, external in self.sizes.items()}
        activation = {self.activation: self.export_activation(model.activation)}
        return {"architectures": [architecture], "model_type": self.model_type} | sizes | activation

    def import_activation(self, config: Raw, default: str, where: str) -> str:
        external = config.get(self.activation, default)
        if external not in ACTIVATIONS:
            hint = f"import a model with one of {', '.join(ACTIVATIONS)}"
            raise UserError(f"The activation '{external}' is not supported.", where=where, hint=hint)
        return ACTIVATIONS[external]

    def export_activation(self, ours: str) -> str:
        return next(external for external, name in ACTIVATIONS.items() if name == ours)


def require_settings(model: AnyModel, supported: Raw, model_type: str) -> None:
    """Refuse to export a model with settings that the Hugging Face model does not have."""
    for name, right in supported.items():
        if getattr(model, name) != right:
            raise UserError(
                f"Hugging Face's {model_type} does not support {name} = {getattr(model, name)}.",
                where=f"model.{name}",
                hint=f"export a model trained with model.{name}={right}",
            )


def labels_config(labels: list[str]) -> Raw:
    """Return the labels as entries of config.json."""
    return {
        "id2label": {str(n): label for n, label in enumerate(labels)},
        "label2id": {label: n for n, label in enumerate(labels)},
    }
