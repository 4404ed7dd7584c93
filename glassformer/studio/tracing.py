"""Run a model on the input of a visitor, and record a trace."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from glassformer.data.images.dataset import LabelledImage, first_images
from glassformer.errors import Message, UserError
from glassformer.glass.image_trace import trace_pixels
from glassformer.glass.trace import Trace
from glassformer.inference.translator import Translator
from glassformer.studio.model_store import LoadedRun

MOST_TOKENS = 256  # per side: the attention scores of a longer sentence would take gigabytes
MOST_CHARACTERS = 20 * MOST_TOKENS  # a longer text is refused without tokenizing it


@dataclass(frozen=True)
class TraceRequest:
    """The input of a visitor.

    target    target of a sequence-to-sequence model (teacher forcing); None for the model's own output
    free      free running: the decoder reads its own output, step by step
    forced    step → token that the decoder writes at this step, whatever its logits are
    question  the question about the text, for a task that reads one
    """

    run: str
    text: str
    target: str | None = None
    free: bool = False
    forced: dict[int, int] = field(default_factory=dict)
    question: str = ""


@dataclass(frozen=True)
class TraceResult:
    """The output and the trace of a model; `opened` is kept because the run folder may change meanwhile.

    mode  "own": teacher forcing with the model's own output; "given": with a given target; "free": free running;
          "alone": the model has no decoder
    """

    asked: TraceRequest
    opened: LoadedRun
    output: str
    trace: Trace
    mode: str


def ask(opened: LoadedRun, asked: TraceRequest) -> TraceResult:
    """Run a model on a text."""
    refuse_unfit(opened, asked)
    if opened.spec.sequence_to_sequence:
        return _translated(opened, asked)
    output, trace = opened.spec.trace(opened.predictor, asked.text, asked.question)
    return TraceResult(asked, opened, output, trace, "alone")


def ask_about_image(opened: LoadedRun, image: bytes) -> TraceResult:
    """Run a model on an image, given as the bytes of an image file."""
    if opened.spec.input != "image":
        raise UserError("This run reads text, not images.", where=opened.name, hint="enter a sentence")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "image"
        file.write_bytes(image)
        try:
            output, trace = opened.spec.trace(opened.predictor, str(file), "")
        except UserError as error:  # its location is the temporary file
            raise UserError(error.message, where=opened.name, hint=error.hint) from None
    return TraceResult(TraceRequest(opened.name, ""), opened, output, trace, "alone")


def image_examples(opened: LoadedRun) -> list[LabelledImage]:
    """Return one image per label of the training data; none if the data was moved or deleted."""
    if opened.spec.input != "image":
        return []
    try:
        return first_images(opened.settings.data.train, opened.predictor.form)
    except UserError:  # the data is not needed for anything else
        return []


def ask_about_example(opened: LoadedRun, number: int) -> TraceResult:
    """Run a model on an example image."""
    examples = image_examples(opened)
    if not 0 <= number < len(examples):
        raise UserError(
            Message("There is no example image {n}.", n=number), where=opened.name, hint="choose an image file"
        )
    trace = trace_pixels(opened.model, examples[number].pixels_CYX, opened.predictor.labels)
    return TraceResult(TraceRequest(opened.name, ""), opened, trace.label, trace, "alone")


def translator_for(opened: LoadedRun, asked: TraceRequest) -> Translator:
    """Return the translator of a run for an input that it can read; raise `UserError` for a run of another task."""
    refuse_unfit(opened, asked)
    opened.require_translation()
    translator: Translator = opened.predictor
    return translator


def refuse_unfit(opened: LoadedRun, asked: TraceRequest) -> None:
    """Raise a `UserError` for a text that is too long, or for a run that reads images."""
    if opened.spec.input == "image":
        raise UserError("This run reads images, not text.", where=opened.name, hint="choose an image file")
    for text in (asked.text, asked.target or "", asked.question):
        message = Message("The text is too long: {n} characters.", n=f"{len(text):,}")
        if len(text) <= MOST_CHARACTERS:
            tokens = len(opened.predictor.tokenizer.encode(text))
            if tokens <= MOST_TOKENS:
                continue
            message = Message("The text is too long: {n} tokens.", n=f"{tokens:,}")
        raise UserError(message, hint=Message("use at most {most} tokens", most=MOST_TOKENS))


def _translated(opened: LoadedRun, asked: TraceRequest) -> TraceResult:
    translator = opened.predictor
    if asked.free or asked.forced:
        _refuse_unknown(asked.forced.values(), len(translator.tokenizer))
        trace = translator.trace(asked.text, forced=asked.forced)
        return TraceResult(asked, opened, _written(translator, trace), trace, "free")
    if asked.target is not None:
        return TraceResult(asked, opened, asked.target, translator.trace(asked.text, asked.target), "given")
    # One pass over a finished translation takes a tenth of the time of a free-running trace. The draft may come from
    # another engine: it is shown only if the model itself writes every one of its tokens, the last one included.
    trace = translator.trace_output(asked.text, translator.greedy_tokens(asked.text))
    if trace is not None:
        return TraceResult(asked, opened, _written(translator, trace), trace, "own")
    trace = translator.trace(asked.text)
    return TraceResult(asked, opened, _written(translator, trace), trace, "free")


def _refuse_unknown(tokens: Iterable[int], entries: int) -> None:
    for token in tokens:
        if not 0 <= token < entries:
            raise UserError(
                Message("There is no token {token}.", token=token),
                hint=Message("choose a number from 0 to {last}", last=entries - 1),
            )


def _written(translator: Translator, trace: Trace) -> str:
    """Return what the decoder wrote, as text."""
    return translator.tokenizer.decode(trace.written_tokens)
