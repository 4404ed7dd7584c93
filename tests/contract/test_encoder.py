"""Properties of every encoder with a head. A new family or head adds a row to READERS."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from glassformer.inference.run import build_model, load_run, save_weights, weights_of
from glassformer.inference.run_folder import RunFolder, save_labels, save_settings
from glassformer.nn.probe import NO_PROBE, Probe, Recorder
from glassformer.settings import Settings, nest, resolve, task_traits
from glassformer.text.tokenizer import Tokenizer

PAD, SOS, EOS, LABELS = 0, 1, 2, 5
CLOSE = {"atol": 1e-5, "rtol": 1e-5}
TRAINING = {"steps": 1, "batch_tokens": 64, "lr": 1e-3, "warmup": 1, "validate_every": 1, "checkpoint_every": 1}
ATTENDING = {"layers": 2, "d_model": 21, "heads": 3, "d_ff": 37}
BERT = ATTENDING | {"family": "bert", "max_positions": 19}
RECURRENT = {"family": "recurrent_encoder", "layers": 2, "d_model": 22}
SEEN = {"height": 6, "width": 9, "channels": 3, "mean": [0.3, 0.4, 0.5], "deviation": [0.2, 0.3, 0.4], "patch": 3}
PER_TOKEN = ("tagging", "question_answering", "masked_language_model")

READERS: dict[str, tuple[str, dict[str, Any]]] = {  # a task and a model
    "bert, labels": ("classification", BERT),
    "bert, labels by the first state": ("classification", BERT | {"pooling": "first"}),
    "bert, tags": ("tagging", BERT),
    "bert, answers": ("question_answering", BERT),
    "bert, masked words": ("masked_language_model", BERT),
    "bert, vectors": ("sentence_embeddings", BERT),
    "recurrent, labels": ("classification", RECURRENT),
    "recurrent, tags": ("tagging", RECURRENT | {"cell": "lstm"}),
    "recurrent, answers": ("question_answering", RECURRENT),
    "vit": ("image_classification", ATTENDING | SEEN | {"family": "vit"}),
    "vit, normalised after": ("image_classification", ATTENDING | SEEN | {"family": "vit", "norm": "post"}),
}


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(["a man and a dog and a cat", "the cat sat"], vocab=300, kind="bpe")


@pytest.fixture(params=READERS)
def settings(request: pytest.FixtureRequest) -> Settings:
    task, model = READERS[request.param]
    given = {f"train.{name}": value for name, value in TRAINING.items()} | {"train.patience": 0}
    given |= {f"model.{name}": value for name, value in model.items()} | {"model.dropout": 0.0}
    given |= {"task": task, "data.train": ["a"]} | ({} if task == "image_classification" else {"tokenizer.vocab": 300})
    return resolve(nest(given))


@pytest.fixture
def build(settings: Settings, tokenizer: Tokenizer, enliven: Any) -> Callable[..., nn.Module]:
    def make(*, seed: int = 1, dropout: float = 0.0) -> nn.Module:
        torch.manual_seed(seed)
        said = settings.model_copy(update={"model": settings.model.model_copy(update={"dropout": dropout})})
        return enliven(
            build_model(said, len(tokenizer), LABELS if task_traits(settings.task).output == "labels" else 0)
        )

    return make


@pytest.fixture
def input_B(settings: Settings, tokenizer: Tokenizer) -> Tensor:
    """Images, or texts of 11, 5, 7 and 4 tokens, of which the first two are a question."""
    if settings.task == "image_classification":
        return torch.randint(0, 256, (4, 3, 6, 9), dtype=torch.uint8)
    tokens_BS = torch.randint(EOS + 2, len(tokenizer), (4, 11))
    tokens_BS[:, 0], tokens_BS[:, 3] = SOS, EOS
    for row, length in enumerate([11, 5, 7, 4]):
        tokens_BS[row, length:] = PAD
    return tokens_BS


def answers(model: nn.Module, input_B: Tensor, task: str) -> list[Tensor]:
    """Return the output of a model for each row, without padding."""
    output = model(input_B)
    return [row[mine != PAD] for row, mine in zip(output, input_B, strict=True)] if task in PER_TOKEN else list(output)


@torch.no_grad()
def test_padding_and_batch_mates_change_no_output(build: Any, input_B: Tensor, settings: Settings) -> None:
    model = build().eval()
    together = answers(model, input_B, settings.task)
    for row, expected in enumerate(together):
        alone_B = input_B[row : row + 1]
        if settings.task != "image_classification":
            alone_B = alone_B[:, : int((alone_B != PAD).sum())]
        torch.testing.assert_close(answers(model, alone_B, settings.task)[0], expected, **CLOSE)
    assert (together[0].flatten()[:3] - together[2].flatten()[:3]).abs().max() > 1e-3


def test_a_recorder_changes_nothing_in_training(build: Any, input_B: Tensor, settings: Settings) -> None:
    """Outputs and gradients are the same, and every weight has a gradient."""
    model = build(dropout=0.3).train()

    def run(probe: Probe) -> tuple[Tensor, dict[str, Tensor]]:
        model.zero_grad()
        torch.manual_seed(7)
        output = model(input_B, probe)
        real = output[input_B != PAD] if settings.task in PER_TOKEN else output
        (real * torch.linspace(-1, 2, real.shape[-1])).sum().backward()
        return real.detach(), {name: p.grad.clone() for name, p in model.named_parameters()}

    seen = Recorder()
    (fused, gradients), (explicit, others) = run(NO_PROBE), run(seen)
    assert seen.tensors
    torch.testing.assert_close(explicit, fused, atol=1e-4, rtol=1e-4)
    for name, gradient in gradients.items():
        scale = float(gradient.abs().max())
        assert scale > 0, name
        torch.testing.assert_close(others[name], gradient, atol=1e-4 * scale, rtol=1e-3, msg=name)


@torch.no_grad()
def test_a_loaded_run_gives_the_same_output(
    build: Any, input_B: Tensor, settings: Settings, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    folder, model = RunFolder(tmp_path / "run"), build().eval()
    folder.path.mkdir()
    save_settings(folder, settings)
    save_weights(folder.model, weights_of(model))
    if settings.task != "image_classification":
        folder.tokenizer.write_text(tokenizer.to_json(), encoding="utf-8")
    if task_traits(settings.task).output == "labels":
        save_labels(folder, list("abcde"))
    loaded = load_run(folder.path)
    assert loaded.settings == settings and task_traits(settings.task).head(settings.model) is type(loaded.model)
    models = (model, loaded.model, build(seed=2).eval())
    for expected, got, other in zip(*(answers(m, input_B, settings.task) for m in models), strict=True):
        torch.testing.assert_close(got, expected, atol=1e-6, rtol=1e-6)  # weights may have another memory alignment
        assert not torch.allclose(other, expected, atol=1e-2)
