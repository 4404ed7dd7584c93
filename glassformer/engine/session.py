"""Continuous batching in the native engine: sentences join and leave between the steps of the decoder."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import byref, c_double, c_float, c_int32
from dataclasses import dataclass
from itertools import chain

from glassformer.decoding import Hypothesis
from glassformer.engine.library import SearchOptions, Sentence, check, library
from glassformer.engine.model import NativeModel, Worker, hypotheses, int_array


@dataclass(frozen=True)
class Request:
    """One sentence to decode.

    Attributes:
        limit: the maximum number of output tokens, with the prefix.
        source: token ids with `<eos>`; empty for a language model.
        prompt: token ids that the decoder reads first; `options.sos` if empty.
        prefix: token ids that the output starts with.
        forbidden: token ids that are never written.
        terms: must occur in the output; each is a list of alternatives, which are token ids.
        rolls: for sampling, `limit` numbers in [0, 1).
    """

    options: SearchOptions
    limit: int
    source: Sequence[int] = ()
    prompt: Sequence[int] = ()
    prefix: Sequence[int] = ()
    forbidden: Sequence[int] = ()
    terms: Sequence[Sequence[Sequence[int]]] = ()
    rolls: Sequence[float] = ()


class Session(Worker):
    """Decodes any number of sentences at a time in one thread; each is identified by a number.

    Example:
        >>> session = Session(model)
        >>> (number,) = session.add([Request(options, limit=20, source=[3, 4, 2])])
        >>> while number not in session.step():
        ...     pass
        >>> session.collect(number)
    """

    def __init__(self, model: NativeModel) -> None:
        super().__init__(model)
        self._sizes: dict[int, tuple[int, int]] = {}  # beam and limit by number

    def __len__(self) -> int:
        """Return the number of sentences; finished ones count until they are collected."""
        return len(self._sizes)

    def add(self, requests: Sequence[Request]) -> list[int]:
        """Encode sentences; return their numbers. Either all join or none.

        Raises:
            ValueError: if a token or a length is out of range.
        """
        if any(request.rolls and len(request.rolls) != request.limit for request in requests):
            raise ValueError("sampling needs one roll per output token")
        count = len(requests)
        kept = [_sentence(request) for request in requests]
        options = (SearchOptions * count)(*(request.options for request in requests))
        numbers = (c_int32 * count)()
        check(library().gf_add(self._handle, count, options, (Sentence * count)(*kept), numbers))
        for number, request in zip(numbers, requests, strict=True):
            self._sizes[number] = request.options.beam, request.limit
        return list(numbers)

    def step(self) -> list[int]:
        """Decode the next token of every sentence; return the numbers of the sentences that finished."""
        room = len(self._sizes)
        ended, count = (c_int32 * room)(), c_int32()
        check(library().gf_step(self._handle, room, ended, byref(count)))
        return ended[: count.value]

    def collect(self, number: int) -> list[Hypothesis]:
        """Return the hypotheses of a finished sentence, best first, and remove it.

        Raises:
            FloatingPointError: if there was no distribution to sample from.
            MemoryError: if there was no memory for its cache.
        """
        beam, limit = self._sizes[number]
        tokens = (c_int32 * (beam * limit))()
        lengths, finished = (c_int32 * beam)(), (c_int32 * beam)()
        log_probabilities, scores = (c_double * beam)(), (c_double * beam)()
        rows = (tokens, lengths, log_probabilities, scores, finished)
        try:
            check(library().gf_collect(self._handle, number, limit, *rows))
        finally:
            self.remove(number)
        return hypotheses(range(beam), limit, *rows)

    def remove(self, number: int) -> None:
        """Remove a sentence, finished or not."""
        del self._sizes[number]
        check(library().gf_remove(self._handle, number))

    def progress(self, number: int) -> list[int]:
        """Return the output tokens so far of the best hypothesis of an unfinished sentence."""
        limit = self._sizes[number][1]
        tokens = (c_int32 * limit)()
        count = library().gf_progress(self._handle, number, 0, limit, tokens)
        check(count)
        return tokens[:count]

    def cross_attention(self, source: Sequence[int], tokens: Sequence[int], layer: int) -> list[list[float]]:
        """Return the mean attention weights over the source, per token that the decoder reads, in one decoder layer."""
        weights = (c_float * (len(source) * len(tokens)))()
        sizes = (len(source), int_array(source), len(tokens), int_array(tokens))
        check(library().gf_cross_attention(self._handle, *sizes, layer, weights))
        return [weights[i : i + len(source)] for i in range(0, len(weights), len(source))]


def _sentence(request: Request) -> Sentence:
    """Return the structure of a sentence; it holds references to its arrays."""
    terms = list(chain.from_iterable(map(_flat_term, request.terms)))
    lists = (request.source, request.prompt, request.prefix, request.forbidden, terms)
    pointers = (int_array(ids) if ids else None for ids in lists)
    rolls = (c_double * len(request.rolls))(*request.rolls) if request.rolls else None
    return Sentence(*pointers, rolls, *map(len, lists), request.limit)


def _flat_term(alternatives: Sequence[Sequence[int]]) -> list[int]:
    return [len(alternatives), *chain.from_iterable((len(ids), *ids) for ids in alternatives)]
