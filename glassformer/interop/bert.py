"""BERT as Hugging Face has it: `BertForMaskedLM`, `BertForTokenClassification`, and `BertModel` alone for vectors.

Its pooler, a layer over the first state, is left out: nothing here reads it.
"""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor

from glassformer.errors import UserError
from glassformer.interop.bridge import Bridge
from glassformer.interop.tokens import Special, number_of
from glassformer.interop.weights import Weight, layer
from glassformer.settings import BertSettings, Raw, Settings
from glassformer.text.tokenizer import EOS, MASK, PAD, SOS, SPECIAL

ARCHITECTURES = {
    "masked_words": "BertForMaskedLM",
    "tagging": "BertForTokenClassification",
    "vectors": "BertModel",
}


class Bert(Bridge):
    model_type, family, prefix, activation = "bert", "bert", "bert.", "hidden_act"
    needed: ClassVar[Raw] = {"position_embedding_type": "absolute", "is_decoder": False, "add_cross_attention": False}

    def settings(self, config: Raw, weights: set[str]) -> tuple[str, Raw]:
        task = "masked_words" if "cls.predictions.bias" in weights else "vectors"
        if "classifier.weight" in weights:
            task = "tagging"
            if "BertForTokenClassification" not in config.get("architectures", []):
                raise UserError(
                    "Of models that classify, only BertForTokenClassification is known: others pool otherwise.",
                    where="config.json: architectures",
                    fix="import the pre-trained model, then train with --from",
                )
        return task, {
            "family": "bert",
            "layers": config["num_hidden_layers"],
            "d_model": config["hidden_size"],
            "heads": config["num_attention_heads"],
            "d_ff": config["intermediate_size"],
            "longest": config["max_position_embeddings"],
            "segments": config.get("type_vocab_size", 2),
            "dropout": float(config.get("hidden_dropout_prob", 0.1)),
            "activation": self.our_activation(config, "gelu", "config.json"),
            "norm_epsilon": float(config.get("layer_norm_eps", 1e-12)),
        }

    def config(self, settings: Settings, entries: int, labels: list[str]) -> Raw:
        m = settings.model
        assert isinstance(m, BertSettings)
        if settings.task not in ARCHITECTURES:
            raise UserError(
                "Hugging Face's BERT classifies by its first state, this one by the highest of all.",
                where=f"task = {settings.task}",
                fix=f"export a run of {', '.join(ARCHITECTURES)}",
            )
        named = {str(number): label for number, label in enumerate(labels)}
        return {
            "architectures": [ARCHITECTURES[settings.task]],
            "model_type": self.model_type,
            "vocab_size": entries,
            "hidden_size": m.d_model,
            "num_hidden_layers": m.layers,
            "num_attention_heads": m.heads,
            "intermediate_size": m.d_ff,
            "hidden_act": self.their_activation(m.activation),
            "max_position_embeddings": m.longest,
            "type_vocab_size": m.segments,
            "layer_norm_eps": m.norm_epsilon,
            **dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), m.dropout),
            "pad_token_id": PAD,
            "bos_token_id": SOS,
            "eos_token_id": EOS,
            **({"id2label": named, "label2id": {label: int(n) for n, label in named.items()}} if labels else {}),
        }

    def special(self, config: Raw, tokenizer: Raw) -> Special:
        found = [number_of(tokenizer, name) for name in ("[PAD]", "[CLS]", "[SEP]", "[MASK]")]
        if None in found[:3]:  # one of ours that was exported
            found = [number_of(tokenizer, name) for name in (*SPECIAL, MASK)]
        pad, sos, eos, mask = found
        if pad is None or sos is None or eos is None:
            raise UserError(
                "The tokenizer has no [PAD], [CLS] and [SEP].", where="tokenizer.json", fix="give the one of a BERT"
            )
        return Special(pad, sos, eos, mask)

    def rules(self, settings: Settings) -> list[Weight]:
        m = settings.model
        assert isinstance(m, BertSettings)
        words = "bert.embeddings"
        every = [
            Weight("encoder.tokens.weight_VD", (f"{words}.word_embeddings.weight",), entries=True),
            Weight("encoder.segments.weight_VD", (f"{words}.token_type_embeddings.weight",)),
            Weight("encoder.positions.positions.weight_TD", (f"{words}.position_embeddings.weight",)),
            *layer("encoder.input_norm", f"{words}.LayerNorm"),
        ]
        for i in range(m.layers):
            ours, theirs = f"encoder.encoder.{i}", f"bert.encoder.layer.{i}"
            parts = (f"{theirs}.attention.self.{name}" for name in ("query", "key", "value"))
            every += [
                *layer(f"{ours}.self_attention.query_key_value", *parts),
                *layer(f"{ours}.self_attention.output", f"{theirs}.attention.output.dense"),
                *layer(f"{ours}.self_residual.norm", f"{theirs}.attention.output.LayerNorm"),
                *layer(f"{ours}.feed_forward.expand", f"{theirs}.intermediate.dense"),
                *layer(f"{ours}.feed_forward.contract", f"{theirs}.output.dense"),
                *layer(f"{ours}.feed_forward_residual.norm", f"{theirs}.output.LayerNorm"),
            ]
        if settings.task == "tagging":
            every += layer("output", "classifier")
        if settings.task == "masked_words":
            every += [
                *layer("transform", "cls.predictions.transform.dense"),
                *layer("norm", "cls.predictions.transform.LayerNorm"),
                Weight("bias_V", ("cls.predictions.bias",), entries=True),
            ]
        return every

    def template(self) -> str:
        return "<sos> $A <eos>"

    def logits(self, model: Any, text_BS: Tensor, mask_BS: Tensor) -> Tensor:
        found = model(input_ids=text_BS, attention_mask=mask_BS)
        return found.logits if "logits" in found else found.last_hidden_state

    def our_logits(self, model: Any, text_BS: Tensor) -> Tensor:
        return model.encoder(text_BS) if type(model).__name__ == "Vectors" else model(text_BS)
