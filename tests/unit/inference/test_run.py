"""Loading a run: there is one copy of the weights."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from glassformer.errors import UserError
from glassformer.inference.run import build_model, load_run, save_weights, weights_of
from glassformer.inference.run_folder import RunFolder, save_settings
from glassformer.lab.bench.processes import run as run_process
from glassformer.settings import Settings, nest, resolve
from glassformer.text.tokenizer import Tokenizer

TRAINING = {"steps": 1, "batch_tokens": 64, "lr": 1e-3, "warmup": 1, "validate_every": 1, "checkpoint_every": 1}


def written(path: Path, **model: object) -> tuple[Settings, dict[str, torch.Tensor]]:
    """A run with random weights."""
    tokenizer = Tokenizer.train_bpe(["a man and a dog", "un homme et un chien"], vocab=300)
    given = {f"train.{name}": value for name, value in TRAINING.items()} | {"train.patience": 0}
    given |= {f"model.{name}": value for name, value in model.items()} | {"model.dropout": 0.1, "model.heads": 2}
    settings = resolve(nest(given | {"data.train": ["a", "b"], "tokenizer.vocab": 300}))
    folder, built = RunFolder(path), build_model(settings, len(tokenizer))
    folder.path.mkdir()
    save_settings(folder, settings)
    folder.tokenizer.write_text(tokenizer.to_json(), encoding="utf-8")
    save_weights(folder.model, weights_of(built))
    return settings, weights_of(built)


@pytest.mark.parametrize("tied", [True, False])
def test_weights_are_restored_and_shared_weights_stay_shared(tmp_path: Path, tied: bool) -> None:
    _, weights = written(tmp_path / "run", layers=2, d_model=16, d_ff=24, tie_embeddings=tied, positions="learned")
    found = load_run(tmp_path / "run").model
    assert weights_of(found).keys() == weights.keys()
    assert all(torch.equal(weight, weights[name]) for name, weight in weights_of(found).items())
    assert (found.source_embedding.weight_VD is found.output.weight_VD) == tied
    assert not found.training


def test_running_statistics_are_saved_and_loaded(tmp_path: Path) -> None:
    """The running statistics of batch normalization are no parameters, but the model needs them."""
    settings, weights = written(tmp_path / "run", layers=1, d_model=16, d_ff=24, ablations=["batch_norm"])
    vocab = len(weights["source_embedding.weight_VD"])
    model = build_model(settings, vocab)
    for _ in range(3):
        model(torch.randint(3, vocab, (5, 7)), torch.randint(3, vocab, (5, 6)))
    model.eval()
    weights, folder = weights_of(model), RunFolder(tmp_path / "run")
    counted = [name for name in weights if name.endswith((".mean_D", ".variance_D"))]
    assert len(counted) == 2 * (2 + 3)
    assert all(weights[name].std() > 0 for name in counted)
    save_weights(folder.model, {name: weight.clone() for name, weight in weights.items()})
    tokens = torch.randint(3, vocab, (2, 5))
    torch.testing.assert_close(load_run(tmp_path / "run").model(tokens, tokens), model(tokens, tokens))
    without = {name: weight.clone() for name, weight in weights.items() if name not in counted}
    save_weights(folder.model, without)
    with pytest.raises(UserError, match="do not fit the model"):
        load_run(tmp_path / "run")


LOAD = """import sys
from glassformer.inference.translator import load_translator
sys.argv[1:] and load_translator(sys.argv[1], precision="int8")"""


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="needs the memory figures of Linux")
def test_loading_never_holds_all_weights_twice(tmp_path: Path) -> None:
    """The weights are 134 MB in fp32 and a quarter in int8; the peak is far below the first figure."""
    _, weights = written(tmp_path / "run", layers=2, d_model=1024, d_ff=4096)
    megabytes = sum(weight.nbytes for weight in weights.values()) / 2**20
    with_nothing, with_weights = (
        run_process([sys.executable, "-W", "ignore", "-c", LOAD, *run], threads=1, timeout=3600)
        for run in ([], [str(tmp_path / "run")])
    )
    assert with_nothing.code == with_weights.code == 0, with_weights.errors
    assert megabytes > 100
    assert with_weights.peak_megabytes - with_nothing.peak_megabytes < 0.8 * megabytes
