"""GPT-2: `GPT2LMHeadModel`."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor

from glassformer.interop.converter import require_settings
from glassformer.interop.text_converter import SPECIAL_IDS, TextConverter
from glassformer.interop.tokenizer_files import SpecialTokens
from glassformer.interop.weight_rules import WeightRule, linear_rules
from glassformer.settings import GPTSettings, Raw, Settings
from glassformer.tasks import task_with_architecture

ARCHITECTURE = "GPT2LMHeadModel"


class GPT2Converter(TextConverter):
    model_type, family, prefix, activation = "gpt2", "gpt", "transformer.", "activation_function"
    sizes: ClassVar[dict[str, str]] = {
        "layers": "n_layer",
        "d_model": "n_embd",
        "heads": "n_head",
        "max_positions": "n_positions",
    }
    required: ClassVar[Raw] = {
        "scale_attn_weights": True,
        "scale_attn_by_inverse_layer_idx": False,
        "add_cross_attention": False,
    }

    def settings(self, config: Raw, weights: set[str]) -> tuple[str, Raw]:
        return task_with_architecture(ARCHITECTURE), self.import_sizes(config) | {
            "d_ff": config.get("n_inner") or 4 * config["n_embd"],
            "dropout": float(config.get("resid_pdrop", 0.1)),
            "activation": self.import_activation(config, "gelu_new", "config.json"),
            "norm_epsilon": float(config.get("layer_norm_epsilon", 1e-5)),
            "tie_embeddings": config.get("tie_word_embeddings", True),
            "output_bias": True,  # padding and start tokens that GPT-2 lacks must never be predicted
        }

    def config(self, settings: Settings, entries: int, labels: list[str]) -> Raw:
        m = settings.model
        assert isinstance(m, GPTSettings)
        require_settings(m, {"positions": "learned"}, "GPT-2")
        return self.export_sizes(m, ARCHITECTURE) | {
            "vocab_size": entries,
            "n_inner": m.d_ff,
            "layer_norm_epsilon": m.norm_epsilon,
            "tie_word_embeddings": m.tie_embeddings,
            **dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), m.dropout),
            **SPECIAL_IDS,
        }

    def special(self, config: Raw, tokenizer: Raw) -> SpecialTokens:
        eos = config["eos_token_id"]
        # The original GPT-2 has one special token for all purposes; other models may have more.
        pad, sos = (None if config.get(name) == eos else config.get(name) for name in ("pad_token_id", "bos_token_id"))
        return SpecialTokens(pad, sos, eos)

    def rules(self, settings: Settings) -> list[WeightRule]:
        m = settings.model
        assert isinstance(m, GPTSettings)
        every = [
            WeightRule("embedding.weight_VD", ("transformer.wte.weight",), vocab_rows=True),
            WeightRule("positions.positions.weight_TD", ("transformer.wpe.weight",)),
            *linear_rules("decoder_norm", "transformer.ln_f"),
        ]
        if not m.tie_embeddings:
            every.append(WeightRule("output.weight_VD", ("lm_head.weight",), vocab_rows=True))
        for i in range(m.layers):
            ours, external = f"decoder.{i}", f"transformer.h.{i}"
            every += [
                *linear_rules(f"{ours}.self_residual.norm", f"{external}.ln_1"),
                *linear_rules(f"{ours}.self_attention.query_key_value", f"{external}.attn.c_attn", transposed=True),
                *linear_rules(f"{ours}.self_attention.output", f"{external}.attn.c_proj", transposed=True),
                *linear_rules(f"{ours}.feed_forward_residual.norm", f"{external}.ln_2"),
                *linear_rules(f"{ours}.feed_forward.expand", f"{external}.mlp.c_fc", transposed=True),
                *linear_rules(f"{ours}.feed_forward.contract", f"{external}.mlp.c_proj", transposed=True),
            ]
        return every

    def template(self) -> str:
        return "$A"

    def logits(self, model: Any, text_BS: Tensor, mask_BS: Tensor, segments_BS: Tensor) -> Tensor:
        return model(input_ids=text_BS, attention_mask=mask_BS).logits
