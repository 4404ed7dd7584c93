"""A sentence in, a trace out: how each task is asked, and what it says."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from glassformer.errors import Message, UserError
from glassformer.glass.trace import Trace
from glassformer.inference.translator import Translator
from glassformer.studio.model_store import LoadedRun

MOST_TOKENS = 256  # a side: all scores of a longer sentence would take gigabytes
MOST_CHARACTERS = 20 * MOST_TOKENS  # beyond, the tokens are not even counted


@dataclass(frozen=True)
class TraceRequest:
    """What a visitor asks.

    target    what a decoder is to read (teacher forcing); None for its own translation
    free      it reads what it writes itself, a step at a time
    forced    tokens that are written whatever the model thinks, by the number of their step
    question  of a run that answers questions about a text
    """

    run: str
    text: str
    target: str | None = None
    free: bool = False
    forced: dict[int, int] = field(default_factory=dict)
    question: str = ""


@dataclass(frozen=True)
class TraceResult:
    """An answer, everything that was computed for it, and the model that did: the run may change meanwhile."""

    asked: TraceRequest
    opened: LoadedRun
    output: str
    trace: Trace
    mode: (
        str  # "own": read its own translation; "given": read a given target; "free": step by step; "alone": no decoder
    )


def ask(opened: LoadedRun, asked: TraceRequest) -> TraceResult:
    """One pass over a sentence."""
    _refuse_unfit(opened, asked)
    if opened.settings.task == "translation":
        return _translated(opened, asked)
    output, trace = _predicted(opened, asked)
    return TraceResult(asked, opened, output, trace, "alone")


def ask_about_image(opened: LoadedRun, image: bytes) -> TraceResult:
    """One pass over a picture, given as the bytes of its file."""
    if opened.settings.task != "images":
        raise UserError("This run reads text, not images.", where=opened.name, hint="enter a sentence")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "image"
        file.write_bytes(image)
        try:
            trace = opened.predictor.trace(file)
        except UserError as error:  # whose file is one of ours
            raise UserError(error.message, where=opened.name, hint=error.hint) from None
    return TraceResult(TraceRequest(opened.name, ""), opened, trace.label, trace, "alone")


def translator_for(opened: LoadedRun, asked: TraceRequest) -> Translator:
    """The translator of a run, for a sentence that it can be asked about; a run of another task is refused."""
    _refuse_unfit(opened, asked)
    opened.require_translation()
    translator: Translator = opened.predictor
    return translator


def _refuse_unfit(opened: LoadedRun, asked: TraceRequest) -> None:
    if opened.settings.task == "images":
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
    # 8-bit weights: it is shown only if the model itself writes every one of its tokens, the last one included.
    trace = translator.trace_own(asked.text, opened.drafter.likeliest(asked.text))
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


def _predicted(opened: LoadedRun, asked: TraceRequest) -> tuple[str, Trace]:
    """What a run of another task says in a few words, and its trace."""
    predictor, text = opened.predictor, asked.text
    match opened.settings.task:
        case "answers":
            if not asked.question.strip():
                raise UserError("The question is empty.", where=opened.name, hint="enter some words")
            found = predictor.trace(asked.question, text)
            return found.answer or "", found
        case "classification":
            return predictor.predict([text])[0].label, predictor.trace(text)
        case "tagging":
            return " ".join(f"{word}/{tag}" for word, tag in predictor.predict([text])[0]), predictor.trace(text)
        case "masked_words" if "___" in text:
            return predictor.predict([text])[0].text, predictor.trace(text)
    trace = predictor.trace(text)
    return trace.predicted[-1].replace("▁", " ").strip() if trace.target else "", trace
