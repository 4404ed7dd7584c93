"""Line in, line out: from a run folder to translations, with guards against what decoders do wrong."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from glassformer import machine
from glassformer.data.batching import pad_rows
from glassformer.decoding import Constraint, Hypothesis
from glassformer.decoding.beam import Considered, beam_search, normalizer
from glassformer.decoding.constraints import all_of, at_least, no_repeated
from glassformer.decoding.greedy import greedy
from glassformer.decoding.sampling import sample
from glassformer.errors import Message, UserError
from glassformer.glass.beside import Beside
from glassformer.glass.effects import Effect, Grid, effect_of, grid_of
from glassformer.glass.interventions import Change
from glassformer.glass.trace import Trace, trace, trace_steps
from glassformer.glass.tree import Finished, SearchTree, TreeBuilder
from glassformer.inference.run import RunFolder, load_run, load_settings
from glassformer.settings import DecodeSettings, task_traits
from glassformer.text.tokenizer import EOS, SOS, Tokenizer

Precision = Literal["fp32", "int8"]

LINES_AT_ONCE = 2048  # read ahead of a stream: enough to sort by length, little to hold
NO_LIMIT = 2**31
LOWEST_TEMPERATURE, HIGHEST_TEMPERATURE = 1e-4, 1e4  # beyond, scaled logits leave the range of fp32
BATCH_ROWS = 128  # sentences times beams: more would not be faster
BATCH_TOKENS = 8192  # of source, padding and beams included: what memory is for


@dataclass(frozen=True)
class Sampling:
    """Draw tokens by chance instead of searching for the likeliest output."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 1

    def __post_init__(self) -> None:
        if not LOWEST_TEMPERATURE <= self.temperature <= HIGHEST_TEMPERATURE:
            raise UserError(
                f"A temperature of {self.temperature} is impossible.",
                where="--temperature",
                hint=f"take one above 0, such as 0.8: from {LOWEST_TEMPERATURE:g} to {HIGHEST_TEMPERATURE:g}",
            )
        if self.top_k < 0:
            raise UserError(
                f"top-k of {self.top_k} is impossible.", where="--top-k", hint="take 0 (all tokens) or more"
            )
        if not 0 < self.top_p <= 1:
            raise UserError(
                f"top-p of {self.top_p} is impossible.", where="--top-p", hint="take one above 0 and at most 1"
            )


@dataclass(frozen=True)
class Candidate:
    """One translation of a line; the score is its length-normalised log-probability."""

    text: str
    score: float
    log_probability: float
    tokens: int


@dataclass(frozen=True)
class Translation:
    """The best translation of a line, the others of an n-best list, and what a person should know about it."""

    text: str
    score: float = 0.0
    candidates: list[Candidate] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def tokens(self) -> int:
        return self.candidates[0].tokens if self.candidates else 0


class Translator:
    """A model with its tokenizer. `translator("I am a student")` gives a line; a list of lines gives a list."""

    def __init__(self, model: Any, tokenizer: Tokenizer, settings: DecodeSettings) -> None:
        self.model, self.tokenizer, self.settings = model, tokenizer, settings
        self.loaded_from: tuple[Path, Precision] | None = None  # set by `load`: run folder and precision
        self.max_sentences = NO_LIMIT  # decoded at a time; the batch is also limited by its tokens

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
        """Every line, in order. Empty lines stay empty. What is drawn for a line depends on its number."""
        numbers = range(len(lines)) if numbers is None else numbers
        settings = self.settings if beam is None else replace_beam(self.settings, beam)
        parts = [self._parts(line) for line in lines]
        flat = [(row, ids) for row, ids_of_parts in enumerate(parts) for ids in ids_of_parts]
        seeds = [(sampling.seed << 32) + numbers[row] if sampling else 0 for row, _ in flat]
        found = _Search(self.model, settings, sampling, self.max_sentences).run([ids for _, ids in flat], seeds)
        by_row: list[list[list[Hypothesis]]] = [[] for _ in lines]
        for (row, _), hypotheses in zip(flat, found, strict=True):
            by_row[row].append(hypotheses)
        return [self._translation(line, of_parts) for line, of_parts in zip(lines, by_row, strict=True)]

    def stream(
        self, lines: Iterable[str], *, beam: int | None = None, sampling: Sampling | None = None, first: int = 0
    ) -> Iterator[Translation]:
        """Like `translate`, in constant memory, for any number of lines, the first of which has a number."""
        waiting = iter(lines)
        while chunk := list(islice(waiting, LINES_AT_ONCE)):
            numbers = range(first, first + len(chunk))
            yield from self.translate(chunk, beam=beam, sampling=sampling, numbers=numbers)
            first += len(chunk)

    def likeliest(self, source: str) -> list[int]:
        """Return the tokens that a free-running trace writes, in a tenth of its time.

        The last one is `<eos>`, unless the output was cut off at its length limit.
        """
        ids = self._looked_at(source)
        limit = output_limit(self.model, self.settings, len(ids) - 1)
        source_1S = pad_rows([ids]).to(next(self.model.parameters()).device)
        (found,) = greedy(self.model, source_1S, limits=[limit], sos=SOS, eos=EOS)
        return [*found.tokens, EOS] if found.finished else found.tokens

    def trace_own(self, source: str, written: Sequence[int]) -> Trace | None:
        """Trace the pass in which this model reads its own output for a source, as `likeliest` returns it.

        Return None if the model does not write exactly these tokens: another one at any position, the last one
        included, or more of them.
        """
        limit = output_limit(self.model, self.settings, len(self._looked_at(source)) - 1)
        found = replace(self.trace(source, written[:-1]), last_token=written[-1])
        ended = written[-1] == EOS or len(written) == limit
        return found if ended and found["logits"].argmax(dim=1).tolist() == list(written) else None

    def trace(
        self, source: str, target: str | Sequence[int] | None = None, *, forced: Mapping[int, int] | None = None
    ) -> Trace:
        """Everything the model computes for a source: teacher-forced on a target, or, if none is given, free-running.

        A target is a text, or tokens.

        Free-running it writes the likeliest token a step, without the guards of `translate`; `forced` are tokens that
        it writes whatever it thinks, by the number of their step.
        """
        ids = self._looked_at(source)
        if target is None:
            limit = output_limit(self.model, self.settings, len(ids) - 1)
            return trace_steps(self.model, self.tokenizer.pieces, ids, sos=SOS, eos=EOS, limit=limit, forced=forced)
        read = self.tokenizer.encode(target) if isinstance(target, str) else target
        return trace(self.model, self.tokenizer.pieces, ids, [SOS, *read])

    def beside(self, source: str, target: str) -> Beside:
        """Teacher forcing on a target beside free running, and where they part."""
        return Beside(self.trace(source, target), self.trace(source))

    def search(self, source: str, *, beam: int | None = None) -> SearchTree:
        """Everything that a beam search considers, as a tree."""
        ids = self._looked_at(source)
        settings = self.settings if beam is None else replace_beam(self.settings, beam)
        alpha, pieces = settings.length_penalty, self.tokenizer.pieces
        builder = TreeBuilder(
            pieces(ids), pieces, beam=settings.beam, sos=SOS, eos=EOS, normalizer=lambda n: normalizer(n, alpha)
        )

        def watch(step: Considered) -> None:
            builder.step(*(of[0].tolist() for of in (step.total_BC, step.row_BC, step.token_BC, step.kept_BK)))

        (found,) = beam_search(
            self.model,
            pad_rows([ids]).to(next(self.model.parameters()).device),
            beam=settings.beam,
            alpha=alpha,
            limits=[output_limit(self.model, settings, len(ids) - 1)],
            sos=SOS,
            eos=EOS,
            constraint=at_least(settings.min_length, EOS),
            watch=watch,
        )
        builder.tree.finished += [
            Finished(self.tokenizer.decode(h.tokens), h.log_probability, h.score, h.finished) for h in found
        ]
        return builder.tree

    def effect(self, source: str, changes: Sequence[Change], target: str | None = None) -> Effect:
        """What changes inside the model do to the probability of a target (or its own output), and to its output."""
        ids = self._looked_at(source)
        limit = output_limit(self.model, self.settings, len(ids) - 1)
        target_ids = None if target is None else self.tokenizer.encode(target)
        return effect_of(self.model, self.tokenizer.pieces, ids, changes, target_ids, sos=SOS, eos=EOS, limit=limit)

    def silenced(self, source: str, target: str | None = None, *, kind: str = "encoder") -> Grid:
        """The change in log-probability of a target (or its own output) as each head of a kind is silenced."""
        found = self.trace(source, target)
        target_ids = [int(token) for token in found["decoder.tokens"][1:]]
        return grid_of(self.model, found, kind, self._looked_at(source), target_ids, sos=SOS, eos=EOS)

    def _looked_at(self, source: str) -> list[int]:
        """Return what the encoder reads of a sentence that is translated in one pass."""
        parts = self._parts(source)
        if len(parts) != 1:
            tokens = len(self.tokenizer.encode(source))
            raise UserError(
                Message("A sentence of {n} tokens cannot be traced.", n=f"{tokens:,}"),
                hint=Message("use a sentence of 1 to {most} tokens", most=self._most_source),
            )
        return _model_input(parts[0])

    @property
    def _most_source(self) -> int:
        """The most source tokens of one pass, without `<eos>`."""
        return min(self.settings.max_source, (self.model.max_positions or NO_LIMIT) - 1)

    def _parts(self, line: str) -> list[list[int]]:
        """The ids of a line; those of its parts if it is too long; nothing for an empty one."""
        ids = self.tokenizer.encode(line)
        if len(ids) <= self._most_source:
            return [ids] if ids else []
        return [part for text in split_text(line) for part in _pack(self.tokenizer.encode(text), self._most_source)]

    def _translation(self, line: str, parts: list[list[Hypothesis]]) -> Translation:
        if not parts:
            return Translation("")
        warnings = []
        if len(parts) > 1:
            warnings.append(f"too long for one pass, translated in {len(parts)} parts")
            candidates = [self._joined([hypotheses[0] for hypotheses in parts])]
        else:
            candidates = [self._joined([hypothesis]) for hypothesis in parts[0]]
        if not all(hypotheses[0].finished for hypotheses in parts):
            warnings.append("cut off at the longest output")
        if candidates[0].text == line.strip() and len(line.split()) > 3:
            warnings.append("came out as a copy of the input")
        return Translation(candidates[0].text, candidates[0].score, candidates, warnings)

    def _joined(self, hypotheses: list[Hypothesis]) -> Candidate:
        log_probability = sum(h.log_probability for h in hypotheses)
        tokens = sum(len(h.tokens) + h.finished for h in hypotheses)  # `<eos>` counts, where it was written
        return Candidate(
            text=" ".join(self.tokenizer.decode(h.tokens) for h in hypotheses).strip(),
            score=log_probability / normalizer(tokens, self.settings.length_penalty),
            log_probability=log_probability,
            tokens=tokens,
        )


def load(run: str | Path, *, precision: Precision = "fp32", device: str | None = None) -> Translator:
    """The translator of a run folder, on a GPU if there is one. "int8" is faster on a CPU, and a little less exact."""
    if device is None:
        device = machine.device()
    if device != "cpu" and precision == "int8":
        raise UserError("int8 is for CPUs.", where="--precision", hint="leave it out: a GPU is fast without")
    task = load_settings(RunFolder(run)).task
    if not task_traits(task).sequence_to_sequence:
        raise UserError(
            f"This run does not translate: its task is {task}.", where=str(run), hint=f"glassformer predict {run} …"
        )
    loaded = load_run(run, device=device, precision=precision if device == "cpu" else None)
    translator = Translator(loaded.model, loaded.tokenizer, loaded.settings.decode)
    translator.loaded_from = Path(run).absolute(), precision
    return translator


def replace_beam(settings: DecodeSettings, beam: int) -> DecodeSettings:
    if not 1 <= beam <= 64:
        raise UserError(f"A beam of {beam} is impossible.", hint="take one from 1 (greedy) to 64")
    return settings.model_copy(update={"beam": beam})


def output_limit(model: Any, settings: DecodeSettings, source: int) -> int:
    """The most tokens of an output for a source of so many (§6.1: 50 more)."""
    return min(settings.max_length or source + 50, model.max_positions or NO_LIMIT)


class _Search:
    """Decodes ids in batches of like length, in any order, and decodes again what went wrong."""

    def __init__(
        self, model: Any, settings: DecodeSettings, sampling: Sampling | None = None, max_sentences: int = NO_LIMIT
    ) -> None:
        self.model, self.settings, self.sampling, self.max_sentences = model, settings, sampling, max_sentences

    def run(self, sources: list[list[int]], seeds: list[int]) -> list[list[Hypothesis]]:
        """The hypotheses of every source, best first."""
        results: dict[int, list[Hypothesis]] = {}
        everything = range(len(sources))
        for rows in self._batches(sources, everything):
            results |= self._decode(sources, rows, seeds, at_least(self.settings.min_length, EOS))
        not_empty = max(1, self.settings.min_length)
        guarded = everything if self.settings.guard else ()
        failed = [row for row in guarded if went_wrong(sources[row], results[row][0])]
        for rows in self._batches(sources, failed):
            results |= self._decode(sources, rows, seeds, all_of(no_repeated(3), at_least(not_empty, EOS)))
        return [results[row] for row in everything]

    def _batches(self, sources: list[list[int]], among: Iterable[int]) -> Iterator[list[int]]:
        rows: list[int] = []
        for row in sorted(among, key=lambda r: -len(sources[r])):
            if rows and len(rows) >= min(self.max_sentences, self._fitting(len(sources[rows[0]]) + 1)):
                yield rows
                rows = []
            rows.append(row)
        if rows:
            yield rows

    def _fitting(self, length: int) -> int:
        """How many sentences of this length are decoded at a time."""
        copies = 1 if self.sampling else self.settings.beam
        return max(1, min(BATCH_ROWS, BATCH_TOKENS // length) // copies)

    def _decode(
        self, sources: list[list[int]], rows: list[int], seeds: list[int], constraint: Constraint | None
    ) -> dict[int, list[Hypothesis]]:
        device = next(self.model.parameters()).device
        source_BS = pad_rows([_model_input(sources[row]) for row in rows]).to(device)
        limits = [output_limit(self.model, self.settings, len(sources[row])) for row in rows]
        how = self.sampling
        if how is not None:
            found = sample(
                self.model,
                source_BS,
                temperature=how.temperature,
                top_k=how.top_k,
                top_p=how.top_p,
                seeds=[seeds[row] for row in rows],
                limits=limits,
                sos=SOS,
                eos=EOS,
                constraint=constraint,
            )
        elif self.settings.beam == 1:
            found = greedy(self.model, source_BS, limits=limits, sos=SOS, eos=EOS, constraint=constraint)
        else:
            lists = beam_search(
                self.model,
                source_BS,
                beam=self.settings.beam,
                alpha=self.settings.length_penalty,
                limits=limits,
                sos=SOS,
                eos=EOS,
                constraint=constraint,
            )
            return dict(zip(rows, lists, strict=True))
        return {row: [hypothesis] for row, hypothesis in zip(rows, found, strict=True)}


def _model_input(ids: Sequence[int]) -> list[int]:
    """Return the tokens that the encoder reads for the tokens of a sentence."""
    return [*ids, EOS]


def went_wrong(source: list[int], output: Hypothesis) -> bool:
    """Empty output for a real input, or a loop: a phrase four times in a row, which the source does not have."""
    if not output.tokens:
        return True
    return longest_loop(output.tokens) > max(3, longest_loop(source))


def longest_loop(tokens: Sequence[int]) -> int:
    """How often a phrase of up to eight tokens follows itself, at most; 1 if none does."""
    most = 1
    for period in range(1, min(8, len(tokens) // 2) + 1):
        run = 0
        for i in range(period, len(tokens)):
            run = run + 1 if tokens[i] == tokens[i - period] else 0
            most = max(most, run // period + 1)
    return most


def split_text(line: str) -> list[str]:
    """A line at its sentence ends: what follows . ! ? ; or their like, and a space (or none, in CJK)."""
    return [part for part in re.split(r"(?<=[.!?;…])\s+|(?<=[。！？；])", line) if part.strip()]


def _pack(ids: list[int], most: int) -> list[list[int]]:
    """A sentence that is still too long is cut into pieces of like size."""
    pieces = -(-len(ids) // most) if ids else 0
    size = -(-len(ids) // pieces) if pieces else 1
    return [ids[i : i + size] for i in range(0, len(ids), size)]
