"""Model sizes, token ids and batches shared by all contenders. Needs only the standard library."""

from __future__ import annotations

import json
import math
import random
import time
from pathlib import Path

PAD, SOS, EOS = 0, 1, 2
SIZES = {
    "tiny": {"layers": 4, "d_model": 128, "d_ff": 256, "heads": 4, "dropout": 0.3},
    "small": {"layers": 3, "d_model": 256, "d_ff": 512, "heads": 4, "dropout": 0.25},
    "base": {"layers": 6, "d_model": 512, "d_ff": 2048, "heads": 8, "dropout": 0.1},
}
LR, BETAS, EPSILON, SMOOTHING = 1e-4, (0.9, 0.98), 1e-9, 0.1


def load(folder: Path, name: str):
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))


def random_sentences(count: int, length: int, vocab: int):
    """Return sentences of `length` tokens each, counting an `<eos>` that is added later."""
    dice = random.Random(length)
    return [[dice.randrange(3, vocab) for _ in range(max(1, length - 1))] for _ in range(count)]


def random_batches(count: int, length: int, vocab: int, max_tokens: int = 4096):
    """Return batches of `max_tokens` tokens per side, all of one length."""
    rows = max(1, max_tokens // length)
    sentences = random_sentences(2 * count * rows, length, vocab)
    pairs = list(zip(sentences[::2], sentences[1::2], strict=True))
    return [padded(pairs[i * rows : (i + 1) * rows]) for i in range(count)]


def length_sorted_batches(pairs, count: int | None = None, max_tokens: int = 4096):
    """Return all batches of pairs sorted by target and source length, as toolkits make them, or `count` of them."""
    order = sorted(range(len(pairs)), key=lambda i: (len(pairs[i][1]), len(pairs[i][0])))
    batches, rows, width = [], [], 0
    for i in order:
        wider = max(width, len(pairs[i][1]) + 1)
        if rows and wider * (len(rows) + 1) > max_tokens:
            batches.append(rows)
            rows, wider = [], len(pairs[i][1]) + 1
        rows.append(i)
        width = wider
    batches.append(rows)
    if count is not None:
        batches = [batches[int((k + 0.5) * len(batches) / count)] for k in range(count)]
    return [padded([pairs[i] for i in rows]) for rows in batches]


def padded(pairs):
    """Return source with <eos>, target after <sos>, and target with <eos>, as rows of equal length."""
    return (
        pad([[*s, EOS] for s, _ in pairs]),
        pad([[SOS, *t] for _, t in pairs]),
        pad([[*t, EOS] for _, t in pairs]),
    )


def pad(rows):
    longest = max(map(len, rows))
    return [[*row, *[PAD] * (longest - len(row))] for row in rows]


def target_tokens(batch) -> int:
    return sum(token != PAD for row in batch[2] for token in row)


def useful_flops(size, source_lengths, target_lengths, vocab: int) -> float:
    """Return the FLOPs of a forward and backward pass over real tokens: layers, attention and output layer."""
    d, ff, layers, total = size["d_model"], size["d_ff"], size["layers"], 0
    for source, target in zip(source_lengths, target_lengths, strict=True):
        encoder = source * (4 * d * d + 2 * d * ff) + 2 * source * source * d
        decoder = target * (6 * d * d + 2 * d * ff) + source * 2 * d * d + target * target * d + 2 * source * target * d
        total += 2 * (layers * (encoder + decoder) + target * d * vocab)
    return 3.0 * total


def peak_megabytes() -> float:
    """Return the peak memory of this process so far; 0 if this is not Linux."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:")), 0.0)


def relative_difference(found, expected) -> float:
    """Return |found − expected| / |expected|."""
    return math.dist(found, expected) / math.hypot(*expected)


def fastest(choices, work):
    """Return the choice for which the second call of `work(choice)` is the fastest."""

    def seconds(choice) -> float:
        work(choice)
        began = time.perf_counter()
        work(choice)
        return time.perf_counter() - began

    return min(choices, key=seconds)
