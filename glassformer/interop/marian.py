"""Marian: `MarianMTModel`, the Transformer of the paper with another order of the dimensions.

Marian's positional encoding has all sines first and then all cosines; ours alternates them, as in the paper. The
dimensions of the residual stream can be in any order if all weights agree, so import and export permute them.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from glassformer.errors import UserError
from glassformer.interop.converter import require_settings
from glassformer.interop.text_converter import SPECIAL_IDS, TextConverter
from glassformer.interop.tokenizer_files import SpecialTokens
from glassformer.interop.weight_rules import WeightRule, linear_rules
from glassformer.nn.positional_encoding import sinusoids
from glassformer.settings import AnyModel, Raw, Settings, TransformerSettings
from glassformer.tasks import task_with_architecture
from glassformer.text.tokenizer import EOS, SOS

# The only settings that can be exported.
SUPPORTED = {
    "ablations": [],
    "positions": "sinusoidal",
    "combine_positions": "add",
    "tie_embeddings": True,
}


class MarianConverter(TextConverter):
    model_type, family, prefix, activation = "marian", "transformer", "model.", "activation_function"
    architecture, norm = "MarianMTModel", "post"
    sizes: ClassVar[dict[str, str]] = {name: name for name in ("d_model", "encoder_layers", "decoder_layers")}
    required: ClassVar[Raw] = {
        "scale_embedding": True,
        "share_encoder_decoder_embeddings": True,
        "tie_word_embeddings": True,
        "normalize_before": False,
        "normalize_embedding": False,
        "add_final_layer_norm": False,
        "static_position_embeddings": True,
    }

    def exports(self, model: AnyModel) -> bool:
        return isinstance(model, TransformerSettings) and model.norm == self.norm

    def settings(self, config: Raw, weights: set[str]) -> tuple[str, Raw]:
        for name in ("attention_heads", "ffn_dim"):
            if config[f"encoder_{name}"] != config[f"decoder_{name}"]:
                raise UserError(
                    f"Encoder and decoder have different {name.replace('_', ' ')}.",
                    where="config.json",
                    hint="import a model whose encoder and decoder differ only in the number of layers",
                )
        return task_with_architecture(MarianConverter.architecture), self.import_sizes(config) | {
            "heads": config["encoder_attention_heads"],
            "d_ff": config["encoder_ffn_dim"],
            "dropout": float(config.get("dropout", 0.1)),
            "activation": self.import_activation(config, "gelu", "config.json"),
            "output_bias": True,
        }

    def config(self, settings: Settings, entries: int, labels: list[str]) -> Raw:
        m = settings.model
        assert isinstance(m, TransformerSettings)
        require_settings(m, SUPPORTED, self.model_type.capitalize())
        return self.export_sizes(m, self.architecture) | {
            "vocab_size": entries,
            "decoder_vocab_size": entries,
            **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), m.heads),
            **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim"), m.d_ff),
            "dropout": m.dropout,
            "attention_dropout": 0.0,
            "activation_dropout": 0.0,
            "max_position_embeddings": 1024,
            "is_encoder_decoder": True,
            **self.required,
            **SPECIAL_IDS,
            "forced_eos_token_id": EOS,
            "decoder_start_token_id": SOS,
        }

    def special(self, config: Raw, tokenizer: Raw) -> SpecialTokens:
        # Marian's decoder starts with the padding token; ours has a start token, which gets the same embedding.
        pad, start = config["pad_token_id"], config["decoder_start_token_id"]
        return SpecialTokens(pad, None if start == pad else start, config["eos_token_id"], like=start)

    def rules(self, settings: Settings) -> list[WeightRule]:
        m = settings.model
        assert isinstance(m, TransformerSettings)
        every = [WeightRule("source_embedding.weight_VD", ("model.shared.weight",), vocab_rows=True, feature_axes=(1,))]
        if m.output_bias:
            every.append(WeightRule("output.bias_V", ("final_logits_bias",), vocab_rows=True, shapes=((-1,), (1, -1))))
        for i in range(m.encoder_layers):
            every += self._sub_layers(f"encoder.{i}", f"model.encoder.layers.{i}")
        for i in range(m.decoder_layers):
            ours, external = f"decoder.{i}", f"model.decoder.layers.{i}"
            cross = f"{external}.encoder_attn"
            every += [
                *self._sub_layers(ours, external),
                *linear_rules(f"{ours}.cross_attention.query", f"{cross}.q_proj", feature_axes=(1,)),
                *linear_rules(
                    f"{ours}.cross_attention.key_value", f"{cross}.k_proj", f"{cross}.v_proj", feature_axes=(1,)
                ),
                *linear_rules(f"{ours}.cross_attention.output", f"{cross}.out_proj", feature_axes=(0,)),
                *linear_rules(f"{ours}.cross_residual.norm", f"{cross}_layer_norm", feature_axes=(0,)),
            ]
        return every

    def _sub_layers(self, ours: str, external: str) -> list[WeightRule]:
        parts = (f"{external}.self_attn.{name}_proj" for name in "qkv")
        return [
            *linear_rules(f"{ours}.self_attention.query_key_value", *parts, feature_axes=(1,)),
            *linear_rules(f"{ours}.self_attention.output", f"{external}.self_attn.out_proj", feature_axes=(0,)),
            *linear_rules(f"{ours}.self_residual.norm", f"{external}.self_attn_layer_norm", feature_axes=(0,)),
            *linear_rules(f"{ours}.feed_forward.expand", f"{external}.fc1", feature_axes=(1,)),
            *linear_rules(f"{ours}.feed_forward.contract", f"{external}.fc2", feature_axes=(0,)),
            *linear_rules(f"{ours}.feed_forward_residual.norm", f"{external}.final_layer_norm", feature_axes=(0,)),
        ]

    def feature_order(self, settings: Settings) -> Tensor:
        """Return the order in which sine and cosine of each wavelength alternate."""
        m = settings.model
        assert isinstance(m, TransformerSettings)
        sines = (m.d_model + 1) // 2
        order_D = torch.empty(m.d_model, dtype=torch.long)
        order_D[0::2], order_D[1::2] = torch.arange(sines), torch.arange(sines, m.d_model)
        return order_D

    def extra_weights(self, config: Raw, order_D: Tensor | None) -> dict[str, Tensor]:
        assert order_D is not None
        table_TD = torch.empty(config["max_position_embeddings"], len(order_D))
        table_TD[:, order_D] = sinusoids(*table_TD.shape)
        tables = {f"model.{side}.embed_positions.weight": table_TD.clone() for side in ("encoder", "decoder")}
        return tables | {"final_logits_bias": torch.zeros(1, config["vocab_size"])}

    def template(self) -> str:
        return "$A <eos>"

    def logits(self, model: Any, text_BS: Tensor, mask_BS: Tensor, segments_BS: Tensor) -> Tensor:
        return model(input_ids=text_BS, attention_mask=mask_BS, decoder_input_ids=text_BS).logits

    def our_logits(self, model: Any, text_BS: Tensor) -> Tensor:
        return model(text_BS, text_BS)
