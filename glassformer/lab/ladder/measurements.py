"""Measurements of a trained system, saved as `measures.json` in its run folder."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from glassformer.data.batching import pad_rows
from glassformer.data.parallel_text import SentencePair
from glassformer.data.preparation import ProgressCallback, no_progress
from glassformer.files import write_text
from glassformer.inference.run import Run, load_run
from glassformer.inference.translator import Translator, load_translator
from glassformer.lab.bench.results import machine_description
from glassformer.lab.gradient_norms import directions, gradient_through_time
from glassformer.tasks import metrics
from glassformer.text.tokenizer import EOS, PAD, SOS

Measurements = dict[str, Any]

BATCH = 512  # lines between two progress reports
PARTS = 5  # ranges of sentence length with about equally many sentences
GRADIENT_SENTENCES, GRADIENT_REACH, GRADIENT_DIRECTIONS = 64, 64, 8
GAIN_SENTENCES = 256
SHOWN_TOKENS = 12  # approximate length of the example sentence


def measures_file(run: Path) -> Path:
    return run / "measures.json"


def measure(
    run: Path, split: str, pairs: Sequence[SentencePair], progress: ProgressCallback = no_progress
) -> Measurements:
    """Evaluate a run on held-out pairs, measure its gradients and attention, and write measures.json."""
    translator, loaded = load_translator(run), load_run(run)
    machine = f"{machine_description()}, threads: {torch.get_num_threads()}"
    measured = {
        "held_out": split,
        "sentences": len(pairs),
        "beam": translator.settings.beam,
        "made_with": f"Glassformer {version('glassformer')}, {machine}",
        **_translations(translator, pairs, progress),
        "source_gain": source_gain(loaded, pairs),
        **_gradient(loaded, pairs),
        **_example(translator, pairs),
    }
    write_text(measures_file(run), json.dumps(measured, ensure_ascii=False, indent=1) + "\n")
    return measured


def _translations(translator: Translator, pairs: Sequence[SentencePair], progress: ProgressCallback) -> Measurements:
    sources, references = [pair.source for pair in pairs], [pair.target for pair in pairs]
    began, worked, found = time.perf_counter(), time.process_time(), []
    for first in range(0, len(sources), BATCH):
        progress("translating held-out sentences", first, len(sources))
        found += translator.translate(sources[first : first + BATCH])
    seconds, worked = time.perf_counter() - began, time.process_time() - worked
    outputs = [translation.text for translation in found]
    lowercase = translator.tokenizer.lowercase
    scores = metrics.score(outputs, references, lowercase=lowercase)
    ranges = length_ranges(sources)
    by_length = metrics.bleu_by_length(sources, outputs, references, lengths=ranges, lowercase=lowercase)
    return {
        "bleu": round(scores.bleu.value, 2),
        "bleu_signature": scores.bleu.signature,
        "chrf": round(scores.chrf.value, 2),
        "chrf_signature": scores.chrf.signature,
        "exact_match": round(scores.exact_match, 2),
        "bleu_by_length": {
            name: {"bleu": round(bleu, 2), "sentences": count} for name, (bleu, count) in by_length.items()
        },
        "decoding_seconds": round(seconds, 3),
        "decoding_cpu_seconds": round(worked, 3),  # less than the wall time if the machine was busy with other work
        "decoding_tokens_per_second": round(sum(translation.tokens for translation in found) / seconds),
    }


def length_ranges(sources: Sequence[str], parts: int = PARTS) -> list[tuple[int, int]]:
    """Return ranges of the number of words that contain about equally many sentences."""
    words = sorted(len(line.split()) for line in sources)
    ends = sorted({words[-(-len(words) * part // parts) - 1] for part in range(1, parts + 1)})
    return list(zip([words[0], *(end + 1 for end in ends)], ends, strict=False))


@torch.inference_mode()
def source_gain(run: Run, pairs: Sequence[SentencePair]) -> float:
    """Return the increase of the loss in nats per target token when each source is replaced by another sentence.

    A decoder that ignores the source, as a pure language model does, has a source gain of 0 however low its loss is.
    The replacement is the sentence half the set away.
    """
    some = pairs[:GAIN_SENTENCES]
    short_enough = run.settings.decode.max_source
    sources, targets = (
        [ids[:short_enough] for ids in run.tokenizer.encode_batch([getattr(pair, side) for pair in some])]
        for side in ("source", "target")
    )
    half = len(some) // 2
    right, other = (
        sum(_loss(run.model, rows[i : i + 32], targets[i : i + 32]) for i in range(0, len(some), 32))
        for rows in (sources, [*sources[half:], *sources[:half]])
    )
    return round((other - right) / sum(len(ids) + 1 for ids in targets), 3)


def _loss(model: Any, sources: list[list[int]], targets: list[list[int]]) -> float:
    """Return the cross-entropy summed over all target tokens, without label smoothing."""
    source_BS, target_BT = pad_rows([[*ids, EOS] for ids in sources]), pad_rows([[SOS, *ids] for ids in targets])
    next_BT = pad_rows([[*ids, EOS] for ids in targets])
    logits_BTV = model(source_BS, target_BT)
    return float(F.cross_entropy(logits_BTV.flatten(0, 1), next_BT.flatten(), ignore_index=PAD, reduction="sum"))


def _gradient(run: Run, pairs: Sequence[SentencePair]) -> Measurements:
    """Measure gradient norms on the longest quarter of the sentences (at most 64), the same for every system."""
    encoded = run.tokenizer.encode_batch([pair.source for pair in pairs])
    short_enough = [[*ids, EOS] for ids in encoded if 0 < len(ids) < run.settings.decode.max_source]
    rows = sorted(short_enough, key=len, reverse=True)[: max(1, min(GRADIENT_SENTENCES, len(short_enough) // 4))]
    if not rows:
        return {"gradient": [], "gradient_sentences": 0}
    source_BS = pad_rows(rows)
    norms = gradient_through_time(
        run.model,
        source_BS,
        (source_BS != PAD).sum(dim=1),
        SOS,
        reach=min(GRADIENT_REACH, len(rows[-1])),
        directions_ND=directions(GRADIENT_DIRECTIONS, run.settings.model.d_model),
    )
    return {"gradient": [float(f"{norm:.4g}") for norm in norms], "gradient_sentences": len(rows)}


def _example(translator: Translator, pairs: Sequence[SentencePair]) -> Measurements:
    """Return the translation of one sentence and its cross-attention weights under teacher forcing."""
    lengths = [len(ids) for ids in translator.tokenizer.encode_batch([pair.source for pair in pairs])]
    pair = pairs[min(range(len(pairs)), key=lambda row: abs(lengths[row] - SHOWN_TOKENS))]
    translation = translator.translate([pair.source])[0].text
    trace = translator.trace(pair.source, pair.target)
    example = {"source": pair.source, "reference": pair.target, "translation": translation}
    if not any(name.endswith(".cross.weights") for name in trace.tensors):
        return {"example": example, "attention": None}
    weights_QK = trace.attention("cross").mean(dim=0)
    attention = {
        "source": trace.source,
        "target": [*trace.target[1:], "<eos>"],  # each row is labeled with the token predicted next
        "weights": [[round(weight, 3) for weight in row] for row in weights_QK.tolist()],
    }
    return {"example": example, "attention": attention}
