"""Shared by the exporters of translation models: reading the run, and comparing its outputs with the exported model.

Every exporter decodes the same sentences with both models. An exported model that disagrees is not kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from glassformer.data.parallel_text import parallel_files, read_pairs
from glassformer.engine.model import unsupported
from glassformer.errors import UserError
from glassformer.files import remove
from glassformer.inference.run import Run, load_run, weights_of
from glassformer.inference.search_engine import Search
from glassformer.inference.translator import Translator, load_translator
from glassformer.nn.positional_encoding import sinusoids
from glassformer.settings import TransformerSettings, task_traits
from glassformer.tasks.metrics import bleu
from glassformer.text.special_tokens import EOS

SAMPLE = 200  # sentences that are decoded by both models
BEAM = 4
MAX_OUTPUT = 80  # tokens
TABLE_LENGTH = 1024  # rows of an exported table of sinusoids, which has no limit of its own
AGREEMENT = 0.95  # share of identical greedy outputs in fp32; with little training, rounding changes a few outputs
MAX_BLEU_LOSS = 1.0  # of a quantized model

Decode = Callable[[list[list[int]], int, int], list[list[int]]]
"""Decode sources (token ids with `<eos>`) with a beam size and a maximum length; return ids without `<eos>`."""


@dataclass(frozen=True)
class TranslationRun:
    """A translating Transformer as exporters read it.

    Attributes:
        arrays: weights by name, in fp32.
        tokens: the vocabulary in the order of its ids.
    """

    run: Run
    model: TransformerSettings
    arrays: dict[str, np.ndarray]
    tokens: list[str]

    def position_table(self, side: str) -> np.ndarray:
        """Return the positional encodings that are added to the source or target, T×D."""
        match self.model.positions:
            case "learned":
                return self.arrays[f"{side}_positions.positions.weight_TD"]
            case "sinusoidal":
                return sinusoids(TABLE_LENGTH, self.model.d_model).numpy()
            case _:
                return np.zeros((TABLE_LENGTH, self.model.d_model), np.float32)

    def rotation_table(self) -> np.ndarray:
        """Return the sines and cosines by which rotary positions rotate queries and keys, T×E, interleaved."""
        return sinusoids(TABLE_LENGTH, self.model.d_model // self.model.heads).numpy()


def load_translation_run(path: Path, to: str) -> TranslationRun:
    """Load a run for export; refuse one that the format cannot represent."""
    run = load_run(path)
    model = run.settings.model
    if not task_traits(run.settings.task).sequence_to_sequence:
        reason = f"its task is {run.settings.task}"
    elif not isinstance(model, TransformerSettings):
        reason = f"model.family is {model.family}"
    elif unsupported(model) is not None:
        reason = "it has model.ablations or concatenated positions"
    else:
        arrays = {name: weight.numpy() for name, weight in weights_of(run.model).items()}
        return TranslationRun(run, model, arrays, run.tokenizer.pieces(range(len(run.tokenizer))))
    raise UserError(
        f"This run cannot be exported to {to}: {reason}.",
        where=str(path),
        hint="export a Transformer that translates, trained without model.ablations",
    )


@contextmanager
def new_output(out: Path) -> Iterator[Path]:
    """Yield a new file or folder to write; remove what was written if an error occurs."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError("The output exists already.", where=str(out), hint="choose a new name with -o")
    try:
        yield out
    except BaseException:  # whatever the failure was, an unchecked model is not left behind
        remove(out)
        raise


@dataclass(frozen=True)
class Sample:
    """Sentences that both models translate: from the validation set, or random tokens where that is missing."""

    sources: list[list[int]]
    references: list[str]  # empty for random tokens

    @classmethod
    def of(cls, run: Run, most: int = SAMPLE) -> Sample:
        data, tokenizer = run.settings.data, run.tokenizer
        try:
            pairs = [pair for pair in read_pairs(parallel_files(data.valid or data.train)) if pair.source][:most]
        except UserError:  # the training files are not on this machine
            pairs = []
        if pairs:
            return cls([[*tokenizer.encode(p.source)[:MAX_OUTPUT], EOS] for p in pairs], [p.target for p in pairs])
        random = torch.Generator().manual_seed(1)
        lengths = torch.randint(1, 20, (most // 4,), generator=random).tolist()
        rows = [torch.randint(EOS + 1, len(tokenizer), (length,), generator=random).tolist() for length in lengths]
        return cls([[*row, EOS] for row in rows], [])


@dataclass(frozen=True)
class Comparison:
    """How many outputs of both models are identical, and their BLEU where references are known."""

    sentences: int
    greedy: int
    beam: int
    bleu: tuple[float, float] | None  # of the run in fp32 and of the exported model

    def __str__(self) -> str:
        same = (
            f"identical outputs: greedy {self.greedy} of {self.sentences}, beam {BEAM} {self.beam} of {self.sentences}"
        )
        return same if self.bleu is None else f"{same}; BLEU {self.bleu[0]:.2f} before, {self.bleu[1]:.2f} after"


def compare(translation: TranslationRun, external: Decode, sample: Sample | None = None) -> Comparison:
    """Decode a sample greedily and with a beam (without length penalty) by the run in fp32 and by `external`."""
    sample = sample or Sample.of(translation.run)
    translator = load_translator(translation.run.folder.path)
    outputs = {
        beam: (_decode(translator, sample.sources, beam), external(sample.sources, beam, MAX_OUTPUT))
        for beam in (1, BEAM)
    }
    same = {beam: sum(a == b for a, b in zip(*both, strict=True)) for beam, both in outputs.items()}
    scores = None
    if sample.references:
        decoded = ([translation.run.tokenizer.decode(ids) for ids in side] for side in outputs[BEAM])
        ours, exported = (bleu(side, sample.references).value for side in decoded)
        scores = ours, exported
    return Comparison(len(sample.sources), same[1], same[BEAM], scores)


def check(comparison: Comparison, out: Path, *, quantized: bool) -> Comparison:
    """Raise `UserError` if the exported model disagrees with the run."""
    if quantized:
        wrong = comparison.bleu is not None and comparison.bleu[0] - comparison.bleu[1] > MAX_BLEU_LOSS
    else:
        wrong = comparison.greedy < AGREEMENT * comparison.sentences
    if wrong:
        raise UserError(
            f"The exported model disagrees with the run ({comparison}).", where=str(out), hint="report this as a bug"
        )
    return comparison


def _decode(translator: Translator, sources: list[list[int]], beam: int) -> list[list[int]]:
    rows = max(1, translator.engine.batch_rows // beam)
    found: list[list[int]] = []
    for start in range(0, len(sources), rows):
        batch = sources[start : start + rows]
        hypotheses = translator.engine.search(batch, [MAX_OUTPUT] * len(batch), Search(beam=beam, alpha=0.0))
        found += [best[0].tokens for best in hypotheses]
    return found
