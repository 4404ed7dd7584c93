"""One small model of every family and variant, and a trace of each: the table that tests over all families share.

Sizes are prime or differ, so that no swapped axis passes. Biases and normalization weights are moved away from 0 and 1,
so that leaving one out changes the output.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from glassformer.glass.image_trace import trace_pixels
from glassformer.glass.trace import Trace, trace_free_running, trace_sequence, trace_teacher_forced
from glassformer.models import FAMILIES
from glassformer.models.ablations import with_ablations
from glassformer.models.bert import BERT
from glassformer.models.heads import (
    Classifier,
    FirstTokenClassifier,
    MaskedLanguageModel,
    MatchingSpanFinder,
    PoolerClassifier,
    SentenceEmbedding,
    SpanFinder,
    Tagger,
)
from glassformer.models.recurrent import Recurrent
from glassformer.models.recurrent_encoder import RecurrentEncoder
from glassformer.models.vit import ViT
from glassformer.settings import (
    MODELS,
    BertSettings,
    RecurrentEncoderSettings,
    RecurrentSettings,
    TransformerSettings,
    ViTSettings,
)

PAD, SOS, EOS, VOCAB = 0, 1, 2, 53
SOURCE, TARGET = [7, 11, 5, 31, 17, EOS], [SOS, 13, 17, 19, 23]
QUESTION_AND_TEXT = [SOS, 7, 11, EOS, 5, 7, 31, EOS]
SIZES: dict[str, Any] = {"d_model": 21, "heads": 3, "d_ff": 37, "dropout": 0.0}

TRANSFORMERS: dict[str, dict[str, Any]] = {
    "post-norm": {},
    "pre-norm": {"norm": "pre"},
    "learned positions": {"positions": "learned", "max_positions": 43},
    "rotary positions": {"positions": "rotary", "d_model": 30},
    "no positions": {"positions": "none"},
    "concatenated positions": {"combine_positions": "concatenate"},
    "learned, concatenated": {"positions": "learned", "max_positions": 43, "combine_positions": "concatenate"},
    "batch norm": {"ablations": ["batch_norm"]},
    "batch norm, pre-norm": {"ablations": ["batch_norm"], "norm": "pre"},
    "no norm": {"ablations": ["no_norm"]},
    "no norm, pre-norm": {"ablations": ["no_norm"], "norm": "pre"},
    "no residual": {"ablations": ["no_residual"]},
    "no residual, pre-norm": {"ablations": ["no_residual"], "norm": "pre"},
    "no scaling": {"ablations": ["no_scaling"]},
    "no look-ahead mask": {"ablations": ["no_look_ahead_mask"]},
    "one head": {"heads": 1},
    "untied": {"tie_embeddings": False},
    "gelu": {"activation": "gelu"},
    "gelu_tanh": {"activation": "gelu_tanh"},
    "swish": {"activation": "swish"},
    "output bias": {"output_bias": True},
    "deep encoder": {"encoder_layers": 5, "decoder_layers": 1},
}
RECURRENT: dict[str, dict[str, Any]] = {
    f"{cell}, {attention}, {'bidirectional' if both else 'unidirectional'}": {
        "cell": cell, "attention": attention, "bidirectional": both,
    }
    for cell in ("rnn", "lstm", "gru")
    for attention in ("none", "additive", "dot", "general")
    for both in (True, False)
}  # fmt: skip
LANGUAGE_MODELS: dict[str, dict[str, Any]] = {
    "window": {"family": "window", "window": 3, "d_model": 13, "d_hidden": 19},
    "window of one": {"family": "window", "window": 1, "d_model": 13, "d_hidden": 19},
    "recurrent_lm, rnn": {"family": "recurrent_lm", "cell": "rnn", "layers": 2, "d_model": 19},
    "recurrent_lm, lstm": {"family": "recurrent_lm", "cell": "lstm", "layers": 2, "d_model": 19},
    "recurrent_lm, gru, untied": {
        "family": "recurrent_lm", "cell": "gru", "layers": 1, "d_model": 19, "tie_embeddings": False,
    },
    "gpt": {"family": "gpt", "layers": 2, "max_positions": 43, **SIZES},
    "gpt, untied, relu": {
        "family": "gpt", "layers": 1, "max_positions": 43, **SIZES, "tie_embeddings": False, "activation": "relu",
    },
    "gpt, rotary positions": {
        "family": "gpt", "layers": 2, "max_positions": 43, **SIZES, "d_model": 30, "positions": "rotary",
    },
    "gpt, output bias": {"family": "gpt", "layers": 1, "max_positions": 43, **SIZES, "output_bias": True},
}  # fmt: skip


def transformer(**over: Any) -> nn.Module:
    sizes = {"encoder_layers": 2, "decoder_layers": 3} | SIZES | over
    settings = TransformerSettings(**sizes)
    model = with_ablations(FAMILIES["transformer"], settings)(settings, VOCAB, pad=PAD)
    if "no_norm" in settings.ablations:  # where layers do not keep activations small, weights must
        for parameter in model.parameters():
            parameter.detach().mul_(0.6)
    if "batch_norm" in settings.ablations:  # give it statistics
        for seed in range(30):
            random = torch.Generator().manual_seed(seed)
            model(*(torch.randint(3, VOCAB, (5, length), generator=random) for length in (11, 13)))
    return model


def recurrent(**over: Any) -> nn.Module:
    sizes = {"encoder_layers": 2, "decoder_layers": 3, "d_model": 22, "dropout": 0.0}
    return Recurrent(RecurrentSettings(**(sizes | over)), VOCAB, pad=PAD)


def of_family(family: str, **over: Any) -> nn.Module:
    return FAMILIES[family](MODELS[family].model_validate({"dropout": 0.0} | over), VOCAB, pad=PAD)


def recurrent_encoder() -> RecurrentEncoder:
    return RecurrentEncoder(RecurrentEncoderSettings(cell="gru", layers=2, d_model=22, dropout=0.0), VOCAB, pad=PAD)


def bert(**over: Any) -> BERT:
    sizes = SIZES | {"layers": 2, "max_positions": 13, "norm_epsilon": 1e-3} | over
    return BERT(BertSettings(**sizes), VOCAB, pad=PAD)


def vit(**over: Any) -> nn.Module:
    image = {"height": 8, "width": 12, "channels": 3, "mean": [0.3, 0.4, 0.5], "deviation": [0.2, 0.3, 0.1], "patch": 4}
    return FirstTokenClassifier(ViT(ViTSettings(**(SIZES | image | {"layers": 2} | over))), 5)


# Models that read one sequence.
ALONE: dict[str, Callable[[], nn.Module]] = {
    **{name: lambda o=over: of_family(**o) for name, over in LANGUAGE_MODELS.items()},
    "elmo": lambda: of_family("elmo", cell="lstm", layers=2, d_model=19),
    "recurrent classifier": lambda: Classifier(recurrent_encoder(), 5),
    "recurrent tagger": lambda: Tagger(recurrent_encoder(), 5),
    "recurrent question answering": lambda: MatchingSpanFinder(recurrent_encoder()),
    "bert": lambda: MaskedLanguageModel(bert(), VOCAB),
    "bert classifier, max": lambda: Classifier(bert(), 5),
    "bert classifier, first": lambda: PoolerClassifier(bert(), 5),
    "bert, rotary positions": lambda: Tagger(bert(positions="rotary", d_model=30), 5),
    "bert tagger": lambda: Tagger(bert(), 5),
    "bert question answering": lambda: SpanFinder(bert()),
    "bert question answering, one segment": lambda: SpanFinder(bert(segments=1)),
    "sentence embedding": lambda: SentenceEmbedding(bert()),
}
IMAGES: dict[str, dict[str, Any]] = {
    "vit": {},
    "vit, post-norm": {"norm": "post", "norm_epsilon": 1e-2},
    "vit, grey": {"channels": 1, "mean": [0.3], "deviation": [0.2]},
}


def pieces(ids: Any) -> list[str]:
    return [f"w{i}" for i in ids]


def perturb(model: nn.Module) -> nn.Module:
    """Move biases and normalization weights away from 0 and 1, in place."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter += 0.3 * torch.randn_like(parameter)
    return model


def teacher_forced(model: Any) -> Trace:
    return trace_teacher_forced(model, pieces, SOURCE, TARGET)


def padded_source(model: Any) -> Trace:
    return trace_teacher_forced(model, pieces, [*SOURCE, PAD, PAD], TARGET)


def free_running(model: Any) -> Trace:
    return trace_free_running(model, pieces, SOURCE, sos=SOS, eos=EOS, limit=7)


def alone(model: Any) -> Trace:
    return trace_sequence(model, pieces, QUESTION_AND_TEXT)


def of_image(model: Any) -> Trace:
    channels = len(model.encoder.scaling.mean)
    pixels_CYX = torch.randint(0, 256, (channels, 8, 12), generator=torch.Generator().manual_seed(1))
    return trace_pixels(model, pixels_CYX.to(torch.uint8), list("abcde"))


# Every model with the ways in which it can be traced.
CASES: dict[str, tuple[Callable[[], nn.Module], Callable[[Any], Trace]]] = {
    **{name: (lambda o=over: transformer(**o), teacher_forced) for name, over in TRANSFORMERS.items()},
    **{f"{name}, free running": (lambda o=over: transformer(**o), free_running) for name, over in TRANSFORMERS.items()},
    **{name: (lambda o=over: recurrent(**o), teacher_forced) for name, over in RECURRENT.items()},
    **{f"{name}, free running": (lambda o=over: recurrent(**o), free_running) for name, over in RECURRENT.items()},
    "padded source": (transformer, padded_source),
    **{name: (build, alone) for name, build in ALONE.items()},
    **{name: (lambda o=over: vit(**o), of_image) for name, over in IMAGES.items()},
}


def build(name: str) -> nn.Module:
    """The model of a case, in eval mode."""
    torch.manual_seed(1)
    return perturb(CASES[name][0]()).eval()


def traced(name: str, model: nn.Module | None = None) -> Trace:
    """The trace of a case."""
    return CASES[name][1](build(name) if model is None else model)
