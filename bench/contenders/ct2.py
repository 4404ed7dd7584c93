"""CTranslate2 in its fastest setup: one single-threaded worker per core, batches queued. Random weights."""

from __future__ import annotations

from pathlib import Path

import ctranslate2
import numpy as np

NAMES = {"fp32": "float32", "int8": "int8"}


def make(folder: Path, s: dict, vocab: int, precision: str) -> Path:
    """A model of random weights in CTranslate2's own form, made once."""
    path = folder / f"ct2-{precision}-{s['layers']}-{s['d_model']}-{vocab}"
    if path.exists():
        return path
    from ctranslate2.specs import TransformerSpec, common_spec  # brings PyTorch along, which decoding does not need

    spec = TransformerSpec.from_config(s["layers"], s["heads"], pre_norm=False, activation=common_spec.Activation.RELU)
    _fill(spec, s["d_model"], s["d_ff"], vocab)
    tokens = ["<unk>", "<s>", "</s>", *(f"t{i}" for i in range(3, vocab))]
    spec.register_source_vocabulary(tokens)
    spec.register_target_vocabulary(tokens)
    spec.validate()
    spec.optimize(quantization=NAMES[precision])
    path.mkdir()
    spec.save(str(path))
    return path


def _fill(spec, d: int, ff: int, vocab: int) -> None:
    random = np.random.default_rng(0)

    def linear(layer, outputs: int, inputs: int) -> None:
        layer.weight = (random.standard_normal((outputs, inputs)) * 2 * inputs**-0.5).astype(np.float32)
        layer.bias = np.zeros(outputs, dtype=np.float32)

    def norm(layer) -> None:
        layer.gamma, layer.beta = np.ones(d, dtype=np.float32), np.zeros(d, dtype=np.float32)

    def attention(layer, parts: list[int]) -> None:
        norm(layer.layer_norm)
        for one, outputs in zip(layer.linear, parts, strict=True):
            linear(one, outputs, d)

    embedding = (random.standard_normal((vocab, d)) * d**-0.5).astype(np.float32)
    spec.encoder.embeddings[0].weight = spec.decoder.embeddings.weight = embedding
    spec.decoder.projection.weight = embedding
    for side in (spec.encoder, spec.decoder):
        for layer in side.layer:
            attention(layer.self_attention, [3 * d, d])
            if side is spec.decoder:
                attention(layer.attention, [d, 2 * d, d])
            norm(layer.ffn.layer_norm)
            linear(layer.ffn.linear_0, ff, d)
            linear(layer.ffn.linear_1, d, ff)


class Decoder:
    def __init__(self, folder: Path, size: dict, vocab: int, precision: str, threads: int) -> None:
        self.translator = ctranslate2.Translator(
            str(make(folder, size, vocab, precision)),
            device="cpu",
            compute_type=NAMES[precision],
            inter_threads=threads,
            intra_threads=1,
        )

    def translate(self, batches, beam: int, length: int) -> list[list[str]]:
        jobs = [
            self.translator.translate_batch(
                [[*(f"t{i}" for i in ids), "</s>"] for ids in batch],
                beam_size=beam,
                min_decoding_length=length,
                max_decoding_length=length,
                max_batch_size=0,
                asynchronous=True,
            )
            for batch in batches
        ]
        return [one.result().hypotheses[0] for job in jobs for one in job]


def version() -> str:
    return f"ctranslate2 {ctranslate2.__version__}"
