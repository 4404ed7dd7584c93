"""Inference in Glassformer as in the command `translate`: a run folder, a translator, one worker per core.

PyTorch is not imported, except for models of another size than the prepared run.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version as installed
from itertools import accumulate
from pathlib import Path

import common

from glassformer.engine.model import NativeModel, Worker
from glassformer.inference.search_engine import NativeEngine
from glassformer.inference.translator import Translator, load_translator
from glassformer.inference.workers import translate_stream


class Numbers:
    """A tokenizer whose text is the ids."""

    def encode(self, line: str) -> list[int]:
        return [int(word) for word in line.split()]

    def decode(self, ids) -> str:
        return " ".join(map(str, ids))


class Decoder:
    """Random weights of a given size, outputs of a given length."""

    def __init__(self, folder: Path, size: dict, vocab: int, precision: str, threads: int) -> None:
        self.workers = threads
        if size == common.SIZES["base"] and vocab == common.load(folder, "meta")["vocab"]:
            self.translator = load_translator(folder / "glassformer", precision=precision)
        else:
            self.translator = _random_translator(size, vocab, precision)
        assert self.translator.engine.name == "native", self.translator.notice

    def translate(self, batches, beam: int, length: int) -> list[str]:
        # Random weights give repetitive outputs; no other toolkit decodes these again.
        limits = {"min_length": length, "max_length": length, "guard": False, "max_source": 2048}
        self.translator.settings = self.translator.settings.model_copy(update=limits)
        self.translator.max_sentences = len(batches[0])
        lines = [self.translator.tokenizer.decode(ids) for batch in batches for ids in batch]
        return [t.text for t in translate_stream(self.translator, lines, workers=self.workers, beam=beam)]


def _random_translator(size: dict, vocab: int, precision: str) -> Translator:
    import torch
    from glassformer_own import settings

    from glassformer.inference.run import build_model, weights_of

    torch.manual_seed(0)
    chosen = settings(size, vocab)
    weights = {name: weight.detach() for name, weight in weights_of(build_model(chosen, vocab)).items()}
    engine = NativeEngine(NativeModel.from_tensors(weights, chosen.model, vocab, precision))
    return Translator(None, Numbers(), chosen.decode, engine=engine)


class RunDecoder:
    """A trained run with its own decoding settings, outputs of their natural length. Ids in, ids out."""

    def __init__(self, folder: Path, run: Path, precision: str, threads: int) -> None:
        self.workers = threads
        self.translator = load_translator(run, precision=precision)
        assert self.translator.engine.name == "native", self.translator.notice
        self.translator.tokenizer = Numbers()

    def prepare(self, sources: list[list[int]]) -> list[str]:
        return [self.translator.tokenizer.decode(ids) for ids in sources]

    def warm_up(self, prepared: list[str], beam: int) -> None:
        self.translate(prepared, beam)

    def translate(self, prepared: list[str], beam: int) -> list[list[str]]:
        found = translate_stream(self.translator, prepared, workers=self.workers, beam=beam)
        return [one.text.split() for one in found]


class Encoder:
    """The encoder of the run with random weights: one single-threaded worker per core."""

    def __init__(self, folder: Path, precision: str, threads: int) -> None:
        engine = load_translator(folder / "glassformer", precision=precision).engine
        assert isinstance(engine, NativeEngine)
        self.model, self.threads = engine.model, threads
        self.of_thread = threading.local()
        self.pool = ThreadPoolExecutor(threads)

    def prepare(self, batches: list[list[list[int]]]) -> list[list[list[int]]]:
        return batches

    def warm_up(self, prepared) -> None:
        self.encode(prepared)

    def encode(self, prepared) -> list:
        return list(self.pool.map(self._encode, prepared))

    def _encode(self, batch: list[list[int]]):
        if not hasattr(self.of_thread, "worker"):
            self.of_thread.worker = Worker(self.model)
        return self.of_thread.worker.encode(batch)

    def first_tokens(self, batch: list[list[int]], hidden) -> list[list[float]]:
        width = self.model.shape.d_model
        starts = [0, *accumulate(map(len, batch))][: len(batch)]
        return [hidden[start * width : (start + 1) * width] for start in starts]


def version() -> str:
    return f"glassformer {installed('glassformer')}"
