"""Text in, answer out, for every task but translation: a label, tags, a continuation, a piece of music, vectors."""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from glassformer import machine, translator
from glassformer.decoding.continuing import continued
from glassformer.errors import UserError
from glassformer.glass.contexts import InContext
from glassformer.nn.probe import Recorder
from glassformer.run import Run, RunFolder, load_run, load_settings
from glassformer.text import music
from glassformer.text.batching import pad_rows
from glassformer.text.lines import normalize_line
from glassformer.text.tokenizer import BYTES, EOS, PAD, SOS, Tokenizer
from glassformer.text.words import encode_words, split_words, words_of
from glassformer.translator import Precision, Sampling

TEXTS_AT_ONCE = 64
LENGTH = 500  # tokens of a continuation
BARS = 8
STEPS_A_BAR = 16  # of four quarter notes

Item = TypeVar("Item")


@dataclass(frozen=True)
class Labels:
    """What a model makes of a text: its label, and the probability of each, the likeliest first."""

    label: str
    probabilities: dict[str, float]


class Labeller:
    """A classifier with its tokenizer. `labeller("a fine film")` gives a label; a list of texts gives a list."""

    def __init__(self, model: Any, tokenizer: Tokenizer, labels: Sequence[str]) -> None:
        self.model, self.tokenizer, self.labels = model, tokenizer, labels

    def __call__(self, text: str | Sequence[str]) -> str | list[str]:
        if isinstance(text, str):
            return self.predict([text])[0].label
        return [answer.label for answer in self.predict(text)]

    def predict(self, texts: Sequence[str]) -> list[Labels]:
        """Every text, in order."""
        refuse_empty(texts)
        answers = []
        for some in _chunks(self.tokenizer.encode_batch(texts)):
            for probability_L in _logits(self.model, some).softmax(dim=-1).tolist():
                ranked = sorted(zip(self.labels, probability_L, strict=True), key=lambda pair: -pair[1])
                answers.append(Labels(ranked[0][0], dict(ranked)))
        return answers


class Tagger:
    """A tagger with its tokenizer. `tagger("dogs bark")` gives `[("dogs", "NOUN"), ("bark", "VERB")]`."""

    def __init__(self, model: Any, tokenizer: Tokenizer, labels: Sequence[str]) -> None:
        self.model, self.tokenizer, self.labels = model, tokenizer, labels

    def __call__(self, text: str | Sequence[str]) -> list[tuple[str, str]] | list[list[tuple[str, str]]]:
        return self.predict([text])[0] if isinstance(text, str) else self.predict(text)

    def predict(self, texts: Sequence[str]) -> list[list[tuple[str, str]]]:
        """Every text, in order. Words are what stands between spaces, punctuation at their ends apart."""
        refuse_empty(texts)
        return self.tag([split_words(normalize_line(text)) for text in texts])

    def tag(self, sentences: Sequence[Sequence[str]]) -> list[list[tuple[str, str]]]:
        """The tags of words that somebody has told apart already."""
        tagged = []
        for some in _chunks(list(zip(sentences, encode_words(sentences, self.tokenizer), strict=True))):
            choice_BS = _logits(self.model, [row.ids for _, row in some]).argmax(dim=-1)
            for (words, row), choice_S in zip(some, choice_BS.tolist(), strict=True):
                tagged.append([(word, self.labels[choice_S[at]]) for word, at in zip(words, row.last, strict=True)])
        return tagged


class LanguageModel:
    """A language model with its tokenizer. `model("To be")` gives the prompt and what came to its mind."""

    def __init__(self, model: Any, tokenizer: Tokenizer) -> None:
        self.model, self.tokenizer = model, tokenizer

    def __call__(self, prompt: str = "", *, length: int = LENGTH, sampling: Sampling | None = None) -> str:
        return prompt + "".join(self.stream(prompt, length=length, sampling=sampling))

    def stream(self, prompt: str = "", *, length: int = LENGTH, sampling: Sampling | None = None) -> Iterator[str]:
        """So many tokens after a prompt, as text, as they come. After an empty prompt: what begins a line."""
        beginning = [self.tokenizer.line_end, *self.tokenizer.encode(prompt)]
        tokens = _drawn(self.model, beginning, length, sampling, never=[PAD, SOS])
        return self._spelled(tokens, after=bool(prompt.strip()))

    def _spelled(self, tokens: Iterator[int], *, after: bool) -> Iterator[str]:
        """The text of tokens as they come; the bytes of a character wait for the last of them."""
        bytes_so_far = codecs.getincrementaldecoder("utf-8")(errors="replace")
        for token in tokens:
            (piece,) = self.tokenizer.pieces([token])
            if token == EOS:
                yield "\n"
                after = False
            elif piece in BYTES:
                yield bytes_so_far.decode(bytes([BYTES.index(piece)]))
            elif self.tokenizer.kind == "characters":
                yield piece
            else:
                text = piece.replace("▁", " ")
                yield text if after else text.removeprefix(" ")
                after = True


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
        notes = [] if chord is None else self._encoded(chord)
        least, most = (steps, steps) if steps is not None else (BARS * STEPS_A_BAR, 4 * BARS * STEPS_A_BAR)
        notes += self._drawn(notes, least, sampling, never=[EOS])
        notes += takewhile(EOS.__ne__, self._drawn(notes, most, sampling, never=[]))
        return music.as_steps(" ".join(self.tokenizer.pieces(notes)))

    def _drawn(self, notes: list[int], steps: int, sampling: Sampling | None, *, never: list[int]) -> Iterator[int]:
        """What comes after some notes, until there are so many steps."""
        never = [PAD, SOS, *never, *([] if self.tokenizer.unknown is None else [self.tokenizer.unknown])]
        wanted = max(0, steps * len(music.VOICES) - len(notes))
        return _drawn(self.model, [self.tokenizer.line_end, *notes], wanted, sampling, never=never)

    def _encoded(self, chord: Sequence[int]) -> list[int]:
        ids = self.tokenizer.encode(music.as_text([chord]))
        if self.tokenizer.unknown in ids:
            pitch = chord[ids.index(int(self.tokenizer.unknown or 0))]
            raise UserError(
                f"The pitch {pitch} does not occur in the music that this model knows.",
                where=" ".join(map(str, chord)),
                fix="take a chord from its training pieces, or none",
            )
        return ids


class WordVectors:
    """A language model in two directions. `vectors("the bank of the river")` gives each word a vector, W×2D."""

    def __init__(self, model: Any, tokenizer: Tokenizer) -> None:
        self.model, self.tokenizer = model, tokenizer

    def __call__(self, text: str) -> Tensor:
        return self.in_context(text).mean()

    @torch.inference_mode()
    def in_context(self, text: str) -> InContext:
        """Of every layer: from the left as it was at the last token of a word, from the right as at its first."""
        refuse_empty([text])
        ids = self.tokenizer.encode(text)
        words = words_of(ids, self.tokenizer)
        recorder = Recorder()
        self.model(torch.tensor([[SOS, *ids, EOS]], device=next(self.model.parameters()).device), recorder)
        seen = {name: tensor[0].cpu() for name, tensor in recorder.tensors.items()}
        first, last = (torch.tensor([1 + getattr(word, end) for word in words]) for end in ("first", "last"))
        pieces = seen["embedding"][1:-1]
        vectors = {"embedding": torch.stack([pieces[word.first : word.last + 1].mean(dim=0) for word in words])}
        for layer in range(len(self.model.forwards.layers)):
            vectors[f"layer {layer + 1} →"] = seen[f"forwards.{layer}.states"][last]
            vectors[f"layer {layer + 1} ←"] = seen[f"backwards.{layer}.states"].flip(0)[first]
        return InContext([word.text for word in words], vectors)


Predictor = Labeller | Tagger | LanguageModel | Composer | WordVectors


def load(run: str | Path, *, precision: Precision = "fp32", device: str | None = None) -> Any:
    """What a run learnt to do: a Translator, Labeller, Tagger, LanguageModel, Composer or WordVectors."""
    if load_settings(RunFolder(run)).task == "translation":
        return translator.load(run, precision=precision, device=device)
    device = device or machine.device()
    if device != "cpu" and precision == "int8":
        raise UserError("int8 is for CPUs.", fix="leave it out: a GPU is fast without")
    # In fp32 a whole text is read at once, by kernels that want the weights as they are.
    return predictor_of(load_run(run, device=device, precision="int8" if precision == "int8" else None))


def load_predictor(run: str | Path) -> Predictor:
    """As `load`, for all but translators."""
    if load_settings(RunFolder(run)).task == "translation":
        raise UserError(
            "This run translates: that is another command.", where=str(run), fix=f'glassformer translate {run} "…"'
        )
    return predictor_of(load_run(run, device=machine.device()))


def predictor_of(run: Run) -> Predictor:
    match run.settings.task:
        case "classification":
            return Labeller(run.model, run.tokenizer, run.labels)
        case "tagging":
            return Tagger(run.model, run.tokenizer, run.labels)
        case "music":
            return Composer(run.model, run.tokenizer)
        case "word_vectors":
            return WordVectors(run.model, run.tokenizer)
        case _:
            return LanguageModel(run.model, run.tokenizer)


def refuse_empty(texts: Sequence[str]) -> None:
    for number, text in enumerate(texts, 1):
        if not normalize_line(text):
            raise UserError(
                "There is nothing to look at: the text is empty.", where=f"text {number}", fix="give a text with words"
            )


@torch.inference_mode()
def _logits(model: Any, rows: list[list[int]]) -> Tensor:
    device = next(model.parameters()).device
    logits: Tensor = model(pad_rows([[*row, EOS] for row in rows]).to(device))
    return logits.float()


def _drawn(
    model: Any, beginning: list[int], length: int, sampling: Sampling | None, *, never: list[int]
) -> Iterator[int]:
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


def _chunks(items: list[Item]) -> Iterator[list[Item]]:
    for i in range(0, len(items), TEXTS_AT_ONCE):
        yield items[i : i + TEXTS_AT_ONCE]
