"""A sharded model: the same weights to the bit, and no rank ever holds all of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from killed import SETTINGS, newest_bits
from processes import forked_ranks, trained_in, training
from safetensors.torch import save_file

from glassformer.inference.run import build_model, read_weights, save_weights, weights_of
from glassformer.settings import nest, resolve

SHARDED: dict[str, Any] = SETTINGS | {
    "train.shard_model": "true",
    "train.validate_every": 4,
    "train.checkpoint_every": 2,
    "train.valid_sentences": 2,
    "decode.max_length": 4,
}
RANKS = 4
MODEL = {
    "task": "language_model",
    "data.train": ["text"],
    "tokenizer.vocab": 300,
    "model.family": "gpt",
    "model.layers": 6,
    "model.d_model": 512,
    "model.heads": 4,
    "model.d_ff": 2048,
    "model.longest": 19,
    "model.dropout": 0.0,
    "train.batch_tokens": 64,
    "train.lr": 1e-3,
    "train.warmup": 1,
    "train.steps": 1,
    "train.validate_every": 1,
    "train.checkpoint_every": 1,
    "train.patience": 0,
}

# Builds, evaluates and saves a sharded model, and records the peak memory of the process.
PROGRAM = """
import ctypes, json
from pathlib import Path
import torch
from glassformer.inference.run import build_model, save_weights
from glassformer.settings import nest, resolve
from glassformer.training.deferred_init import defer
from glassformer.training.distributed import init_process_group
from glassformer.training.sharded import Sharded

def resident(name):
    return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith(name))

folder, settings = Path({folder!r}), resolve(nest({model!r}))
tokens = torch.arange(3, 20)[None]

@torch.inference_mode()
def logits(model, number, of):
    return model(tokens)

with init_process_group() as group:
    small = settings.model_copy(update=dict(model=settings.model.model_copy(update=dict(d_model=8, d_ff=8))))
    Sharded(defer(lambda: build_model(small, 307), 3), None, group, "fp32").evaluate(logits)  # imports, buffers
    ctypes.CDLL(None).malloc_trim(0)  # what this process inherited and does not use
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # resets VmHWM
    model = Sharded(defer(lambda: build_model(settings, 307), 3), None, group, "fp32")
    shares = model.evaluate(logits)
    weights = model.weights()
    model.run_on_rank0(lambda: save_weights(folder / "model.safetensors", weights))
    (folder / str(group.rank)).with_suffix(".json").write_text(json.dumps(resident("VmHWM") - before))
    if group.is_rank0:
        torch.save(shares[0], folder / "logits.pt")
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="measures memory in /proc")
def test_no_rank_holds_the_whole_model(tmp_path: Path) -> None:
    ranks = forked_ranks(RANKS, [], tmp_path, PROGRAM.format(folder=str(tmp_path), model=MODEL))
    assert ranks.wait() == 0, ranks.err
    torch.manual_seed(3)
    whole = build_model(resolve(nest(MODEL)), 307).eval()
    size = sum(weight.nbytes for weight in weights_of(whole).values())
    rises = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(RANKS)]
    assert 0.2 * size < min(rises) <= max(rises) < 0.7 * size, (rises, size)  # a quarter is the own shard
    saved = read_weights(tmp_path / "model.safetensors")
    assert all(saved[name].equal(weight) for name, weight in weights_of(whole).items())
    with torch.inference_mode():
        torch.testing.assert_close(torch.load(tmp_path / "logits.pt"), whole(torch.arange(3, 20)[None]))


def test_a_sharded_run_resumes_to_the_same_bits(corpus: tuple[str, str], tmp_path: Path) -> None:
    over = SHARDED | {"train.steps": 4}
    straight = trained_in(2, training(corpus, tmp_path / "straight", over), tmp_path / "straight")
    resumed = tmp_path / "resumed"
    for steps in (2, 4):
        trained_in(2, training(corpus, resumed, over | {"train.steps": steps}, "--resume"), resumed)
    # The final weights may differ: the run of two steps ends with a validation that the other one does not have.
    assert newest_bits(resumed, 4) == newest_bits(straight, 4)


def test_a_sharded_run_starts_from_another_run(corpus: tuple[str, str], uninterrupted: Path, tmp_path: Path) -> None:
    """With a learning rate near zero the weights stay those of the run that it started from."""
    settings = {name: value for name, value in SHARDED.items() if not name.startswith(("model.", "tokenizer."))}
    settings |= {"train.steps": 2, "train.lr": 1e-12, "train.average": 1}
    run = tmp_path / "run"
    trained_in(2, training(corpus, run, settings, "--from", str(uninterrupted)), run)
    expected = read_weights(uninterrupted / "model.safetensors")
    torch.testing.assert_close(read_weights(run / "model.safetensors"), expected, rtol=0, atol=1e-6)


def test_a_full_disk_ends_all_ranks(corpus: tuple[str, str], tmp_path: Path) -> None:
    """Rank 0 cannot write its checkpoint: one message, and no rank waits for it."""
    run, over = tmp_path / "run", SHARDED | {"train.steps": 2}
    small_files = "import resource, signal\nresource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))\n"
    small_files += "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)"
    ranks = forked_ranks(2, training(corpus, run, over), tmp_path, small_files)
    assert ranks.wait() != 0
    assert ranks.err.count("ulimit -f") == 1


def test_a_file_of_weights_is_what_safetensors_writes(tmp_path: Path) -> None:
    weights = {"b.x": torch.randn(3, 5), "a": torch.randn(7), "단어": torch.randn(2), "none": torch.empty(0, 4)}
    save_weights(tmp_path / "ours", weights)
    save_file(weights, tmp_path / "theirs", metadata={"format": "pt"})
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()
