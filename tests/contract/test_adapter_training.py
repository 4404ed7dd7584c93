"""Training LoRA adapters: only the adapter is written, it resumes to the same bits, and forgetting is reported."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
import torch
from processes import trained_in, training

import glassformer as gf
from glassformer.errors import UserError
from glassformer.files import checksum
from glassformer.inference.adapters import merge_adapter
from glassformer.inference.base_run import BaseRun
from glassformer.inference.run import load_run, read_weights, weights_of
from glassformer.inference.run_folder import RunFolder
from glassformer.phrasebook.corpus import phrasebook
from glassformer.training.events import Event, Saved

SETTINGS = {
    "train.precision": "fp32",
    "train.batch_tokens": 256,
    "train.steps": 12,
    "train.warmup": 3,
    "train.lr": 1e-2,
    "train.validate_every": 6,
    "train.checkpoint_every": 4,
    "train.average": 1,
    "train.valid_sentences": 5,
    "train.lora": 3,
}
LINES = ["I am a student.", "The cat sleeps."]


@pytest.fixture(scope="module")
def domain(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Sentences that are not in `corpus`."""
    folder = tmp_path_factory.mktemp("domain")
    for language in ("en", "fr"):
        lines = "".join(f"{t.text(language)}\n" for t in phrasebook(size=900).train[-120:])
        (folder / f"train.{language}").write_text(lines, encoding="utf-8")
    return str(folder / "train.en"), str(folder / "train.fr")


@pytest.fixture
def base(uninterrupted: Path, tmp_path: Path) -> Path:
    """The base run, linked next to the adapters of a test."""
    link = tmp_path / "base"
    link.symlink_to(uninterrupted)
    return link


def test_an_adapter_resumes_to_the_same_bits_and_reports_forgetting(
    base: Path, domain: tuple[str, str], tmp_path: Path
) -> None:
    def interrupt(event: Event) -> None:
        if isinstance(event, Saved) and event.step == 8:
            os.kill(os.getpid(), signal.SIGINT)

    before = checksum(base / "model.safetensors")
    run = gf.train(*domain, out=tmp_path / "adapter", start_from=base, settings=SETTINGS)
    cut = gf.train(*domain, out=tmp_path / "cut", start_from=base, settings=SETTINGS, listener=interrupt)
    assert (cut.reason, cut.step) == ("interrupted", 8)
    with pytest.raises(UserError, match="rank of a LoRA adapter cannot change"):
        gf.train(out=cut.path, resume=True, settings={"train.lora": 4})
    resumed = gf.train(out=cut.path, resume=True)

    ours, theirs = (read_weights(path / "adapter.safetensors") for path in (run.path, resumed.path))
    assert ours.keys() == theirs.keys() and all(ours[name].equal(theirs[name]) for name in ours)
    assert {name.rpartition(".")[2] for name in ours} == {"lora_A", "lora_B"}
    assert checksum(base / "model.safetensors") == before and not (run.path / "model.safetensors").exists()

    assert run.forgetting is not None and run.forgetting == resumed.forgetting
    assert run.forgetting.before == BaseRun.load(RunFolder(run.path)).scores
    assert run.forgetting.before["loss"] != run.forgetting.after["loss"]
    card = (run.path / "README.md").read_text(encoding="utf-8")
    assert "Started from the run `base`" in card and f"| before | {run.forgetting.before['loss']:.2f} |" in card


def test_the_scores_of_training_are_those_of_the_loaded_adapter(
    base: Path, domain: tuple[str, str], tmp_path: Path
) -> None:
    """Training evaluates with separate matrices A and B, a loaded run with merged weights."""
    run = gf.train(*domain, valid=domain, out=tmp_path / "adapter", start_from=base, settings=SETTINGS)
    merged = merge_adapter(run.path, tmp_path / "merged").path
    lines = Path(domain[0]).read_text(encoding="utf-8").splitlines()
    assert gf.load(run.path)(lines) == gf.load(merged)(lines)
    again = gf.train(
        *domain, valid=domain, out=tmp_path / "again", start_from=merged, settings={"train.steps": 1, "train.lr": 1e-12}
    )
    assert again.scores["valid"].scores["loss"] == pytest.approx(run.scores["valid"].scores["loss"], abs=1e-5)
    with pytest.raises(UserError, match="is itself an adapter"):
        gf.train(*domain, out=tmp_path / "third", start_from=run.path, settings=SETTINGS)


def test_two_processes_train_the_adapter_of_one(base: Path, domain: tuple[str, str], tmp_path: Path) -> None:
    settings = SETTINGS | {"train.steps": 2, "train.validate_every": 2}
    alone = gf.train(*domain, out=tmp_path / "alone", start_from=base, settings=settings | {"model.dropout": 0.0}).path
    both = tmp_path / "both"
    trained_in(2, training(domain, both, settings | {"model.dropout": 0.0}, "--from", str(base)), both)
    ours, theirs = (read_weights(path / "adapter.safetensors") for path in (alone, both))
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-4)


def test_a_new_head_is_trained_beside_the_adapter_of_an_encoder(tmp_path: Path) -> None:
    lines = [f"the {'cat' if i % 2 else 'cow'} number {i} sleeps" for i in range(60)]
    text, labels = tmp_path / "text.txt", tmp_path / "labels.tsv"
    text.write_text("".join(f"{line}\n" for line in lines))
    labels.write_text("".join(f"{'pet' if 'cat' in line else 'farm'}\t{line}\n" for line in lines))
    few = {name: value for name, value in SETTINGS.items() if name != "train.lora"} | {"train.steps": 4}
    sizes = {"task": "masked_language_model", "model.layers": 1, "model.d_model": 16, "tokenizer.vocab": 300}
    read = gf.train(str(text), out=tmp_path / "read", settings=few | sizes)
    run = gf.train(str(labels), out=tmp_path / "labels", start_from=read.path, settings=few | {"train.lora": 2})
    saved, loaded = read_weights(run.path / "adapter.safetensors"), weights_of(load_run(run.path).model)
    assert "output.bias" in saved and saved["output.bias"].equal(loaded["output.bias"])
    kept = read_weights(read.path / "model.safetensors")["encoder.tokens.weight_VD"]
    assert loaded["encoder.tokens.weight_VD"].equal(kept) and run.forgetting is None
    assert gf.load(run.path)("the cat number 3 sleeps") in ("pet", "farm")


def test_an_imported_marian_model_is_adapted_like_any_other_run(domain: tuple[str, str], tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from test_huggingface import marian

    from glassformer.interop.huggingface import import_run

    (tmp_path / "opus-mt").mkdir()
    marian(tmp_path / "opus-mt")
    imported = import_run(tmp_path / "opus-mt", tmp_path / "imported").folder.path
    adapter = gf.train(*domain, out=tmp_path / "adapter", start_from=imported, settings=SETTINGS).path
    full = {name: value for name, value in SETTINGS.items() if name != "train.lora"}
    tuned = gf.train(*domain, out=tmp_path / "tuned", start_from=imported, settings=full).path
    outputs = [gf.load(run)(["the cat sat on a mat"]) for run in (imported, adapter, tuned)]
    assert outputs[1] != outputs[0] != outputs[2]
    seen = gf.load(adapter).trace("the cat")
    assert seen.attention("encoder").shape[1:] == (len(seen.source), len(seen.source))


def test_what_contradicts_the_base_run_is_refused(base: Path, domain: tuple[str, str], tmp_path: Path) -> None:
    def refused(message: str, **settings: object) -> None:
        with pytest.raises(UserError, match=message):
            gf.train(*domain, out=tmp_path / "x", start_from=base, settings=settings)

    refused(r"cannot be changed.\n  where: model.d_model = 32 \(it has 16\)", **{"model.d_model": 32})
    refused(r"where: tokenizer.vocab = 500 \(it has 400\)", **{"tokenizer.vocab": 500})
    refused("lora is trained with optimizer", **{"train.lora": 3, "train.optimizer": "muon"})
    with pytest.raises(UserError, match="no run is given"):
        gf.train(*domain, out=tmp_path / "x", settings={"train.lora": 3})
    with pytest.raises(UserError, match=r"needs its base run beside it(.|\n)*ln -s"):
        gf.train(*domain, out=tmp_path / "deep" / "x", start_from=base, settings={"train.lora": 3})
    assert not (tmp_path / "x").exists()
