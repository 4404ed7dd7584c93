"""Results of the benchmarks as tables and as a page."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from glassformer.files import write_text
from glassformer.lab.bench import cost_curves
from glassformer.lab.bench.runner import LIMITS, OURS, Row
from glassformer.machine import cores
from glassformer.operating_system import cpu_name

Column = tuple[str, Callable[[Row], str]]  # heading and cell

KINDS = ("limits", "train", "decode", "trained", "encode", "startup", "tricks", "growth", "scaling")

HEADINGS = {
    "limits": "Limits of the machine",
    "train": "Training",
    "decode": "Decoding",
    "trained": "Decoding with a trained model",
    "encode": "Encoder pass",
    "startup": "Start-up",
    "tricks": "Gain of each optimization",
    "growth": "Cost curves",
    "scaling": "Several processes",
}

EXPLANATIONS = {
    "limits": "Best of many repetitions with PyTorch: upper bounds for all benchmarks below.",
    "train": "Real Multi30k en→de batches of about 4,096 target tokens, fp32; forward, backward and Adam. tiny: 4+4 "
    "layers, d 128, ff 256, 4 heads; base: 6+6 layers, d 512, ff 2048, 8 heads; joint BPE of 8,000. Tokens are real "
    "target tokens: padding does not count. *of the limit*: useful matmul FLOP/s as a share of the machine's. *The "
    "whole loop* is the trainer without validation, compared with its training step on the same batches.",
    "decode": "Base size, random weights, 30 forced tokens per sentence, 512 sentences, both cores (CTranslate2 and "
    "Glassformer: one single-threaded worker per core; the others: two threads).",
    "trained": "The 1,000 sentences of Multi30k test_2016_flickr with a model that `glassformer train` chose and "
    "trained, the same weights in every toolkit, both cores. Outputs have their natural length; tokenization is not "
    "timed. In fp32 and without a length penalty, every toolkit writes the same tokens as Glassformer for 50 "
    "sentences. Timed with a length penalty of 0.6, the formula of which differs: *tokens* are output tokens per "
    "sentence. Glassformer decodes degenerate outputs again. CTranslate2 uses its fastest batch size.",
    "encode": "Base size, random weights (the same in every toolkit), the 1,000 sentences of Multi30k "
    "test_2016_flickr sorted by length, both cores. Glassformer: one single-threaded worker per core; the others: the "
    "faster of that and two threads per batch. int8 is dynamic quantization; in OpenVINO it is static, calibrated by "
    "NNCF on 128 sentences.",
    "startup": "From starting the process to the first translated sentence of 30 tokens, greedy, base size. For "
    "Glassformer this is the command `glassformer translate` with tokenization; the others get token ids.",
    "tricks": "Each optimized part compared with a plain implementation, alternating in one process; described in "
    "[speed.md](../speed.md).",
    "growth": "The tiny model with sentences of 16 tokens, one quantity varied at a time; decoding is greedy, batch "
    "32, 30 tokens, both cores.",
    "scaling": "The whole loop over the same steps of 4,096 tokens, divided among the processes (torchrun, gloo). "
    "Sharded: each process holds half of the weights, gradients and optimizer state.",
}


def table(kind: str, rows: list[Row]) -> list[str]:
    """Return the Markdown table of one kind of benchmark."""
    return _TABLES.get(kind, _per_token)(rows)


def _per_token(rows: list[Row]) -> list[str]:
    """Return the table of training or decoding, in tokens per second."""
    limit = next((row.median("fp32_gflops") for row in rows if row.contender == LIMITS), None)
    share: Column | None = None
    if limit is not None:
        share = ("of the limit", lambda row: f"{row.median('useful_gflops') / limit:.0%}")
    loops = [row for row in rows if "share_of_bare_step" in row.results[0]]
    compared = [row for row in rows if row not in loops and row.contender != LIMITS]
    lines = _compared(compared, "tokens_per_second", "tokens/s", last=share)
    for row in loops:
        of_step, speed = row.median("share_of_bare_step"), row.median("tokens_per_second")
        lines += ["", f"{row.case}: {speed:,.0f} tokens/s, {of_step:.3f} of the speed of the training step alone."]
    return lines


def _compared(
    rows: list[Row], measure: str, unit: str, *, last: Column | None = None, less_is_better: bool = False
) -> list[str]:
    """Return every case, best first, with our speed relative to each toolkit. `last` is a further column."""
    lines = [f"| case | toolkit | {unit} | ± | Glassformer is | peak MB |" + (f" {last[0]} |" if last else "")]
    lines.append("|---|---|---|---|---|---|" + ("---|" if last else ""))
    for case in dict.fromkeys(row.case for row in rows):
        among = sorted((row for row in rows if row.case == case), key=lambda row: row.median(measure))
        ours = next((row for row in among if row.contender == OURS), None)
        for row in among if less_is_better else reversed(among):
            value = row.median(measure)
            times = "" if ours is None or row is ours else _times(ours.median(measure), value, less_is_better)
            digits = 2 if value < 1 else 1 if value < 100 else 0
            lines.append(
                f"| {case} | {row.version or row.contender} | {value:,.{digits}f} | {row.spread(measure):.0%} "
                f"| {times} | {row.median('peak_megabytes'):,.0f} |" + (f" {last[1](row)} |" if last else "")
            )
    return lines


def _times(ours: float, peer: float, less_is_better: bool) -> str:
    return f"{peer / ours if less_is_better else ours / peer:.2f}×"


def _tricks(rows: list[Row]) -> list[str]:
    names = [name for name in rows[0].results[0] if name != "peak_megabytes"]
    return ["| trick | faster |", "|---|---|", *(f"| {name} | {rows[0].median(name):.2f}× |" for name in names)]


def _scaling(rows: list[Row]) -> list[str]:
    """Return each configuration with its speed relative to the first of the same model size."""
    lines = ["| case | tokens/s | ± | times the first | peak MB |", "|---|---|---|---|---|"]
    first: dict[str, float] = {}
    for row in rows:
        speed = row.median("tokens_per_second")
        times = speed / first.setdefault(row.case.split(",")[0], speed)
        lines.append(
            f"| {row.case} | {speed:,.0f} | {row.spread('tokens_per_second'):.0%} | {times:.2f}× "
            f"| {row.median('peak_megabytes'):,.0f} |"
        )
    return lines


def _limits(rows: list[Row]) -> list[str]:
    lines = ["| | fp32 matmul, GFLOP/s | int8 matmul, GOP/s | reading 58 MiB again, GB/s | reading memory, GB/s |"]
    lines.append("|---|---|---|---|---|")
    names = ("fp32_gflops", "int8_gops", "weights_read_again_gb", "memory_read_gb")
    for row in rows:
        lines.append(f"| {row.case} | " + " | ".join(f"{row.median(name):,.0f}" for name in names) + " |")
    return lines


_TOKENS: Column = ("tokens", lambda row: f"{row.median('tokens_per_sentence'):.1f}")
_TABLES: dict[str, Callable[[list[Row]], list[str]]] = {
    "growth": cost_curves.table,
    "limits": _limits,
    "tricks": _tricks,
    "scaling": _scaling,
    "startup": partial(_compared, measure="seconds", unit="seconds", less_is_better=True),
    "trained": partial(_compared, measure="sentences_per_second", unit="sentences/s", last=_TOKENS),
    "encode": partial(_compared, measure="sentences_per_second", unit="sentences/s"),
}


def save(kind: str, rows: list[Row], command: str, folder: Path) -> Path:
    """Save the results of one kind, update the page of all saved results and return its path."""
    kept = {"command": command, "machine": machine_description(), "rows": [vars(row) for row in rows]}
    write_text(folder / "speed" / f"{kind}.json", json.dumps(kept, indent=1, ensure_ascii=False) + "\n")
    if kind == "growth":
        cost_curves.draw(rows, folder / "speed" / "growth.svg")
    page = folder / "speed.md"
    write_text(page, "\n".join(_page(folder)) + "\n")
    return page


def _page(folder: Path) -> list[str]:
    lines = [
        "# Speed compared with other toolkits",
        "",
        "Written by `glassformer bench … --save`. One process per toolkit, rounds interleaved, medians;",
        "± is half the range. Same token ids, sizes and lengths for all: see [`bench/`](../../bench/README.md). Peak",
        "memory is the sum over the processes of a toolkit, shared memory counted once.",
    ]
    for kind in KINDS:
        path = folder / "speed" / f"{kind}.json"
        if not path.exists():
            continue
        kept: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        rows = [Row(**row) for row in kept["rows"]]
        lines += ["", f"## {HEADINGS[kind]}", f"`{kept['command']}`, {kept['machine']}.", "", EXPLANATIONS[kind], ""]
        lines += table(kind, rows)
        if kind == "growth":
            lines += ["", "![tokens per second and peak memory](speed/growth.svg)"]
    return lines


def machine_description() -> str:
    """Return a short description of this machine."""
    import torch

    best = torch.backends.cpu.get_cpu_capability()
    count = f"{cores()} {'core' if cores() == 1 else 'cores'}"
    return f"{count} of {cpu_name()} ({best}), PyTorch {torch.__version__.split('+')[0]}"
