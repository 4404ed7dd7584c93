"""Glassformer beside its peers: every contender in a process of its own, rounds interleaved, medians.

The contenders and what exactly is timed are in `bench/` of the repository.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from glassformer.errors import UserError
from glassformer.machine import cache_folder

BENCH = Path(__file__).parents[2] / "bench"
VOCAB = 8000


@dataclass(frozen=True)
class Contender:
    """A module of `bench/contenders`, the packages that it needs, and what it can do."""

    module: str
    packages: tuple[str, ...] = ()
    trains: bool = True


CONTENDERS = {
    "glassformer": Contender("glassformer_own"),
    "hf": Contender("hf", ("torch==2.13.0", "transformers")),
    "ctranslate2": Contender("ct2", ("torch==2.13.0", "ctranslate2"), trains=False),
}


@dataclass(frozen=True)
class Case:
    """One line of a table: what is run, and with which options of `bench/one.py`."""

    name: str
    what: str
    options: dict[str, Any] = field(default_factory=dict)
    contenders: tuple[str, ...] = ()


CASES = {
    "train": [
        Case("training, tiny", "train", {"size": "tiny"}),
        Case("training, base", "train", {"size": "base", "batches": 3}),
    ],
    "decode": [
        Case("fp32 greedy, batch 32", "decode", {"beam": 1}),
        Case("fp32 beam 4, batch 32", "decode", {"beam": 4}),
        Case("int8 greedy, batch 32", "decode", {"beam": 1, "precision": "int8"}, ("glassformer", "ctranslate2")),
        Case("int8 beam 4, batch 32", "decode", {"beam": 4, "precision": "int8"}, ("glassformer", "ctranslate2")),
        Case(
            "int8 greedy, batch 1, one thread",
            "decode",
            {"beam": 1, "precision": "int8", "batch": 1, "threads": 1, "sentences": 24},
        ),
    ],
}


@dataclass
class Row:
    """The results of one contender in one case, over the rounds."""

    case: str
    contender: str
    version: str = ""
    results: list[dict[str, float]] = field(default_factory=list)

    def median(self, name: str) -> float:
        return statistics.median(result[name] for result in self.results)

    def spread(self, name: str) -> float:
        """Half the range, as a share of the median."""
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
            "spread": round(self.spread("seconds"), 3),
        }


def run(what: str, against: list[str], *, data: Path, rounds: int, tell: Callable[[str], None]) -> list[Row]:
    """All cases of a kind, against the peers named, round after round."""
    if not BENCH.is_dir():
        raise UserError(
            "The contenders are not installed with the package.", fix="run this in a clone of the repository"
        )
    unknown = [name for name in against if name not in CONTENDERS]
    if unknown:
        peers = ", ".join(name for name in CONTENDERS if name != "glassformer")
        raise UserError(f"There is no peer '{unknown[0]}'.", where="--against", fix=f"there are: {peers}")
    pythons = {name: python_of(name, tell) for name in ["glassformer", *against]}
    rows: dict[tuple[str, str], Row] = {}
    for number in range(rounds):
        for case in CASES[what]:
            for name in _contenders_of(case, list(pythons)):
                tell(f"round {number + 1}/{rounds}: {case.name}, {name}")
                result = measure(case, CONTENDERS[name], pythons[name], data)
                row = rows.setdefault((case.name, name), Row(case.name, name, str(result.pop("version"))))
                row.results.append(result)
    return list(rows.values())


def _contenders_of(case: Case, names: list[str]) -> Iterator[str]:
    for name in names:
        if (not case.contenders or name in case.contenders) and (case.what != "train" or CONTENDERS[name].trains):
            yield name


def measure(case: Case, contender: Contender, python: str, data: Path) -> dict[str, Any]:
    options = [text for name, value in case.options.items() for text in (f"--{name}", str(value))]
    command = [python, str(BENCH / "one.py"), case.what, contender.module, "--data", str(data), "--model", str(data)]
    began = time.perf_counter()
    done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=1800, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    if not lines:
        raise UserError(
            f"{contender.module} gave no result (exit code {done.returncode}).",
            where=" ".join(done.stderr.strip().splitlines()[-1:]),
            fix=f"run it by itself: {' '.join([*command, *options])}",
        )
    result = json.loads(lines[-1].removeprefix("RESULT "))
    result.pop("contender")
    return result | {"whole_process_seconds": time.perf_counter() - began}


def python_of(name: str, tell: Callable[[str], None]) -> str:
    """The interpreter of a contender: this one for ourselves, one in an environment of its own for a peer."""
    contender = CONTENDERS[name]
    if not contender.packages:
        return sys.executable
    if given := os.environ.get(f"GLASSFORMER_BENCH_{name.upper()}"):
        return given
    folder = cache_folder() / "bench" / name
    python, ready = folder / "bin" / "python", folder / "ready"
    if not ready.exists():
        tell(f"making an environment for {name}: {', '.join(contender.packages)}")
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *contender.packages], check=True)
        ready.touch()
    return str(python)


def prepare(source: Path, target: Path, test: Path, out: Path) -> None:
    """Token ids of a corpus for all contenders, and a run folder of the base size with random weights."""
    import torch

    from glassformer.files import write_text
    from glassformer.run import RunFolder, build_model, save_settings, save_weights, weights_of
    from glassformer.settings import nest, resolve
    from glassformer.tasks.translation import encode_pairs
    from glassformer.text.corpus import parallel_files, read_lines, read_pairs
    from glassformer.text.tokenizer import Tokenizer

    if (out / "meta.json").exists():
        return
    pairs = list(read_pairs(parallel_files([str(source), str(target)])))
    tokenizer = Tokenizer.learn((line for pair in pairs for line in (pair.source, pair.target)), vocab=VOCAB)
    write_text(out / "train.json", json.dumps(encode_pairs(pairs, tokenizer)))
    write_text(out / "test.json", json.dumps([(ids, []) for ids in tokenizer.encode_batch(list(read_lines(test)))]))
    folder = RunFolder(out / "glassformer")
    settings = resolve(nest(BASE | {"data.train": [str(source), str(target)], "tokenizer.vocab": VOCAB}))
    torch.manual_seed(0)
    save_settings(folder, settings)
    write_text(folder.tokenizer, tokenizer.to_json())
    save_weights(folder.model, weights_of(build_model(settings, len(tokenizer))))
    write_text(out / "meta.json", json.dumps({"vocab": len(tokenizer)}))


BASE = {
    "model.layers": 6,
    "model.d_model": 512,
    "model.heads": 8,
    "model.d_ff": 2048,
    "model.dropout": 0.1,
    "train.steps": 1,
    "train.batch_tokens": 4096,
    "train.lr": 1e-4,
    "train.warmup": 1,
    "train.validate_every": 1,
    "train.checkpoint_every": 1,
    "train.patience": 0,
}


def table(rows: list[Row]) -> list[str]:
    """Markdown: every case, fastest first, with ours as a multiple of each peer."""
    lines = ["| case | contender | tokens/s | ± | Glassformer is | peak MB |", "|---|---|---|---|---|---|"]
    for case in dict.fromkeys(row.case for row in rows):
        among = [row for row in rows if row.case == case]
        ours = next((row for row in among if row.contender == "glassformer"), None)
        for row in sorted(among, key=lambda row: -row.median("tokens_per_second")):
            speed = row.median("tokens_per_second")
            times = f"{ours.median('tokens_per_second') / speed:.2f}×" if ours and row is not ours else ""
            spread = f"{row.spread('tokens_per_second'):.0%}"
            lines.append(
                f"| {case} | {row.version or row.contender} | {speed:,.0f} | {spread} | {times} "
                f"| {row.median('peak_megabytes'):,.0f} |"
            )
    return lines
