"""A small builder of ONNX graphs: constants, operators, inputs and outputs by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from glassformer.errors import import_optional

OPSET, IR_VERSION = 17, 9


class Graph:
    """An ONNX graph in construction. Methods return the names of values."""

    def __init__(self, name: str) -> None:
        self._onnx, self.name = import_optional("onnx", extra="onnx", use="This export"), name
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []

    def constant(self, values: np.ndarray) -> str:
        name = f"constant_{len(self._constants)}"
        self._constants.append(self._onnx.numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def integers(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        return self.ops(kind, *inputs, count=1, **attributes)[0]

    def ops(self, kind: str, *inputs: str, count: int, **attributes: Any) -> list[str]:
        """Add an operator with several results."""
        outputs = [f"{kind}_{len(self._nodes)}_{i}" for i in range(count)]
        name = f"{kind}_{len(self._nodes)}"
        self._nodes.append(self._onnx.helper.make_node(kind, list(inputs), outputs, name=name, **attributes))
        return outputs

    def size(self, x: str, axis: int) -> str:
        """The size of one axis, as a vector of one integer."""
        return self.op("Slice", self.op("Shape", x), self.integers(axis), self.integers(axis + 1))

    def activation(self, x: str, name: str) -> str:
        """The activation of a feed-forward network, by the name of `model.activation`."""
        match name:
            case "relu":
                return self.op("Relu", x)
            case "swish":
                return self.op("Mul", x, self.op("Sigmoid", x))
            case "gelu":
                half, root = (self.constant(np.array(value, np.float32)) for value in (0.5, 2**-0.5))
                erf = self.op("Erf", self.op("Mul", x, root))
                one = self.constant(np.array(1, np.float32))
                return self.op("Mul", self.op("Mul", x, half), self.op("Add", erf, one))
            case _:
                return self._gelu_tanh(x)

    def _gelu_tanh(self, x: str) -> str:
        half, one, scale, cubic = (
            self.constant(np.array(value, np.float32)) for value in (0.5, 1.0, (2 / np.pi) ** 0.5, 0.044715)
        )
        cube = self.op("Mul", self.op("Mul", x, x), self.op("Mul", x, cubic))
        tanh = self.op("Tanh", self.op("Mul", self.op("Add", x, cube), scale))
        return self.op("Mul", self.op("Mul", x, half), self.op("Add", tanh, one))

    def input(self, name: str, dtype: Any, *shape: str | int) -> str:
        self._inputs.append(self._value(name, dtype, shape))
        return name

    def output(self, name: str, value: str, *shape: str | int) -> None:
        self._nodes.append(self._onnx.helper.make_node("Identity", [value], [name]))
        self._outputs.append(self._value(name, np.float32, shape))

    def save(self, path: Path) -> None:
        helper = self._onnx.helper
        graph = helper.make_graph(self._nodes, self.name, self._inputs, self._outputs, self._constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
        self._onnx.checker.check_model(model)
        self._onnx.save(model, path)

    def _value(self, name: str, dtype: Any, shape: tuple[str | int, ...]) -> Any:
        kind = self._onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return self._onnx.helper.make_tensor_value_info(name, kind, list(shape))
