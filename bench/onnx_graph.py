"""The encoder of a run folder as an ONNX model: input `tokens` (B×S, padded with 0), output `hidden` (B×S×D)."""

from __future__ import annotations

import math
from pathlib import Path

import common
import numpy as np
import onnx
import run_files
from onnx import TensorProto, helper, numpy_helper

OPSET, CONTRIB = 17, "com.microsoft"
EPSILON = 1e-5
MASKED = -1e9


class Graph:
    """Nodes and constants of a model in construction. Methods return the names of results."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, values: np.ndarray) -> str:
        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def op(self, kind: str, *inputs: str, domain: str = "", **attributes) -> str:
        return self.ops(kind, *inputs, count=1, domain=domain, **attributes)[0]

    def ops(self, kind: str, *inputs: str, count: int, domain: str = "", **attributes) -> list[str]:
        outputs = [f"{kind}_{len(self.nodes)}_{i}" for i in range(count)]
        name = f"{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), outputs, name=name, domain=domain, **attributes))
        return outputs

    def integers(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))


def write_encoder(run: Path, path: Path, *, fused: bool) -> None:
    """Write the encoder of a run.

    Args:
        fused: use the operators of onnxruntime for attention and Add & Norm, which its optimizer would put in.
    """
    settings, tensors = run_files.model_settings(run), run_files.weights(run)
    assert (settings["norm"], settings["activation"]) == ("post", "relu")
    graph = Graph()
    embedding = tensors["source_embedding.weight_VD"] * np.float32(math.sqrt(settings["d_model"]))
    length = graph.op("Slice", graph.op("Shape", "tokens"), graph.integers(1), graph.integers(2))
    table = graph.constant(run_files.position_table(settings, tensors, "source"))
    positions = graph.op("Slice", table, graph.integers(0), length, graph.integers(0))
    x = graph.op("Add", graph.op("Gather", graph.constant(embedding), "tokens"), positions)
    layer = _fused_layer if fused else _plain_layer
    mask = _lengths(graph) if fused else _additive_mask(graph)
    for i in range(settings["encoder_layers"]):
        x = layer(graph, x, mask, _Layer(graph, tensors, f"encoder.{i}"), settings["heads"], settings["d_model"])
    graph.nodes.append(helper.make_node("Identity", [x], ["hidden"]))
    made = helper.make_graph(
        graph.nodes,
        "encoder",
        [helper.make_tensor_value_info("tokens", TensorProto.INT64, ["batch", "length"])],
        [helper.make_tensor_value_info("hidden", TensorProto.FLOAT, ["batch", "length", settings["d_model"]])],
        graph.constants,
    )
    opsets = [helper.make_opsetid("", OPSET), *([helper.make_opsetid(CONTRIB, 1)] if fused else [])]
    onnx.save(helper.make_model(made, opset_imports=opsets, ir_version=9), path)


class _Layer:
    """The constants of one encoder layer."""

    def __init__(self, graph: Graph, tensors: dict[str, np.ndarray], prefix: str) -> None:
        self.graph, self.tensors, self.prefix = graph, tensors, prefix

    def weight(self, name: str) -> str:
        return self.graph.constant(self.tensors[f"{self.prefix}.{name}.weight"].T)

    def vector(self, name: str) -> str:
        return self.graph.constant(self.tensors[f"{self.prefix}.{name}"])


def _real(graph: Graph) -> str:
    return graph.op("Not", graph.op("Equal", "tokens", graph.constant(np.array(common.PAD, np.int64))))


def _lengths(graph: Graph) -> str:
    real = graph.op("Cast", _real(graph), to=TensorProto.INT32)
    return graph.op("ReduceSum", real, graph.integers(1), keepdims=0)


def _additive_mask(graph: Graph) -> str:
    zero, masked = (graph.constant(np.array(value, np.float32)) for value in (0, MASKED))
    return graph.op("Unsqueeze", graph.op("Where", _real(graph), zero, masked), graph.integers(1, 2))


def _fused_layer(graph: Graph, x: str, mask: str, layer: _Layer, heads: int, d_model: int) -> str:
    def add_norm(y: str, bias: str, norm: str) -> str:
        inputs = (y, x, layer.vector(f"{norm}.weight"), layer.vector(f"{norm}.bias"), layer.vector(bias))
        return graph.op("SkipLayerNormalization", *inputs, domain=CONTRIB, epsilon=EPSILON)

    packed = "self_attention.query_key_value"
    inputs = (x, layer.weight(packed), layer.vector(f"{packed}.bias"), mask)
    attended = graph.op("Attention", *inputs, domain=CONTRIB, num_heads=heads)
    output = graph.op("MatMul", attended, layer.weight("self_attention.output"))
    x = add_norm(output, "self_attention.output.bias", "self_residual.norm")
    output = graph.op("MatMul", _expanded(graph, x, layer), layer.weight("feed_forward.contract"))
    return add_norm(output, "feed_forward.contract.bias", "feed_forward_residual.norm")


def _expanded(graph: Graph, x: str, layer: _Layer) -> str:
    hidden = graph.op("MatMul", x, layer.weight("feed_forward.expand"))
    return graph.op("Relu", graph.op("Add", hidden, layer.vector("feed_forward.expand.bias")))


def _plain_layer(graph: Graph, x: str, mask: str, layer: _Layer, heads: int, d_model: int) -> str:
    def linear(x: str, name: str) -> str:
        return graph.op("Add", graph.op("MatMul", x, layer.weight(name)), layer.vector(f"{name}.bias"))

    def add_norm(x: str, y: str, norm: str) -> str:
        inputs = (graph.op("Add", x, y), layer.vector(f"{norm}.weight"), layer.vector(f"{norm}.bias"))
        return graph.op("LayerNormalization", *inputs, epsilon=EPSILON)

    split = graph.integers(0, 0, heads, d_model // heads)
    parts = graph.ops("Split", linear(x, "self_attention.query_key_value"), count=3, axis=2)
    query, key, value = (
        graph.op("Transpose", graph.op("Reshape", part, split), perm=order)
        for part, order in zip(parts, ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]), strict=True)
    )
    scale = graph.constant(np.array((d_model // heads) ** -0.5, np.float32))
    scores = graph.op("Add", graph.op("MatMul", graph.op("Mul", query, scale), key), mask)
    heads_output = graph.op("MatMul", graph.op("Softmax", scores, axis=-1), value)
    merged = graph.op("Reshape", graph.op("Transpose", heads_output, perm=[0, 2, 1, 3]), graph.integers(0, 0, d_model))
    x = add_norm(x, linear(merged, "self_attention.output"), "self_residual.norm")
    output = graph.op("MatMul", _expanded(graph, x, layer), layer.weight("feed_forward.contract"))
    output = graph.op("Add", output, layer.vector("feed_forward.contract.bias"))
    return add_norm(x, output, "feed_forward_residual.norm")
