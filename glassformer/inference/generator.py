"""What goes on by itself, token by token: with a text, or with music."""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
from itertools import islice, takewhile
from typing import Any

import torch

from glassformer.data import music
from glassformer.decoding.continuing import continued
from glassformer.errors import UserError
from glassformer.glass.trace import Trace, trace_alone
from glassformer.inference.translator import Sampling
from glassformer.text.tokenizer import BYTE_TOKENS, EOS, PAD, SOS, Tokenizer
from glassformer.text.words import check_token_count

LENGTH = 500  # tokens of a continuation
BARS = 8
STEPS_A_BAR = 16  # of four quarter notes


class LanguageModel:
    """A language model with its tokenizer. `model("To be")` gives the prompt and what came to its mind."""

    def __init__(self, model: Any, tokenizer: Tokenizer) -> None:
        self.model, self.tokenizer = model, tokenizer

    def __call__(self, prompt: str = "", *, length: int = LENGTH, sampling: Sampling | None = None) -> str:
        return prompt + "".join(self.stream(prompt, length=length, sampling=sampling))

    def stream(self, prompt: str = "", *, length: int = LENGTH, sampling: Sampling | None = None) -> Iterator[str]:
        """So many tokens after a prompt, as text, as they come. After an empty prompt: what begins a line."""
        beginning = _model_input(self.tokenizer, self.tokenizer.encode(prompt))
        tokens = _drawn(self.model, beginning, length, sampling, never=[PAD, SOS])
        return self._spelled(tokens, after=bool(prompt.strip()))

    def trace(self, text: str) -> Trace:
        """Trace the pass in which the model reads a text, as a prompt is read."""
        return _read(self.model, self.tokenizer, self.tokenizer.encode(text))

    def _spelled(self, tokens: Iterator[int], *, after: bool) -> Iterator[str]:
        """The text of tokens as they come; the bytes of a character wait for the last of them."""
        if self.tokenizer.kind == "imported":
            yield from self._decoded(tokens)
            return
        bytes_so_far = codecs.getincrementaldecoder("utf-8")(errors="replace")
        for token in tokens:
            (piece,) = self.tokenizer.pieces([token])
            if token == EOS:
                yield "\n"
                after = False
            elif piece in BYTE_TOKENS:
                yield bytes_so_far.decode(bytes([BYTE_TOKENS.index(piece)]))
            elif self.tokenizer.kind == "characters":
                yield piece
            else:
                text = piece.replace("▁", " ")
                yield text if after else text.removeprefix(" ")
                after = True

    def _decoded(self, tokens: Iterator[int]) -> Iterator[str]:
        """The same for a tokenizer from elsewhere: what its own decoder adds for each token, once it is whole."""
        said, text = list[int](), ""
        for token in tokens:
            if token == EOS:
                said, text = [], ""
                yield "\n"
                continue
            said.append(token)
            now = self.tokenizer.decode_raw(said)
            if not now.endswith("\N{REPLACEMENT CHARACTER}"):
                yield now[len(text) :]
                # A decoder looks back a few tokens at most: what is older need not be decoded again.
                said, text = (said[-8:], self.tokenizer.decode_raw(said[-8:])) if len(said) > 64 else (said, now)


class Composer:
    """A language model of notes. `composer()` gives a piece as steps of four pitches."""

    def __init__(self, model: Any, tokenizer: Tokenizer) -> None:
        self.model, self.tokenizer = model, tokenizer

    def __call__(
        self,
        chord: Sequence[int] | None = None,
        *,
        steps: int | None = None,
        sampling: Sampling | None = None,
    ) -> list[list[int]]:
        """A piece of so many steps that begins with a chord, or as pieces begin.

        Where no number is given, it ends where the model ends it, but not before 8 bars and no later than after 32.
        """
        notes = [] if chord is None else self._encoded(music.steps_to_text([chord]))
        least, most = (steps, steps) if steps is not None else (BARS * STEPS_A_BAR, 4 * BARS * STEPS_A_BAR)
        notes += self._drawn(notes, least, sampling, never=[EOS])
        notes += takewhile(EOS.__ne__, self._drawn(notes, most, sampling, never=[]))
        return music.text_to_steps(" ".join(self.tokenizer.pieces(notes)))

    def trace(self, pitches: str) -> Trace:
        """Trace the pass in which the model reads pitches, such as "67 62 59 43". An unknown pitch is refused."""
        return _read(self.model, self.tokenizer, self._encoded(pitches))

    def _drawn(self, notes: list[int], steps: int, sampling: Sampling | None, *, never: list[int]) -> Iterator[int]:
        """What comes after some notes, until there are so many steps."""
        never = [PAD, SOS, *never, *([] if self.tokenizer.unk_id is None else [self.tokenizer.unk_id])]
        wanted = max(0, steps * len(music.VOICES) - len(notes))
        return _drawn(self.model, _model_input(self.tokenizer, notes), wanted, sampling, never=never)

    def _encoded(self, pitches: str) -> list[int]:
        ids = self.tokenizer.encode(pitches)
        if self.tokenizer.unk_id in ids:
            pitch = pitches.split()[ids.index(int(self.tokenizer.unk_id or 0))]
            raise UserError(
                f"The pitch {pitch} does not occur in the music that this model knows.",
                where=pitches,
                hint="take a chord from its training pieces, or none",
            )
        return ids


def _model_input(tokenizer: Tokenizer, ids: Sequence[int]) -> list[int]:
    """Return the tokens that a language model reads: those of a text or of notes, at the beginning of a line."""
    return [tokenizer.newline_id, *ids]


def _read(model: Any, tokenizer: Tokenizer, ids: Sequence[int]) -> Trace:
    """Trace the pass in which a language model reads the tokens of a text."""
    read = _model_input(tokenizer, ids)
    check_token_count(len(read), model.max_positions, " ".join(tokenizer.pieces(read[1:17])))
    return trace_alone(model, tokenizer.pieces, read)


def _drawn(
    model: Any, beginning: list[int], length: int, sampling: Sampling | None, *, never: list[int]
) -> Iterator[int]:
    """So many tokens after a beginning, drawn by chance, as they come."""
    how = sampling or Sampling()
    tokens = continued(
        model,
        torch.tensor(beginning, device=next(model.parameters()).device),
        temperature=how.temperature,
        top_k=how.top_k,
        top_p=how.top_p,
        seed=how.seed,
        never=never,
    )
    return islice(tokens, length)
