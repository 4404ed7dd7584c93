"""The interfaces of a task: `Data`, `Task` and `TaskSpec`.

`Data` reads and checks a data set; `Data.task()` returns the `Task` that the trainer runs. A `TaskSpec` is everything
that distinguishes one task from the others.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from torch import Tensor

from glassformer.data.parallel_text import file_suffix
from glassformer.data.preparation import ProgressCallback
from glassformer.inference.run import Run
from glassformer.inference.run_folder import RunFolder
from glassformer.inference.translator import Sampling
from glassformer.planning.choices import Choice
from glassformer.settings import DataSettings, Paths, Raw, Settings, TaskTraits
from glassformer.text.lines import read_lines
from glassformer.text.tokenizer import Tokenizer

TRAIN, VALID, TEST = "train", "valid", "test"


class Task(Protocol):
    """Batches, loss and scores of one data set, for the trainer."""

    metric: str  # the entry of `scores` that selects the best weights; higher is better

    @property
    def signature(self) -> str:
        """How the metric is computed, as papers quote it; empty where there is only one way."""

    def batches(self, seed: int, position: Any) -> Iterator[Any]:
        """Yield training batches without end, from a position on; `batch.next` is the position after it."""

    def loss(self, model: Any, batch: Any) -> tuple[Tensor, int]:
        """Return the summed loss of a batch, and the number of predictions in the sum."""

    def shard_batch(self, batch: Any, index: int, count: int) -> Any | None:
        """Return rows `index`, `index + count`, … of a batch; None if there are none."""

    def locations(self, batch: Any) -> list[str]:
        """Return where the rows of a batch come from, as file:line."""

    def evaluate_shard(self, model: Any, index: int, count: int, *, split: str = VALID, final: bool = False) -> Any:
        """Run a model on shard `index` of `count` of a held-out set; every rank evaluates one shard.

        final  training has ended: evaluate all examples with the decoding settings of inference
        """

    def scores(self, shards: list[Any], *, split: str = VALID) -> dict[str, float]:
        """Return the scores of all shards, given in order; `loss` (the mean) is one of them."""


class Report(Protocol):
    """What was read, kept and dropped, and why."""

    @property
    def counts(self) -> dict[str, int]:
        """Number of examples per split."""

    @property
    def held_out(self) -> str:
        """A sentence saying that valid was split off train; empty if it was not."""

    def lines(self) -> list[str]:
        """Return the report as text."""

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON values."""


class Chosen(NamedTuple):
    settings: Raw  # complete
    choices: list[Choice]  # those that took effect, with their reasons
    tokenizer: Tokenizer | None  # None for a task on images


class Data(Protocol):
    """A data set: read and checked, before there is a model.

    fingerprint  changes when a training or validation example changes
    labels       the labels, in the order of the logits; empty for a task without labels
    """

    @property
    def fingerprint(self) -> str: ...

    @property
    def labels(self) -> list[str]: ...

    @property
    def report(self) -> Report: ...

    def choose(
        self, raw: Raw, known: Tokenizer | None, precision: tuple[str, str], progress: ProgressCallback
    ) -> Chosen:
        """Choose the settings that are not given, and train a tokenizer unless one is known."""

    def task(self, tokenizer: Any, settings: Settings, progress: ProgressCallback) -> Task:
        """Return the task that the trainer runs, on the tokenized data."""


class HeldOut(NamedTuple):
    """Held-out files as a `Task` with only the split `TEST`."""

    task: Task
    examples: int
    unread: int = 0  # files that cannot be read; they are not part of the scores


@dataclass(frozen=True)
class PredictRequest:
    """The arguments of the command `predict`.

    notice  shows a message that is not part of the output
    """

    texts: list[str] = field(default_factory=list)
    input_file: Path | None = None
    output_file: Path | None = None
    length: int | None = None
    sampling: Sampling = field(default_factory=Sampling)
    as_json: bool = False
    notice: Callable[[str], None] = lambda message: None

    def lines(self) -> Iterator[str]:
        """Return the texts, or else the lines of the input file or of standard input."""
        return iter(self.texts) if self.texts else read_lines(self.input_file or sys.stdin)


def last_token(predictor: Any, text: str, question: str) -> tuple[str, Any]:
    """Trace a model on a text; the output is the most likely next token, if the model predicts tokens."""
    trace = predictor.trace(text)
    return trace.predicted[-1].replace("▁", " ").strip() if trace.target else "", trace


def nothing_to_tune(task: Any, evaluate: Callable[[], dict[str, float]]) -> list[Choice]:
    """Choose no settings after training."""
    return []


def nothing_to_finish(task: Any, folder: RunFolder) -> None:
    """Write no further files."""


@dataclass(frozen=True, kw_only=True)
class TaskSpec(TaskTraits):
    """The definition of a task. Packages below `tasks` read the fields of the base class, packages above it these.

    data           reads and checks the files of the settings; loss and metrics are those of its `Task`
    unit           what the loss of its `Task` counts (the count it returns), as the unit of the training speed
    recognize      training files → the reason why they are for this task, shown to the user; empty if they are not
    held_out       a run and files → the task that `evaluate` scores; None if `evaluate` takes no files
    predict        a predictor and a request → the output of the command `predict`, in pieces that are printed at once
    predict_uses   the options of `predict` that the task uses: "sampling", "output"
    needs_text     `predict` needs an input
    usage          the command that uses a run, shown after training and in the model card
    trace          predictor, text and question → the output as text, and the trace: what the studio shows
    compare_words  predictor, texts and a word → its vectors compared; `explain` shows this in place of attention
    huggingface    model family → name of the architecture in Transformers
    tune           task and a function that scores it on the validation set → settings that are chosen after training;
                   the task uses them from then on
    finish         writes further files to the run folder after training: task, run folder
    """

    data: Callable[[DataSettings, ProgressCallback], Data]
    unit: str = "predictions"
    recognize: Callable[[list[str]], str] = lambda files: ""
    held_out: Callable[[Run, Paths], HeldOut] | None = None
    predict: Callable[[Any, PredictRequest], Iterator[str]] | None = None
    predict_uses: frozenset[str] = frozenset()
    needs_text: bool = True
    usage: str = 'glassformer predict {run} "…"'
    trace: Callable[[Any, str, str], tuple[str, Any]] = last_token
    compare_words: Callable[[Any, list[str], str | None], list[Any]] | None = None
    huggingface: Mapping[str, str] = field(default_factory=dict)
    tune: Callable[[Any, Callable[[], dict[str, float]]], list[Choice]] = nothing_to_tune
    finish: Callable[[Any, RunFolder], None] = nothing_to_finish


def common_suffix(files: Sequence[str]) -> str:
    """Return the suffix that all files have; empty if they differ."""
    suffixes = {file_suffix(file) for file in files}
    return suffixes.pop() if len(suffixes) == 1 else ""
