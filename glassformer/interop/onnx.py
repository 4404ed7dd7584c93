"""Export a Transformer to ONNX: `encoder.onnx` and `decoder.onnx`, one decoding step with a cache, for onnxruntime.

encoder.onnx  tokens B×S (padded with 0)  →  mask B×1×1×S, cross_key_i and cross_value_i of each decoder layer B×H×S×E
decoder.onnx  tokens B×1, mask, cross_key_i, cross_value_i, past_key_i, past_value_i B×H×T×E (T = 0 at the first step)
              →  logits B×V, key_i, value_i B×H×(T+1)×E
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from glassformer.errors import import_optional
from glassformer.files import write_text
from glassformer.interop.onnx_graph import Graph
from glassformer.interop.translation_export import (
    Decode,
    Sample,
    TranslationRun,
    check,
    compare,
    load_translation_run,
    new_output,
)
from glassformer.text.special_tokens import EOS, PAD, SOS

SENTENCES = 50  # that are compared: each is decoded on its own, which is slow

README = """# {name} for ONNX Runtime

{description}. Exported in float32; {comparison}.
`encoder.onnx` runs once per sentence, `decoder.onnx` once per output token, with the keys and values of earlier tokens.

```python
import numpy as np, onnxruntime, tokenizers

encoder = onnxruntime.InferenceSession("{name}/encoder.onnx")
decoder = onnxruntime.InferenceSession("{name}/decoder.onnx")
tokenizer = tokenizers.Tokenizer.from_file("{name}/tokenizer.json")

source = tokenizer.encode("I am a student", add_special_tokens=False).ids + [{eos}]
names = [output.name for output in encoder.get_outputs()]
memory = dict(zip(names, encoder.run(None, {{"tokens": np.array([source])}})))
names = [f"past_{{part}}_{{i}}" for part in ("key", "value") for i in range({layers})]
past = {{name: np.zeros((1, {heads}, 0, {head_size}), np.float32) for name in names}}
output = [{sos}]
while output[-1] != {eos} and len(output) < 100:
    logits, *cache = decoder.run(None, {{"tokens": np.array([[output[-1]]])}} | memory | past)
    past = dict(zip(past, cache))
    output.append(int(logits[0].argmax()))
print(tokenizer.decode(output[1:-1]))
```

`pip install onnxruntime tokenizers numpy`
"""


def export_onnx(run: Path, out: Path) -> str:
    """Write a run as two ONNX models; return a description of the comparison with the run."""
    translation = load_translation_run(run, "ONNX")
    model = translation.model
    with new_output(out):
        out.mkdir(parents=True, exist_ok=True)
        _encoder(translation).save(out / "encoder.onnx")
        _decoder(translation).save(out / "decoder.onnx")
        comparison = check(
            compare(translation, decoder(translation, out), Sample.of(translation.run, SENTENCES)), out, quantized=False
        )
        write_text(out / "tokenizer.json", translation.run.tokenizer.to_json())
        text = README.format(
            name=out.name,
            description=model.describe(),
            comparison=comparison,
            sos=SOS,
            eos=EOS,
            heads=model.heads,
            head_size=model.d_model // model.heads,
            layers=model.decoder_layers,
        )
        write_text(out / "README.md", text)
    return str(comparison)


class Rotation(NamedTuple):
    """The names of the factors of rotary positions, T×E: of each entry, and of the other entry of its pair."""

    cosine: str
    sine: str


class _Layers:
    """Adds the layers of a run to a graph."""

    def __init__(self, graph: Graph, translation: TranslationRun) -> None:
        self.graph, self.translation, self.model = graph, translation, translation.model
        self.head_size = self.model.d_model // self.model.heads

    def embed(self, tokens: str, side: str, start: str, end: str) -> str:
        """Embedding · √d_model, plus the positional encoding of the positions from start to end."""
        g, arrays = self.graph, self.translation.arrays
        name = f"{side}_embedding.weight_VD"
        table = arrays.get(name, arrays["source_embedding.weight_VD"]) * np.float32(math.sqrt(self.model.d_model))
        embedding = g.op("Gather", g.constant(table), tokens)
        if self.model.positions == "rotary":
            return embedding
        return g.op("Add", embedding, self.rows(self.translation.position_table(side), start, end))

    def rows(self, table: np.ndarray, start: str, end: str) -> str:
        """The rows of a table from start to end."""
        g = self.graph
        return g.op("Slice", g.constant(table), start, end, g.integers(0))

    def rotation(self, start: str, end: str) -> Rotation | None:
        """Rotary positions from start to end; None with another positional encoding."""
        if self.model.positions != "rotary":
            return None
        sine, cosine = (np.repeat(self.translation.rotation_table()[:, part::2], 2, axis=1) for part in (0, 1))
        sine[:, 0::2] *= -1  # a pair (a, b) becomes (a·cos − b·sin, b·cos + a·sin)
        return Rotation(self.rows(cosine, start, end), self.rows(sine, start, end))

    def rotate(self, x: str, rotation: Rotation | None) -> str:
        """Rotate the pairs of neighbouring entries of queries or keys. B×H×T×E."""
        if rotation is None:
            return x
        g, swapped = self.graph, np.arange(self.head_size) ^ 1  # 1, 0, 3, 2, …
        other = g.op("Gather", x, g.integers(*swapped), axis=3)
        return g.op("Add", g.op("Mul", x, rotation.cosine), g.op("Mul", other, rotation.sine))

    def linear(self, x: str, name: str) -> str:
        g, arrays = self.graph, self.translation.arrays
        product = g.op("MatMul", x, g.constant(arrays[f"{name}.weight"].T))
        return g.op("Add", product, g.constant(arrays[f"{name}.bias"]))

    def norm(self, x: str, name: str) -> str:
        g, arrays = self.graph, self.translation.arrays
        weights = (g.constant(arrays[f"{name}.{part}"]) for part in ("weight", "bias"))
        return g.op("LayerNormalization", x, *weights, epsilon=1e-5)

    def split_heads(self, x: str) -> str:
        """B×T×D → B×H×T×E."""
        shape = self.graph.integers(0, 0, self.model.heads, self.head_size)
        return self.graph.op("Transpose", self.graph.op("Reshape", x, shape), perm=[0, 2, 1, 3])

    def attend(self, query: str, key: str, value: str, mask: str | None, output: str) -> str:
        """Concat(softmax(Q·Kᵀ/√d_k + mask)·V)·W_O."""
        g = self.graph
        scale = g.constant(np.array(self.head_size**-0.5, np.float32))
        scores = g.op("MatMul", g.op("Mul", query, scale), g.op("Transpose", key, perm=[0, 1, 3, 2]))
        if mask is not None:
            scores = g.op("Add", scores, mask)
        heads = g.op("MatMul", g.op("Softmax", scores, axis=-1), value)
        merged = g.op("Reshape", g.op("Transpose", heads, perm=[0, 2, 1, 3]), g.integers(0, 0, self.model.d_model))
        return self.linear(merged, output)

    def query_key_value(self, x: str, name: str, rotation: Rotation | None) -> tuple[str, str, str]:
        """The queries, keys and values of self-attention, B×H×T×E each."""
        parts = self.graph.ops("Split", self.linear(x, name), count=3, axis=2)
        query, key, value = (self.split_heads(part) for part in parts)
        return self.rotate(query, rotation), self.rotate(key, rotation), value

    def feed_forward(self, x: str, at: str) -> str:
        """The feed-forward network of a layer, inside Add & Norm."""

        def network(x: str) -> str:
            hidden = self.graph.activation(self.linear(x, f"{at}.feed_forward.expand"), self.model.activation)
            return self.linear(hidden, f"{at}.feed_forward.contract")

        return self.add_norm(x, f"{at}.feed_forward_residual.norm", network)

    def add_norm(self, x: str, norm: str, sub_layer: Callable[[str], str]) -> str:
        """Add & Norm around a sub-layer, post-norm or pre-norm."""
        if self.model.norm == "pre":
            return self.graph.op("Add", x, sub_layer(self.norm(x, norm)))
        return self.norm(self.graph.op("Add", x, sub_layer(x)), norm)

    def final_norm(self, x: str, name: str) -> str:
        return self.norm(x, name) if self.model.norm == "pre" else x


def _encoder(translation: TranslationRun) -> Graph:
    graph = Graph("encoder")
    layers, model = _Layers(graph, translation), translation.model
    tokens = graph.input("tokens", np.int64, "batch", "source")
    real = graph.op("Not", graph.op("Equal", tokens, graph.constant(np.array(PAD, np.int64))))
    zero, hidden = (graph.constant(np.array(value, np.float32)) for value in (0, -1e9))
    mask = graph.op("Unsqueeze", graph.op("Where", real, zero, hidden), graph.integers(1, 2))
    places = graph.integers(0), graph.size(tokens, 1)
    x, rotation = layers.embed(tokens, "source", *places), layers.rotation(*places)
    for i in range(model.encoder_layers):
        at = f"encoder.{i}"

        def self_attention(x: str, at: str = at) -> str:
            query, key, value = layers.query_key_value(x, f"{at}.self_attention.query_key_value", rotation)
            return layers.attend(query, key, value, mask, f"{at}.self_attention.output")

        x = layers.add_norm(x, f"{at}.self_residual.norm", self_attention)
        x = layers.feed_forward(x, at)
    memory = layers.final_norm(x, "encoder_norm")
    graph.output("mask", mask, "batch", 1, 1, "source")
    for i in range(model.decoder_layers):
        both = graph.ops("Split", layers.linear(memory, f"decoder.{i}.cross_attention.key_value"), count=2, axis=2)
        for part, values in zip(("key", "value"), both, strict=True):
            graph.output(
                f"cross_{part}_{i}", layers.split_heads(values), "batch", model.heads, "source", layers.head_size
            )
    return graph


def _decoder(translation: TranslationRun) -> Graph:
    graph = Graph("decoder")
    layers, model = _Layers(graph, translation), translation.model
    tokens = graph.input("tokens", np.int64, "batch", 1)
    mask = graph.input("mask", np.float32, "batch", 1, 1, "source")

    def cached(name: str, length: str) -> str:
        return graph.input(name, np.float32, "batch", model.heads, length, layers.head_size)

    start = graph.size(cached("past_key_0", "past"), 2)
    places = start, graph.op("Add", start, graph.integers(1))
    x, rotation = layers.embed(tokens, "target", *places), layers.rotation(*places)
    present: dict[str, str] = {}
    for i in range(model.decoder_layers):
        at = f"decoder.{i}"
        past = ["past_key_0" if i == 0 else cached(f"past_key_{i}", "past"), cached(f"past_value_{i}", "past")]
        cross = [cached(f"cross_{part}_{i}", "source") for part in ("key", "value")]

        def self_attention(x: str, at: str = at, i: int = i, past: list[str] = past) -> str:
            query, key, value = layers.query_key_value(x, f"{at}.self_attention.query_key_value", rotation)
            for part, before, new in zip(("key", "value"), past, (key, value), strict=True):
                present[f"{part}_{i}"] = graph.op("Concat", before, new, axis=2)
            return layers.attend(query, present[f"key_{i}"], present[f"value_{i}"], None, f"{at}.self_attention.output")

        def cross_attention(x: str, at: str = at, cross: list[str] = cross) -> str:
            query = layers.split_heads(layers.linear(x, f"{at}.cross_attention.query"))
            return layers.attend(query, cross[0], cross[1], mask, f"{at}.cross_attention.output")

        x = layers.add_norm(x, f"{at}.self_residual.norm", self_attention)
        x = layers.add_norm(x, f"{at}.cross_residual.norm", cross_attention)
        x = layers.feed_forward(x, at)
    graph.output(
        "logits", _logits(graph, layers, layers.final_norm(x, "decoder_norm")), "batch", len(translation.tokens)
    )
    for part in ("key", "value"):
        for i in range(model.decoder_layers):
            graph.output(f"{part}_{i}", present[f"{part}_{i}"], "batch", model.heads, "length", layers.head_size)
    return graph


def _logits(graph: Graph, layers: _Layers, x: str) -> str:
    arrays = layers.translation.arrays
    weight = arrays.get("output.weight_VD", arrays["source_embedding.weight_VD"])
    logits = graph.op("MatMul", graph.op("Squeeze", x, graph.integers(1)), graph.constant(weight.T))
    return graph.op("Add", logits, graph.constant(arrays["output.bias_V"])) if layers.model.output_bias else logits


def decoder(translation: TranslationRun, folder: Path) -> Decode:
    """Return a function that decodes with ONNX Runtime: greedy, or a plain beam search without length penalty."""
    onnxruntime = import_optional("onnxruntime", extra="onnx", use="This export")
    encoder, step = (onnxruntime.InferenceSession(str(folder / f"{name}.onnx")) for name in ("encoder", "decoder"))
    return _OnnxDecoder(translation, encoder, step).decode


class _OnnxDecoder:
    def __init__(self, translation: TranslationRun, encoder: Any, step: Any) -> None:
        self.model, self.encoder, self.step = translation.model, encoder, step
        self.outputs = [output.name for output in encoder.get_outputs()]
        self.cached = [f"past_{part}_{i}" for part in ("key", "value") for i in range(self.model.decoder_layers)]

    def decode(self, sources: list[list[int]], beam: int, max_length: int) -> list[list[int]]:
        return [self._decode(source, beam, max_length) for source in sources]

    def _decode(self, source: list[int], beam: int, max_length: int) -> list[int]:
        memory = dict(zip(self.outputs, self.encoder.run(None, {"tokens": np.array([source])}), strict=True))
        empty = np.zeros((1, self.model.heads, 0, self.model.d_model // self.model.heads), np.float32)
        past = dict.fromkeys(self.cached, empty)
        rows, scores = [[SOS]], np.zeros(1)
        finished: list[tuple[float, list[int]]] = []
        for _ in range(max_length):
            inputs = {name: np.repeat(values, len(rows), axis=0) for name, values in memory.items()}
            last = np.array([[row[-1]] for row in rows])
            logits, *cache = self.step.run(None, {"tokens": last} | inputs | past)
            total = scores[:, None] + _log_softmax(logits)
            best = np.argsort(-total, axis=None, kind="stable")[: 2 * beam]
            alive: list[tuple[int, int, float]] = []
            for rank, (parent, token) in enumerate(zip(*np.unravel_index(best, total.shape), strict=True)):
                if token == EOS and rank < beam:
                    finished.append((float(total[parent, token]), rows[parent][1:]))
                elif token != EOS and len(alive) < beam:
                    alive.append((int(parent), int(token), float(total[parent, token])))
            parents = [parent for parent, _, _ in alive]
            rows = [[*rows[parent], token] for parent, token, _ in alive]
            scores = np.array([score for _, _, score in alive])
            past = {name: values[parents] for name, values in zip(self.cached, cache, strict=True)}
            if finished and max(finished)[0] >= scores.max():
                return max(finished)[1]
        return rows[0][1:]


def _log_softmax(logits: np.ndarray) -> np.ndarray:
    shifted = logits.astype(np.float64) - logits.max(axis=-1, keepdims=True)
    result: np.ndarray = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return result
