"""The sections that every run may have: data, tokenizer, train, decode. That of the model is in `models.py`."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Paths = list[str | list[str]]
Positive = Annotated[int, Field(gt=0)]
Layers = Annotated[int, Field(gt=0, le=1000)]  # each is built as Python objects: more would fill the memory with them


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    LATER: ClassVar[frozenset[str]] = frozenset()  # settings that came after runs had been made

    def said_nothing_of(self) -> set[str]:
        """Later settings that are as they always were: a run from before them is still the same run."""
        return {name for name in self.LATER if getattr(self, name) == type(self).model_fields[name].default}


class Limits(Section):
    """What is left out of training. Held-out lines are never left out, unless empty."""

    max_words: Positive = Field(200, description="longer lines are left out")
    max_characters: Positive = Field(2000, description="longer lines are left out")
    max_ratio: float = Field(4.0, gt=1, description="how far from the usual length ratio a pair may be")
    drop_duplicates: bool = Field(True, description="leave out pairs that occurred before")
    drop_identical: bool = Field(True, description="leave out pairs whose sides are equal")


class AlsoSettings(Section):
    """A corpus beside `data.train`, whose own weight is 1."""

    train: Paths = Field(description="as data.train")
    weight: float = Field(1.0, gt=0, le=1000, description="how often an epoch sees each pair of it, on average")


class DataSettings(Limits):
    train: Paths = Field(description="two files, one .tsv, .jsonl, .txt, .conllu or .json, or a folder of images")
    also: list[AlsoSettings] | None = Field(None, description="more corpora, each with a weight")
    valid: Paths | None = Field(None, description="held-out examples to choose by; a slice of train if absent")
    test: Paths | None = Field(None, description="examples for the final score")
    cache: str | None = Field(None, description="folder for prepared corpora; your cache folder if absent")
    sequence: Positive = Field(128, description="tokens that a language model reads in one go, without memory before")
    window: Positive = Field(256, description="tokens of a text that an answer is looked for in at once")
    overlap: int = Field(64, ge=0, description="tokens that two windows of a longer text share")
    no_answer: bool = Field(False, description="a question may have no answer in its text")
    shift: int = Field(0, ge=0, description="pixels that a training image is moved by at most, each way")
    flip: bool = Field(False, description="show half of the training images mirrored, left for right")
    transpose: int = Field(0, ge=0, le=11, description="semitones up and down through which training pieces are read")

    @model_validator(mode="after")
    def _windows_advance(self) -> Self:
        if self.overlap >= self.window:
            raise ValueError(f"overlap = {self.overlap} leaves a window of {self.window} nothing new: take less")
        return self


class TokenizerSettings(Section):
    LATER = frozenset({"kind", "lowercase"})

    kind: Literal["bpe", "characters", "notes", "imported"] = Field(
        "bpe", description="subwords; one entry a character of the text; one a pitch, for music; or from elsewhere"
    )
    vocab: int = Field(ge=300, le=1_000_000, description="entries of the vocabulary at most")
    lowercase: bool = Field(False, description="read and write small letters only; BLEU is then told so, case:lc")

    @model_validator(mode="after")
    def _only_subwords_are_lowercased(self) -> Self:
        if self.lowercase and self.kind in ("characters", "notes"):
            raise ValueError(f"lowercase is for subwords: leave it out, or leave out kind = {self.kind!r}")
        return self


class TrainSettings(Section):
    LATER = frozenset({"film", "metric", "schedule"})

    steps: Positive = Field(description="updates of the weights at most")
    minutes: float | None = Field(None, gt=0, description="of training at most, validations included")
    batch_tokens: Positive = Field(description="tokens a batch, padding included, of the longer side")
    accumulate: Positive = Field(1, description="batches a step")
    lr: float = Field(gt=0, description="highest learning rate, reached at the end of the warm-up")
    warmup: Positive = Field(description="steps until then (§5.3)")
    schedule: Literal["inverse_sqrt", "cosine"] = Field(
        "inverse_sqrt", description="the rate after the warm-up: falls with 1/√step (§5.3), or to 0 at the last step"
    )
    label_smoothing: float = Field(0.1, ge=0, lt=1, description="ε of §5.4")
    clip: float = Field(1.0, ge=0, description="longest gradient (norm); 0 for no clipping")
    seed: int = Field(1, ge=0, lt=2**63, description="what all chance follows from: the same seed, the same run")
    precision: Literal["auto", "fp32", "bf16"] = Field(
        "auto", description="auto: the fastest that is safe on this machine"
    )
    validate_every: Positive = Field(description="steps between validations")
    checkpoint_every: Positive = Field(description="steps between checkpoints")
    patience: int = Field(ge=0, description="validations without a better score before stopping; 0 for never")
    average: Positive = Field(5, description="best checkpoints whose weights are averaged in the end")
    film: bool = Field(False, description="keep the weights of every checkpoint, for the studio's film of the training")
    shard_model: bool = Field(False, description="spread the model over the processes (FSDP), if it does not fit one")
    valid_sentences: Positive = Field(1000, description="held-out sentences translated at a validation")
    metric: Literal["bleu", "chrf", "rouge_l"] = Field(
        "bleu", description="of what is written in translation: the score that chooses the best weights"
    )


class DecodeSettings(Section):
    beam: Annotated[int, Field(ge=1, le=64)] = Field(4, description="hypotheses; 1 is greedy (§6.1: 4)")
    length_penalty: float = Field(0.6, ge=0, le=10, description="α of the length normalisation (§6.1)")
    max_length: Positive | None = Field(None, description="tokens of output; none: those of the input + 50 (§6.1)")
    min_length: int = Field(0, ge=0, description="tokens of output at least")
    guard: bool = Field(True, description="decode again what came out empty or in a loop")
    max_source: Positive = Field(256, description="tokens of input; a longer line is translated in parts")
