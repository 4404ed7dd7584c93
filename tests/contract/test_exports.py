"""Exported translation models give the outputs of the run, in the library that they are for."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import glassformer as gf
from glassformer.errors import UserError
from glassformer.inference.run import load_run, save_weights, weights_of
from glassformer.interop import ctranslate2 as ct2_export
from glassformer.interop import translation_export
from glassformer.interop.formats import FORMATS, ExportRequest, export
from glassformer.interop.onnx_graph import Graph
from glassformer.interop.translation_export import Sample, compare, load_translation_run
from tests.families import perturb

ctranslate2 = pytest.importorskip("ctranslate2")
pytest.importorskip("onnxruntime")

TINY = {
    "tokenizer.vocab": 400, "model.encoder_layers": 2, "model.decoder_layers": 3, "model.d_model": 20, "model.heads": 5,
    "model.d_ff": 28, "train.steps": 2, "train.batch_tokens": 512, "train.precision": "fp32",
    "train.validate_every": 2, "train.checkpoint_every": 2, "train.valid_sentences": 5,
}  # fmt: skip
VARIANTS: dict[str, dict[str, Any]] = {
    "post-norm": {},
    "pre-norm, gelu, untied": {"model.norm": "pre", "model.activation": "gelu", "model.tie_embeddings": False},
    "learned positions, swish": {"model.positions": "learned", "model.activation": "swish", "model.max_positions": 600},
    "rotary positions": {"model.positions": "rotary"},
}


@pytest.fixture(scope="module")
def make_run(corpus: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """`make_run("post-norm")`: a run with random weights, large enough for outputs to differ between sentences."""

    @functools.cache
    def make(variant: str) -> Path:
        settings = TINY | VARIANTS[variant]
        path = gf.train(*corpus, out=tmp_path_factory.mktemp("export") / "run", settings=settings).path
        torch.manual_seed(5)
        weights = weights_of(perturb(load_run(path).model))
        save_weights(path / "model.safetensors", {name: weight * 2 for name, weight in weights.items()})
        return path

    return make


@pytest.fixture(scope="module")
def run(corpus: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with enough training to write sentences that end."""
    settings = TINY | {"model.d_model": 40, "train.steps": 150, "train.validate_every": 150, "model.norm": "pre"}
    return gf.train(*corpus, out=tmp_path_factory.mktemp("trained") / "run", settings=settings).path


@pytest.fixture(autouse=True)
def _short_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translation_export, "MAX_OUTPUT", 17)  # random models never write <eos>


@pytest.mark.parametrize("variant", VARIANTS)
def test_outputs_are_identical_in_fp32(make_run: Callable[[str], Path], tmp_path: Path, variant: str) -> None:
    for to in ("ctranslate2", "onnx"):
        said = export(to, ExportRequest(make_run(variant), tmp_path / to))  # raises an error if fewer than 95 % are
        assert "identical outputs: greedy" in said


def test_the_snippet_of_the_readme_translates_as_the_run(run: Path, tmp_path: Path) -> None:
    for to in ("ctranslate2", "onnx"):
        export(to, ExportRequest(run, tmp_path / to))
        code = (tmp_path / to / "README.md").read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
        code = code.replace("beam_size=4", "beam_size=1")
        printed = subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
        ).stdout
        translator = gf.load(run)
        assert printed.strip() == translator.tokenizer.decode(translator.greedy_tokens("I am a student"))


def test_a_quantized_model_is_smaller(run: Path, tmp_path: Path) -> None:
    sizes = {}
    for precision in ("float32", "int8"):
        export("ctranslate2", ExportRequest(run, tmp_path / precision, precision))
        sizes[precision] = (tmp_path / precision / "model.bin").stat().st_size
    assert sizes["int8"] < sizes["float32"]


def test_an_export_that_disagrees_is_not_left_behind(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill = ct2_export._fill

    def wrong(spec: Any, translation: Any) -> None:
        fill(spec, translation)
        spec.decoder.layer[0].ffn.linear_0.bias = spec.decoder.layer[0].ffn.linear_0.bias + 5

    monkeypatch.setattr(ct2_export, "_fill", wrong)
    with pytest.raises(UserError, match="disagrees"):
        export("ctranslate2", ExportRequest(run, tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_without_the_validation_files_random_tokens_are_compared(run: Path, tmp_path: Path) -> None:
    translation = load_translation_run(run, "CTranslate2")
    settings = translation.run.settings
    moved = settings.model_copy(update={"data": settings.data.model_copy(update={"train": ["x.en", "x.fr"]})})
    sample = Sample.of(type(translation.run)(**(vars(translation.run) | {"settings": moved})))
    assert sample.sources and not sample.references


def test_the_auto_classes_of_transformers_translate_as_the_run(
    run: Path, corpus: tuple[str, str], tmp_path: Path
) -> None:
    transformers = pytest.importorskip("transformers")
    export("huggingface", ExportRequest(run, tmp_path / "out"))
    transformers.utils.logging.set_verbosity_error()
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    lines = Path(corpus[0]).read_text(encoding="utf-8").splitlines()[:20]
    translator = gf.load(run)
    plain = {"do_sample": False, "forced_eos_token_id": None}
    for beam in (1, 4):
        inputs = tokenizer(lines, return_tensors="pt", padding=True, return_token_type_ids=False)
        ids = model.generate(**inputs, num_beams=beam, length_penalty=0.0, max_new_tokens=17, **plain)
        theirs = tokenizer.batch_decode(ids, skip_special_tokens=True)
        sources = [ids for line in lines for ids in translator.encode(line)]
        ours = translation_export._decode(translator, sources, beam)
        same = sum(a.split() == translator.tokenizer.decode(b).split() for a, b in zip(theirs, ours, strict=True))
        assert same >= 0.9 * len(lines)  # rounding decides a few outputs of a model with so little training


@pytest.mark.parametrize(
    ("to", "options", "message"),
    [
        ("tensorflow", {}, "no format 'tensorflow'"),
        ("onnx", {"precision": "int8"}, "no precision 'int8'"),
        ("ctranslate2", {"languages": ("en", "fr")}, "does not name languages"),
    ],
    ids=["format", "precision", "languages"],
)
def test_wrong_options_are_refused(tmp_path: Path, to: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        export(to, ExportRequest(tmp_path, tmp_path / "out", **options))


def test_every_format_refuses_an_existing_output(run: Path, tmp_path: Path) -> None:
    for to in FORMATS:
        out = tmp_path / f"{to}.argosmodel"
        out.mkdir()
        (out / "file").write_text("kept")
        with pytest.raises(UserError, match=r"exists already|not empty|not support"):
            export(to, ExportRequest(run, out))
        assert (out / "file").exists()


INSTALL_AND_TRANSLATE = """
import json, sys, warnings
warnings.simplefilter("ignore")
import argostranslate.package, argostranslate.translate
argostranslate.package.install_from_path(sys.argv[1])
translation = argostranslate.translate.get_translation_from_codes("en", "fr")
print(json.dumps([translation.translate(line) for line in json.loads(sys.argv[2])]))
"""


def boundary_model(path: Path) -> None:
    """A sentence splitter as Argos Translate downloads it: here one that ends sentences at `.`, `!` and `?`."""
    import onnx

    units = ["<PAD>", "<UNK>", ".", "!", "?"]
    graph = Graph("boundaries")
    graph.input("units", np.int64, "batch", "length")
    graph.input("features", np.float32, "batch", "length", 1)
    classes = np.zeros((len(units), 5), np.float32)
    classes[:, 0], classes[2:, 2] = 0.5, 1.0
    graph.output("classes", graph.op("Gather", graph.constant(classes), "units"), "batch", "length", 5)
    graph.save(path)
    model = onnx.load(path)
    vocab = {"lang": "en", "idx": 0, "cutoff": 0, "lower": False, "_unit2id": {u: i for i, u in enumerate(units)}}
    config = {"feat_funcs": ["end_of_para"], "max_seqlen": 1000}
    for key, value in (("config", config), ("vocab", vocab | {"_id2unit": units}), ("lang_code", "en")):
        model.metadata_props.add(key=key, value=value if isinstance(value, str) else json.dumps(value))
    onnx.save(model, path)


def test_argos_translate_installs_and_runs_the_package(corpus: tuple[str, str], run: Path, tmp_path: Path) -> None:
    pytest.importorskip("argostranslate", reason="argostranslate is not installed")
    package = tmp_path / "en_fr.argosmodel"
    export("argos", ExportRequest(run, package, "float32"))
    with zipfile.ZipFile(package) as archive:
        assert all(name.startswith("translate-en_fr-glassformer/") for name in archive.namelist())
    home = tmp_path / "home"
    (home / "argos-translate" / "minisbd").mkdir(parents=True)
    boundary_model(home / "argos-translate" / "minisbd" / "en.onnx")
    lines = Path(corpus[0]).read_text(encoding="utf-8").splitlines()[:7]
    places = dict.fromkeys(("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"), str(home))
    places["ARGOS_COMPUTE_TYPE"] = "float32"  # otherwise it quantizes the weights where that is faster
    command = [sys.executable, "-c", INSTALL_AND_TRANSLATE, str(package), json.dumps(lines)]
    done = subprocess.run(command, env=os.environ | places, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    theirs = json.loads(done.stdout.splitlines()[-1])
    assert [line.split() for line in theirs] == [line.split() for line in expected_of_argos(run, lines)]


def expected_of_argos(run: Path, lines: list[str]) -> list[str]:
    """The outputs of the exported weights with the beam size and length penalty of Argos Translate."""
    translation = load_translation_run(run, "CTranslate2")
    folder = run / "ct2"
    folder.mkdir()
    ct2_export.write_checked_model(translation, folder, "float32")
    translator, tokenizer = ctranslate2.Translator(str(folder)), translation.run.tokenizer
    outputs = []
    for line in lines:
        pieces = tokenizer.pieces(tokenizer.encode(line))
        (result,) = translator.translate_batch([pieces], beam_size=4, length_penalty=0.2, num_hypotheses=1)
        ids = [translation.tokens.index(token) for token in result.hypotheses[0]]
        outputs.append(tokenizer.decode_raw(ids).replace("_", " ").removeprefix(" "))
    return outputs


def test_comparison_counts_differences(run: Path) -> None:
    translation = load_translation_run(run, "CTranslate2")
    sample = Sample.of(translation.run, 3)
    assert compare(translation, lambda sources, beam, limit: [[5]] * len(sources), sample).greedy < 3
