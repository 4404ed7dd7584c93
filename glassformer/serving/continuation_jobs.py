"""Jobs for language models: the text that continues a prompt, as by `glassformer predict`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from glassformer.decoding import MAX_NEW_TOKENS, Sampling, truncate_left
from glassformer.decoding import Hypothesis as Output
from glassformer.engine.session import Request, Session
from glassformer.inference.search_engine import Search, draw_rolls, search_options
from glassformer.inference.text_stream import TextStream
from glassformer.serving.batching import Part, Work
from glassformer.serving.jobs import Hypothesis, Job, Result
from glassformer.text.special_tokens import PAD, SOS
from glassformer.text.tokenizer import Tokenizer

NO_EOS = -1  # a language model ends a line and continues with the next one


@dataclass
class ContinuationWork(Work):
    """A continuation in progress.

    The model reads at most `max_positions` tokens. When they are used up, a further part begins with the last of them,
    as in `decoding.generate`. A temperature of 0 is greedy decoding.
    """

    number: int
    job: Job
    tokenizer: Tokenizer
    max_positions: int
    stream: bool = False
    written: list[int] = field(default_factory=list)
    log_probability: float = 0.0

    def __post_init__(self) -> None:
        job = self.job
        self.prompt = [self.tokenizer.newline_id, *self.tokenizer.encode(job.text + job.prefix)]
        self.length = MAX_NEW_TOKENS if job.max_length is None else job.max_length
        sampling = Sampling(job.temperature or 1.0, job.top_k or 0, job.top_p or 1.0)
        self.sampling = None if job.temperature == 0 else sampling
        self.rolls = draw_rolls(1 if job.seed is None else job.seed, self.length) if self.sampling else []
        self._pushed, self._text = 0, job.prefix
        self._decoder = TextStream(self.tokenizer, after_word=bool((job.text + job.prefix).strip()))

    def first_parts(self) -> list[Part]:
        return [self._part()] if self.length > 0 else []

    def finish(self, part: Part, found: list[Output]) -> list[Part]:
        self.written += found[0].tokens
        self.log_probability += found[0].log_probability
        return [self._part()] if len(self.written) < self.length and found[0].tokens else []

    def result(self, session: Session | None) -> Result:
        score = self.log_probability / max(1, len(self.written))
        return Result((Hypothesis(self._text_of(self.written), score),), len(self.prompt) - 1, len(self.written))

    def text(self, part: Part, tokens: Sequence[int]) -> str:
        return self._text_of([*self.written, *tokens])

    def _text_of(self, tokens: Sequence[int]) -> str:
        """Return the text of all tokens so far; every token is decoded once."""
        self._text += "".join(map(self._decoder.push, tokens[self._pushed :]))
        self._pushed = len(tokens)
        return self._text

    def _part(self) -> Part:
        context = [*self.prompt, *self.written]
        if len(context) > self.max_positions:
            context = truncate_left(context, self.max_positions)
        done = len(self.written)
        limit = min(self.length - done, self.max_positions - len(context) + 1)
        options = search_options(Search(sampling=self.sampling), len(self.tokenizer))
        options.eos = NO_EOS
        request = Request(options, limit, prompt=context, forbidden=(PAD, SOS), rolls=self.rolls[done : done + limit])
        return Part(self, request)
