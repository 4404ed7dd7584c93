"""Generation with language models: text, or music."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, takewhile
from typing import TYPE_CHECKING

import torch

from glassformer.data import music
from glassformer.decoding import MAX_NEW_TOKENS
from glassformer.decoding.generate import generate
from glassformer.decoding.sampling import Sampling
from glassformer.errors import UserError
from glassformer.inference.predictor import SequencePredictor
from glassformer.inference.text_stream import TextStream
from glassformer.text.tokenizer import EOS, PAD, SOS
from glassformer.text.words import check_token_count

if TYPE_CHECKING:
    from glassformer.glass.trace import Trace

BARS = 8
STEPS_PER_BAR = 16  # sixteenth notes in a bar of four quarter notes


class _LanguageModelPredictor(SequencePredictor):
    """Base class of predictors with a language model. The model input begins with the token that ends a line."""

    def encode(self, text: str) -> list[int]:
        return [self.tokenizer.newline_id, *self.tokenizer.encode(text)]

    def trace(self, text: str) -> Trace:
        ids = self.encode(text)
        check_token_count(len(ids), self.model.max_positions, " ".join(self.tokenizer.pieces(ids[1:17])))
        return super().trace(text)

    def _generate(
        self, ids: list[int], length: int, sampling: Sampling | None, *, forbidden: list[int]
    ) -> Iterator[int]:
        """Yield `length` sampled tokens after a model input."""
        prompt_T = torch.tensor(ids, device=next(self.model.parameters()).device)
        return islice(generate(self.fast_model, prompt_T, sampling or Sampling(), forbidden=forbidden), length)


class TextGenerator(_LanguageModelPredictor):
    """A language model that continues a prompt.

    Example:
        >>> generator = gf.load("runs/shakespeare")
        >>> print(generator("ROMEO:", length=100, sampling=gf.Sampling(temperature=0.8)))
    """

    def __call__(self, prompt: str = "", *, length: int = MAX_NEW_TOKENS, sampling: Sampling | None = None) -> str:
        return prompt + "".join(self.stream(prompt, length=length, sampling=sampling))

    def stream(
        self, prompt: str = "", *, length: int = MAX_NEW_TOKENS, sampling: Sampling | None = None
    ) -> Iterator[str]:
        """Yield the text of `length` tokens after a prompt as they are generated. An empty prompt starts a line."""
        tokens = self._generate(self.encode(prompt), length, sampling, forbidden=[PAD, SOS])
        text = TextStream(self.tokenizer, after_word=bool(prompt.strip()))
        return map(text.push, tokens)


class MusicGenerator(_LanguageModelPredictor):
    """A language model of notes. Returns a piece as a list of steps of four pitches.

    Example:
        >>> generator = gf.load("runs/chorales")
        >>> steps = generator([67, 62, 59, 43])
    """

    def __call__(
        self, chord: Sequence[int] | None = None, *, steps: int | None = None, sampling: Sampling | None = None
    ) -> list[list[int]]:
        """Generate a piece, beginning with a chord if one is given.

        Without `steps`, the piece ends where the model ends it, but after 8 bars at least and 32 bars at most.
        """
        ids = self.encode("" if chord is None else music.steps_to_text([chord]))
        least, most = (steps, steps) if steps is not None else (BARS * STEPS_PER_BAR, 4 * BARS * STEPS_PER_BAR)
        ids += self._continue(ids, least, sampling, forbidden=[EOS])
        ids += takewhile(EOS.__ne__, self._continue(ids, most, sampling, forbidden=[]))
        return music.text_to_steps(" ".join(self.tokenizer.pieces(ids[1:])))

    def encode(self, text: str) -> list[int]:
        """Return the model input of pitches such as "67 62 59 43". A pitch that is not in the vocabulary is refused."""
        ids = super().encode(text)
        if self.tokenizer.unk_id in ids:
            pitch = text.split()[ids.index(int(self.tokenizer.unk_id or 0)) - 1]
            hint = "use a chord from its training data, or no chord"
            raise UserError(f"The pitch {pitch} is not in the vocabulary of this model.", where=text, hint=hint)
        return ids

    def _continue(
        self, ids: list[int], steps: int, sampling: Sampling | None, *, forbidden: list[int]
    ) -> Iterator[int]:
        """Yield notes until there are `steps` steps."""
        forbidden = [PAD, SOS, *forbidden, *([] if self.tokenizer.unk_id is None else [self.tokenizer.unk_id])]
        missing = max(0, steps * len(music.VOICES) - (len(ids) - 1))
        return self._generate(ids, missing, sampling, forbidden=forbidden)
