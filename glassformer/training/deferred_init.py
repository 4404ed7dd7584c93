"""Deferred initialization: build a model on the meta device and draw its weights later, one tensor at a time.

A model that is sharded over processes may not fit one of them. `defer` runs the constructor on the meta device and
records how every parameter and buffer is initialized; `DeferredModel.replay` repeats these operations on the CPU in
the recorded order. From the same seed it draws the same bits as the constructor itself would have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode

DRAWS = (Tensor.normal_, Tensor.uniform_)
FILLS = (Tensor.fill_, Tensor.zero_)
CONSTANTS = {torch.zeros: 0.0, torch.ones: 1.0}


@dataclass(frozen=True)
class Initialization:
    """One operation that overwrites `shape` elements of a tensor from the flat index `start` on.

    name  of the parameter or buffer; empty for a tensor that the model did not keep
    """

    name: str
    start: int
    shape: torch.Size
    write: Callable[[Tensor], object]


@dataclass(frozen=True)
class DeferredModel:
    """A model on the meta device and the operations that initialize it."""

    model: nn.Module
    seed: int
    operations: list[Initialization]

    def replay(self) -> Iterator[tuple[str, int, Tensor]]:
        """Yield name, flat start index and values of every initialization of the model's tensors, on the CPU.

        A later one overwrites an earlier one. Only one of them is in memory at a time.
        """
        torch.manual_seed(self.seed)
        for operation in self.operations:
            values = torch.empty(operation.shape)
            operation.write(values)
            if operation.name:
                yield operation.name, operation.start, values


def defer(build: Callable[[], nn.Module], seed: int) -> DeferredModel:
    """Build a model on the meta device; its weights will be those that `build()` draws after `manual_seed(seed)`."""
    with torch.device("meta"), _Recorder() as recorder:
        model = build()
    names = {_storage(tensor): name for name, tensor in (*model.named_parameters(), *model.named_buffers())}
    operations = [
        # Draws into tensors that the model did not keep still advance the random number generator.
        Initialization(names.get(_storage(target), ""), target.storage_offset(), target.shape, write)
        for target, write in recorder.operations
    ]
    _refuse_uninitialized(model, operations)
    return DeferredModel(model, seed, operations)


class _Recorder(TorchFunctionMode):
    """Records every operation that gives a tensor its values."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: list[tuple[Tensor, Callable[[Tensor], object]]] = []  # the tensor keeps its storage alive

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if func in DRAWS or func in FILLS:
            self._record(args[0], lambda values: func(values, *args[1:], **kwargs))
            return args[0]
        if name.endswith("_") and not name.endswith("__") and name != "requires_grad_":
            raise NotImplementedError(f"The initialization of a sharded model cannot use Tensor.{name}.")
        result = func(*args, **kwargs)
        if func in CONSTANTS:
            self._record(result, lambda values: values.fill_(CONSTANTS[func]))
        return result

    def _record(self, target: Tensor, write: Callable[[Tensor], object]) -> None:
        if not target.is_contiguous() or target.dtype != torch.float32:
            raise NotImplementedError("A sharded model initializes only contiguous blocks of float32 tensors.")
        self.operations.append((target.detach(), write))


def _storage(tensor: Tensor) -> int:
    """Return a key that views of the same memory share; on the meta device their addresses are all 0."""
    return StorageWeakRef(tensor.untyped_storage()).cdata


def _refuse_uninitialized(model: nn.Module, operations: list[Initialization]) -> None:
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        end = 0  # elements before this index are initialized
        for start, count in sorted((one.start, one.shape.numel()) for one in operations if one.name == name):
            end = max(end, start + count) if start <= end else end
        if end < tensor.numel():
            raise NotImplementedError(f"The initialization of {name} was not recorded.")
