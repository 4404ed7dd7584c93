"""BERT: with a head for masked language modeling, classification, tagging or question answering, or without head.

The pooler is imported for classification only; no other head uses it.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from glassformer.errors import UserError
from glassformer.interop.converter import ENCODER_SIZES, labels_config, require_settings
from glassformer.interop.text_converter import SPECIAL_IDS, TextConverter
from glassformer.interop.tokenizer_files import SpecialTokens, token_id
from glassformer.interop.weight_rules import WeightRule, linear_rules
from glassformer.models.heads import SentenceEmbedding
from glassformer.settings import BertSettings, Raw, Settings
from glassformer.tasks import task_spec, task_with_architecture
from glassformer.text.tokenizer import MASK, SPECIAL_TOKENS

MASKED_LM, QUESTION_ANSWERING = "BertForMaskedLM", "BertForQuestionAnswering"
TEXT_LABELS, TOKEN_LABELS = "BertForSequenceClassification", "BertForTokenClassification"
ENCODER = "BertModel"


class BertConverter(TextConverter):
    model_type, family, prefix, activation = "bert", "bert", "bert.", "hidden_act"
    sizes: ClassVar[dict[str, str]] = ENCODER_SIZES | {"max_positions": "max_position_embeddings"}
    required: ClassVar[Raw] = {"position_embedding_type": "absolute", "is_decoder": False, "add_cross_attention": False}

    def settings(self, config: Raw, weights: set[str]) -> tuple[str, Raw]:
        architecture = _architecture(config, weights)
        return task_with_architecture(architecture), self.import_sizes(config) | {
            "segments": config.get("type_vocab_size", 2),
            "dropout": float(config.get("hidden_dropout_prob", 0.1)),
            "activation": self.import_activation(config, "gelu", "config.json"),
            "norm_epsilon": float(config.get("layer_norm_eps", 1e-12)),
            "pooling": "first" if architecture == TEXT_LABELS else "highest",
        }

    def normalize_names(self, weights: dict[str, Tensor], config: Raw) -> dict[str, Tensor]:
        """Rename gamma and beta, which old files use for the weight and bias of a normalization."""
        return {
            name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias"): weight
            for name, weight in weights.items()
        }

    def config(self, settings: Settings, entries: int, labels: list[str]) -> Raw:
        m = settings.model
        assert isinstance(m, BertSettings)
        require_settings(m, {"positions": "learned"}, "BERT")
        architecture = task_spec(settings.task).huggingface[self.family]
        if architecture == TEXT_LABELS and m.pooling != "first":
            raise UserError(
                "Hugging Face's BERT classifies by the hidden state of the first token; this model uses max pooling.",
                where=f"model.pooling = {m.pooling}",
                hint="export a model trained with model.pooling=first",
            )
        return self.export_sizes(m, architecture) | {
            "vocab_size": entries,
            "type_vocab_size": m.segments,
            "layer_norm_eps": m.norm_epsilon,
            **dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), m.dropout),
            **SPECIAL_IDS,
            **(labels_config(labels) if labels else {}),
        }

    def special(self, config: Raw, tokenizer: Raw) -> SpecialTokens:
        found = [token_id(tokenizer, name) for name in ("[PAD]", "[CLS]", "[SEP]", "[MASK]")]
        if None in found[:3]:  # exported by Glassformer
            found = [token_id(tokenizer, name) for name in (*SPECIAL_TOKENS, MASK)]
        pad, sos, eos, mask = found
        if pad is None or sos is None or eos is None:
            hint = "use the tokenizer of a BERT model"
            raise UserError("The tokenizer has no [PAD], [CLS] and [SEP].", where="tokenizer.json", hint=hint)
        return SpecialTokens(pad, sos, eos, mask)

    def rules(self, settings: Settings) -> list[WeightRule]:
        m = settings.model
        assert isinstance(m, BertSettings)
        words = "bert.embeddings"
        every = [
            WeightRule("encoder.tokens.weight_VD", (f"{words}.word_embeddings.weight",), vocab_rows=True),
            WeightRule("encoder.segments.weight_VD", (f"{words}.token_type_embeddings.weight",)),
            WeightRule("encoder.positions.positions.weight_TD", (f"{words}.position_embeddings.weight",)),
            *linear_rules("encoder.input_norm", f"{words}.LayerNorm"),
        ]
        for i in range(m.layers):
            ours, external = f"encoder.encoder.{i}", f"bert.encoder.layer.{i}"
            parts = (f"{external}.attention.self.{name}" for name in ("query", "key", "value"))
            every += [
                *linear_rules(f"{ours}.self_attention.query_key_value", *parts),
                *linear_rules(f"{ours}.self_attention.output", f"{external}.attention.output.dense"),
                *linear_rules(f"{ours}.self_residual.norm", f"{external}.attention.output.LayerNorm"),
                *linear_rules(f"{ours}.feed_forward.expand", f"{external}.intermediate.dense"),
                *linear_rules(f"{ours}.feed_forward.contract", f"{external}.output.dense"),
                *linear_rules(f"{ours}.feed_forward_residual.norm", f"{external}.output.LayerNorm"),
            ]
        architecture = task_spec(settings.task).huggingface[self.family]
        if architecture in (TEXT_LABELS, TOKEN_LABELS):
            every += linear_rules("output", "classifier")
        if architecture == TEXT_LABELS:
            every += linear_rules("summary", "bert.pooler.dense")
        if architecture == QUESTION_ANSWERING:
            every += linear_rules("output", "qa_outputs")
        if architecture == MASKED_LM:
            every += [
                *linear_rules("transform", "cls.predictions.transform.dense"),
                *linear_rules("norm", "cls.predictions.transform.LayerNorm"),
                WeightRule("bias_V", ("cls.predictions.bias",), vocab_rows=True),
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
        return model.encoder(text_BS) if isinstance(model, SentenceEmbedding) else model(text_BS)


def _architecture(config: Raw, weights: set[str]) -> str:
    """Return the architecture by the head of the model or, if ambiguous, by its configuration."""
    if "qa_outputs.weight" in weights:
        return QUESTION_ANSWERING
    if "classifier.weight" not in weights:
        return MASKED_LM if "cls.predictions.bias" in weights else ENCODER
    for architecture in (TEXT_LABELS, TOKEN_LABELS):
        if architecture in config.get("architectures", []):
            return architecture
    raise UserError(
        "This BERT has a classifier for neither texts nor tokens.",
        where="config.json: architectures",
        hint=f"import a {TEXT_LABELS} or a {TOKEN_LABELS}",
    )
