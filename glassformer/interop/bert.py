"""BERT as Hugging Face has it: with a head for masked words, labels, tags or answers, and alone for vectors.

Its pooler, a layer over the first state, belongs to the head for labels; nothing else reads it, so it is left out.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from glassformer.errors import UserError
from glassformer.interop.bridge import name_labels
from glassformer.interop.text import TextBridge
from glassformer.interop.tokens import Special, number_of
from glassformer.interop.weights import Weight, layer
from glassformer.settings import BertSettings, Raw, Settings
from glassformer.text.tokenizer import EOS, MASK, PAD, SOS, SPECIAL_TOKENS

ARCHITECTURES = {
    "masked_words": "BertForMaskedLM",
    "classification": "BertForSequenceClassification",
    "tagging": "BertForTokenClassification",
    "answers": "BertForQuestionAnswering",
    "vectors": "BertModel",
}


class Bert(TextBridge):
    model_type, family, prefix, activation = "bert", "bert", "bert.", "hidden_act"
    needed: ClassVar[Raw] = {"position_embedding_type": "absolute", "is_decoder": False, "add_cross_attention": False}

    def settings(self, config: Raw, weights: set[str]) -> tuple[str, Raw]:
        task = _task(config, weights)
        return task, {
            "family": "bert",
            "layers": config["num_hidden_layers"],
            "d_model": config["hidden_size"],
            "heads": config["num_attention_heads"],
            "d_ff": config["intermediate_size"],
            "max_positions": config["max_position_embeddings"],
            "segments": config.get("type_vocab_size", 2),
            "dropout": float(config.get("hidden_dropout_prob", 0.1)),
            "activation": self.our_activation(config, "gelu", "config.json"),
            "norm_epsilon": float(config.get("layer_norm_eps", 1e-12)),
            "pooling": "first" if task == "classification" else "highest",
        }

    def named(self, weights: dict[str, Tensor], config: Raw) -> dict[str, Tensor]:
        """Old files call the weights of a norm gamma and beta."""
        return {
            name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias"): weight
            for name, weight in weights.items()
        }

    def config(self, settings: Settings, entries: int, labels: list[str]) -> Raw:
        m = settings.model
        assert isinstance(m, BertSettings)
        if settings.task == "classification" and m.pooling != "first":
            raise UserError(
                "Hugging Face's BERT classifies by its first state, this one by the highest of all.",
                where=f"model.pooling = {m.pooling}",
                hint="export one that was trained with model.pooling=first",
            )
        return {
            "architectures": [ARCHITECTURES[settings.task]],
            "model_type": self.model_type,
            "vocab_size": entries,
            "hidden_size": m.d_model,
            "num_hidden_layers": m.layers,
            "num_attention_heads": m.heads,
            "intermediate_size": m.d_ff,
            "hidden_act": self.their_activation(m.activation),
            "max_position_embeddings": m.max_positions,
            "type_vocab_size": m.segments,
            "layer_norm_eps": m.norm_epsilon,
            **dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), m.dropout),
            "pad_token_id": PAD,
            "bos_token_id": SOS,
            "eos_token_id": EOS,
            **(name_labels(labels) if labels else {}),
        }

    def special(self, config: Raw, tokenizer: Raw) -> Special:
        found = [number_of(tokenizer, name) for name in ("[PAD]", "[CLS]", "[SEP]", "[MASK]")]
        if None in found[:3]:  # one of ours that was exported
            found = [number_of(tokenizer, name) for name in (*SPECIAL_TOKENS, MASK)]
        pad, sos, eos, mask = found
        if pad is None or sos is None or eos is None:
            raise UserError(
                "The tokenizer has no [PAD], [CLS] and [SEP].", where="tokenizer.json", hint="give the one of a BERT"
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
        if settings.task in ("classification", "tagging"):
            every += layer("output", "classifier")
        if settings.task == "classification":
            every += layer("summary", "bert.pooler.dense")
        if settings.task == "answers":
            every += layer("output", "qa_outputs")
        if settings.task == "masked_words":
            every += [
                *layer("transform", "cls.predictions.transform.dense"),
                *layer("norm", "cls.predictions.transform.LayerNorm"),
                Weight("bias_V", ("cls.predictions.bias",), entries=True),
            ]
        return every

    def template(self) -> str:
        return "<sos> $A <eos>"

    def logits(self, model: Any, text_BS: Tensor, mask_BS: Tensor, segments_BS: Tensor) -> Tensor:
        found = model(input_ids=text_BS, attention_mask=mask_BS, token_type_ids=segments_BS)
        if "start_logits" in found:
            return torch.stack([found.start_logits, found.end_logits], dim=2)
        return found.logits if "logits" in found else found.last_hidden_state

    def our_logits(self, model: Any, text_BS: Tensor) -> Tensor:
        return model.encoder(text_BS) if type(model).__name__ == "Vectors" else model(text_BS)


def _task(config: Raw, weights: set[str]) -> str:
    """What a model is for, by its head; by its architecture where heads are alike."""
    if "qa_outputs.weight" in weights:
        return "answers"
    if "classifier.weight" not in weights:
        return "masked_words" if "cls.predictions.bias" in weights else "vectors"
    for task in ("classification", "tagging"):
        if ARCHITECTURES[task] in config.get("architectures", []):
            return task
    raise UserError(
        "This BERT gives labels neither to texts nor to tokens, which is all that can be imported of such models.",
        where="config.json: architectures",
        hint=f"import a {ARCHITECTURES['classification']} or a {ARCHITECTURES['tagging']}",
    )
