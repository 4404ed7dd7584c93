"""The honesty rule: every tensor of a trace is computed again from its parents, by NumPy, for every family."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from glassformer.errors import UserError
from glassformer.glass.formulas import FORMULAS
from glassformer.glass.patches import trace_image
from glassformer.glass.trace import Trace, trace, trace_alone, trace_steps
from glassformer.models.bert import BERT, MaskedWords, Vectors
from glassformer.models.elmo import ELMo
from glassformer.models.gpt import GPT
from glassformer.models.heads import (
    Classifier,
    FirstTokenClassifier,
    MatchingSpanFinder,
    SpanFinder,
    SummaryClassifier,
    Tagger,
)
from glassformer.models.recurrent import Recurrent
from glassformer.models.recurrent_encoder import RecurrentEncoder
from glassformer.models.recurrent_lm import RecurrentLM
from glassformer.models.transformer import Transformer
from glassformer.models.vit import ViT
from glassformer.models.window import Window
from glassformer.nn.linear import pack_weights
from glassformer.run import weights_of
from glassformer.settings import (
    BertSettings,
    ELMoSettings,
    GPTSettings,
    RecurrentEncoderSettings,
    RecurrentLMSettings,
    RecurrentSettings,
    TransformerSettings,
    ViTSettings,
    WindowSettings,
)

PAD, SOS, EOS, VOCAB = 0, 1, 2, 53
SOURCE, TARGET = [7, 11, 5, 31, 17, EOS], [SOS, 13, 17, 19, 23]
# A rounding error of fp32 in numbers of this size, and no more.
CLOSE = {"atol": 2e-5, "rtol": 1e-5}

TRANSFORMERS: dict[str, dict[str, Any]] = {
    "post-norm": {},
    "pre-norm": {"norm": "pre"},
    "learned positions": {"positions": "learned", "longest": 43},
    "no positions": {"positions": "none"},
    "concatenated positions": {"combine_positions": "concatenate"},
    "learned, concatenated": {"positions": "learned", "longest": 43, "combine_positions": "concatenate"},
    "batch-normalised": {"normalize": "batch"},
    "batch-normalised before": {"normalize": "batch", "norm": "pre"},
    "not normalised": {"normalize": "none"},
    "not normalised, pre": {"normalize": "none", "norm": "pre"},
    "no residual": {"residual": False},
    "no residual, pre": {"residual": False, "norm": "pre"},
    "not scaled": {"scale_scores": False},
    "one head": {"heads": 1},
    "untied": {"tie_embeddings": False},
    "no look-ahead mask": {"look_ahead_mask": False},
    "gelu": {"activation": "gelu"},
    "gelu by tanh": {"activation": "gelu_tanh"},
    "swish": {"activation": "swish"},
    "biased output": {"output_bias": True},
}
RECURRENT: dict[str, dict[str, Any]] = {
    f"{cell}, {attention}, {'both ways' if both else 'one way'}": {
        "cell": cell, "attention": attention, "bidirectional": both,
    }
    for cell in ("rnn", "lstm", "gru")
    for attention in ("none", "additive", "dot", "general")
    for both in (True, False)
}  # fmt: skip
ALONE: dict[str, Callable[[], nn.Module]] = {
    "window": lambda: Window(WindowSettings(window=3, d_model=13, d_hidden=19, dropout=0.0), VOCAB, pad=PAD),
    "recurrent_lm": lambda: RecurrentLM(
        RecurrentLMSettings(cell="lstm", layers=2, d_model=19, dropout=0.0), VOCAB, pad=PAD
    ),
    "classifier": lambda: Classifier(_reader(), 5),
    "tagger": lambda: Tagger(_reader(), 5),
    "answers of a reader": lambda: MatchingSpanFinder(_reader()),
    "gpt": lambda: GPT(GPTSettings(**SIZES, layers=2, longest=11), VOCAB, pad=PAD),
    "gpt with a bias": lambda: GPT(GPTSettings(**SIZES, layers=1, longest=11, output_bias=True), VOCAB, pad=PAD),
    "bert": lambda: MaskedWords(_bert(), VOCAB),
    "bert's classifier": lambda: Classifier(_bert(), 5),
    "bert's classifier, by its first state": lambda: SummaryClassifier(_bert(), 5),
    "bert's tagger": lambda: Tagger(_bert(), 5),
    "bert's answers": lambda: SpanFinder(_bert()),
    "bert of one segment": lambda: SpanFinder(_bert(segments=1)),
    "vectors": lambda: Vectors(_bert()),
    "elmo": lambda: ELMo(ELMoSettings(cell="lstm", layers=2, d_model=19, dropout=0.0), VOCAB, pad=PAD),
}
IMAGES: dict[str, dict[str, Any]] = {
    "vit": {},
    "vit, post-norm": {"norm": "post", "norm_epsilon": 1e-2},
    "vit in grey": {"channels": 1, "mean": [0.3], "deviation": [0.2]},
}
SIZES: dict[str, Any] = {"d_model": 21, "heads": 3, "d_ff": 37, "dropout": 0.0}
ASKED = [SOS, 7, 11, EOS, 5, 7, 31, EOS]  # a question and a text


def _reader() -> RecurrentEncoder:
    return RecurrentEncoder(RecurrentEncoderSettings(cell="gru", layers=2, d_model=22, dropout=0.0), VOCAB, pad=PAD)


def _bert(**over: Any) -> BERT:
    return BERT(BertSettings(**(SIZES | {"layers": 2, "longest": 13, "norm_epsilon": 1e-3} | over)), VOCAB, pad=PAD)


def _vit(**over: Any) -> nn.Module:
    seen = {"height": 8, "width": 12, "channels": 3, "mean": [0.3, 0.4, 0.5], "deviation": [0.2, 0.3, 0.1], "patch": 4}
    return FirstTokenClassifier(ViT(ViTSettings(**(SIZES | seen | {"layers": 2} | over))), 5)


def pieces(ids: Any) -> list[str]:
    return [f"w{i}" for i in ids]


@pytest.fixture(params=[*TRANSFORMERS, *RECURRENT])
def model(request: pytest.FixtureRequest, enliven: Any) -> nn.Module:
    torch.manual_seed(1)
    sizes: dict[str, Any] = {"encoder_layers": 2, "decoder_layers": 3, "dropout": 0.0}
    if request.param in RECURRENT:
        settings = RecurrentSettings(**sizes, d_model=22, **RECURRENT[request.param])
        return enliven(Recurrent(settings, VOCAB, pad=PAD)).eval()
    over = sizes | {"d_model": 21, "heads": 3, "d_ff": 37} | TRANSFORMERS[request.param]
    made = enliven(Transformer(TransformerSettings(**over), VOCAB, pad=PAD))
    if over.get("normalize") == "none":  # where layers do not keep numbers small, weights must
        with torch.no_grad():
            for parameter in made.parameters():
                parameter *= 0.6
    if over.get("normalize") == "batch":  # statistics of something
        for seed in range(30):
            random = torch.Generator().manual_seed(seed)
            made(*(torch.randint(3, VOCAB, (5, length), generator=random) for length in (11, 13)))
    return made.eval()


@pytest.fixture(params=ALONE)
def reader(request: pytest.FixtureRequest, enliven: Any) -> nn.Module:
    torch.manual_seed(1)
    return enliven(ALONE[request.param]()).eval()


def refuse_what_does_not_follow(found: Trace, model: nn.Module) -> None:
    """Raises for a tensor that is not what its formula makes of its parents, or has none and was not put in."""
    parents = found.parents(model)
    for name, tensor in found.tensors.items():
        again = parents.recompute(name)
        if again is None:
            assert name in ("encoder.tokens", "decoder.tokens", "encoder.segments", "encoder.pixels")
            continue
        torch.testing.assert_close(
            torch.tensor(again).to(tensor.dtype).expand(tensor.shape), tensor, **CLOSE, msg=said(name)
        )


def said(name: str) -> Callable[[str], str]:
    return lambda message: f"{name}: {message}"


def test_teacher_forced(model: Any) -> None:
    found = trace(model, pieces, SOURCE, TARGET)
    refuse_what_does_not_follow(found, model)
    assert found["encoder.tokens"].tolist() == SOURCE
    assert found["decoder.tokens"].tolist() == TARGET
    with torch.inference_mode():
        fast_TV = model(torch.tensor([SOURCE]), torch.tensor([TARGET]))[0]
    torch.testing.assert_close(found["logits"], fast_TV, **CLOSE)


def test_free_running(model: Any) -> None:
    found = trace_steps(model, pieces, SOURCE, sos=SOS, eos=EOS, limit=7)
    refuse_what_does_not_follow(found, model)
    read = found["decoder.tokens"]
    with torch.inference_mode():
        at_once_TV = model(torch.tensor([SOURCE]), read[None])[0]
        if getattr(model, "hides_future", True):
            torch.testing.assert_close(found["logits"], at_once_TV, **CLOSE)
    assert found.target == pieces(read.tolist())
    assert found.predicted[:-1] == found.target[1:]


def test_a_model_that_reads_one_sequence(reader: Any) -> None:
    found = trace_alone(reader, pieces, ASKED)
    refuse_what_does_not_follow(found, reader)
    with torch.inference_mode():
        answer = reader(torch.tensor([ASKED]))[0]
    torch.testing.assert_close(list(found.tensors.values())[-1], answer, **CLOSE)


@pytest.mark.parametrize("variant", IMAGES)
def test_a_model_that_sees_an_image(variant: str, enliven: Any) -> None:
    torch.manual_seed(1)
    model = enliven(_vit(**IMAGES[variant])).eval()
    pixels_CYX = torch.randint(0, 256, (model.encoder.embedding.project.weight.shape[1] // 16, 8, 12)).to(torch.uint8)
    found = trace_image(model, pixels_CYX, [f"label {i}" for i in range(5)])
    refuse_what_does_not_follow(found, model)
    with torch.inference_mode():
        logits_L = model(pixels_CYX[None])[0]
    torch.testing.assert_close(found["logits"], logits_L, **CLOSE)
    assert found.label == f"label {int(logits_L.argmax())}" and found.source[:2] == ["<class>", "0,0"]


def test_the_names_of_one_attention(model: Any) -> None:
    """Nothing of an attention is left out of its trace."""
    found = trace(model, pieces, SOURCE, TARGET)
    if isinstance(model, Transformer):
        scaled = ["scaled_scores"] if model.decoder[0].self_attention.scale is None else []
        masked = ["mask", "masked_scores"] if model.hides_future else []
        expected = ["query", "key", "value", "scores", *scaled, *masked, "weights", "context", "output"]
        at = "decoder.1.self."
    elif model.looks:
        expected = ["key", *(["query"] if hasattr(model.decoder, "cell") else []), "scores"]
        expected += ["weights", "context", "output"]
        at = "decoder.cross."
    else:
        assert found.looks == []
        return
    names = [name.removeprefix(at) for name in found.tensors if name.startswith(at)]
    around = {"residual", "mean", "deviation", "norm"}
    assert [name for name in names if name not in around] == expected


@pytest.mark.parametrize("change", ["decoder.1.cross.weights", "encoder.0.ff.activations", "decoder.2.self.norm"])
def test_a_number_that_does_not_follow_is_found(tiny_model: Any, change: str) -> None:
    model = tiny_model()
    found = trace(model, pieces, SOURCE, TARGET)
    found.tensors[change] = found.tensors[change].clone()
    found.tensors[change].flatten()[3] += 1e-3
    with pytest.raises(AssertionError):
        refuse_what_does_not_follow(found, model)


def test_every_formula_is_used() -> None:
    used = set()
    made: list[tuple[Trace, nn.Module]] = []
    for over in TRANSFORMERS.values():
        sizes = {"encoder_layers": 1, "decoder_layers": 1, "d_model": 6, "heads": 2, "d_ff": 5, "dropout": 0.0} | over
        transformer = Transformer(TransformerSettings(**sizes), VOCAB, pad=PAD).eval()
        made.append((trace(transformer, pieces, SOURCE, TARGET), transformer))
        made.append((trace_steps(transformer, pieces, SOURCE, sos=SOS, eos=EOS, limit=3), transformer))
    for over in RECURRENT.values():
        settings = RecurrentSettings(encoder_layers=1, decoder_layers=2, d_model=6, dropout=0.0, **over)
        recurrent = Recurrent(settings, VOCAB, pad=PAD).eval()
        made.append((trace(recurrent, pieces, SOURCE, TARGET), recurrent))
    for build in ALONE.values():
        alone = build().eval()
        made.append((trace_alone(alone, pieces, ASKED), alone))
    sees = _vit().eval()
    made.append((trace_image(sees, torch.zeros(3, 8, 12, dtype=torch.uint8), list("abcde")), sees))
    for found, model in made:
        recipes = [found.parents(model).of(name) for name in found.tensors]
        used |= {recipe.formula.says for recipe in recipes if recipe is not None}
    assert used == {formula.says for formula in FORMULAS.values()}


@pytest.mark.parametrize("model", ["pre-norm", "lstm, additive, both ways", "gru, general, one way"], indirect=True)
def test_a_tensor_as_a_program_of_its_own(model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    refuse_programs_that_differ(trace(model, pieces, SOURCE, TARGET), model, tmp_path)


def test_a_reader_as_programs(reader: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    refuse_programs_that_differ(trace_alone(reader, pieces, ASKED), reader, tmp_path)


def test_an_image_as_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    model, pixels_CYX = _vit().eval(), torch.randint(0, 256, (3, 8, 12)).to(torch.uint8)
    refuse_programs_that_differ(trace_image(model, pixels_CYX, list("abcde")), model, tmp_path)


def refuse_programs_that_differ(found: Trace, model: nn.Module, tmp_path: Path) -> None:
    """What is copied runs where there is neither PyTorch nor Glassformer, and gives the same numbers."""
    np.savez(tmp_path / "trace.npz", **{name: tensor.numpy() for name, tensor in found.tensors.items()})
    save_file({name: weight.contiguous() for name, weight in weights_of(model).items()}, tmp_path / "model.safetensors")
    parents = found.parents(model)
    for name, tensor in found.tensors.items():
        recipe = parents.of(name)
        if recipe is None:
            continue
        program = recipe.as_numpy()
        assert "torch" not in program and "Array" not in program and "glassformer" not in program
        space: dict[str, Any] = {}
        exec(program, space)
        space["trace"].close()
        result: Tensor = torch.tensor(space["result"]).to(tensor.dtype)
        torch.testing.assert_close(result.expand(tensor.shape), tensor, **CLOSE, msg=said(name))


def test_integers_cannot_be_computed_with(tiny_model: Any) -> None:
    model = tiny_model()
    pack_weights(model, "int8")
    found = trace(model, pieces, SOURCE, TARGET)
    with pytest.raises(UserError, match="packed as integers"):
        found.parents(model).recompute("encoder.0.self.query")
