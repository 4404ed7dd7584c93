"""The encoder in OpenVINO: fp32, or int8 with static scales (post-training quantization by NNCF, its own tool)."""

from __future__ import annotations

import os
from pathlib import Path

import common
import numpy as np
import openvino

CALIBRATION = 128  # sentences of the training set


def make(folder: Path, precision: str) -> Path:
    """Return the model file, which is made once."""
    path = folder / f"openvino-{precision}.xml"
    if path.exists():
        return path
    if precision == "int8":
        model = _quantized(openvino.Core().read_model(make(folder, "fp32")), folder)
    else:
        from onnx_graph import write_encoder

        exported = folder / "openvino.onnx"
        write_encoder(folder / "glassformer", exported, fused=False)
        model = openvino.convert_model(exported)
        exported.unlink()
    unfinished = folder / f"openvino-{precision}-{os.getpid()}.xml"
    openvino.save_model(model, unfinished, compress_to_fp16=False)
    unfinished.with_suffix(".bin").rename(path.with_suffix(".bin"))
    unfinished.rename(path)
    return path


def _quantized(model: openvino.Model, folder: Path) -> openvino.Model:
    import nncf

    sources = [[*source, common.EOS] for source, _ in common.load(folder, "train")[:CALIBRATION]]
    samples = nncf.Dataset([np.array([source], np.int64) for source in sources])
    return nncf.quantize(model, samples, model_type=nncf.ModelType.TRANSFORMER, subset_size=CALIBRATION)


class Encoder:
    """Uses the faster of two setups: one batch at a time on all cores, or one single-threaded batch per core."""

    def __init__(self, folder: Path, precision: str, threads: int) -> None:
        self.core, self.path, self.threads = openvino.Core(), make(folder, precision), threads
        self._set_up(1)

    def prepare(self, batches: list[list[list[int]]]) -> list[np.ndarray]:
        return [np.array(common.pad(batch), np.int64) for batch in batches]

    def warm_up(self, prepared: list[np.ndarray]) -> None:
        def try_out(streams: int) -> None:
            if streams != self.streams:
                self._set_up(streams)
            self.encode(prepared)

        self._set_up(common.fastest((1, self.threads), try_out))
        self.encode(prepared)

    def encode(self, prepared: list[np.ndarray]) -> list[np.ndarray]:
        found: list[np.ndarray] = [np.empty(0)] * len(prepared)

        def keep(request, number: int) -> None:
            found[number] = request.get_output_tensor().data.copy()

        self.queue.set_callback(keep)
        for number, tokens in enumerate(prepared):
            self.queue.start_async({0: tokens}, number)
        self.queue.wait_all()
        return found

    def first_tokens(self, batch: list[list[int]], hidden: np.ndarray) -> list[list[float]]:
        return hidden[:, 0].tolist()

    def _set_up(self, streams: int) -> None:
        options = {
            "NUM_STREAMS": streams,
            "INFERENCE_NUM_THREADS": self.threads,
            "INFERENCE_PRECISION_HINT": "f32",  # by default bf16, on CPUs that have it
        }
        self.streams = streams
        self.queue = openvino.AsyncInferQueue(self.core.compile_model(self.path, "CPU", options), streams)


def version() -> str:
    return f"openvino {openvino.__version__.split('-')[0]}"
