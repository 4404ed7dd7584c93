"""Decoding of many sentences in batches of similar length, with a second attempt for degenerate outputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from glassformer.decoding import Hypothesis, Sampling
from glassformer.inference.search_engine import Search, SearchEngine
from glassformer.settings import DecodeSettings

NO_LIMIT = 2**31
BATCH_TOKENS = 8192  # source tokens, padding and beams included: limits memory
GUARD_NGRAM = 3  # in the second attempt no n-gram of this size occurs twice


def output_limit(max_positions: int | None, settings: DecodeSettings, source_length: int) -> int:
    """Return the maximum output length for a source of `source_length` tokens, without `<eos>` (§6.1: 50 more)."""
    return min(settings.max_length or source_length + 50, max_positions or NO_LIMIT)


class BatchDecoder:
    """Decodes model inputs (token ids with `<eos>`) by beam search, greedy decoding or sampling."""

    def __init__(
        self,
        engine: SearchEngine,
        settings: DecodeSettings,
        sampling: Sampling | None = None,
        max_sentences: int = NO_LIMIT,
    ) -> None:
        self.engine, self.settings, self.sampling, self.max_sentences = engine, settings, sampling, max_sentences

    def decode(self, sources: list[list[int]], seeds: list[int]) -> list[list[Hypothesis]]:
        """Return the hypotheses of every source, best first. With `settings.guard`, decode degenerate ones again."""
        results: dict[int, list[Hypothesis]] = {}
        for rows in self._batches(sources, range(len(sources))):
            results |= self._decode_batch(sources, rows, seeds, min_length=self.settings.min_length)
        if self.settings.guard:
            failed = [row for row, source in enumerate(sources) if is_degenerate(source, results[row][0])]
            least = max(1, self.settings.min_length)
            for rows in self._batches(sources, failed):
                results |= self._decode_batch(sources, rows, seeds, min_length=least, no_repeat_ngram=GUARD_NGRAM)
        return [results[row] for row in range(len(sources))]

    def _batches(self, sources: list[list[int]], chosen: Iterable[int]) -> Iterator[list[int]]:
        rows: list[int] = []
        for row in sorted(chosen, key=lambda r: -len(sources[r])):
            if rows and len(rows) >= min(self.max_sentences, self._batch_size(len(sources[rows[0]]))):
                yield rows
                rows = []
            rows.append(row)
        if rows:
            yield rows

    def _batch_size(self, length: int) -> int:
        """Return how many sentences of this length are decoded at a time."""
        copies = 1 if self.sampling else self.settings.beam
        return max(1, min(self.engine.batch_rows, BATCH_TOKENS // length) // copies)

    def _decode_batch(
        self, sources: list[list[int]], rows: list[int], seeds: list[int], *, min_length: int, no_repeat_ngram: int = 0
    ) -> dict[int, list[Hypothesis]]:
        search = Search(
            beam=self.settings.beam,
            alpha=self.settings.length_penalty,
            min_length=min_length,
            no_repeat_ngram=no_repeat_ngram,
            sampling=self.sampling,
            seeds=[seeds[row] for row in rows],
        )
        limits = [output_limit(self.engine.max_positions, self.settings, len(sources[row]) - 1) for row in rows]
        return dict(zip(rows, self.engine.search([sources[row] for row in rows], limits, search), strict=True))


def is_degenerate(source: Sequence[int], output: Hypothesis) -> bool:
    """Return whether an output is empty, or repeats a phrase four times in a row when the source does not."""
    if not output.tokens:
        return True
    return max_repetitions(output.tokens) > max(3, max_repetitions(source))


def max_repetitions(tokens: Sequence[int]) -> int:
    """Return how often a phrase of up to eight tokens is repeated in a row, at most; 1 if none is."""
    most = 1
    for period in range(1, min(8, len(tokens) // 2) + 1):
        run = 0
        for i in range(period, len(tokens)):
            run = run + 1 if tokens[i] == tokens[i - period] else 0
            most = max(most, run // period + 1)
    return most
