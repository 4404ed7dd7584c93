"""Load the model of a run folder, and read and write weights."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from glassformer import machine
from glassformer.engine.safetensors import damaged_weights, missing_weights
from glassformer.errors import UserError
from glassformer.files import atomic_write
from glassformer.inference.base_run import BaseRun
from glassformer.inference.run_folder import RunFolder, load_labels, load_settings, load_tokenizer, vocab_size
from glassformer.models import FAMILIES
from glassformer.models.ablations import with_ablations
from glassformer.nn.lora import merge
from glassformer.nn.probe import named_weights, parameter_names
from glassformer.operating_system import physical_memory
from glassformer.settings import Settings, task_traits
from glassformer.text.tokenizer import PAD, Tokenizer


@dataclass(frozen=True)
class Run:
    """A loaded run folder.

    Attributes:
        text_tokenizer: None for an image model.
        labels: the classes of a classifier or tagger; otherwise empty.
    """

    folder: RunFolder
    settings: Settings
    text_tokenizer: Tokenizer | None
    model: nn.Module
    labels: list[str] = field(default_factory=list)

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of a run that is not an image model."""
        assert self.text_tokenizer is not None
        return self.text_tokenizer


def load_run(path: str | Path, *, device: torch.device | str = "cpu", weights: Path | None = None) -> Run:
    """Load a run for inference with PyTorch.

    Args:
        weights: weights file of a checkpoint, instead of the final weights.

    An adapter is merged into the weights of its base run.
    """
    folder = RunFolder(path)
    settings = load_settings(folder)
    tokenizer = load_tokenizer(folder, settings)
    labels = load_labels(folder) if task_traits(settings.task).output == "labels" else []
    # Sizes are checked against the file before memory is allocated.
    model = build_on_meta(settings, vocab_size(tokenizer), len(labels), where=str(folder.settings))
    tensors = run_weights(folder, checkpoint=weights)
    if labels:
        _check_label_count(folder, model, tensors)
    _check_file(model, tensors)
    with SkipInit():
        model = build_model(settings, vocab_size(tokenizer), len(labels))
    _load_weights(model, tensors, torch.device(device))
    return Run(folder, settings, tokenizer, model.eval(), labels)


def _check_label_count(folder: RunFolder, model: nn.Module, weights: StoredWeights) -> None:
    """Refuse a labels.json whose number of labels differs from the size of the model's output."""
    expected = len(model.get_parameter("output.bias"))
    found = next(iter(weights.shapes.get("output.bias", ())), expected)
    if expected != found:
        raise UserError(
            f"labels.json has {expected} labels, but the model has {found} classes.",
            where=str(folder.labels),
            hint="keep the files of one run together",
        )


def build_model(settings: Settings, vocab: int, labels: int = 0) -> nn.Module:
    """Build the model that the settings describe, with new weights, and with a head if the task needs one."""
    family, sizes = with_ablations(FAMILIES[settings.model.family], settings.model), settings.model
    task = task_traits(settings.task)
    model: nn.Module = family(sizes) if task.input == "image" else family(sizes, vocab, pad=PAD)
    head = task.head(sizes)
    return model if head is None else head(model, labels or vocab)


def build_on_meta(settings: Settings, vocab: int, labels: int = 0, *, where: str = "model") -> nn.Module:
    """Return the model on the meta device: its names and shapes, without memory for its weights."""
    try:
        with torch.device("meta"), SkipInit():
            return build_model(settings, vocab, labels)
    except (RuntimeError, OverflowError, TypeError) as error:  # a size beyond 64 bits; which of them depends on PyTorch
        if not re.search(r"overflow|too large|numel|invalid combination", str(error), re.IGNORECASE):
            raise
        raise UserError(
            "The model is too large: the size of a weight exceeds 64 bits.",
            where=where,
            hint="take a smaller model.d_model, model.d_ff or tokenizer.vocab",
        ) from None


def refuse_too_large(model: nn.Module) -> None:
    """Refuse a model whose weights alone exceed the memory of this machine."""
    needed = sum(weight.numel() * weight.element_size() for weight in weights_of(model).values())
    available = physical_memory()
    if available is not None and needed > available:
        raise UserError(
            f"There is not enough memory for this: the weights take {needed / 1e9:,.1f} GB, "
            f"the machine has {available / 1e9:,.1f} GB.",
            where="model",
            hint="take a smaller model.d_model, model.d_ff, model.layers or tokenizer.vocab",
        )


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Return every parameter and buffer by name; a shared parameter appears once."""
    return {name: tensor.detach() for name, tensor in named_weights(model)}


class DeferredTensors(Mapping[str, Tensor]):
    """Tensors by name that are computed each time they are read. `shapes` is known without computing them."""

    shapes: Mapping[str, Sequence[int]]

    def __iter__(self) -> Iterator[str]:
        return iter(self.shapes)

    def __len__(self) -> int:
        return len(self.shapes)


def save_weights(path: Path, weights: Mapping[str, Tensor]) -> None:
    """Write float32 tensors as safetensors. `DeferredTensors` are read one by one, when they are written."""
    if isinstance(weights, DeferredTensors):
        shapes = weights.shapes
    else:
        shapes = {name: weight.shape for name, weight in weights.items()}
    # The file layout of `safetensors.torch.save_file`, which needs all tensors in memory at once.
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name in sorted(shapes):
        start, end = end, end + 4 * math.prod(shapes[name])
        header[name] = {"dtype": "F32", "shape": list(shapes[name]), "data_offsets": [start, end]}
    encoded = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    encoded += b" " * (-len(encoded) % 8)
    with atomic_write(path) as temporary, temporary.open("wb") as file:
        file.write(len(encoded).to_bytes(8, "little") + encoded)
        for name in sorted(shapes):
            file.write(_float32(name, weights[name]).cpu().contiguous().flatten().numpy().data.cast("B"))


def _float32(name: str, weight: Tensor) -> Tensor:
    if weight.dtype != torch.float32:
        raise TypeError(f"{name} is {weight.dtype}; weights and optimizer moments are saved as float32")
    return weight


def read_weights(path: Path) -> dict[str, Tensor]:
    """Read all tensors of a safetensors file."""
    with _open_safetensors(path) as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is not a dict)


class StoredWeights(DeferredTensors):
    """The weights of a run, each read when it is accessed.

    Attributes:
        path: the file to name in messages.
        dtypes: the number type of each tensor.
    """

    path: Path
    dtypes: Mapping[str, str]


class WeightsFile(StoredWeights):
    """The tensors of a safetensors file whose names start with `prefix`."""

    def __init__(self, path: Path, prefix: str = "") -> None:
        self.path = path
        with _open_safetensors(path) as file:
            names = [name for name in file.keys() if name.startswith(prefix)]  # noqa: SIM118 (it is not a dict)
            slices = {name: file.get_slice(name) for name in names}
            self.shapes = {name: part.get_shape() for name, part in slices.items()}
            self.dtypes = {name: part.get_dtype() for name, part in slices.items()}

    def __getitem__(self, name: str) -> Tensor:
        if name not in self.shapes:
            raise KeyError(name)
        with _open_safetensors(self.path) as file:  # opened each time: the memory map is released with the tensor
            tensor: Tensor = file.get_tensor(name)
            return tensor


class MergedWeights(StoredWeights):
    """The weights of a base run with an adapter: W + B·A for each pair of matrices A and B.

    If only the weights with a prefix come from the base run, all others (of a new head) are in the adapter.
    """

    def __init__(self, base: WeightsFile, adapter: WeightsFile, prefix: str = "") -> None:
        self.path, self._base, self._adapter = adapter.path, base, adapter
        layers = {name.removesuffix(".lora_A") for name in adapter if name.endswith(".lora_A")}
        self._factors = {f"{layer}.weight": (f"{layer}.lora_A", f"{layer}.lora_B") for layer in layers}
        new = adapter.shapes.keys() - {factor for factors in self._factors.values() for factor in factors}
        wrong = [lora_A for name, (lora_A, lora_B) in self._factors.items() if not self._fits(name, lora_A, lora_B)]
        wrong += [name for name in new if not prefix or name.startswith(prefix)]
        if wrong:
            raise UserError(
                f"The adapter does not fit its base run: {min(wrong)}{' and others' if wrong[1:] else ''}.",
                where=str(self.path),
                hint="keep the files of one run together, or copy the file again",
            )
        self.shapes = {**base.shapes, **{name: adapter.shapes[name] for name in new}}
        self.dtypes = {**base.dtypes, **{name: adapter.dtypes[name] for name in new}}

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._factors:
            return self._adapter[name] if name in self._adapter else self._base[name]
        lora_A, lora_B = (self._adapter[factor].float() for factor in self._factors[name])
        return merge(self._base[name].float(), lora_A, lora_B)

    def _fits(self, name: str, lora_A: str, lora_B: str) -> bool:
        """Return whether B·A is a matrix of floating-point numbers with the shape of a weight."""
        shapes = (self._base.shapes.get(name, ()), *(self._adapter.shapes.get(part, ()) for part in (lora_A, lora_B)))
        if any(len(shape) != 2 for shape in shapes):
            return False
        (outputs, inputs), (rank, columns), (rows, inner) = shapes
        are_floats = all(_is_float(self._adapter.dtypes[part]) for part in (lora_A, lora_B))
        return (columns, rows, inner) == (inputs, outputs, rank) and are_floats


def run_weights(folder: RunFolder, *, checkpoint: Path | None = None) -> StoredWeights:
    """Return the final weights of a run, or those of a checkpoint; an adapter is merged into its base run."""
    if not folder.is_adapter:
        return WeightsFile(checkpoint or folder.model)
    base = BaseRun.load(folder)
    weights = WeightsFile(base.find(folder).model, base.prefix)
    return MergedWeights(weights, WeightsFile(checkpoint or folder.adapter), base.prefix)


@contextmanager
def _open_safetensors(path: Path) -> Iterator[Any]:
    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except FileNotFoundError:
        raise missing_weights(path) from None
    except (SafetensorError, OSError) as error:
        raise damaged_weights(path, error) from None


def copy_weights(
    model: nn.Module, weights: Mapping[str, Tensor], *, where: Path | None = None, partial: bool = False
) -> None:
    """Copy weights into a model, after `check_weights`."""
    check_weights(model, weights, where=where, partial=partial)
    for name, parameter in weights_of(model).items():
        if name in weights:
            parameter.copy_(weights[name])


def check_weights(
    model: nn.Module, weights: Mapping[str, Tensor], *, where: Path | None = None, partial: bool = False
) -> None:
    """Raise a `UserError` if names, shapes or number types differ from the model's.

    With `partial`, weights may be missing.
    """
    expected = weights_of(model)
    missing = {name: list(w.shape) for name, w in expected.items() if name not in weights} if partial else {}
    _check_shapes(model, missing | {name: list(weight.shape) for name, weight in weights.items()}, where)
    _refuse_integers(expected, {name: str(weight.dtype) for name, weight in weights.items()}, where)


class SkipInit(TorchFunctionMode):
    """Skip random initialization; the weights are loaded next."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return args[0] if func in (Tensor.normal_, Tensor.uniform_) else func(*args, **(kwargs or {}))


def _load_weights(model: nn.Module, weights: StoredWeights, device: torch.device) -> None:
    """Load the weights of a model one by one, so that there are never two copies of all.

    The memory-mapped file is opened for each weight, so that pages already read are released.
    """
    names = parameter_names(model)
    uses = Counter(id(parameter) for _, parameter in model.named_parameters(remove_duplicate=False))
    shared: dict[int, nn.Parameter] = {}
    for module in model.modules():
        for name, empty in list(module.named_parameters(recurse=False)):
            key = id(empty)
            if (weight := shared.get(key)) is None:
                weight = nn.Parameter(_read_tensor(weights, names[key], like=empty).to(device), requires_grad=False)
            if uses[key] > 1:
                shared[key] = weight
            module.register_parameter(name, weight)
        for name, buffer in list(module.named_buffers(recurse=False)):
            module.register_buffer(name, _read_tensor(weights, names[id(buffer)], like=buffer).to(device))
    machine.release_memory()


def _read_tensor(weights: StoredWeights, name: str, *, like: Tensor) -> Tensor:
    """Return a copy of one tensor, in the dtype of `like`."""
    tensor = weights[name].to(like.dtype, copy=True)
    if tensor.is_floating_point() and tensor.numel() and not torch.stack(torch.aminmax(tensor)).isfinite().all():
        hint = "copy the file again, or train with a lower train.lr"
        raise UserError(
            f"The weights are damaged: {name} contains NaN or infinity.", where=str(weights.path), hint=hint
        )
    return tensor


def _check_file(model: nn.Module, weights: StoredWeights) -> None:
    """Refuse weights whose names, shapes or number types differ from the model's."""
    _check_shapes(model, {name: list(shape) for name, shape in weights.shapes.items()}, weights.path)
    _refuse_integers(weights_of(model), weights.dtypes, weights.path)


def _refuse_integers(expected: dict[str, Tensor], dtypes: Mapping[str, str], where: Path | None) -> None:
    """Refuse integers in place of floating-point weights; other floating-point types are converted."""
    for name, dtype in dtypes.items():
        if expected[name].is_floating_point() and not _is_float(dtype):
            raise UserError(
                f"The weights are not floating-point numbers: {name} has the type {dtype}.",
                where=str(where or ""),
                hint="keep the files of one run together, or copy the file again",
            )


def _is_float(dtype: str) -> bool:
    return dtype.removeprefix("torch.").startswith(("F", "BF", "float", "bfloat"))


def _check_shapes(model: nn.Module, shapes: dict[str, list[int]], where: Path | None) -> None:
    expected = {name: list(parameter.shape) for name, parameter in weights_of(model).items()}
    wrong = sorted(shapes.keys() ^ expected.keys())
    wrong += [name for name in shapes.keys() & expected.keys() if shapes[name] != expected[name]]
    if wrong:
        raise UserError(
            f"The weights do not fit the model of run.toml: {wrong[0]}{' and others' if wrong[1:] else ''}.",
            where=str(where or ""),
            hint="keep the files of one run together",
        )
