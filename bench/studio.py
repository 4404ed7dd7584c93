"""Measure the latency of the studio: from Enter to the first attention weights, with the base model of the paper.

    python bench/studio.py [--sentences 9] [--tokens 50]

A run with random weights is written to a temporary folder, the real server is started in a process of its own, and what
the page does first is done over HTTP: the question, then the weights of one kind of attention. One JSON line comes out.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from http.cookiejar import CookieJar
from pathlib import Path

from glassformer.files import write_text
from glassformer.inference.run import build_model, save_weights, weights_of
from glassformer.inference.run_folder import RunFolder, save_settings
from glassformer.phrasebook.corpus import phrasebook
from glassformer.settings import resolve
from glassformer.text.tokenizer import Tokenizer

MODEL = {"family": "transformer", "layers": 6, "d_model": 512, "heads": 8, "d_ff": 2048, "dropout": 0.1}
TRAIN = {"steps": 1, "batch_tokens": 1, "lr": 1e-3, "warmup": 1, "patience": 0}
TRAIN |= {"validate_every": 1, "checkpoint_every": 1}


def write_run(folder: Path, tokens: int) -> Tokenizer:
    """Write an untrained base model whose outputs have `tokens` tokens."""
    text = [line for triple in phrasebook().train for line in (triple.english, triple.text("fr"))]
    tokenizer = Tokenizer.train_bpe(text, vocab=8000)
    raw = {"data": {"train": ["a", "b"]}, "tokenizer": {"vocab": 8000}, "model": MODEL, "train": TRAIN}
    raw["decode"] = {"max_length": tokens, "min_length": tokens - 1, "guard": False}
    settings, run = resolve(raw), RunFolder(folder)
    save_settings(run, settings)
    write_text(run.tokenizer, tokenizer.to_json())
    save_weights(run.model, weights_of(build_model(settings, len(tokenizer))))
    return tokenizer


def sentence(tokenizer: Tokenizer, tokens: int, number: int) -> str:
    """Return a sentence of this many tokens, `<eos>` included."""
    words = " ".join(triple.english for triple in phrasebook().test[number * 20 : (number + 1) * 20]).split()
    fitting = [words[:n] for n in range(len(words)) if len(tokenizer.encode(" ".join(words[:n]))) < tokens]
    return " ".join(max(fitting, key=len))


def ask(opener: urllib.request.OpenerDirector, address: str, text: str) -> tuple[float, float, int]:
    """Return the seconds until the outline and the weights arrive, and the bytes of both."""
    began = time.perf_counter()
    body = json.dumps({"run": "base", "text": text}).encode()
    question = urllib.request.Request(f"{address}api/traces", body, {"Content-Type": "application/json"})
    outline = opener.open(question).read()
    answered = time.perf_counter() - began
    trace = json.loads(outline)["id"]
    weights = opener.open(f"{address}api/traces/{trace}/weights?kind=encoder").read()
    return answered, time.perf_counter() - began, len(outline) + len(weights)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sentences", type=int, default=9)
    parser.add_argument("--tokens", type=int, default=50)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "base"
        run.mkdir()
        tokenizer = write_run(run, given.tokens)
        command = [sys.executable, "-m", "glassformer", "studio", str(run), "--no-browser", "--port", "0"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None
                found = re.search(r"http://\S+", server.stdout.readline())
                assert found is not None
                opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
                texts = [sentence(tokenizer, given.tokens, number) for number in range(given.sentences)]
                ask(opener, found[0], texts[0])  # loads the model
                waits = [ask(opener, found[0], text) for text in texts]
            finally:
                server.terminate()
    outline, weights, sent = (statistics.median(column) for column in zip(*waits, strict=True))
    slowest = max(total for _, total, _ in waits)
    told = {"outline_ms": outline, "weights_ms": weights, "slowest_ms": slowest}
    rounded = {name: round(1000 * seconds) for name, seconds in told.items()}
    print(json.dumps({"model": MODEL, "tokens": given.tokens, "sentences": len(waits), **rounded, "bytes": int(sent)}))


if __name__ == "__main__":
    main()
