"""One sentence run through the checkpoints of a run: the output and the attention weights at each step.

A checkpoint is loaded for one pass and released. Only the output and the attention weights are cached.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

from glassformer.errors import Message, UserError
from glassformer.glass.trace import Trace
from glassformer.inference.loading import predictor_of
from glassformer.inference.run import load_run
from glassformer.inference.run_folder import RunFolder
from glassformer.studio.model_store import LoadedRun
from glassformer.studio.serialization import output_log_probabilities
from glassformer.studio.tracing import TraceRequest, ask, translator_for
from glassformer.training.checkpoint import Checkpoints

MAX_BYTES = 2**26


@dataclass(frozen=True)
class CheckpointView:
    """The result of one checkpoint for a sentence.

    Attributes:
        output: its own output.
        trace: its attention weights; for translation with the same target at every step, so that they compare.
        log_probability: of that target; None without a target.
    """

    step: int
    output: str
    trace: Trace
    log_probability: float | None

    @property
    def size(self) -> int:
        return sum(tensor.numel() * tensor.element_size() for tensor in self.trace.tensors.values())


def list_checkpoints(folder: RunFolder) -> list[dict[str, Any]]:
    """Return the step and the modification time of every checkpoint; a cached result is valid while both match."""
    checkpoints = _checkpoints(folder)
    found = []
    for step in checkpoints.steps_with_weights():
        try:
            found.append({"step": step, "written": str(checkpoints.weights_file(step).stat().st_mtime_ns)})
        except OSError:  # deleted by the training process in the meantime
            continue
    return found


class CheckpointViews:
    """A cache of results, limited in bytes."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self.max_bytes = max_bytes
        self._views: OrderedDict[tuple[Any, ...], CheckpointView] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._views)

    def view(self, run: LoadedRun, folder: RunFolder, asked: TraceRequest, step: int) -> CheckpointView:
        """Return the result of the checkpoint of a step, computed if it is not cached."""
        try:
            written = _checkpoints(folder).weights_file(step).stat().st_mtime_ns
        except OSError:
            raise UserError(
                Message("There is no checkpoint of step {step}.", step=step),
                where=str(folder.checkpoints),
                hint="choose another step; train.keep_all_checkpoints=true keeps all checkpoints",
            ) from None
        key = (asked.run, step, written, asked.text, asked.target, asked.question)
        with self._lock:
            if (view := self._views.get(key)) is not None:
                self._views.move_to_end(key)
                return view
        view = _compute(run, folder, asked, step)
        with self._lock:
            self._views[key] = view
            while len(self._views) > 1 and sum(kept.size for kept in self._views.values()) > self.max_bytes:
                self._views.popitem(last=False)
        return view


def _compute(run: LoadedRun, folder: RunFolder, asked: TraceRequest, step: int) -> CheckpointView:
    """Run the checkpoint of a step, with the tokenizer of the run."""
    device = next(run.model.parameters()).device
    predictor = predictor_of(load_run(folder.path, device=device, weights=_checkpoints(folder).weights_file(step)))
    result = ask(replace(run, predictor=predictor), asked)
    output, log_probability = result.output, None
    if asked.target is not None:
        output = translator_for(result.opened, asked).translate([asked.text], beam=1)[0].text
        log_probability = sum(token["log_probability"] for token in output_log_probabilities(result))
    attention = {layer.name: result.trace[layer.name] for layer in result.trace.attention_layers}
    return CheckpointView(step, output, replace(result.trace, tensors=attention), log_probability)


def _checkpoints(folder: RunFolder) -> Checkpoints:
    return Checkpoints(folder.checkpoints, keep=0)
