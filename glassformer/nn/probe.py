"""The glass: a probe is handed down a forward pass and sees every tensor that has a name.

A module calls `x = probe("name", x)` at each place worth looking at. The probe may record the tensor and may
return another one in its stead. `probe.at("encoder", 0)` gives the probe for an inner part, so that the names
in the end read `encoder.0.self.weights`.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

from torch import Tensor


class Probe:
    """Looks at nothing and changes nothing. The base of all probes, and what runs when nobody looks."""

    def __call__(self, name: str, tensor: Tensor) -> Tensor:
        return tensor

    def at(self, *path: str | int) -> Probe:
        return self

    def wants(self, name: str) -> bool:
        """Whether it is worth computing a tensor just to show it."""
        return False


NO_PROBE = Probe()


class Recorder(Probe):
    """Keeps every tensor whose full name matches a pattern (`*`, `decoder.*.cross.weights`), in order.

    copy  False where nobody writes over a tensor that has been shown, as in a pass of inference under this probe
    """

    def __init__(self, pattern: str = "*", *, copy: bool = True) -> None:
        self.pattern, self.copy = pattern, copy
        self.tensors: dict[str, Tensor] = {}
        self._prefix = ""

    def at(self, *path: str | int) -> Probe:
        inner = Recorder(self.pattern, copy=self.copy)
        inner.tensors = self.tensors
        inner._prefix = self._prefix + "".join(f"{part}." for part in path)
        return inner

    def wants(self, name: str) -> bool:
        return fnmatchcase(self._prefix + name, self.pattern)

    def __call__(self, name: str, tensor: Tensor) -> Tensor:
        if self.wants(name):
            seen = tensor.detach()
            self.tensors[self._prefix + name] = seen.clone() if self.copy else seen
        return tensor
