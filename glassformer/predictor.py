"""Text or image in, answer out, for every task but translation: a label, tags, a continuation, music, vectors."""

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
from glassformer.answerer import Answerer
from glassformer.decoding.continuing import continued
from glassformer.errors import UserError
from glassformer.glass.contexts import InContext
from glassformer.glass.patches import PatchTrace, trace_image
from glassformer.glass.trace import Trace, trace_alone
from glassformer.images.form import Form
from glassformer.images.pictures import read_picture
from glassformer.run import Run, RunFolder, load_run, load_settings
from glassformer.settings import ViTSettings
from glassformer.text import music
from glassformer.text.batching import pad_rows
from glassformer.text.lines import WORD_MARK, normalize_line
from glassformer.text.tokenizer import BLANK, BYTES, EOS, PAD, SOS, Tokenizer
from glassformer.text.words import encode_words, refuse_long, split_words, words_of
from glassformer.translator import Precision, Sampling

TEXTS_AT_ONCE = 64
LENGTH = 500  # tokens of a continuation
BARS = 8
STEPS_A_BAR = 16  # of four quarter notes

Item = TypeVar("Item")


@dataclass(frozen=True)
class Labels:
    """What a model makes of a text or an image: its label, and the probability of each, the likeliest first."""

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
        chunks = _chunks([ids[: _most(self.model)] for ids in self.tokenizer.encode_batch(texts)])
        return [answer for some in chunks for answer in _ranked(_logits(self.model, some), self.labels)]

    def trace(self, text: str) -> Trace:
        """Everything that the model computes for a text."""
        refuse_empty([text])
        return _trace(self.model, self.tokenizer, self.tokenizer.encode(text), self.labels)


class ImageLabeller:
    """A classifier of images. `labeller("boot.png")` gives a label; a list of files gives a list."""

    def __init__(self, model: Any, form: Form, labels: Sequence[str]) -> None:
        self.model, self.form, self.labels = model, form, labels

    def __call__(self, file: str | Path | Sequence[str | Path]) -> str | list[str]:
        if isinstance(file, str | Path):
            return self.predict([file])[0].label
        return [answer.label for answer in self.predict(file)]

    def predict(self, files: Sequence[str | Path]) -> list[Labels]:
        """Every image, in order, each brought to the form of those that the model learnt from."""
        answers: list[Labels] = []
        for some in _chunks([self.pixels(file) for file in files]):
            answers += _ranked(self._logits(torch.stack(some)), self.labels)
        return answers

    def pixels(self, file: str | Path) -> Tensor:
        """What the model sees of an image, C×Y×X bytes."""
        return read_picture(Path(file), self.form)

    @torch.inference_mode()
    def _logits(self, pixels_BCYX: Tensor) -> Tensor:
        logits_BL: Tensor = self.model(pixels_BCYX.to(next(self.model.parameters()).device))
        return logits_BL.float()

    def trace(self, file: str | Path) -> PatchTrace:
        """Every named tensor of the pass over an image."""
        return trace_image(self.model, self.pixels(file), self.labels)


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
        first = len(_before(self.model))
        for some in _chunks(list(zip(sentences, encode_words(sentences, self.tokenizer), strict=True))):
            for words, row in some:
                refuse_long(len(row.ids), _most(self.model), " ".join(words[:8]) + " …")
            choice_BS = _logits(self.model, [row.ids for _, row in some]).argmax(dim=-1)
            for (words, row), choice_S in zip(some, choice_BS.tolist(), strict=True):
                labels = (self.labels[choice_S[first + at]] for at in row.last)
                tagged.append(list(zip(words, labels, strict=True)))
        return tagged

    def trace(self, text: str) -> Trace:
        """Everything that the model computes for a text."""
        refuse_empty([text])
        return _trace(self.model, self.tokenizer, self.tokenizer.encode(text), self.labels)


@dataclass(frozen=True)
class Filled:
    """A text with its blanks filled, and of each blank the likeliest pieces with their probabilities."""

    text: str
    blanks: list[dict[str, float]]


class BlankFiller:
    """A model of masked words. `filler("the cat sat on the ___.")` gives the text with its likeliest words."""

    def __init__(self, model: Any, tokenizer: Tokenizer) -> None:
        self.model, self.tokenizer = model, tokenizer
        nothing = {*BYTES, WORD_MARK}
        no_words = [i for i, piece in enumerate(tokenizer.pieces(range(len(tokenizer)))) if piece in nothing]
        self.never = [PAD, SOS, EOS, *([] if tokenizer.mask is None else [tokenizer.mask]), *no_words]

    def __call__(self, text: str | Sequence[str]) -> str | list[str]:
        if isinstance(text, str):
            return self.predict([text])[0].text
        return [answer.text for answer in self.predict(text)]

    def predict(self, texts: Sequence[str], *, most: int = 5) -> list[Filled]:
        """Every text, in order. A blank is `___`; each is one piece of the vocabulary."""
        rows = [self.tokenizer.encode_blanks(text) for text in texts]
        for text, ids in zip(texts, rows, strict=True):
            if self.tokenizer.mask not in ids:
                raise UserError("There is no blank to fill.", where=text, fix="write ___ where a word is left out")
            refuse_long(len(ids), _most(self.model), text[:80])
        answers = []
        for some in _chunks(list(zip(texts, rows, strict=True))):
            for (text, ids), logits_SV in zip(some, _logits(self.model, [ids for _, ids in some]), strict=True):
                answers.append(self._filled(text, ids, logits_SV[len(_before(self.model)) :], most))
        return answers

    def trace(self, text: str) -> Trace:
        """Everything that the model computes for a text, with blanks or without."""
        refuse_empty([text])
        return _trace(self.model, self.tokenizer, self.tokenizer.encode_blanks(text))

    def _filled(self, text: str, ids: list[int], logits_SV: Tensor, most: int) -> Filled:
        places = [place for place, token in enumerate(ids) if token == self.tokenizer.mask]
        logits_NV = logits_SV[places]
        logits_NV[:, self.never] = float("-inf")
        chance_NC, token_NC = logits_NV.softmax(dim=-1).topk(2 * most)
        best = [self._likeliest(*blank, most) for blank in zip(token_NC.tolist(), chance_NC.tolist(), strict=True)]
        words = iter(best)
        return Filled(BLANK.sub(lambda _: next(iter(next(words))), text), best)

    def _likeliest(self, tokens: list[int], chances: list[float], most: int) -> dict[str, float]:
        """Words with their probabilities; pieces that are written alike, within a word or at its beginning, are one."""
        words: dict[str, float] = {}
        for token, chance in zip(tokens, chances, strict=True):
            word = self.tokenizer.decode([token])
            words[word] = words.get(word, 0.0) + chance
        return dict(sorted(words.items(), key=lambda pair: -pair[1])[:most])


class Vectorizer:
    """A model that gives a text one vector of length 1: like texts have vectors that point the same way."""

    def __init__(self, model: Any, tokenizer: Tokenizer) -> None:
        self.model, self.tokenizer = model, tokenizer

    def __call__(self, text: str | Sequence[str]) -> list[float] | list[list[float]]:
        return self.predict([text])[0] if isinstance(text, str) else self.predict(text)

    def predict(self, texts: Sequence[str]) -> list[list[float]]:
        """Every text, in order; of a very long one what the model sees."""
        refuse_empty(texts)
        rows = [ids[: _most(self.model)] for ids in self.tokenizer.encode_batch(texts)]
        return [vector for some in _chunks(rows) for vector in _logits(self.model, some).tolist()]

    def trace(self, text: str) -> Trace:
        """Everything that the model computes for a text."""
        refuse_empty([text])
        return _trace(self.model, self.tokenizer, self.tokenizer.encode(text))


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

    def trace(self, text: str) -> Trace:
        """Everything that the model computes as it reads a text."""
        return _read(self.model, self.tokenizer, text)

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
            elif piece in BYTES:
                yield bytes_so_far.decode(bytes([BYTES.index(piece)]))
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
            now = self.tokenizer.decode_whole(said)
            if not now.endswith("\N{REPLACEMENT CHARACTER}"):
                yield now[len(text) :]
                # A decoder looks back a few tokens at most: what is older need not be decoded again.
                said, text = (said[-8:], self.tokenizer.decode_whole(said[-8:])) if len(said) > 64 else (said, now)


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

    def trace(self, pitches: str) -> Trace:
        """Everything that the model computes as it reads pitches, as in "67 62 59 43"."""
        return _read(self.model, self.tokenizer, pitches)

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

    def trace(self, text: str) -> Trace:
        """Everything that the model computes for a text."""
        refuse_empty([text])
        return trace_alone(self.model, self.tokenizer.pieces, [SOS, *self.tokenizer.encode(text), EOS])

    def in_context(self, text: str) -> InContext:
        """Of every layer: from the left as it was at the last token of a word, from the right as at its first."""
        seen = self.trace(text)
        words = words_of(seen["encoder.tokens"].tolist()[1:-1], self.tokenizer)
        first, last = (torch.tensor([1 + getattr(word, end) for word in words]) for end in ("first", "last"))
        pieces = seen["encoder.embedding"][1:-1]
        vectors = {"embedding": torch.stack([pieces[word.first : word.last + 1].mean(dim=0) for word in words])}
        for layer in range(len(self.model.forwards.layers)):
            vectors[f"layer {layer + 1} →"] = seen[f"forwards.{layer}.states"][last]
            vectors[f"layer {layer + 1} ←"] = seen[f"backwards.{layer}.states"].flip(0)[first]
        return InContext([word.text for word in words], vectors)


Predictor = (
    Labeller | ImageLabeller | Tagger | Answerer | LanguageModel | Composer | WordVectors | BlankFiller | Vectorizer
)


def load(run: str | Path, *, precision: Precision = "fp32", device: str | None = None) -> Any:
    """What a run learnt to do: a Translator, Labeller, ImageLabeller, Tagger … by its task."""
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
        case "images":
            assert isinstance(run.settings.model, ViTSettings)
            return ImageLabeller(run.model, Form.of(run.settings.model), run.labels)
        case "tagging":
            return Tagger(run.model, run.tokenizer, run.labels)
        case "answers":
            return Answerer(run.model, run.tokenizer, run.settings.data)
        case "music":
            return Composer(run.model, run.tokenizer)
        case "word_vectors":
            return WordVectors(run.model, run.tokenizer)
        case "masked_words":
            return BlankFiller(run.model, run.tokenizer)
        case "vectors":
            return Vectorizer(run.model, run.tokenizer)
        case _:
            return LanguageModel(run.model, run.tokenizer)


def refuse_empty(texts: Sequence[str]) -> None:
    for number, text in enumerate(texts, 1):
        if not normalize_line(text):
            raise UserError(
                "There is nothing to look at: the text is empty.", where=f"text {number}", fix="give a text with words"
            )


def _trace(model: Any, tokenizer: Tokenizer, ids: list[int], labels: Sequence[str] | None = None) -> Trace:
    """Everything that an encoder and its head compute for a text."""
    refuse_long(len(ids), _most(model), " ".join(tokenizer.pieces(ids[:16])))
    answers = None if labels is None else lambda chosen: [labels[i] for i in chosen]
    return trace_alone(model, tokenizer.pieces, [*_before(model), *ids, EOS], answers=answers)


def _read(model: Any, tokenizer: Tokenizer, text: str) -> Trace:
    """The same of a language model."""
    ids = [tokenizer.line_end, *tokenizer.encode(text)]
    refuse_long(len(ids), model.longest, text[:80])
    return trace_alone(model, tokenizer.pieces, ids)


def _ranked(logits_BL: Tensor, labels: Sequence[str]) -> Iterator[Labels]:
    """Of every row, the labels with their probabilities, the likeliest first."""
    for probability_L in logits_BL.softmax(dim=-1).tolist():
        ranked = sorted(zip(labels, probability_L, strict=True), key=lambda pair: -pair[1])
        yield Labels(ranked[0][0], dict(ranked))


@torch.inference_mode()
def _logits(model: Any, rows: list[list[int]]) -> Tensor:
    device = next(model.parameters()).device
    logits: Tensor = model(pad_rows([[*_before(model), *row, EOS] for row in rows]).to(device))
    return logits.float()


def _before(model: Any) -> list[int]:
    """What an encoder reads before a text."""
    return [SOS] if model.encoder.reads_sos else []


def _most(model: Any) -> int | None:
    """Tokens of a text that an encoder sees; None for any number."""
    longest = model.encoder.longest
    return None if longest is None else longest - len(_before(model)) - 1


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
