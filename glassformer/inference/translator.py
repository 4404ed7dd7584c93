"""Translation with a trained run: batches, long lines, n-best lists, warnings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer import machine
from glassformer.decoding import Hypothesis, Sampling, length_penalty
from glassformer.engine.library import Unavailable, Unsupported
from glassformer.errors import Message, UserError
from glassformer.inference.batch_decoder import NO_LIMIT, BatchDecoder, output_limit
from glassformer.inference.run_folder import RunFolder, load_settings, load_transformer_settings
from glassformer.inference.search_engine import (
    EngineName,
    NativeEngine,
    Precision,
    Search,
    SearchEngine,
    TorchEngine,
    load_native,
)
from glassformer.inference.shortlist import Shortlist
from glassformer.settings import DecodeSettings, task_traits
from glassformer.text.special_tokens import EOS
from glassformer.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from torch import nn

    from glassformer.glass.effects import HeadAblation, InterventionEffect
    from glassformer.glass.interventions import Intervention
    from glassformer.glass.search_tree import SearchTree
    from glassformer.glass.teacher_forcing import TeacherForcingComparison
    from glassformer.glass.trace import Trace
    from glassformer.inference.run import Run

STREAM_LINES = 2048  # lines read ahead: enough to sort by length, few enough to hold in memory


@dataclass(frozen=True)
class Candidate:
    """One translation of a line; its score is the length-normalized log-probability."""

    text: str
    score: float
    log_probability: float
    tokens: int


@dataclass(frozen=True)
class Translation:
    """The best translation of a line, the n-best list, and warnings.

    Example:
        >>> (translation,) = translator.translate(["I am a student"], beam=4)
        >>> translation.text, translation.score, [c.text for c in translation.candidates]
    """

    text: str
    score: float = 0.0
    candidates: list[Candidate] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def tokens(self) -> int:
        return self.candidates[0].tokens if self.candidates else 0


class Translator:
    """A translation model with its tokenizer. A line returns a line; a list of lines returns a list.

    Example:
        >>> translator = gf.load("runs/en-fr")
        >>> translator("I am a student")
        'je suis étudiant'
        >>> translator.trace("I am a student")["encoder.0.self.weights"].shape
    """

    def __init__(
        self,
        model: nn.Module | None,
        tokenizer: Tokenizer,
        settings: DecodeSettings,
        *,
        engine: SearchEngine | None = None,
        load_model: Callable[[], nn.Module] | None = None,
    ) -> None:
        """Make a translator of a PyTorch model, or of an engine with a function that loads the PyTorch model.

        The engine translates. The PyTorch model is needed only for traces and is loaded when it is first used.
        """
        self.tokenizer, self.settings = tokenizer, settings
        self._model, self._load_model = model, load_model
        self.engine: SearchEngine = engine or TorchEngine(self.model)
        self.notice: str | None = None  # why another engine or precision is used than was asked for
        self.loaded_from: Path | None = None  # set by `load_translator`
        self.ensemble: tuple[Path, ...] = ()  # further runs whose models decode together with it
        self.max_sentences = NO_LIMIT  # per batch; the number of tokens also limits a batch

    @property
    def model(self) -> Any:
        """The model in PyTorch."""
        if self._model is None:
            assert self._load_model is not None
            self._model = self._load_model()
        return self._model

    def __call__(self, text: str | Sequence[str]) -> str | list[str]:
        if isinstance(text, str):
            return self.translate([text])[0].text
        return [translation.text for translation in self.translate(text)]

    def translate(
        self,
        lines: Sequence[str],
        *,
        beam: int | None = None,
        sampling: Sampling | None = None,
        numbers: Sequence[int] | None = None,
    ) -> list[Translation]:
        """Translate every line; empty lines stay empty. `numbers` (line numbers) seed the sampling of each line."""
        numbers = range(len(lines)) if numbers is None else numbers
        parts = [(row, ids) for row, line in enumerate(lines) for ids in self.encode(line)]
        seeds = [(sampling.seed << 32) + numbers[row] if sampling else 0 for row, _ in parts]
        decoder = BatchDecoder(self.engine, self.decode_settings(beam), sampling, self.max_sentences)
        by_row: list[list[list[Hypothesis]]] = [[] for _ in lines]
        for (row, _), hypotheses in zip(parts, decoder.decode([ids for _, ids in parts], seeds), strict=True):
            by_row[row].append(hypotheses)
        return [self.join_parts(line, of_parts) for line, of_parts in zip(lines, by_row, strict=True)]

    def stream(
        self, lines: Iterable[str], *, beam: int | None = None, sampling: Sampling | None = None, first: int = 0
    ) -> Iterator[Translation]:
        """Translate any number of lines in constant memory. `first` is the number of the first line."""
        waiting = iter(lines)
        while chunk := list(islice(waiting, STREAM_LINES)):
            numbers = range(first, first + len(chunk))
            yield from self.translate(chunk, beam=beam, sampling=sampling, numbers=numbers)
            first += len(chunk)

    def encode(self, line: str) -> list[list[int]]:
        """Return the model inputs of a line: one, several if it is too long for one pass, none if it is empty."""
        ids = self.tokenizer.encode(line)
        if len(ids) <= self.max_source:
            parts = [ids] if ids else []
        else:
            texts = split_sentences(line)
            parts = [part for text in texts for part in _split_evenly(self.tokenizer.encode(text), self.max_source)]
        return [[*part, EOS] for part in parts]

    def encode_sentence(self, source: str) -> list[int]:
        """Return the model input of a source that is translated in one pass; another one is refused."""
        parts = self.encode(source)
        if len(parts) != 1:
            tokens = len(self.tokenizer.encode(source))
            raise UserError(
                Message("A sentence of {n} tokens cannot be traced.", n=f"{tokens:,}"),
                hint=Message("use a sentence of 1 to {most} tokens", most=self.max_source),
            )
        return parts[0]

    def decode_settings(self, beam: int | None = None) -> DecodeSettings:
        """Return the decoding settings, with another beam size if one is given."""
        return self.settings if beam is None else with_beam(self.settings, beam)

    def output_limit(self, source: Sequence[int]) -> int:
        """Return the maximum output length for a model input."""
        return output_limit(self.engine.max_positions, self.settings, len(source) - 1)

    def greedy_tokens(self, source: str) -> list[int]:
        """Return the tokens that a free-running trace writes, in a tenth of its time.

        The last token is `<eos>`, unless the output was cut off at its length limit.
        """
        ids = self.encode_sentence(source)
        ((found,),) = self.engine.search([ids], [self.output_limit(ids)], Search())
        return [*found.tokens, EOS] if found.finished else found.tokens

    def join_parts(self, line: str, parts: list[list[Hypothesis]]) -> Translation:
        """Return the translation of a line from the hypotheses of each of its model inputs (`encode`)."""
        if not parts:
            return Translation("")
        warnings = []
        if len(parts) > 1:
            warnings.append(f"too long for one pass, translated in {len(parts)} parts")
            candidates = [self._candidate([hypotheses[0] for hypotheses in parts])]
        else:
            candidates = [self._candidate([hypothesis]) for hypothesis in parts[0]]
        if not all(hypotheses[0].finished for hypotheses in parts):
            warnings.append("cut off at the maximum output length")
        if candidates[0].text == line.strip() and len(line.split()) > 3:
            warnings.append("the output is a copy of the input")
        return Translation(candidates[0].text, candidates[0].score, candidates, warnings)

    # -------------------------------------------------------------------------------- see glassformer.glass

    def trace(
        self, source: str, target: str | Sequence[int] | None = None, *, forced: Mapping[int, int] | None = None
    ) -> Trace:
        """Trace a forward pass; see `glass.trace.trace_translation`."""
        from glassformer.glass.trace import trace_translation

        return trace_translation(self, source, target, forced=forced)

    def trace_output(self, source: str, written: Sequence[int]) -> Trace | None:
        """Trace the pass over the model's own output; see `glass.trace.trace_output`."""
        from glassformer.glass.trace import trace_output

        return trace_output(self, source, written)

    def compare_teacher_forcing(self, source: str, target: str) -> TeacherForcingComparison:
        """Compare teacher forcing with free running; see `glass.teacher_forcing`."""
        from glassformer.glass.teacher_forcing import compare_with_free_running

        return compare_with_free_running(self, source, target)

    def search(self, source: str, *, beam: int | None = None) -> SearchTree:
        """Return all candidates of a beam search as a tree; see `glass.search_tree`."""
        from glassformer.glass.search_tree import trace_beam_search

        return trace_beam_search(self, source, beam=beam)

    def effect(self, source: str, changes: Sequence[Intervention], target: str | None = None) -> InterventionEffect:
        """Return the effect of interventions on the output; see `glass.effects`."""
        from glassformer.glass.effects import intervention_effect

        return intervention_effect(self, source, changes, target)

    def ablate_heads(self, source: str, target: str | None = None, *, kind: str = "encoder") -> HeadAblation:
        """Return the effect of ablating each head; see `glass.effects`."""
        from glassformer.glass.effects import ablate_heads

        return ablate_heads(self, source, target, kind=kind)

    # -------------------------------------------------------------------------------- helpers

    @property
    def max_source(self) -> int:
        """The maximum number of source tokens per pass, without `<eos>`."""
        return min(self.settings.max_source, (self.engine.max_positions or NO_LIMIT) - 1)

    def _candidate(self, hypotheses: list[Hypothesis]) -> Candidate:
        """Join the hypotheses of the parts of a line."""
        log_probability = sum(h.log_probability for h in hypotheses)
        tokens = sum(len(h.tokens) + h.finished for h in hypotheses)  # counts `<eos>` if it was written
        return Candidate(
            text=" ".join(self.tokenizer.decode(h.tokens) for h in hypotheses).strip(),
            score=log_probability / length_penalty(tokens, self.settings.length_penalty),
            log_probability=log_probability,
            tokens=tokens,
        )


def load_translator(
    run: str | Path,
    *,
    precision: Precision = "fp32",
    device: str | None = None,
    engine: EngineName = "auto",
    shortlist: bool = False,
    ensemble: Sequence[str | Path] = (),
) -> Translator:
    """Load the translator of a run folder: in the native engine on a CPU, in PyTorch on a GPU.

    Args:
        precision: "int8" is faster and a little less accurate; only the native engine has it.
        engine: "auto" uses PyTorch where the native engine cannot run; `Translator.notice` says why.
        shortlist: compute only the logits of likely tokens; faster, only in the native engine.
        ensemble: further runs with the same vocabulary; each step averages the probabilities of all models. Only in
            PyTorch. The settings of decoding are those of `run`.
    """
    folder = RunFolder(run)
    notice = None
    in_torch = f"PyTorch is used in fp32{', without a shortlist' if shortlist else ''}"
    if engine != "torch":
        try:
            if ensemble:
                raise Unsupported("the native engine does not run ensembles")
            return _load_native_translator(folder, precision, device, shortlist=shortlist)
        except Unavailable as reason:
            if engine == "native":
                raise UserError(
                    f"The native engine cannot run this: {reason}.", where=str(run), hint="leave out --engine native"
                ) from None
            expected = isinstance(reason, Unsupported) and precision == "fp32" and not shortlist
            notice = None if expected else f"{in_torch}: {reason}"
    translator = _load_torch_translator([folder, *map(RunFolder, ensemble)], device or machine.device())
    translator.notice = notice or (in_torch if precision == "int8" or shortlist else None)
    return translator


def _load_torch_translator(folders: list[RunFolder], device: str) -> Translator:
    """Load a run in PyTorch, or several as an ensemble."""
    for folder in folders:
        _refuse_other_task(folder)
    from glassformer.decoding.ensemble import Ensemble
    from glassformer.inference.run import load_run

    runs = [load_run(folder.path, device=device) for folder in folders]
    first, *others = runs
    if others:
        for other in others:
            _refuse_other_vocabulary(first, other)
        engine, load_model = TorchEngine(Ensemble([run.model for run in runs])), _refuse_trace
        translator = Translator(None, first.tokenizer, first.settings.decode, engine=engine, load_model=load_model)
    else:
        translator = Translator(first.model, first.tokenizer, first.settings.decode)
    translator.loaded_from, *members = (folder.path.absolute() for folder in folders)
    translator.ensemble = tuple(members)
    return translator


def _refuse_other_task(folder: RunFolder) -> None:
    task = load_settings(folder).task
    if not task_traits(task).sequence_to_sequence:
        run = folder.path
        raise UserError(
            f"This run does not translate: its task is {task}.", where=str(run), hint=f"glassformer predict {run} …"
        )


def _refuse_other_vocabulary(first: Run, other: Run) -> None:
    """Refuse a member of an ensemble to which token ids have another meaning."""
    if other.tokenizer.to_json() != first.tokenizer.to_json():
        raise UserError(
            f"The runs of an ensemble need the same vocabulary: this tokenizer is not that of {first.folder.path}.",
            where=str(other.folder.tokenizer),
            hint="train all on the same files with the same tokenizer settings; train.seed and the model may differ",
        )


def _refuse_trace() -> nn.Module:
    raise UserError("An ensemble cannot be traced.", hint="load one of its runs without the others")


def _load_native_translator(
    folder: RunFolder, precision: Precision, device: str | None, *, shortlist: bool
) -> Translator:
    """Load a translator into the native engine without importing PyTorch."""
    if (device or "cpu") != "cpu" or (device is None and machine.may_have_gpu() and machine.device() != "cpu"):
        raise Unsupported("the native engine runs on CPUs only")
    settings = load_transformer_settings(folder)
    if settings is None:
        raise Unsupported("the native engine runs Transformers only")
    model, decode, vocab = settings
    tokenizer = Tokenizer.load(folder.tokenizer, requested_vocab=vocab)

    def load_model() -> nn.Module:
        from glassformer.inference.run import load_run

        return load_run(folder.path).model

    native = NativeEngine(load_native(folder, model, len(tokenizer), precision))
    if shortlist:
        native.shortlist = Shortlist.load(folder.shortlist, len(tokenizer))
    translator = Translator(None, tokenizer, decode, engine=native, load_model=load_model)
    translator.loaded_from = folder.path.absolute()
    return translator


def with_beam(settings: DecodeSettings, beam: int) -> DecodeSettings:
    """Return settings with another beam size."""
    if not 1 <= beam <= 64:
        raise UserError(f"The beam size {beam} is out of range.", hint="use a beam size from 1 (greedy) to 64")
    return settings.model_copy(update={"beam": beam})


def split_sentences(line: str) -> list[str]:
    """Split a line after . ! ? ; … and a space, or after their CJK forms."""
    return [part for part in re.split(r"(?<=[.!?;…])\s+|(?<=[。！？；])", line) if part.strip()]


def _split_evenly(ids: list[int], max_size: int) -> list[list[int]]:
    """Split token ids into parts of about equal size, each at most `max_size`."""
    count = -(-len(ids) // max_size) if ids else 0
    size = -(-len(ids) // count) if count else 1
    return [ids[i : i + size] for i in range(0, len(ids), size)]
