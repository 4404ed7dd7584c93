"""Measure one step of corpus preparation in this process. Run by `glassformer bench prepare`.

generate    writes pairs of 4 to 20 words from a vocabulary with Zipf's distribution
prepare     reads, checks, learns the vocabulary and encodes, as `glassformer train` does
start       what stands between the prepared corpus and the first batch, then how fast batches are read
tokenizers  the library alone: learns from the same sample, encodes the same lines with its own threads
"""

from __future__ import annotations

import json
import os
import sys
import time
from itertools import islice
from pathlib import Path

import numpy as np

VOCABULARY = 32_000
WORDS = 60_000  # of each language
AT_ONCE = 20_000  # pairs
BATCHES = 1_000
ENOUGH = 1_000_000  # pairs for the speed of the library alone, which does not depend on their number


class Clock:
    """Wall-clock seconds and core-seconds; the latter are more reliable on a busy machine."""

    def __init__(self) -> None:
        self.began = self._now()

    def lap(self, name: str) -> dict:
        before, self.began = self.began, self._now()
        return {name: self.began[0] - before[0], f"{name}_cores": self.began[1] - before[1]}

    def _now(self) -> tuple[float, float]:
        return time.perf_counter(), sum(os.times()[:4])


def generate(folder: Path, pairs: int) -> dict:
    chance = np.random.default_rng(1)
    share = np.cumsum(1 / np.arange(1, WORDS + 1))
    languages = (_words("etaoinshrdlucmfwypvbgk", 2), _words("enirstadhulcgmobwfkzäüöß", 3))
    with (folder / "train.en").open("w") as source, (folder / "train.de").open("w") as target:
        for start in range(0, pairs, AT_ONCE):
            lengths = chance.integers(4, 21, min(AT_ONCE, pairs - start))
            drawn = np.searchsorted(share, chance.random(lengths.sum()) * share[-1])
            for file, words in zip((source, target), languages, strict=True):
                line = iter(words[drawn].tolist())
                file.writelines(" ".join(islice(line, length)) + ".\n" for length in lengths.tolist())
    return {"megabytes": sum(file.stat().st_size for file in folder.iterdir()) / 1e6}


def _words(letters: str, seed: int) -> np.ndarray:
    chance = np.random.default_rng(seed)
    return np.array(["".join(chance.choice(list(letters), chance.integers(2, 11))) for _ in range(WORDS)], dtype=object)


def prepare_corpus(folder: Path, pairs: int) -> dict:
    from glassformer.data import preparation

    clock = Clock()
    splits, _ = _read(folder)
    result = clock.lap("reading")
    tokenizer = preparation.train_tokenizer(splits.train, VOCABULARY)
    result |= clock.lap("vocabulary")
    preparation.encode_corpus(splits.train, tokenizer)
    result |= clock.lap("encoding")
    (folder / "tokenizer.json").write_text(tokenizer.to_json(), encoding="utf-8")
    return result


def _read(folder: Path):
    from glassformer.data.cache import Cache
    from glassformer.data.parallel_text import parallel_files
    from glassformer.data.preparation import prepare_corpus
    from glassformer.settings import Limits

    files = parallel_files([str(folder / "train.en"), str(folder / "train.de")])
    return prepare_corpus(files, None, None, Limits(), cache=Cache(folder / "cache"))


def start(folder: Path, pairs: int) -> dict:
    from glassformer.data.batching import BEGINNING
    from glassformer.data.preparation import train_tokenizer
    from glassformer.lab.bench.runner import BASE
    from glassformer.settings import nest, resolve
    from glassformer.tasks.translation import TranslationTask

    began = time.perf_counter()
    splits, _ = _read(folder)
    tokenizer = train_tokenizer(splits.train, VOCABULARY)
    settings = resolve(nest(BASE | {"data.train": [str(folder)], "tokenizer.vocab": VOCABULARY}))
    batches = TranslationTask(splits, tokenizer, settings).batches(1, BEGINNING)
    next(batches)
    first = time.perf_counter()
    tokens = sum(batch.target_tokens for batch in islice(batches, BATCHES))
    return {"seconds": first - began, "tokens_per_second": tokens / (time.perf_counter() - first)}


def tokenizers(folder: Path, pairs: int) -> dict:
    import tokenizers as library
    from tokenizers import trainers

    from glassformer.text.tokenizer import BYTE_TOKENS, SPECIAL_TOKENS

    tokenizer = library.Tokenizer.from_file(str(folder / "tokenizer.json"))
    every = max(1, pairs // 1_000_000)
    sample = (line for number, lines in enumerate(_lines(folder)) if number % every == 0 for line in lines)
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[*SPECIAL_TOKENS, *BYTE_TOKENS],
        limit_alphabet=VOCABULARY // 3,
        show_progress=False,
    )
    clock = Clock()
    library.Tokenizer.from_str(tokenizer.to_str()).train_from_iterator(sample, trainer)
    result = clock.lap("vocabulary")
    encoded = _encode(tokenizer, folder)
    result |= clock.lap("encoding")
    tokenizer.normalizer = None
    _encode(tokenizer, folder)
    result |= clock.lap("without_normalizer")
    scaled = {name: value * pairs / encoded for name, value in result.items() if not name.startswith("vocabulary")}
    return result | scaled | {"encoded_pairs": encoded}


def _lines(folder: Path):
    with (folder / "train.en").open(encoding="utf-8") as source, (folder / "train.de").open(encoding="utf-8") as target:
        for pair in zip(source, target, strict=True):
            yield [line.rstrip("\n") for line in pair]


def _encode(tokenizer, folder: Path) -> int:
    """Encode the first pairs; return their number."""
    lines, encoded = (line for pair in _lines(folder) for line in pair), 0
    while encoded < ENOUGH and (some := list(islice(lines, 2 * AT_ONCE))):
        tokenizer.encode_batch_fast(some, add_special_tokens=False)
        encoded += len(some) // 2
    return encoded


if __name__ == "__main__":
    what, where, count = sys.argv[1:]
    os.environ["TOKENIZERS_PARALLELISM"] = "true"  # the default of the library
    steps = {"generate": generate, "prepare": prepare_corpus, "start": start, "tokenizers": tokenizers}
    print("RESULT " + json.dumps(steps[what](Path(where), int(count))))
