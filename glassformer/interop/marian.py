"""Marian as Hugging Face has it: `MarianMTModel`, the paper's Transformer in another order of features.

Its sinusoids stand sine by sine and then cosine by cosine; ours take turns, as the paper has them. The features of the
residual stream can stand in any order, as long as all weights agree: so they are put in ours.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from glassformer.errors import UserError
from glassformer.interop.bridge import refuse_others
from glassformer.interop.text import TextBridge
from glassformer.interop.tokens import Special
from glassformer.interop.weights import Weight, layer
from glassformer.settings import Raw, Settings, TransformerSettings
from glassformer.tasks import task_with_architecture
from glassformer.text.tokenizer import EOS, PAD, SOS

# Settings of ours that Marian has no others of.
ARCHITECTURE = "MarianMTModel"
AS_THEIRS = {
    "norm": "post",
    "ablations": [],
    "positions": "sinusoidal",
    "combine_positions": "add",
    "tie_embeddings": True,
}


class Marian(TextBridge):
    model_type, family, prefix, activation = "marian", "transformer", "model.", "activation_function"
    needed: ClassVar[Raw] = {
        "scale_embedding": True,
        "share_encoder_decoder_embeddings": True,
        "tie_word_embeddings": True,
        "normalize_before": False,
        "normalize_embedding": False,
        "add_final_layer_norm": False,
        "static_position_embeddings": True,
    }

    def settings(self, config: Raw, weights: set[str]) -> tuple[str, Raw]:
        for name in ("attention_heads", "ffn_dim"):
            if config[f"encoder_{name}"] != config[f"decoder_{name}"]:
                raise UserError(
                    f"Encoder and decoder have different {name.replace('_', ' ')}.",
                    where="config.json",
                    hint="import a model whose sides are alike but for their layers",
                )
        return task_with_architecture(ARCHITECTURE), {
            "family": "transformer",
            "encoder_layers": config["encoder_layers"],
            "decoder_layers": config["decoder_layers"],
            "d_model": config["d_model"],
            "heads": config["encoder_attention_heads"],
            "d_ff": config["encoder_ffn_dim"],
            "dropout": float(config.get("dropout", 0.1)),
            "activation": self.our_activation(config, "gelu", "config.json"),
            "output_bias": True,
        }

    def config(self, settings: Settings, entries: int, labels: list[str]) -> Raw:
        m = settings.model
        assert isinstance(m, TransformerSettings)
        refuse_others(m, AS_THEIRS, "Marian has no Transformer")
        return {
            "architectures": [ARCHITECTURE],
            "model_type": self.model_type,
            "vocab_size": entries,
            "decoder_vocab_size": entries,
            "d_model": m.d_model,
            "encoder_layers": m.encoder_layers,
            "decoder_layers": m.decoder_layers,
            **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), m.heads),
            **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim"), m.d_ff),
            "activation_function": self.their_activation(m.activation),
            "dropout": m.dropout,
            "attention_dropout": 0.0,
            "activation_dropout": 0.0,
            "max_position_embeddings": 1024,
            "is_encoder_decoder": True,
            **self.needed,
            "pad_token_id": PAD,
            "bos_token_id": SOS,
            "eos_token_id": EOS,
            "forced_eos_token_id": EOS,
            "decoder_start_token_id": SOS,
        }

    def special(self, config: Raw, tokenizer: Raw) -> Special:
        # Their decoder begins with padding; ours with an entry of its own, which is the same vector.
        pad, start = config["pad_token_id"], config["decoder_start_token_id"]
        return Special(pad, None if start == pad else start, config["eos_token_id"], like=start)

    def rules(self, settings: Settings) -> list[Weight]:
        m = settings.model
        assert isinstance(m, TransformerSettings)
        every = [Weight("source_embedding.weight_VD", ("model.shared.weight",), entries=True, stream=(1,))]
        if m.output_bias:
            every.append(Weight("output.bias_V", ("final_logits_bias",), entries=True, shapes=((-1,), (1, -1))))
        for i in range(m.encoder_layers):
            every += self._sub_layers(f"encoder.{i}", f"model.encoder.layers.{i}")
        for i in range(m.decoder_layers):
            ours, theirs = f"decoder.{i}", f"model.decoder.layers.{i}"
            cross = f"{theirs}.encoder_attn"
            every += [
                *self._sub_layers(ours, theirs),
                *layer(f"{ours}.cross_attention.query", f"{cross}.q_proj", stream=(1,)),
                *layer(f"{ours}.cross_attention.key_value", f"{cross}.k_proj", f"{cross}.v_proj", stream=(1,)),
                *layer(f"{ours}.cross_attention.output", f"{cross}.out_proj", stream=(0,)),
                *layer(f"{ours}.cross_residual.norm", f"{cross}_layer_norm", stream=(0,)),
            ]
        return every

    def _sub_layers(self, ours: str, theirs: str) -> list[Weight]:
        parts = (f"{theirs}.self_attn.{name}_proj" for name in "qkv")
        return [
            *layer(f"{ours}.self_attention.query_key_value", *parts, stream=(1,)),
            *layer(f"{ours}.self_attention.output", f"{theirs}.self_attn.out_proj", stream=(0,)),
            *layer(f"{ours}.self_residual.norm", f"{theirs}.self_attn_layer_norm", stream=(0,)),
            *layer(f"{ours}.feed_forward.expand", f"{theirs}.fc1", stream=(1,)),
            *layer(f"{ours}.feed_forward.contract", f"{theirs}.fc2", stream=(0,)),
            *layer(f"{ours}.feed_forward_residual.norm", f"{theirs}.final_layer_norm", stream=(0,)),
        ]

    def stream(self, settings: Settings) -> Tensor:
        """Sine and cosine of one wave length side by side."""
        m = settings.model
        assert isinstance(m, TransformerSettings)
        sines = (m.d_model + 1) // 2
        order_D = torch.empty(m.d_model, dtype=torch.long)
        order_D[0::2], order_D[1::2] = torch.arange(sines), torch.arange(sines, m.d_model)
        return order_D

    def beside(self, entries: int) -> dict[str, Tensor]:
        return {"final_logits_bias": torch.zeros(1, entries)}

    def template(self) -> str:
        return "$A <eos>"

    def logits(self, model: Any, text_BS: Tensor, mask_BS: Tensor, segments_BS: Tensor) -> Tensor:
        return model(input_ids=text_BS, attention_mask=mask_BS, decoder_input_ids=text_BS).logits

    def our_logits(self, model: Any, text_BS: Tensor) -> Tensor:
        return model(text_BS, text_BS)
