"""A run's weights in the native engine: which runs it supports, packing, and the cached int8 copy."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
from array import array
from collections.abc import Callable, Mapping, Sequence
from ctypes import byref, c_double, c_float, c_int32, c_void_p
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.decoding import Hypothesis
from glassformer.engine import build
from glassformer.engine.library import (
    ACTIVATIONS,
    BAD_ARGUMENT,
    FP32,
    INT8,
    MAX_TOKENS,
    POSITIONS,
    SearchOptions,
    Shape,
    Unsupported,
    check,
    library,
)
from glassformer.engine.safetensors import WeightFile
from glassformer.errors import UserError
from glassformer.files import cache_folder

if TYPE_CHECKING:
    from glassformer.settings import BertSettings, GPTSettings, TransformerSettings

# Names of the engine's tensors (csrc/model.c) that differ from those of a run folder.
NAMES = {
    "transformer": {
        "source_embedding": "source_embedding.weight_VD",
        "target_embedding": "target_embedding.weight_VD",
        "output": "output.weight_VD",
        "output_bias": "output.bias_V",
        "source_positions": "source_positions.positions.weight_TD",
        "target_positions": "target_positions.positions.weight_TD",
    },
    "gpt": {
        "target_embedding": "embedding.weight_VD",
        "output": "output.weight_VD",
        "output_bias": "output.bias_V",
        "target_positions": "positions.positions.weight_TD",
    },
    "bert": {
        "source_embedding": "tokens.weight_VD",
        "segments": "segments.weight_VD",
        "source_positions": "positions.positions.weight_TD",
    },
}
PREFIXES = {"bert": "encoder."}  # a BERT is the encoder of a head


def unsupported(model: Any) -> str | None:
    """Return why the settings of a model cannot run in the engine; None if they can."""
    if model.family not in NAMES:
        return f"model.family={model.family} runs in PyTorch"
    if model.family == "transformer":
        if model.ablations:
            return "model.ablations runs in PyTorch"
        if model.positions != "none" and model.combine_positions != "add":
            return f"model.combine_positions={model.combine_positions} runs in PyTorch"
    return None


def shape_of(model: Any, vocab: int, precision: str) -> Shape:
    """Translate the settings of a model into the shape that the engine builds.

    Raises:
        Unsupported: if a size exceeds 32 bits.
    """
    if any(isinstance(value, int) and value >= 2**31 for value in model.model_dump().values()):
        raise Unsupported("a size exceeds 32 bits")
    shape = Shape(
        vocab=vocab,
        d_model=model.d_model,
        heads=model.heads,
        d_ff=model.d_ff,
        activation=ACTIVATIONS[model.activation],
        precision=INT8 if precision == "int8" else FP32,
    )
    match model.family:
        case "gpt":
            _gpt(shape, model)
        case "bert":
            _bert(shape, model)
        case _:
            _transformer(shape, model)
    return shape


def _transformer(shape: Shape, model: TransformerSettings) -> None:
    shape.encoder_layers, shape.decoder_layers = model.encoder_layers, model.decoder_layers
    shape.pre_norm, shape.norm_epsilon = model.norm == "pre", 1e-5
    shape.positions, shape.scaled_embedding = POSITIONS[model.positions], True
    shape.max_positions = model.max_positions if model.positions == "learned" else 0
    shape.tied, shape.output_bias = model.tie_embeddings, model.output_bias


def _gpt(shape: Shape, model: GPTSettings) -> None:
    shape.decoder_layers = model.layers
    shape.pre_norm, shape.norm_epsilon = True, model.norm_epsilon
    shape.positions, shape.max_positions = POSITIONS[model.positions], model.max_positions
    shape.tied, shape.output_bias = model.tie_embeddings, model.output_bias


def _bert(shape: Shape, model: BertSettings) -> None:
    shape.encoder_layers = model.layers
    shape.pre_norm, shape.norm_epsilon = False, model.norm_epsilon
    shape.positions, shape.max_positions = POSITIONS[model.positions], model.max_positions
    shape.segments, shape.input_norm = model.segments, True


class NativeModel:
    """The packed weights of a model. Threads may share it; each needs a `Worker` of its own."""

    def __init__(self, handle: c_void_p) -> None:
        self._handle = handle
        self.shape = Shape()
        library().gf_model_settings(handle, byref(self.shape))

    @classmethod
    def load(cls, weights: Path, model: Any, vocab: int, precision: str) -> NativeModel:
        """Load the weights of a run. The int8 copy is written to the cache folder and mapped from there next time.

        Raises:
            Unavailable: if the engine cannot run this model, with the reason.
        """
        if reason := unsupported(model):
            raise Unsupported(reason)
        library()
        shape = shape_of(model, vocab, precision)
        check_sizes(WeightFile(weights).shapes, model, shape)
        if precision != "int8":
            return cls._pack(weights, model.family, shape)
        try:
            copy = _cached_copy(weights, shape)
        except RuntimeError:  # no cache folder: HOME is not set and the system does not know the user
            return cls._pack(weights, model.family, shape)
        with contextlib.suppress(ValueError, OSError):  # absent, damaged or unreadable: it is written again
            return cls.open(copy)
        packed = cls._pack(weights, model.family, shape)
        with contextlib.suppress(OSError):  # a read-only or full cache folder only costs time
            packed.save(copy)
            for old in copy.parent.glob(copy.name.split("-")[0] + "-*"):  # earlier weights of the same run
                if old != copy:
                    old.unlink(missing_ok=True)
        return packed

    @classmethod
    def open(cls, path: Path) -> NativeModel:
        """Map a packed file."""
        if not path.is_file():
            raise FileNotFoundError(path)
        handle = c_void_p()
        check(library().gf_model_open(os.fsencode(path), byref(handle)))
        return cls(handle)

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Any], model: Any, vocab: int, precision: str) -> NativeModel:
        """Pack the weights of a PyTorch model on the CPU, by name.

        Raises:
            Unavailable: if the engine cannot run this model, with the reason.
        """
        if reason := unsupported(model):
            raise Unsupported(reason)
        library()
        kept = {name: tensor.float().contiguous() for name, tensor in tensors.items()}  # alive until they are packed

        def find(name: str, sizes: tuple[int, ...]) -> int | None:
            return kept[name].data_ptr() if name in kept and tuple(kept[name].shape) == sizes else None

        return cls._fill(shape_of(model, vocab, precision), model.family, find, where="model")

    @classmethod
    def _pack(cls, path: Path, family: str, shape: Shape) -> NativeModel:
        file = WeightFile(path)

        def find(name: str, sizes: tuple[int, ...]) -> Any:
            file.release()
            return file.floats(name) if file.shapes.get(name) == sizes else None

        return cls._fill(shape, family, find, len(file.shapes), where=str(path))

    @classmethod
    def _fill(
        cls,
        shape: Shape,
        family: str,
        find: Callable[[str, tuple[int, ...]], Any],
        count: int | None = None,
        *,
        where: str,
    ) -> NativeModel:
        """Pack every tensor; `find` returns the address of one by its name in the run and its shape.

        A file must contain exactly `count` tensors.
        """
        native, names, handle = library(), NAMES[family], c_void_p()
        code = native.gf_model_new(byref(shape), byref(handle))
        if code == BAD_ARGUMENT:
            raise Unsupported("a size or ε is beyond the limits of the native engine")
        check(code)
        model = cls(handle)
        index = 0
        while name := native.gf_tensor_name(handle, index):
            ours = PREFIXES.get(family, "") + names.get(name.decode(), name.decode())
            rows, size = native.gf_tensor_rows(handle, index), native.gf_tensor_size(handle, index)
            is_vector = ours.endswith(("bias", "norm.weight", "bias_V"))
            address = find(ours, (size,) if is_vector else (rows, size // rows))
            if address is None:
                raise _misfit(ours, where)
            if native.gf_model_set(handle, index, address) < 0:
                raise UserError(
                    f"The weights are damaged: {ours} contains NaN or infinity.",
                    where=where,
                    hint="copy the file again, or train with a lower train.lr",
                )
            index += 1
        if count is not None and count != index and family not in PREFIXES:
            raise _misfit("it has other tensors", where)
        check(native.gf_model_finish(handle))
        return model

    def save(self, path: Path) -> None:
        """Write a packed file, which appears when it is complete."""
        with build.replacing(path) as unfinished:
            if library().gf_model_save(self._handle, os.fsencode(unfinished)) < 0:
                raise OSError(f"{path} could not be written")

    @property
    def nbytes(self) -> int:
        """The size of the packed weights in bytes."""
        return int(library().gf_model_bytes(self._handle))

    def __del__(self) -> None:
        if handle := getattr(self, "_handle", None):
            library().gf_model_free(handle)


def _misfit(what: str, where: str) -> UserError:
    return UserError(
        f"The weights do not fit the model of run.toml: {what}.",
        where=where,
        hint="keep the files of one run together",
    )


def check_sizes(shapes: Mapping[str, tuple[int, ...]], model: Any, shape: Shape) -> None:
    """Refuse settings that the weights do not have, before memory is allocated for them.

    Raises:
        Unsupported: the loader of PyTorch says what is wrong.
    """
    prefix, names = PREFIXES.get(model.family, ""), NAMES[model.family]
    stack = "decoder" if shape.decoder_layers else "encoder"
    expected: dict[str, tuple[int, ...]] = {
        names["source_embedding" if shape.encoder_layers else "target_embedding"]: (shape.vocab, model.d_model),
        f"{stack}.0.feed_forward.expand.weight": (model.d_ff, model.d_model),
    }
    if shape.positions == POSITIONS["learned"]:
        table = names["source_positions" if shape.encoder_layers else "target_positions"]
        expected[table] = (model.max_positions, model.d_model)
    for layers, part in ((shape.encoder_layers, "encoder"), (shape.decoder_layers, "decoder")):
        if layers:
            expected[f"{part}.{layers - 1}.self_residual.norm.weight"] = (model.d_model,)
    if any(shapes.get(prefix + name) != sizes for name, sizes in expected.items()):
        raise Unsupported("the weights do not fit the model of run.toml")


def _cached_copy(weights: Path, shape: Shape) -> Path:
    """Return the path of the packed copy of a weight file, named by its path, state and shape and the engine's sources.

    `cp -p` and `tar` set the modification time of a file, and its inode may be that of a deleted one. They cannot set
    the time of its last change (ctime).
    """
    status = weights.stat()
    where = hashlib.sha256(os.fsencode(weights.resolve())).hexdigest()[:16]
    numbers = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    state = f"{numbers} {build.fingerprint()}".encode() + bytes(shape)
    return cache_folder() / "engine" / f"{where}-{hashlib.sha256(state).hexdigest()[:16]}.packed"


class Worker:
    """The memory of one thread that runs a model."""

    def __init__(self, model: NativeModel) -> None:
        self.model = model
        self._handle = c_void_p()
        check(library().gf_worker_new(model._handle, byref(self._handle)))

    def translate(
        self,
        sources: Sequence[Sequence[int]],
        options: SearchOptions,
        limits: Sequence[int],
        *,
        rolls: Sequence[Sequence[float]] | None = None,
        shortlist: Sequence[int] = (),
    ) -> list[list[Hypothesis]]:
        """Translate sentences; return the hypotheses of each, best first.

        Args:
            sources: token ids, with `<eos>`.
            limits: the maximum number of tokens of each output, up to `MAX_TOKENS`.
            rolls: for sampling, `max(limits)` numbers in [0, 1) per sentence.
            shortlist: sorted token ids that may be written; all if empty.
        """
        count, beam, capacity = len(sources), options.beam, max(limits)
        if not 1 <= min(limits) <= capacity <= MAX_TOKENS:
            raise ValueError(f"an output has from 1 to {MAX_TOKENS} tokens")
        if len(limits) != count or (rolls is not None and [len(row) for row in rolls] != [capacity] * count):
            raise ValueError("each sentence needs a limit, and as many rolls as the highest limit")
        tokens = (c_int32 * (count * beam * capacity))()
        lengths, finished = (c_int32 * (count * beam))(), (c_int32 * (count * beam))()
        log_probabilities, scores = (c_double * (count * beam))(), (c_double * (count * beam))()
        check(
            library().gf_translate(
                self._handle,
                byref(options),
                count,
                int_array([token for source in sources for token in source]),
                int_array([len(source) for source in sources]),
                int_array(limits),
                None if rolls is None else (c_double * (count * capacity))(*(x for row in rolls for x in row)),
                int_array(shortlist) if shortlist else None,
                len(shortlist),
                capacity,
                tokens,
                lengths,
                log_probabilities,
                scores,
                finished,
            )
        )
        rows = (tokens, lengths, log_probabilities, scores, finished)
        return [hypotheses(range(i, i + beam), capacity, *rows) for i in range(0, count * beam, beam)]

    def encode(self, sources: Sequence[Sequence[int]], segments: Sequence[Sequence[int]] | None = None) -> Any:
        """Run the encoder; return the hidden states of all tokens, one after the other, as a flat array of floats."""
        total = sum(map(len, sources))
        if segments is not None and list(map(len, segments)) != list(map(len, sources)):
            raise ValueError("each token needs a segment")
        hidden = (c_float * (total * self.model.shape.d_model))()
        flat = None if segments is None else int_array([segment for row in segments for segment in row])
        tokens = int_array([token for source in sources for token in source])
        lengths = int_array([len(source) for source in sources])
        check(library().gf_encode(self._handle, len(sources), tokens, lengths, flat, hidden))
        return hidden

    def start(self, max_tokens: int) -> None:
        """Start a new text of up to `max_tokens` tokens."""
        if not 1 <= max_tokens <= MAX_TOKENS:
            raise ValueError(f"a text has from 1 to {MAX_TOKENS} tokens")
        check(library().gf_start(self._handle, max_tokens))

    def read(self, tokens: Sequence[int]) -> ctypes.Array[c_float]:
        """Read further tokens of a text; return the logits of the next one."""
        logits = (c_float * self.model.shape.vocab)()
        check(library().gf_read(self._handle, len(tokens), int_array(tokens), logits))
        return logits

    def cancel(self) -> None:
        """Make the running search of another thread end with an exception."""
        library().gf_worker_cancel(self._handle)

    def __del__(self) -> None:
        if handle := getattr(self, "_handle", None):
            library().gf_worker_free(handle)


def hypotheses(
    rows: range, capacity: int, tokens: Any, lengths: Any, log_probabilities: Any, scores: Any, finished: Any
) -> list[Hypothesis]:
    """Return the hypotheses of one sentence from the arrays that the engine fills; there is at least one."""
    found = [
        Hypothesis(tokens[i * capacity : i * capacity + lengths[i]], log_probabilities[i], scores[i], bool(finished[i]))
        for i in rows
        if lengths[i] >= 0
    ]
    return found or [Hypothesis([], float("-inf"), float("-inf"), False)]


def int_array(values: Sequence[int]) -> ctypes.Array[c_int32]:
    """Return integers as a C array; refuse one that exceeds 32 bits."""
    try:
        return (c_int32 * len(values)).from_buffer(array("i", values))  # which does not cut off larger numbers
    except OverflowError:
        raise ValueError("a token or a length exceeds 32 bits") from None
