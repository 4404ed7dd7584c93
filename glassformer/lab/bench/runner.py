"""Benchmarks against other toolkits: each in a separate process, rounds interleaved, medians.

The toolkits (contenders) and what is timed are defined in `bench/` of the repository.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from glassformer.errors import UserError
from glassformer.files import cache_folder, write_text
from glassformer.lab.bench import processes
from glassformer.operating_system import environment_python

BENCH = Path(__file__).parents[3] / "bench"
VOCAB = 8000
FORMAT = 2  # of the prepared files; others are made again
CHECKED, CHECKED_TOKENS = 50, 100  # sentences with which contenders are checked; maximum output length
MINUTES = 30  # time limit per contender and case

Log = Callable[[str], None]


@dataclass(frozen=True)
class Contender:
    """A module of `bench/contenders`, its packages, and the benchmarks it supports."""

    module: str
    packages: tuple[str, ...] = ()
    does: tuple[str, ...] = ("train", "decode", "startup")
    first: tuple[str, ...] = ()  # packages that must be installed before the others
    modules: Mapping[str, str] = field(default_factory=dict)  # other modules, by benchmark

    def module_for(self, what: str) -> str:
        return self.modules.get(what, self.module)


OURS, LIMITS, TRICKS, SCALING = "glassformer", "machine", "tricks", "scaling"

CONTENDERS = {
    OURS: Contender(
        "glassformer_own",
        does=("train", "decode", "trained", "encode", "startup", "loop"),
        # These do not import PyTorch, and the start-up imports nothing that the command itself does not import.
        modules={
            **dict.fromkeys(("decode", "trained", "encode"), "glassformer_inference"),
            "startup": "glassformer_cli",
        },
    ),
    LIMITS: Contender("machine_limits", does=("limits",)),
    TRICKS: Contender("tricks", does=("tricks",)),
    SCALING: Contender("scaling", does=("scaling",)),
    "hf": Contender("hf", ("torch==2.13.0", "transformers")),
    "ctranslate2": Contender("ct2", ("torch==2.13.0", "ctranslate2"), does=("decode", "trained", "startup")),
    "fairseq": Contender("fairseq_peer", ("torch==2.13.0", "fairseq==0.12.2"), first=("pip<24.1",)),
    "joeynmt": Contender("joeynmt_peer", ("torch==2.13.0", "joeynmt==2.3.0", "importlib_metadata")),
    "torch": Contender("torch_nn", ("torch==2.13.0", "numpy"), does=("train",)),
    "onnxruntime": Contender("onnx_encoder", ("onnxruntime", "onnx"), does=("encode",)),
    "openvino": Contender("openvino_encoder", ("openvino", "onnx", "nncf"), does=("encode",)),
}
PEERS = [name for name, contender in CONTENDERS.items() if contender.packages]


@dataclass(frozen=True)
class Case:
    """One benchmark case: what is run, and the options of `bench/one.py`."""

    name: str
    what: str
    options: dict[str, Any] = field(default_factory=dict)
    contenders: tuple[str, ...] = ()  # empty: all

    @property
    def threads(self) -> int:
        return int(self.options.get("threads", 2))

    def among(self, names: list[str]) -> Iterator[str]:
        for name in names:
            if self.what in CONTENDERS[name].does and (not self.contenders or name in self.contenders):
                yield name


WITH_INT8 = (OURS, "ctranslate2")
WITH_RUN = {"precision": "int8", "sentences": 1000}
ONE_BY_ONE = {"beam": 1, "precision": "int8", "batch": 1, "threads": 1, "sentences": 32}

CASES = {
    "limits": [Case("all cores", "limits"), Case("one core", "limits", {"threads": 1})],
    "train": [
        Case("machine", "limits"),
        Case("training, tiny", "train", {"size": "tiny"}),
        Case("training, base", "train", {"size": "base", "batches": 4}),
        Case("the whole loop, tiny", "loop", {"size": "tiny", "batches": 20}),
    ],
    "decode": [
        Case("fp32 greedy, batch 32", "decode", {"beam": 1}),
        Case("fp32 beam 4, batch 32", "decode", {"beam": 4}),
        Case("int8 greedy, batch 32", "decode", {"beam": 1, "precision": "int8"}, WITH_INT8),
        Case("int8 beam 4, batch 32", "decode", {"beam": 4, "precision": "int8"}, WITH_INT8),
        Case("greedy, batch 1, one thread (int8 if supported)", "decode", ONE_BY_ONE),
    ],
    "trained": [
        Case(f"the model that train chooses, int8, {search}", "trained", WITH_RUN | {"beam": beam})
        for search, beam in (("greedy", 1), ("beam 4", 4))
    ],
    "encode": [
        Case(f"encoder pass, {precision}, batch 32", "encode", {"precision": precision, "sentences": 1000})
        for precision in ("fp32", "int8")
    ],
    "tricks": [Case("tricks", "tricks")],
    "scaling": [
        *(
            Case(f"tiny, {name}", "scaling", {"size": "tiny", "steps": 60} | how)
            for name, how in (
                ("1 process × 1 thread", {"threads": 1}),
                ("1 process × 2 threads", {"threads": 2}),
                ("2 processes × 1 thread", {"processes": 2, "threads": 1}),
                ("2 processes × 1 thread, sharded", {"processes": 2, "threads": 1, "shard": 1}),
            )
        ),
        Case("base, 1 process × 2 threads", "scaling", {"size": "base", "steps": 20, "threads": 2}),
        Case("base, 2 processes × 1 thread", "scaling", {"size": "base", "steps": 20, "processes": 2, "threads": 1}),
    ],
    "startup": [
        Case("fp32, the first sentence", "startup"),
        Case("int8, the first sentence", "startup", {"precision": "int8"}, WITH_INT8),
    ],
}


@dataclass
class Row:
    """The results of one contender in one case, one per round."""

    case: str
    contender: str
    version: str = ""
    results: list[dict[str, float]] = field(default_factory=list)

    def median(self, name: str) -> float:
        return statistics.median(result[name] for result in self.results)

    def spread(self, name: str) -> float:
        """Return half the range relative to the median."""
        values = [result[name] for result in self.results]
        return (max(values) - min(values)) / 2 / self.median(name)

    def to_json(self) -> dict[str, Any]:
        names = self.results[0].keys()
        return {
            "case": self.case,
            "contender": self.contender,
            "version": self.version,
            "rounds": len(self.results),
            **{name: round(self.median(name), 3) for name in names},
            "spread": round(max(self.spread(name) for name in names if name != "peak_megabytes"), 3),
        }


def run(
    cases: list[Case], against: list[str], *, data: Path, rounds: int, log: Log, trained: Path | None = None
) -> list[Row]:
    """Run all cases for Glassformer and the named toolkits, round by round.

    Args:
        trained: run folder for the cases that need a trained model.
    """
    require_scripts()
    unknown = [name for name in against if name not in PEERS]
    if unknown:
        raise UserError(
            f"There is no toolkit '{unknown[0]}'.", where="--against", hint=f"choose from {', '.join(PEERS)}"
        )
    pythons = {name: python_of(name, log) for name in [OURS, LIMITS, TRICKS, SCALING, *against]}
    rows: dict[tuple[str, str], Row] = {}
    for case in cases:
        if case.what == "startup":  # converted weights are written once, and files are read from memory
            for name in case.among(list(pythons)):
                log(f"warm-up: {case.name}, {name}")
                measure(case, CONTENDERS[name], pythons[name], data)
    for number in range(rounds):
        for case in cases:
            for name in case.among(list(pythons)):
                log(f"round {number + 1}/{rounds}: {case.name}, {name}")
                result = measure(case, CONTENDERS[name], pythons[name], data, trained)
                row = rows.setdefault((case.name, name), Row(case.name, name, str(result.pop("version"))))
                row.results.append(result)
    return list(rows.values())


def require_scripts() -> None:
    if not BENCH.is_dir():
        hint = "run this in a clone of the repository"
        raise UserError("The benchmark scripts are not part of the installed package.", hint=hint)


def measure(case: Case, contender: Contender, python: str, data: Path, trained: Path | None = None) -> dict[str, Any]:
    module = contender.module_for(case.what)
    options = [text for name, value in case.options.items() for text in (f"--{name}", str(value))]
    if trained is not None:
        options += ["--run", str(trained)]
    command = [python, str(BENCH / "one.py"), case.what, module, "--data", str(data), *options]
    done = processes.run(command, threads=case.threads, timeout=60 * MINUTES)
    result = processes.result_of(done, command, module)
    if "done_at" in result:
        result["seconds"] = result.pop("done_at") - done.began
    # A short process may reach its peak after the last poll; it reports its own peak memory.
    own = result.pop("own_peak_megabytes")
    return result | {"peak_megabytes": max(done.peak_megabytes, own)}


def python_of(name: str, log: Log) -> str:
    """Return the Python interpreter of a contender: this one for Glassformer, a separate environment for others."""
    contender = CONTENDERS[name]
    if not contender.packages:
        return sys.executable
    if given := os.environ.get(f"GLASSFORMER_BENCH_{name.upper()}"):
        return given
    folder = cache_folder() / "bench" / name
    python, ready = environment_python(folder), folder / "ready"
    if not ready.exists():
        log(f"creating an environment for {name}: {', '.join(contender.packages)}")
        _make_environment(name, contender, folder)
        ready.touch()
    return str(python)


def _make_environment(name: str, contender: Contender, folder: Path) -> None:
    install = [str(environment_python(folder)), "-m", "pip", "install", "--quiet"]
    try:
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        for packages in filter(None, (contender.first, contender.packages)):
            subprocess.run([*install, *packages], check=True)
    except subprocess.CalledProcessError as error:
        raise UserError(
            f"The environment for {name} could not be created.",
            where=" ".join(map(str, error.cmd)),
            hint=f"see the output of pip, remove {name} from --against, or set GLASSFORMER_BENCH_{name.upper()} to an "
            "interpreter that has the packages",
        ) from None


def prepare(source: Path, target: Path, test: Path, out: Path) -> None:
    """Write the token ids of a corpus for all contenders, and a run folder of base size with random weights."""
    import torch

    from glassformer.data.parallel_text import parallel_files, read_pairs
    from glassformer.inference.run import build_model, save_weights, weights_of
    from glassformer.inference.run_folder import RunFolder, save_settings
    from glassformer.settings import nest, resolve
    from glassformer.tasks.translation import encode_pairs
    from glassformer.text.lines import read_lines
    from glassformer.text.tokenizer import Tokenizer

    meta = out / "meta.json"
    if meta.exists():
        if json.loads(meta.read_text(encoding="utf-8")).get("format") == FORMAT:
            return
        shutil.rmtree(out)
    pairs = list(read_pairs(parallel_files([str(source), str(target)])))
    tokenizer = Tokenizer.train_bpe((line for pair in pairs for line in (pair.source, pair.target)), vocab=VOCAB)
    write_text(out / "train.json", json.dumps(encode_pairs(pairs, tokenizer)))
    lines = list(read_lines(test))
    sources = tokenizer.encode_batch(lines)
    write_text(out / "test.json", json.dumps([(ids, []) for ids in sources]))
    folder = RunFolder(out / "glassformer")
    settings = resolve(nest(BASE | {"data.train": [str(source), str(target)], "tokenizer.vocab": VOCAB}))
    torch.manual_seed(0)
    save_settings(folder, settings)
    write_text(folder.tokenizer, tokenizer.to_json())
    save_weights(folder.model, weights_of(build_model(settings, len(tokenizer))))
    _write_hidden_states(folder.path, sources[:CHECKED], out / "encoded.json")
    write_text(meta, json.dumps({"format": FORMAT, "vocab": len(tokenizer), "first_line": lines[0]}))


def _write_hidden_states(run: Path, sources: list[list[int]], path: Path) -> None:
    """Write sources and the encoder's output at their first tokens in fp32, which contenders are checked with."""
    from glassformer.engine.model import Worker
    from glassformer.inference.search_engine import NativeEngine
    from glassformer.inference.translator import load_translator
    from glassformer.text.special_tokens import EOS

    engine = load_translator(run, engine="native").engine
    assert isinstance(engine, NativeEngine)
    worker, width = Worker(engine.model), engine.model.shape.d_model
    inputs = [[*source, EOS] for source in sources]
    first_tokens = [worker.encode([ids])[:width] for ids in inputs]
    write_text(path, json.dumps({"sources": inputs, "first_tokens": first_tokens}))


def prepare_trained(run: Path, test: Path, out: Path) -> None:
    """Write the test set as token ids of a run, and the outputs in fp32 that contenders are checked with.

    Toolkits have different length penalties, so these are written without one.
    """
    from glassformer.inference.batch_decoder import BatchDecoder
    from glassformer.inference.translator import load_translator
    from glassformer.text.lines import read_lines
    from glassformer.text.special_tokens import EOS

    translator = load_translator(run, engine="native")
    sources = [source for source in translator.tokenizer.encode_batch(list(read_lines(test))) if source]
    checked = [[*source, EOS] for source in sources[:CHECKED]]
    expected = {}
    for beam in (1, 4):
        plain = {"beam": beam, "length_penalty": 0.0, "min_length": 0, "max_length": CHECKED_TOKENS, "guard": False}
        decoder = BatchDecoder(translator.engine, translator.settings.model_copy(update=plain))
        expected[beam] = [found[0].tokens for found in decoder.decode(checked, [0] * len(checked))]
    known = {"sources": sources, "expected": expected, "limit": CHECKED_TOKENS}
    write_text(out / "trained.json", json.dumps(known))


BASE = {
    "model.layers": 6, "model.d_model": 512, "model.heads": 8, "model.d_ff": 2048, "model.dropout": 0.1,
    "train.steps": 1, "train.batch_tokens": 4096, "train.lr": 1e-4, "train.warmup": 1, "train.validate_every": 1,
    "train.checkpoint_every": 1, "train.patience": 0,
    # The start-up benchmark runs the command itself: 30 tokens, as for the other toolkits.
    "decode.min_length": 30, "decode.max_length": 30, "decode.guard": False,
}  # fmt: skip
