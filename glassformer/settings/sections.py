"""The sections data, tokenizer, train and decode. The section model is in `models.py`."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Paths = list[str | list[str]]
Positive = Annotated[int, Field(gt=0)]
Layers = Annotated[int, Field(gt=0, le=1000)]  # each is built as Python objects: more would fill the memory with them


class Section(BaseModel):
    """Base class of the sections: unknown names are errors, types are strict, values are frozen."""

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    ADDED_LATER: ClassVar[frozenset[str]] = frozenset()  # settings that older run folders do not have

    def added_settings_at_default(self) -> set[str]:
        """Return the settings in `ADDED_LATER` that have their default; they do not count for the identity of a run."""
        return {name for name in self.ADDED_LATER if getattr(self, name) == type(self).model_fields[name].default}


class Limits(Section):
    """Filters of the training data. From held-out data only empty lines are dropped."""

    max_words: Positive = Field(200, description="maximum words per line; longer lines are dropped")
    max_characters: Positive = Field(2000, description="maximum characters per line; longer lines are dropped")
    max_ratio: float = Field(
        4.0, gt=1, description="maximum factor between the length ratio of a pair and the usual ratio"
    )
    drop_duplicates: bool = Field(True, description="drop repeated pairs")
    drop_identical: bool = Field(True, description="drop pairs with identical source and target")


class AlsoSettings(Section):
    """An additional corpus; `data.train` has the weight 1."""

    train: Paths = Field(description="files, as in data.train")
    weight: float = Field(1.0, gt=0, le=1000, description="average number of times that each pair occurs per epoch")


class DataSettings(Limits):
    """Files, filters and augmentation."""

    train: Paths = Field(
        description="two aligned files, one .tsv, .jsonl, .txt, .conllu or .json file, or a folder of images"
    )
    also: list[AlsoSettings] | None = Field(None, description="additional corpora, each with a weight")
    valid: Paths | None = Field(None, description="validation data; a part of data.train if absent")
    test: Paths | None = Field(None, description="test data for the final scores")
    cache: str | None = Field(None, description="folder for prepared data; the cache folder of the user if absent")
    diversify: Annotated[int, Field(ge=0, le=8)] = Field(
        0,
        description="number of forward and of backward models that are trained first; their translations of data.train "
        "are added to it (data diversification); 0: none",
    )
    sequence: Positive = Field(128, description="tokens per training sequence of a language model")
    window: Positive = Field(256, description="tokens per window of a text in question answering")
    overlap: int = Field(64, ge=0, description="tokens that neighbouring windows share")
    no_answer: bool = Field(False, description="allow questions without an answer in the text")
    shift: int = Field(0, ge=0, description="augmentation: maximum shift of a training image in pixels")
    flip: bool = Field(False, description="augmentation: mirror half of the training images horizontally")
    transpose: int = Field(
        0, ge=0, le=11, description="augmentation: maximum transposition of a training piece in semitones"
    )

    @model_validator(mode="after")
    def _diversifies_one_corpus(self) -> Self:
        if self.diversify and self.also:
            raise ValueError("diversify and also cannot be combined: join the files of the corpora")
        return self

    @model_validator(mode="after")
    def _windows_advance(self) -> Self:
        if self.overlap >= self.window:
            raise ValueError(f"overlap = {self.overlap} must be smaller than window = {self.window}")
        return self


class TokenizerSettings(Section):
    """The vocabulary."""

    ADDED_LATER = frozenset({"kind", "lowercase"})

    kind: Literal["bpe", "characters", "notes", "imported"] = Field(
        "bpe",
        description="subwords (BPE), characters, pitches (for music), or the tokenizer of an imported model",
    )
    vocab: int = Field(ge=300, le=1_000_000, description="maximum vocabulary size")
    lowercase: bool = Field(False, description="convert all text to lower case; BLEU is then computed with case:lc")

    @model_validator(mode="after")
    def _only_subwords_are_lowercased(self) -> Self:
        if self.lowercase and self.kind in ("characters", "notes"):
            raise ValueError(f"lowercase=true is only valid for kind = 'bpe', not for kind = {self.kind!r}")
        return self


class TrainSettings(Section):
    """Optimization, validation and checkpoints."""

    steps: Positive = Field(description="maximum number of updates")
    minutes: float | None = Field(None, gt=0, description="maximum training time, validations included")
    batch_tokens: Positive = Field(description="tokens per batch, padding included, on the longer side")
    accumulate: Positive = Field(1, description="batches per step (gradient accumulation)")
    lr: float = Field(gt=0, description="peak learning rate, reached at the end of the warmup")
    optimizer: Literal["adam", "muon"] = Field(
        "adam", description="adam (§5.3), or muon for the matrices of most linear layers and adam for all other weights"
    )
    matrix_lr: float = Field(0.02, gt=0, description="peak learning rate of the matrices with optimizer=muon")
    warmup: Positive = Field(description="warmup steps (§5.3)")
    schedule: Literal["inverse_sqrt", "cosine", "linear"] = Field(
        "inverse_sqrt",
        description="learning rate after the warmup: 1/√step (§5.3), or cosine or linear decay to 0 at the last "
        "step or, with train.minutes, at the end of the time",
    )
    weight_decay: float = Field(0.0, ge=0, description="decoupled weight decay of all matrices (AdamW)")
    label_smoothing: float = Field(0.1, ge=0, lt=1, description="label smoothing ε (§5.4)")
    consistency: float = Field(
        0.0,
        ge=0,
        description="weight α of R-Drop: each step makes two passes with different dropout, and their difference is "
        "added to the loss; 0: one pass",
    )
    clip: float = Field(1.0, ge=0, description="maximum gradient norm; 0: no clipping")
    seed: int = Field(1, ge=0, lt=2**63, description="seed of all random numbers")
    precision: Literal["auto", "fp32", "bf16"] = Field(
        "auto", description="auto: bf16 if it works and is faster on this machine, else fp32"
    )
    validate_every: Positive = Field(description="steps between validations")
    checkpoint_every: Positive = Field(description="steps between checkpoints")
    patience: int = Field(
        ge=0, description="validations without improvement before early stopping; 0: no early stopping"
    )
    average: Positive = Field(5, description="number of best checkpoints that are averaged at the end")
    keep_all_checkpoints: bool = Field(
        False, description="keep the weights of all checkpoints; the Training view of the studio shows each of them"
    )
    tune_length_penalty: bool = Field(
        False,
        description="after training, choose decode.length_penalty by the metric on the validation set; chosen for "
        "translation unless decode.length_penalty is given",
    )
    lora: int = Field(
        0, ge=0, le=1024, description="rank of LoRA matrices, trained in place of the weights of --from RUN; 0: no LoRA"
    )
    shard_model: bool = Field(False, description="shard the model over the processes (FSDP)")
    valid_sentences: Positive = Field(1000, description="sentences translated per validation")
    metric: Literal["bleu", "chrf", "rouge_l"] = Field(
        "bleu", description="metric of translation that selects the best weights"
    )

    @model_validator(mode="after")
    def _methods_fit_together(self) -> Self:
        if self.optimizer == "muon" and self.shard_model:
            raise ValueError("optimizer = 'muon' needs whole matrices: choose adam with shard_model = true")
        if self.lora and (self.shard_model or self.optimizer == "muon"):
            raise ValueError("lora is trained with optimizer = 'adam' and shard_model = false")
        return self


class DecodeSettings(Section):
    """Beam search."""

    beam: Annotated[int, Field(ge=1, le=64)] = Field(4, description="beam size; 1: greedy decoding (§6.1: 4)")
    length_penalty: float = Field(0.6, ge=0, le=10, description="length penalty α (§6.1)")
    max_length: Positive | None = Field(None, description="maximum output tokens; none: input length + 50 (§6.1)")
    min_length: int = Field(0, ge=0, description="minimum output tokens")
    guard: bool = Field(True, description="decode again if the output is empty or repetitive")
    max_source: Positive = Field(256, description="maximum input tokens; longer lines are split")
