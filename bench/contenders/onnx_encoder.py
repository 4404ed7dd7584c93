"""The encoder in onnxruntime: fp32, or int8 by its dynamic quantization."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import common
import numpy as np
import onnxruntime


def make(folder: Path, precision: str) -> Path:
    """Return the model file, which is made once."""
    path = folder / f"onnxruntime-{precision}.onnx"
    if path.exists():
        return path
    unfinished = path.with_suffix(f".{os.getpid()}")
    if precision == "int8":
        from onnx import TensorProto
        from onnxruntime.quantization import QuantType, quantize_dynamic

        quantize_dynamic(
            make(folder, "fp32"),
            unfinished,
            op_types_to_quantize=["MatMul", "Attention"],
            per_channel=True,
            weight_type=QuantType.QInt8,
            extra_options={"DefaultTensorType": TensorProto.FLOAT},  # of results of onnxruntime's own operators
        )
    else:
        from onnx_graph import write_encoder

        write_encoder(folder / "glassformer", unfinished, fused=True)
    unfinished.rename(path)
    return path


class Encoder:
    """Uses the faster of two setups: one batch at a time on all cores, or one single-threaded batch per core."""

    def __init__(self, folder: Path, precision: str, threads: int) -> None:
        self.path, self.threads = make(folder, precision), threads
        self._set_up(1)

    def prepare(self, batches: list[list[list[int]]]) -> list[np.ndarray]:
        return [np.array(common.pad(batch), np.int64) for batch in batches]

    def warm_up(self, prepared: list[np.ndarray]) -> None:
        def try_out(at_a_time: int) -> None:
            self._set_up(at_a_time)
            self.encode(prepared)

        self._set_up(common.fastest((1, self.threads), try_out))
        self.encode(prepared)

    def encode(self, prepared: list[np.ndarray]) -> list[np.ndarray]:
        return list(self.pool.map(lambda tokens: self.session.run(None, {"tokens": tokens})[0], prepared))

    def first_tokens(self, batch: list[list[int]], hidden: np.ndarray) -> list[list[float]]:
        return hidden[:, 0].tolist()

    def _set_up(self, at_a_time: int) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self.threads // at_a_time
        self.session = onnxruntime.InferenceSession(self.path, options, providers=["CPUExecutionProvider"])
        self.pool = ThreadPoolExecutor(at_a_time)


def version() -> str:
    return f"onnxruntime {onnxruntime.__version__}"
