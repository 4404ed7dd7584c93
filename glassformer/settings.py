"""Every setting there is: its name, type, meaning and limits. The only place that validates.

A run is described by a TOML file, by `section.name=value` on the command line, or by both. What nobody said is
chosen from the corpus (`planning.py`); those settings have no default here. A setting that is misspelt, of the
wrong type or out of range is refused with its path, and all mistakes are reported at once.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

import tomli_w
from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from glassformer.errors import UserError
from glassformer.files import no_such

FORMAT = 1  # of the run folder; a later version reads all earlier ones

Raw = dict[str, Any]
Paths = list[str | list[str]]
Positive = Annotated[int, Field(gt=0)]


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


class AnyModel(Section):
    """A model of any family."""

    def described(self) -> str:
        """Its sizes in a few words, for the model card."""
        raise NotImplementedError


class TwoSided(AnyModel):
    """A model with an encoder and a decoder."""

    @model_validator(mode="before")
    @classmethod
    def _layers_for_both(cls, raw: Any) -> Any:
        """`layers` stands for both sides; either can be said apart."""
        if isinstance(raw, dict) and "layers" in raw:
            layers, rest = raw["layers"], {key: value for key, value in raw.items() if key != "layers"}
            return {"encoder_layers": layers, "decoder_layers": layers} | rest
        return raw


Activation = Literal["relu", "gelu", "gelu_tanh", "swish"]


class TransformerSettings(TwoSided):
    """The defaults are the paper's; sizes are chosen from the corpus."""

    LATER = frozenset({"normalize", "residual", "scale_scores", "look_ahead_mask", "activation", "output_bias"})

    family: Literal["transformer"] = "transformer"
    encoder_layers: Positive = Field(description="N of the encoder")
    decoder_layers: Positive = Field(description="N of the decoder")
    d_model: Positive = Field(description="model width")
    heads: Positive = Field(description="h, attention heads")
    d_ff: Positive = Field(description="width inside the feed-forward network")
    dropout: float = Field(ge=0, lt=1, description="rate of dropout (§5.4)")
    norm: Literal["post", "pre"] = Field("post", description="normalisation after (paper) or before a sub-layer")
    normalize: Literal["layer", "batch", "none"] = Field("layer", description="over a token's width, or the batch")
    residual: bool = Field(True, description="x + SubLayer(x), or SubLayer(x) alone")
    scale_scores: bool = Field(True, description="divide scores by √d_k (§3.2.1)")
    look_ahead_mask: bool = Field(True, description="hide the future from the decoder (§3.2.3); without, it cheats")
    positions: Literal["sinusoidal", "learned", "none"] = "sinusoidal"
    combine_positions: Literal["add", "concatenate"] = "add"
    longest: Positive = Field(1024, description="tokens that learned positions reach")
    tie_embeddings: bool = Field(True, description="one matrix for source, target and output (§3.4)")
    activation: Activation = Field("relu", description="inside the feed-forward network (§3.3: relu)")
    output_bias: bool = Field(False, description="numbers beside the logits that are not learnt, of imported models")

    @model_validator(mode="after")
    def _heads_divide_the_width(self) -> Self:
        _refuse_uneven_heads(self)
        return self

    def described(self) -> str:
        sizes = f"{self.encoder_layers}+{self.decoder_layers} layers, width {self.d_model}"
        return f"{sizes}, {self.heads} heads, feed-forward {self.d_ff}"


class RecurrentSettings(TwoSided):
    """Encoder–decoder of recurrent layers, the Transformer's predecessors; sizes are chosen from the corpus."""

    family: Literal["recurrent"] = "recurrent"
    encoder_layers: Positive = Field(description="layers of the encoder")
    decoder_layers: Positive = Field(description="layers of the decoder")
    cell: Literal["rnn", "lstm", "gru"] = "gru"
    attention: Literal["none", "additive", "dot", "general"] = Field(
        "additive", description="none: the last state alone; additive: Bahdanau's; dot and general: Luong's"
    )
    bidirectional: bool = Field(True, description="the encoder reads from both ends, each with half of d_model")
    d_model: Positive = Field(description="width of embeddings and states")
    dropout: float = Field(ge=0, lt=1, description="rate of dropout, between layers and at both ends")
    tie_embeddings: bool = Field(True, description="one matrix for source, target and output")

    @model_validator(mode="after")
    def _two_halves(self) -> Self:
        _refuse_odd_width(self)
        return self

    def described(self) -> str:
        sizes = f"{self.encoder_layers}+{self.decoder_layers} {self.cell} layers, width {self.d_model}"
        return f"{sizes}{', bidirectional' if self.bidirectional else ''}, attention: {self.attention}"


class RecurrentText(AnyModel):
    """Recurrent layers that predict the tokens of a text."""

    cell: Literal["rnn", "lstm", "gru"] = "lstm"
    layers: Positive = Field(description="recurrent layers, of each direction")
    d_model: Positive = Field(description="width of embeddings and of the states of a direction")
    dropout: float = Field(ge=0, lt=1, description="rate of dropout, between layers and at both ends")
    tie_embeddings: bool = Field(True, description="one matrix for input and output")

    def described(self) -> str:
        return f"{self.layers} {self.cell} layers, width {self.d_model}"


class RecurrentLMSettings(RecurrentText):
    """A recurrent language model: no source."""

    family: Literal["recurrent_lm"] = "recurrent_lm"


class ELMoSettings(RecurrentText):
    """Two recurrent language models, one in each direction: vectors for words in their context."""

    family: Literal["elmo"] = "elmo"

    def described(self) -> str:
        return f"{super().described()}, in each direction"


class WindowSettings(AnyModel):
    """The language model of Bengio et al. (2003): no source, and no memory beyond its window."""

    family: Literal["window"] = "window"
    window: Positive = Field(4, description="tokens that it sees")
    d_model: Positive = Field(description="width of embeddings")
    d_hidden: Positive = Field(description="width of the hidden layer")
    dropout: float = Field(ge=0, lt=1, description="rate of dropout, on what it reads and before the output")

    def described(self) -> str:
        return f"a window of {self.window} tokens, width {self.d_model}, hidden {self.d_hidden}"


class RecurrentEncoderSettings(AnyModel):
    """Recurrent layers over a text, for a head that reads their states: no decoder."""

    family: Literal["recurrent_encoder"] = "recurrent_encoder"
    cell: Literal["rnn", "lstm", "gru"] = "gru"
    bidirectional: bool = Field(True, description="reads from both ends, each with half of d_model")
    layers: Positive = Field(description="recurrent layers")
    d_model: Positive = Field(description="width of embeddings and states")
    dropout: float = Field(ge=0, lt=1, description="rate of dropout, between layers and at both ends")

    @model_validator(mode="after")
    def _two_halves(self) -> Self:
        _refuse_odd_width(self)
        return self

    def described(self) -> str:
        sizes = f"{self.layers} {self.cell} layers, width {self.d_model}"
        return f"{sizes}{', bidirectional' if self.bidirectional else ''}"


class AttentionAlone(AnyModel):
    """Layers of self-attention over one text, without a second side; its positions are learned."""

    layers: Positive = Field(description="N")
    d_model: Positive = Field(description="model width")
    heads: Positive = Field(description="h, attention heads")
    d_ff: Positive = Field(description="width inside the feed-forward network")
    longest: Positive = Field(description="tokens that it sees at most")
    dropout: float = Field(ge=0, lt=1, description="rate of dropout")

    @model_validator(mode="after")
    def _heads_divide_the_width(self) -> Self:
        _refuse_uneven_heads(self)
        return self

    def described(self) -> str:
        return f"{self.layers} layers, width {self.d_model}, {self.heads} heads, feed-forward {self.d_ff}"


class GPTSettings(AttentionAlone):
    """GPT-2: a decoder without a source, normalised before each sub-layer."""

    family: Literal["gpt"] = "gpt"
    activation: Activation = Field("gelu_tanh", description="inside the feed-forward network")
    norm_epsilon: float = Field(1e-5, gt=0, description="what normalisation adds to the variance")
    tie_embeddings: bool = Field(True, description="one matrix for input and output")
    output_bias: bool = Field(False, description="numbers beside the logits that are not learnt, of imported models")

    def described(self) -> str:
        return f"{super().described()}, a window of {self.longest} tokens"


class BertSettings(AttentionAlone):
    """BERT: an encoder alone, normalised after each sub-layer, with segments."""

    LATER = frozenset({"pooling"})

    family: Literal["bert"] = "bert"
    segments: Positive = Field(2, description="kinds of text that stand in one input, each with a vector of its own")
    activation: Activation = Field("gelu", description="inside the feed-forward network")
    norm_epsilon: float = Field(1e-12, gt=0, description="what normalisation adds to the variance")
    pooling: Literal["highest", "first"] = Field(
        "highest", description="what tells the label of a text: of each feature the highest state, or BERT's first one"
    )

    def described(self) -> str:
        return f"{super().described()}, texts of at most {self.longest} tokens"


class ViTSettings(AnyModel):
    """The Vision Transformer: an encoder over the patches of an image. What is unsaid is chosen from the images."""

    LATER = frozenset({"norm_epsilon"})

    family: Literal["vit"] = "vit"
    height: Positive = Field(description="pixels of an image from top to bottom; others are brought to this size")
    width: Positive = Field(description="pixels of an image from left to right")
    channels: Literal[1, 3] = Field(description="1: shades of grey; 3: red, green and blue")
    mean: list[float] = Field(description="of each channel in the training images, from 0 to 1")
    deviation: list[Annotated[float, Field(gt=0)]] = Field(description="standard deviation of each channel there")
    patch: Positive = Field(description="pixels of a patch's side")
    layers: Positive = Field(description="N of the encoder")
    d_model: Positive = Field(description="model width")
    heads: Positive = Field(description="attention heads")
    d_ff: Positive = Field(description="width inside the feed-forward network")
    dropout: float = Field(ge=0, lt=1, description="rate of dropout")
    norm: Literal["post", "pre"] = Field("pre", description="normalisation before (paper) or after a sub-layer")
    normalize: Literal["layer", "batch", "none"] = Field("layer", description="over a patch's width, or the batch")
    residual: bool = Field(True, description="x + SubLayer(x), or SubLayer(x) alone")
    scale_scores: bool = Field(True, description="divide scores by √d_k")
    activation: Activation = Field("gelu", description="inside the feed-forward network")
    norm_epsilon: float = Field(1e-5, gt=0, description="what normalisation adds to the variance")

    @property
    def tokens(self) -> int:
        """Patches of an image, and the class token."""
        return 1 + (self.height // self.patch) * (self.width // self.patch)

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        _refuse_uneven_heads(self)
        if self.height % self.patch or self.width % self.patch:
            fitting = [str(n) for n in range(1, self.height + 1) if not (self.height % n or self.width % n)]
            raise ValueError(
                f"patch = {self.patch} does not divide an image of {self.height}×{self.width}: take one of "
                f"{', '.join(fitting)}, or another model.height and model.width"
            )
        if not len(self.mean) == len(self.deviation) == self.channels:
            raise ValueError(f"channels = {self.channels}: mean and deviation need as many entries each")
        return self

    def described(self) -> str:
        image = f"{self.height}×{self.width}{' grey' if self.channels == 1 else ''} images in patches of {self.patch}"
        return f"{image}, {self.layers} layers, width {self.d_model}, {self.heads} heads, feed-forward {self.d_ff}"


def _refuse_uneven_heads(model: TransformerSettings | AttentionAlone | ViTSettings) -> None:
    if model.d_model % model.heads:
        fitting = [str(n) for n in range(1, model.d_model + 1) if model.d_model % n == 0]
        raise ValueError(
            f"heads = {model.heads} does not divide d_model = {model.d_model}: take one of {', '.join(fitting)} heads"
        )


def _refuse_odd_width(model: RecurrentSettings | RecurrentEncoderSettings) -> None:
    if model.bidirectional and model.d_model % 2:
        raise ValueError(
            f"d_model = {model.d_model} has no half for each direction: take {model.d_model + 1}, "
            "or model.bidirectional=false"
        )


MODELS: dict[str, type[AnyModel]] = {
    "transformer": TransformerSettings,
    "recurrent": RecurrentSettings,
    "recurrent_lm": RecurrentLMSettings,
    "window": WindowSettings,
    "recurrent_encoder": RecurrentEncoderSettings,
    "elmo": ELMoSettings,
    "gpt": GPTSettings,
    "bert": BertSettings,
    "vit": ViTSettings,
}
WITHOUT_SOURCE = ("recurrent_lm", "window", "gpt")

Task = Literal[
    "translation",
    "language_model",
    "music",
    "word_vectors",
    "classification",
    "tagging",
    "masked_words",
    "vectors",
    "answers",
    "images",
]
FITTING: dict[str, tuple[str, ...]] = {  # the families for each task; the first where none is named
    "translation": ("transformer", "recurrent"),
    "language_model": WITHOUT_SOURCE,
    "music": WITHOUT_SOURCE,
    "word_vectors": ("elmo",),
    "classification": ("recurrent_encoder", "bert"),
    "tagging": ("recurrent_encoder", "bert"),
    "masked_words": ("bert",),
    "vectors": ("bert",),
    "answers": ("recurrent_encoder", "bert"),
    "images": ("vit",),
}
CHOOSING = ("classification", "tagging", "images")  # tasks whose answer is one of a few labels
PRETRAINED = ("masked_words", "vectors")  # tasks that leave an encoder for others to begin with
WITHOUT_TEXT = ("images",)  # tasks that need no tokenizer


def family_of(model: Any) -> str:
    """The family that the settings of a model ask for; a Transformer if they name none."""
    family = model.get("family", "transformer") if isinstance(model, dict) else getattr(model, "family", "transformer")
    return str(family)


def with_family(raw: Any) -> Any:
    """Settings whose model names its family: where nobody did, the one that the task is usually done by."""
    if not isinstance(raw, dict) or raw.get("task", "translation") not in FITTING:
        return raw
    model = raw.get("model", {})
    if not isinstance(model, dict) or "family" in model or raw.get("task", "translation") == "translation":
        return raw
    return {**raw, "model": {"family": FITTING[raw["task"]][0], **model}}


ModelSettings = Annotated[
    Annotated[TransformerSettings, Tag("transformer")]
    | Annotated[RecurrentSettings, Tag("recurrent")]
    | Annotated[RecurrentLMSettings, Tag("recurrent_lm")]
    | Annotated[WindowSettings, Tag("window")]
    | Annotated[RecurrentEncoderSettings, Tag("recurrent_encoder")]
    | Annotated[ELMoSettings, Tag("elmo")]
    | Annotated[GPTSettings, Tag("gpt")]
    | Annotated[BertSettings, Tag("bert")]
    | Annotated[ViTSettings, Tag("vit")],
    Discriminator(family_of),
]


class TrainSettings(Section):
    LATER = frozenset({"metric", "schedule"})

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
    seed: int = Field(1, ge=0, lt=2**63)
    precision: Literal["auto", "fp32", "bf16"] = Field(
        "auto", description="auto: the fastest that is safe on this machine"
    )
    validate_every: Positive = Field(description="steps between validations")
    checkpoint_every: Positive = Field(description="steps between checkpoints")
    patience: int = Field(ge=0, description="validations without a better score before stopping; 0 for never")
    average: Positive = Field(5, description="best checkpoints whose weights are averaged in the end")
    shard_model: bool = Field(False, description="spread the model over the processes (FSDP), if it does not fit one")
    valid_sentences: Positive = Field(1000, description="held-out sentences translated at a validation")
    metric: Literal["bleu", "chrf", "rouge_l"] = Field(
        "bleu", description="of what is written in translation: the score that chooses the best weights"
    )


class DecodeSettings(Section):
    beam: Annotated[int, Field(ge=1, le=64)] = Field(4, description="hypotheses; 1 is greedy (§6.1: 4)")
    length_penalty: float = Field(0.6, ge=0, description="α of the length normalisation (§6.1)")
    max_length: Positive | None = Field(None, description="tokens of output; none: those of the input + 50 (§6.1)")
    min_length: int = Field(0, ge=0, description="tokens of output at least")
    guard: bool = Field(True, description="decode again what came out empty or in a loop")
    max_source: Positive = Field(256, description="tokens of input; a longer line is translated in parts")


class Settings(Section):
    format: int = Field(FORMAT, description="version of the run folder")
    task: Task = "translation"
    data: DataSettings
    tokenizer: TokenizerSettings | None = None  # of images there is none
    model: ModelSettings
    train: TrainSettings
    decode: DecodeSettings = DecodeSettings()

    @model_validator(mode="before")
    @classmethod
    def _family_of_the_task(cls, raw: Any) -> Any:
        return with_family(raw)

    @model_validator(mode="before")
    @classmethod
    def _text_has_a_tokenizer(cls, raw: Any) -> Any:
        if isinstance(raw, dict) and raw.get("task", "translation") not in WITHOUT_TEXT:
            return {"tokenizer": {}, **raw}
        return raw

    @field_validator("tokenizer")
    @classmethod
    def _images_have_none(cls, tokenizer: TokenizerSettings | None, others: ValidationInfo) -> TokenizerSettings | None:
        if tokenizer is not None and others.data.get("task") in WITHOUT_TEXT:
            raise ValueError("images are not spelled: leave it out")
        return tokenizer

    @field_validator("model", mode="before")
    @classmethod
    def _family_fits_the_task(cls, model: Any, others: ValidationInfo) -> Any:
        task, family = others.data.get("task"), family_of(model)
        if task is None or family not in MODELS or family in FITTING[task]:
            return model
        able = ", ".join(FITTING[task])
        if task == "translation" and family in WITHOUT_SOURCE:
            raise ValueError(f"{family} reads no source, so it cannot translate: take one of {able}")
        tasks = ", ".join(other for other, families in FITTING.items() if family in families)
        raise ValueError(f"{family} is not for {task}, which has {able}; a {family} is for {tasks} (say task=…)")

    def to_toml(self) -> str:
        return tomli_w.dumps(self.model_dump(exclude_none=True))


def read_settings(path: Path) -> Raw:
    """The settings of a TOML file; what it leaves open stays open. Paths of data in it are relative to the file."""
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise no_such(path) from None
    except OSError as error:
        raise UserError(
            f"The settings cannot be read: {error.strerror}.", where=str(path), fix="name a TOML file that you may read"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"This is not TOML: {error}.", where=str(path), fix="mend that line") from None
    try:
        check(raw)
    except UserError as error:
        raise UserError(error.what, where=f"{path}: {error.where}", fix=error.fix) from None
    data = raw.get("data", {})
    if isinstance(data, dict):
        for split in ("train", "valid", "test", "cache"):
            if split in data:
                data[split] = _relative_to(path.parent, data[split])
        for other in data.get("also", []):
            other["train"] = _relative_to(path.parent, other.get("train"))
    return raw


def _relative_to(folder: Path, paths: Any) -> Any:
    if isinstance(paths, list):
        return [_relative_to(folder, path) for path in paths]
    return str(folder / paths) if isinstance(paths, str) else paths


def parse_overrides(overrides: Iterable[str]) -> Raw:
    """`["train.lr=3e-4", …]` to nested settings. Values are TOML; a bare word is a string."""
    raw: Raw = {}
    for override in overrides:
        path, equals, text = override.partition("=")
        if not equals or not path.strip():
            raise UserError(f"'{override}' is not a setting.", fix="write section.name=value, as in train.lr=3e-4")
        if not text.strip():
            raise UserError(f"The setting '{path.strip()}' has no value.", fix=f"write {override}VALUE, without spaces")
        try:
            value = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            value = text.strip()
        raw = merge(raw, nest({path.strip(): value}))
    return raw


def nest(flat: Mapping[str, Any]) -> Raw:
    """`{"train.lr": 1}` to `{"train": {"lr": 1}}`."""
    raw: Raw = {}
    for path, value in flat.items():
        *sections, name = path.split(".")
        inner: Raw = {name: value}
        for section in reversed(sections):
            inner = {section: inner}
        raw = merge(raw, inner)
    return raw


def merge(under: Raw, over: Raw) -> Raw:
    """Both, section by section; where they disagree, `over`."""
    merged = dict(under)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = merge(merged[key], value) if both else value
    return merged


def check(raw: Raw) -> None:
    """Refuses what is wrong already, before a corpus is read; what is still missing will be chosen."""
    try:
        Settings.model_validate(raw)
    except ValidationError as error:
        _refuse([e for e in error.errors() if e["type"] != "missing" or "also" in e["loc"]])  # these nobody chooses


def resolve(raw: Raw) -> Settings:
    try:
        return Settings.model_validate(raw)
    except ValidationError as error:
        _refuse(list(error.errors()))
        raise  # an error that _refuse has no words for is a bug of ours


def _refuse(errors: list[Any]) -> None:
    if not errors:
        return
    messages = [_describe(error) for error in errors]
    what = "A setting is wrong." if len(messages) == 1 else f"{len(messages)} settings are wrong."
    where = "; ".join(where for where, _ in messages)
    raise UserError(what, where=where, fix="; ".join(fix for _, fix in messages))


def _describe(error: Any) -> tuple[str, str]:
    place, family = [str(part) for part in error["loc"]], None
    if place[0] == "model" and place[1:] and place[1] in MODELS:  # pydantic names the family there
        family = place.pop(1)
    path = ".".join(place)
    if error["type"] == "extra_forbidden":
        return f"there is no setting '{path}'", _nearest(path, family)
    if error["type"] == "missing":
        return f"'{path}' is missing", f"say {path}=…"
    if error["type"] == "union_tag_invalid":
        given = family_of(error["input"])
        close = difflib.get_close_matches(given, MODELS, n=1)
        fix = (
            f"did you mean '{close[0]}'?" if close else f"model.family should be one of {', '.join(map(repr, MODELS))}"
        )
        return f"{path}.family = {given!r}", fix
    if error["type"] == "value_error":
        return path, error["msg"].removeprefix("Value error, ")
    needed = WORDS.get(error["type"]) or error["msg"].removeprefix("Input ")
    return f"{path} = {error['input']!r}", f"{path} {needed}"


WORDS = {  # for a person who does not read Python
    "int_type": "should be a whole number",
    "int_from_float": "should be a whole number",
    "float_type": "should be a number",
    "bool_type": "should be true or false",
    "list_type": 'should be a list, such as ["train.en", "train.de"]',
    "model_type": "is a section: set one of its settings, such as model.layers=2 or train.steps=1000",
}


def _nearest(path: str, family: str | None = None) -> str:
    inside, _, name = path.rpartition(".")
    known = list(setting_names(family))
    if ".also." in path:  # a table in a list
        known = [f"{inside}.{field}" for field in AlsoSettings.model_fields]
    if family and (others := [other for other in MODELS if path in setting_names(other) and other != family]):
        own = ", ".join(k.removeprefix("model.") for k in known if k.startswith("model."))
        return f"that is for model.family={others[0]}; a {family} has {own}"
    same_name = [k for k in known if k.rpartition(".")[2] == name]
    close = same_name or difflib.get_close_matches(path, known, n=1, cutoff=0.6)
    if not close:
        ends = {k.rpartition(".")[2]: k for k in known}
        close = [ends[end] for end in difflib.get_close_matches(name, ends, n=1)]
    if close:
        return f"did you mean '{close[0]}'?"
    section = path.partition(".")[0]
    beside = [k for k in known if k.startswith(section + ".")] or known
    return "there are: " + ", ".join(beside)


def setting_names(family: str | None = None) -> Iterable[str]:
    """Every path that can be set, `model.layers` included: of one model family, or of all."""
    yield "task"
    for section, field in Settings.model_fields.items():
        inner = field.annotation
        if section == "model":
            families = [MODELS[family]] if family else MODELS.values()
            named = {name: None for model in families for name in _names_in(model)}
            yield from (f"model.{name}" for name in named)
        for part in get_args(inner) or (inner,):
            if section != "model" and isinstance(part, type) and issubclass(part, BaseModel):
                yield from (f"{section}.{name}" for name in part.model_fields)


def _names_in(model: type[AnyModel]) -> list[str]:
    return [*(["layers"] if issubclass(model, TwoSided) else []), *model.model_fields]
