"""One sentence through the checkpoints of a run: what each made of it, and where it looked.

A checkpoint is loaded for one pass and let go. What stays is small: a few words and the attention, so many bytes.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

from glassformer.errors import UserError
from glassformer.glass.trace import Trace
from glassformer.inference.run import RunFolder, load_run
from glassformer.studio.asking import Asked, ask, translator_for
from glassformer.studio.payloads import sureness
from glassformer.studio.shelf import Opened
from glassformer.training.checkpoint import Checkpoints

MOST_BYTES = 2**26


@dataclass(frozen=True)
class Frame:
    """What one checkpoint made of a sentence.

    output           its own answer
    trace            its attention; of a translation while it read the target that all frames read, so that they compare
    log_probability  of that target; None where there is none
    """

    step: int
    output: str
    trace: Trace
    log_probability: float | None

    @property
    def size(self) -> int:
        return sum(tensor.numel() * tensor.element_size() for tensor in self.trace.tensors.values())


def checkpoints(folder: RunFolder) -> list[dict[str, Any]]:
    """The steps whose weights are there, and when they were written: what is known of one holds until that changes."""
    kept = _kept(folder)
    found = []
    for step in kept.steps_with_weights():
        try:
            found.append({"step": step, "written": str(kept.weights_file(step).stat().st_mtime_ns)})
        except OSError:  # gone meanwhile: training tidies up
            continue
    return found


class Film:
    """Frames, the newest kept."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self.most_bytes = most_bytes
        self._frames: OrderedDict[tuple[Any, ...], Frame] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._frames)

    def frame(self, opened: Opened, folder: RunFolder, asked: Asked, step: int) -> Frame:
        file = _kept(folder).weights_file(step)
        try:
            written = file.stat().st_mtime_ns
        except OSError:
            raise UserError(
                f"There is no checkpoint of step {step} any more.",
                where=str(folder.checkpoints),
                hint="choose another step; train.film=true keeps them all",
            ) from None
        key = (asked.run, step, written, asked.text, asked.target, asked.question)
        with self._lock:
            if (frame := self._frames.get(key)) is not None:
                self._frames.move_to_end(key)
                return frame
        frame = _taken(opened, folder, asked, step)
        with self._lock:
            self._frames[key] = frame
            while len(self._frames) > 1 and sum(kept.size for kept in self._frames.values()) > self.most_bytes:
                self._frames.popitem(last=False)
        return frame


def _taken(opened: Opened, folder: RunFolder, asked: Asked, step: int) -> Frame:
    """By the run's own reader of text, with the weights of then."""
    then = copy.copy(opened.predictor)
    device = next(opened.model.parameters()).device
    then.model = load_run(folder.path, device=device, weights=_kept(folder).weights_file(step)).model
    seen = ask(replace(opened, predictor=then, drafter=then), asked)
    output, log_probability = seen.output, None
    if asked.target is not None:
        output = translator_for(seen.opened, asked).translate([asked.text], beam=1)[0].text
        log_probability = sum(token["log_probability"] for token in sureness(seen))
    attention = {look.name: seen.trace[look.name] for look in seen.trace.attention_layers}
    return Frame(step, output, replace(seen.trace, tensors=attention), log_probability)


def _kept(folder: RunFolder) -> Checkpoints:
    return Checkpoints(folder.checkpoints, keep=0)
