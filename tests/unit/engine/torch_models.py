"""PyTorch models, and the same in the native engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from glassformer.engine.library import SearchOptions
from glassformer.engine.model import NativeModel, unsupported
from glassformer.settings import TransformerSettings
from tests.families import EOS, PAD, SIZES, SOS, TRANSFORMERS, VOCAB, perturb, transformer

# Head sizes with vector code of their own, and settings that meet in no other case.
CASES: dict[str, dict[str, Any]] = {
    "head of 64": {"d_model": 64, "heads": 1},
    "heads of 32": {"d_model": 64, "heads": 2, "norm": "pre"},
    "heads of 16": {"d_model": 80, "heads": 5, "d_ff": 131},
    "pre-norm, learned, untied, gelu, bias": {
        "norm": "pre", "positions": "learned", "max_positions": 43, "tie_embeddings": False, "activation": "gelu",
        "output_bias": True,
    },
    "untied with output bias, no positions": {"tie_embeddings": False, "output_bias": True, "positions": "none"},
    "deep decoder": {"encoder_layers": 1, "decoder_layers": 5},
}  # fmt: skip


def settings_of(**over: Any) -> TransformerSettings:
    return TransformerSettings(**({"encoder_layers": 2, "decoder_layers": 3} | SIZES | over))


SUPPORTED = {name: over for name, over in TRANSFORMERS.items() if unsupported(settings_of(**over)) is None} | CASES


def torch_transformer(**over: Any) -> Any:
    """A Transformer with random weights."""
    torch.manual_seed(3)
    model: Any = perturb(transformer(**over)).eval()
    if model.output.bias_V is not None:
        model.output.bias_V.normal_()
    return model


def save(model: nn.Module, path: Path) -> Path:
    """Write the weights as a run folder has them: shared ones once, and the buffers."""
    weights = dict(model.named_parameters()) | dict(model.named_buffers())
    save_file({name: weight.detach().contiguous() for name, weight in weights.items()}, path)
    return path


def native_transformer(model: nn.Module, path: Path, precision: str = "fp32", **over: Any) -> NativeModel:
    return NativeModel.load(save(model, path), settings_of(**over), VOCAB, precision)


def sentences(*lengths: int, seed: int = 0) -> list[list[int]]:
    random = torch.Generator().manual_seed(seed)
    return [[*torch.randint(3, VOCAB, (n - 1,), generator=random).tolist(), EOS] for n in lengths]


def padded(sources: list[list[int]]) -> Tensor:
    return nn.utils.rnn.pad_sequence([torch.tensor(s) for s in sources], batch_first=True, padding_value=PAD)


def search(**over: Any) -> SearchOptions:
    given = {"beam": 1, "sos": SOS, "eos": EOS, "length_penalty": 0.6, "temperature": 1.0, "top_p": 1.0} | over
    return SearchOptions(**given)
