"""The run folder: what training leaves behind and everything else starts from.

    RUN/ model.safetensors  tokenizer.json  run.toml  README.md  data-report.json  log.jsonl  checkpoints/
         labels.json (of a model that chooses from labels; one of images has no tokenizer.json)

Safetensors, JSON and TOML only: nothing in it can execute.
"""

from __future__ import annotations

import json
import math
import os
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
from glassformer.errors import UserError
from glassformer.files import no_such, read_json, write_text, writing
from glassformer.models import FAMILIES
from glassformer.models.ablations import with_ablations
from glassformer.nn.linear import pack
from glassformer.settings import FORMAT, Settings, read_toml, resolve, task_traits
from glassformer.text.tokenizer import PAD, Tokenizer


class RunFolder:
    """The places of a run's files."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.model = self.path / "model.safetensors"
        self.tokenizer = self.path / "tokenizer.json"
        self.labels = self.path / "labels.json"
        self.settings = self.path / "run.toml"
        self.card = self.path / "README.md"
        self.data_report = self.path / "data-report.json"
        self.log = self.path / "log.jsonl"
        self.checkpoints = self.path / "checkpoints"
        self.lock = self.path / ".lock"


@dataclass(frozen=True)
class Run:
    """A run folder, loaded."""

    folder: RunFolder
    settings: Settings
    spelling: Tokenizer | None  # None where there is no text
    model: nn.Module
    labels: list[str] = field(default_factory=list)  # what it chooses from, where the task is to choose

    @property
    def tokenizer(self) -> Tokenizer:
        """Of every run but those of images."""
        assert self.spelling is not None
        return self.spelling


def load_run(
    path: str | Path,
    *,
    device: torch.device | str = "cpu",
    precision: str | None = None,
    weights: Path | None = None,
) -> Run:
    """A run to decode with, its weights packed for a precision where one is given.

    weights  of a checkpoint, instead of those that the run ended with
    """
    folder = RunFolder(path)
    settings = load_settings(folder)
    tokenizer = load_tokenizer(folder, settings)
    labels = load_labels(folder) if task_traits(settings.task).output == "labels" else []
    # What does not fit the file is never allocated.
    model = outline(settings, vocabulary(tokenizer), len(labels), where=str(folder.settings))
    if labels:
        _refuse_foreign_labels(folder, model)
    _refuse_foreign_weights(model, weights or folder.model)
    with NothingDrawn():
        model = build_model(settings, vocabulary(tokenizer), len(labels))
    _fill(model, weights or folder.model, torch.device(device), precision)
    return Run(folder, settings, tokenizer, model.eval(), labels)


def load_tokenizer(folder: RunFolder, settings: Settings) -> Tokenizer | None:
    if settings.tokenizer is None:
        return None
    return Tokenizer.load(folder.tokenizer, asked_for=settings.tokenizer.vocab)


def vocabulary(tokenizer: Tokenizer | None) -> int:
    """Entries that a model has vectors for."""
    return 0 if tokenizer is None else len(tokenizer)


def load_labels(folder: RunFolder) -> list[str]:
    try:
        labels = read_json(folder.labels, "The file of the run's labels", "copy the folder again")
    except FileNotFoundError:
        raise UserError(
            "The run's labels are missing: without them its answers are mere numbers.",
            where=str(folder.labels),
            hint="copy the whole folder again",
        ) from None
    if not isinstance(labels, list) or len(labels) < 2 or not all(isinstance(label, str) for label in labels):
        raise UserError(
            "The run's labels are damaged: a list of two or more texts is needed.",
            where=str(folder.labels),
            hint="copy the folder again",
        )
    return labels


def save_labels(folder: RunFolder, labels: list[str]) -> None:
    write_text(folder.labels, json.dumps(labels, ensure_ascii=False) + "\n")


def _refuse_foreign_labels(folder: RunFolder, model: nn.Module) -> None:
    """Labels of another run, as far as their number tells."""
    named = len(model.get_parameter("output.bias"))
    with _opened(folder.model) as file:
        chosen_from = file.get_slice("output.bias").get_shape()[0] if "output.bias" in file.keys() else named  # noqa: SIM118
    if named != chosen_from:
        raise UserError(
            f"These labels are not the model's: they are {named}, and it chooses from {chosen_from}.",
            where=str(folder.labels),
            hint="keep the files of one run together",
        )


def load_settings(folder: RunFolder) -> Settings:
    if not folder.path.exists():
        raise no_such(folder.path, "run folder")
    if not folder.path.is_dir():
        raise UserError(
            "This is a file; a run folder is needed.",
            where=str(folder.path),
            hint="give the folder that train wrote",
        )
    if not folder.settings.is_file():
        raise UserError(
            "This folder is not a run of Glassformer: it has no run.toml.",
            where=str(folder.path),
            hint="give the folder that train wrote",
        )
    try:
        raw = read_toml(folder.settings)
    except ValueError as error:
        raise UserError(
            f"The run's settings are damaged: {error}.",
            where=str(folder.settings),
            hint="copy the folder again",
        ) from None
    written = raw.get("format", FORMAT)
    if isinstance(written, int) and written > FORMAT:
        raise UserError(
            f"This run was written by a newer Glassformer (format {written}, this one reads {FORMAT}).",
            where=str(folder.path),
            hint="update Glassformer",
        )
    try:
        return resolve(raw)
    except UserError as error:
        raise UserError(
            f"The run's settings are damaged: {error.where}.",
            where=str(folder.settings),
            hint=f"{error.hint} (or copy the folder again)",
        ) from None


def save_settings(folder: RunFolder, settings: Settings) -> None:
    write_text(folder.settings, settings.to_toml())


def build_model(settings: Settings, vocab: int, labels: int = 0) -> nn.Module:
    """The model that the settings describe, with fresh weights; with a head where the task asks for one."""
    family, sizes = with_ablations(FAMILIES[settings.model.family], settings.model), settings.model
    task = task_traits(settings.task)
    model: nn.Module = family(sizes) if task.input == "image" else family(sizes, vocab, pad=PAD)
    head = task.head(sizes)
    return model if head is None else head(model, labels or vocab)


def outline(settings: Settings, vocab: int, labels: int = 0, *, where: str = "model") -> nn.Module:
    """Return the model on the meta device: its names and shapes, without memory for its weights."""
    try:
        with torch.device("meta"), NothingDrawn():
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
    available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else needed
    if needed > available:
        raise UserError(
            f"There is not enough memory for this: the weights take {needed / 1e9:,.1f} GB, "
            f"the machine has {available / 1e9:,.1f} GB.",
            where="model",
            hint="take a smaller model.d_model, model.d_ff, model.layers or tokenizer.vocab",
        )


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Every weight once, under one name, also where two parts share it; and what was counted in training (buffers)."""
    return {name: parameter.detach() for name, parameter in model.named_parameters()} | dict(model.named_buffers())


class DeferredTensors(Mapping[str, Tensor]):
    """Tensors by name that are produced each time they are read; their shapes are known without that."""

    shapes: Mapping[str, Sequence[int]]

    def __iter__(self) -> Iterator[str]:
        return iter(self.shapes)

    def __len__(self) -> int:
        return len(self.shapes)


def save_weights(path: Path, weights: Mapping[str, Tensor]) -> None:
    """Write float32 tensors as safetensors. Each of `DeferredTensors` is read once, when it is written."""
    if isinstance(weights, DeferredTensors):
        shapes = weights.shapes
    else:
        shapes = {name: weight.shape for name, weight in weights.items()}
    # The layout of safetensors' own `save_file`, which needs all tensors in memory at once.
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name in sorted(shapes):
        start, end = end, end + 4 * math.prod(shapes[name])
        header[name] = {"dtype": "F32", "shape": list(shapes[name]), "data_offsets": [start, end]}
    described = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    described += b" " * (-len(described) % 8)
    with writing(path) as beside, beside.open("wb") as file:
        file.write(len(described).to_bytes(8, "little") + described)
        for name in sorted(shapes):
            file.write(_float32(name, weights[name]).cpu().contiguous().flatten().numpy().data.cast("B"))


def _float32(name: str, weight: Tensor) -> Tensor:
    if weight.dtype != torch.float32:
        raise TypeError(f"{name} is {weight.dtype}; the weights and moments of a run are float32")
    return weight


def read_weights(path: Path) -> dict[str, Tensor]:
    with _opened(path) as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is not a dict)


class WeightsFile(Mapping[str, Tensor]):
    """The tensors of a safetensors file whose name begins with `prefix`, each read when it is asked for."""

    def __init__(self, path: Path, prefix: str = "") -> None:
        self.path = path
        with _opened(path) as file:
            self._names = [name for name in file.keys() if name.startswith(prefix)]  # noqa: SIM118 (it is not a dict)

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._names:
            raise KeyError(name)
        with _opened(self.path) as file:  # anew each time: the memory map is released with the tensor
            tensor: Tensor = file.get_tensor(name)
            return tensor

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except FileNotFoundError:
        raise UserError(
            "The weights are missing.",
            where=str(path),
            hint="train to the end, go on with --resume, or copy again",
        ) from None
    except (SafetensorError, OSError) as error:
        raise UserError(
            f"The weights are damaged, or not safetensors: {error}.",
            where=str(path),
            hint="copy the file again; pickled weights (.pt, .bin) are not loaded, as they can run code",
        ) from None


def put_weights(
    model: nn.Module, weights: Mapping[str, Tensor], *, where: Path | None = None, partial: bool = False
) -> None:
    """Copy weights into a model; refuse those of another model. With `partial`, some may be missing."""
    refuse_other_weights(model, weights, where=where, partial=partial)
    for name, place in weights_of(model).items():
        if name in weights:
            place.copy_(weights[name])


def refuse_other_weights(
    model: nn.Module, weights: Mapping[str, Tensor], *, where: Path | None = None, partial: bool = False
) -> None:
    """Raise a `UserError` if names, shapes or number types are not those of the model."""
    ours = weights_of(model)
    missing = {name: list(w.shape) for name, w in ours.items() if name not in weights} if partial else {}
    _refuse_others(model, missing | {name: list(weight.shape) for name, weight in weights.items()}, where)
    _refuse_integers(ours, {name: str(weight.dtype) for name, weight in weights.items()}, where)


class NothingDrawn(TorchFunctionMode):
    """Weights stay as their memory was found: what would be drawn by chance is going to be read from a file."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return args[0] if func in (Tensor.normal_, Tensor.uniform_) else func(*args, **(kwargs or {}))


def _fill(model: nn.Module, path: Path, device: torch.device, precision: str | None) -> None:
    """Gives a model its weights, packing each as it comes: there are never two copies of them all.

    The file is mapped into memory; it is opened anew for each weight, so that what was read is let go.
    """
    names = {id(tensor): name for name, tensor in (*model.named_parameters(), *model.named_buffers())}
    uses = Counter(id(parameter) for _, parameter in model.named_parameters(remove_duplicate=False))
    shared: dict[int, nn.Parameter] = {}
    for module in model.modules():
        for name, empty in list(module.named_parameters(recurse=False)):
            place = id(empty)
            if (weight := shared.get(place)) is None:
                weight = nn.Parameter(_tensor(path, names[place], like=empty).to(device), requires_grad=False)
            if uses[place] > 1:
                shared[place] = weight
            module.register_parameter(name, weight)
        for name, empty_buffer in list(module.named_buffers(recurse=False)):
            module.register_buffer(name, _tensor(path, names[id(empty_buffer)], like=empty_buffer).to(device))
        if precision is not None:
            pack(module, precision)
    machine.give_back_memory()


def _tensor(path: Path, name: str, *, like: Tensor) -> Tensor:
    """Return a copy of one tensor of a file, in the dtype of `like`."""
    with _opened(path) as file:
        tensor: Tensor = file.get_tensor(name).to(like.dtype, copy=True)
    if tensor.is_floating_point() and tensor.numel() and not torch.stack(torch.aminmax(tensor)).isfinite().all():
        raise UserError(
            f"The weights are damaged: {name} contains NaN or infinity.",
            where=str(path),
            hint="copy the file again, or train with a lower train.lr",
        )
    return tensor


def _refuse_foreign_weights(model: nn.Module, path: Path) -> None:
    """Refuse a file whose names, shapes or kinds of number are not those of the model."""
    with _opened(path) as file:
        slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 (it is not a dict)
        _refuse_others(model, {name: part.get_shape() for name, part in slices.items()}, path)
        dtypes = {name: part.get_dtype() for name, part in slices.items()}
    _refuse_integers(weights_of(model), dtypes, path)


def _refuse_integers(places: dict[str, Tensor], dtypes: dict[str, str], where: Path | None) -> None:
    """Floating-point weights of any precision are converted; integers mean that the file is another one."""
    for name, dtype in dtypes.items():
        is_float = dtype.removeprefix("torch.").startswith(("F", "BF", "float", "bfloat"))
        if places[name].is_floating_point() and not is_float:
            raise UserError(
                f"The weights are not floating-point numbers: {name} has the type {dtype}.",
                where=str(where or ""),
                hint="keep the files of one run together, or copy the file again",
            )


def _refuse_others(model: nn.Module, shapes: dict[str, list[int]], where: Path | None) -> None:
    places = {name: list(parameter.shape) for name, parameter in weights_of(model).items()}
    wrong = sorted(shapes.keys() ^ places.keys()) + [n for n in shapes.keys() & places.keys() if shapes[n] != places[n]]
    if wrong:
        raise UserError(
            f"The weights do not fit the model of run.toml: {wrong[0]}{' and others' if wrong[1:] else ''}.",
            where=str(where or ""),
            hint="keep the files of one run together",
        )
