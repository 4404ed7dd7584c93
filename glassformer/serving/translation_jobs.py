"""Translation jobs: model inputs, how to search, and the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from glassformer.decoding import Hypothesis as Output
from glassformer.decoding import Sampling
from glassformer.engine.library import MAX_TOKENS, SearchOptions
from glassformer.engine.session import Request, Session
from glassformer.errors import UserError
from glassformer.inference.batch_decoder import GUARD_NGRAM, is_degenerate, output_limit
from glassformer.inference.search_engine import Search, draw_rolls, search_options
from glassformer.inference.translator import Translator
from glassformer.inference.word_alignment import word_alignment
from glassformer.serving.batching import Part, Work
from glassformer.serving.jobs import Hypothesis, Job, Result
from glassformer.settings import DecodeSettings

MAX_KNOWN = 256  # search settings that are kept
MIN_TERM_BEAM = 8  # a smaller beam has no room for hypotheses with and without the terms


@dataclass(frozen=True)
class SearchSettings:
    """How the sentences of a job are decoded.

    Attributes:
        attempts: the options of the first attempt, and of the second one, for degenerate outputs (see `BatchDecoder`).
    """

    settings: DecodeSettings
    sampling: Sampling | None
    seed: int
    attempts: tuple[SearchOptions, SearchOptions]


class SearchCache:
    """The search settings of recent jobs: most jobs of a service have the same."""

    def __init__(self, translator: Translator) -> None:
        self.translator = translator
        self._known: dict[tuple[object, ...], SearchSettings] = {}

    def of(self, job: Job) -> SearchSettings:
        """Return how a job is decoded: as by `glassformer translate` with the same options.

        Raises:
            UserError: if an option is out of range.
        """
        sampled = (job.temperature, job.top_k, job.top_p, job.seed)
        key = (job.beam, job.n_best, job.max_length, bool(job.constraints), *sampled)
        if key not in self._known:
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            self._known[key] = self._settings(job)
        return self._known[key]

    def _settings(self, job: Job) -> SearchSettings:
        beam = job.beam or max(job.n_best, self.translator.settings.beam)
        if job.n_best > beam:
            raise UserError(f"n_best={job.n_best} exceeds the beam size {beam}.", hint="raise beam, or lower n_best")
        settings = self.translator.decode_settings(max(beam, MIN_TERM_BEAM) if job.constraints else beam)
        if job.max_length is not None:
            settings = settings.model_copy(update={"max_length": job.max_length})
        seed, sampling = 1 if job.seed is None else job.seed, None
        if job.temperature is not None:
            sampling = Sampling(job.temperature, job.top_k or 0, job.top_p or 1.0, seed)
        first, second = (self._options(settings, sampling, attempt) for attempt in (0, 1))
        return SearchSettings(settings, sampling, seed << 32, (first, second))

    def _options(self, settings: DecodeSettings, sampling: Sampling | None, attempt: int) -> SearchOptions:
        search = Search(
            beam=settings.beam,
            alpha=settings.length_penalty,
            min_length=max(attempt, settings.min_length),
            no_repeat_ngram=GUARD_NGRAM * attempt,
            sampling=sampling,
        )
        return search_options(search, len(self.translator.tokenizer))


@dataclass
class TranslationWork(Work):
    """A translation in progress. A line that is too long for one pass has several model inputs.

    Raises:
        UserError: if a job with a prefix or with terms is too long for one pass, or an option is out of range.
    """

    number: int
    job: Job
    searches: SearchCache
    stream: bool = False
    found: dict[int, list[Output]] = field(default_factory=dict)  # hypotheses by model input

    def __post_init__(self) -> None:
        self.translator = self.searches.translator
        self.search_settings = self.searches.of(self.job)
        self.sources = self.translator.encode(self.job.text)
        tokenizer = self.translator.tokenizer
        self.prefix = tokenizer.encode(self.job.prefix) if self.job.prefix else []
        encoded = [[tokenizer.encode(text) for text in term] for term in self.job.constraints]
        self.terms = [[ids for ids in term if ids] for term in encoded if any(term)]
        if len(self.sources) > 1 and (self.prefix or self.terms):
            raise UserError(
                "The text is too long to be decoded in one pass with a prefix or with terms.",
                where="text",
                hint=f"split it: one pass reads at most {self.translator.max_source} tokens",
            )

    def first_parts(self) -> list[Part]:
        return [self._part(index) for index in range(len(self.sources))]

    def finish(self, part: Part, found: list[Output]) -> list[Part]:
        self.found[part.index] = found
        failed = self.search_settings.settings.guard and is_degenerate(self.sources[part.index], found[0])
        return [self._part(part.index, attempt=1)] if failed and part.attempt == 0 else []

    def result(self, session: Session | None) -> Result:
        outputs = [self.found[index] for index in range(len(self.sources))]
        translation = self.translator.join_parts(self.job.text, [found[: self.job.n_best] for found in outputs])
        hypotheses = [Hypothesis(one.text, one.score) for one in translation.candidates]
        if self.job.alignment and session is not None:
            hypotheses = [self._aligned(session, rank, one) for rank, one in enumerate(hypotheses)]
        source_tokens = sum(len(source) - 1 for source in self.sources)
        return Result(tuple(hypotheses) or (Hypothesis("", 0.0),), source_tokens, translation.tokens)

    def text(self, part: Part, tokens: Sequence[int]) -> str:
        before = [self.found[index][0].tokens for index in range(part.index) if index in self.found]
        if len(before) < part.index:  # an earlier part is not done
            return ""
        return " ".join(self.translator.tokenizer.decode(ids) for ids in (*before, tokens)).strip()

    def _part(self, index: int, attempt: int = 0) -> Part:
        """Return a model input as a request."""
        source, max_positions = self.sources[index], self.translator.engine.max_positions
        limit = min(output_limit(max_positions, self.search_settings.settings, len(source) - 1), MAX_TOKENS)
        request = Request(
            self.search_settings.attempts[attempt],
            limit,
            source,
            prefix=self.prefix[: limit - 1],
            terms=self.terms,
            rolls=draw_rolls(self.search_settings.seed, limit) if self.search_settings.sampling else (),
        )
        return Part(self, request, index, attempt)

    def _aligned(self, session: Session, rank: int, hypothesis: Hypothesis) -> Hypothesis:
        """Return a hypothesis with its word alignment; the words of all parts are counted together."""
        tokenizer, pairs = self.translator.tokenizer, list[tuple[int, int]]()
        sources = targets = 0
        for index, source in enumerate(self.sources):
            output = self.found[index][rank if len(self.sources) == 1 else 0].tokens
            pairs += [(s + sources, t + targets) for s, t in word_alignment(session, tokenizer, source, output)]
            sources += len(tokenizer.decode(source[:-1]).split())
            targets += len(tokenizer.decode(output).split())
        return Hypothesis(hypothesis.text, hypothesis.score, tuple(pairs))
