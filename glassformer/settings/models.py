"""The section model: one class of settings per model family."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar, get_args

from pydantic import Discriminator, Field, Tag, model_validator

from glassformer.settings.sections import Layers, Positive, Section

AnySettings = TypeVar("AnySettings", bound=Any)


def heads_divide_width(model: AnySettings) -> AnySettings:
    if model.d_model % model.heads:
        fitting = [str(n) for n in range(1, model.d_model + 1) if model.d_model % n == 0]
        raise ValueError(
            f"heads = {model.heads} does not divide d_model = {model.d_model}: use one of {', '.join(fitting)}"
        )
    return model


def rotary_needs_even_heads(model: AnySettings) -> AnySettings:
    if model.positions == "rotary" and model.d_model // model.heads % 2:
        raise ValueError(
            f"positions = 'rotary' needs heads of an even width: d_model / heads = {model.d_model // model.heads}"
        )
    return model


def rotary_has_no_vectors(model: AnySettings) -> AnySettings:
    if model.positions == "rotary" and model.combine_positions == "concatenate":
        raise ValueError(
            "positions = 'rotary' has no vectors to concatenate: remove combine_positions, "
            "or set positions = 'sinusoidal'"
        )
    return model


def describe_positions(positions: str) -> str:
    return ", rotary positions" if positions == "rotary" else ""


def width_is_even(model: AnySettings) -> AnySettings:
    if model.bidirectional and model.d_model % 2:
        raise ValueError(
            f"d_model = {model.d_model} must be even for two directions: use {model.d_model + 1}, "
            "or model.bidirectional=false"
        )
    return model


class AnyModel(Section):
    """Base class of the settings of all families."""

    @property
    def max_length(self) -> int | None:
        """The maximum number of tokens per sequence; None if there is no maximum."""
        return None

    def describe(self) -> str:
        """Return the sizes of the model as text, for the model card."""
        raise NotImplementedError


class EncoderDecoderSettings(AnyModel):
    """Settings of a model with an encoder and a decoder."""

    @model_validator(mode="before")
    @classmethod
    def _expand_layers(cls, raw: Any) -> Any:
        """Accept `layers` for both `encoder_layers` and `decoder_layers`."""
        if isinstance(raw, dict) and "layers" in raw:
            layers, rest = raw["layers"], {key: value for key, value in raw.items() if key != "layers"}
            return {"encoder_layers": layers, "decoder_layers": layers} | rest
        return raw


Activation = Literal["relu", "gelu", "gelu_tanh", "swish"]
Ablation = Literal["no_scaling", "no_residual", "batch_norm", "no_norm"]


class TransformerSettings(EncoderDecoderSettings):
    """The Transformer. The defaults are those of the paper; sizes are chosen from the data."""

    ADDED_LATER = frozenset({"ablations", "activation", "output_bias", "zero_init"})

    family: Literal["transformer"] = "transformer"
    encoder_layers: Layers = Field(description="encoder layers")
    decoder_layers: Layers = Field(description="decoder layers")
    d_model: Positive = Field(description="width of the model")
    heads: Positive = Field(description="attention heads")
    d_ff: Positive = Field(description="inner width of the feed-forward network")
    dropout: float = Field(ge=0, lt=1, description="dropout rate (§5.4)")
    norm: Literal["post", "pre"] = Field("post", description="post-norm (paper) or pre-norm")
    ablations: list[Ablation | Literal["no_look_ahead_mask"]] = Field(
        [], description="parts that are removed or replaced for an experiment"
    )
    positions: Literal["sinusoidal", "learned", "rotary", "none"] = Field(
        "sinusoidal",
        description="positional encoding (§3.5); rotary: queries and keys are rotated in every layer (RoPE)",
    )
    combine_positions: Literal["add", "concatenate"] = Field(
        "add", description="add the positional encoding to the embedding (§3.5), or concatenate and project"
    )
    max_positions: Positive = Field(1024, description="number of learned positions")
    tie_embeddings: bool = Field(
        True, description="one matrix for source embedding, target embedding and output (§3.4)"
    )
    activation: Activation = Field("relu", description="activation of the feed-forward network (§3.3: relu)")
    output_bias: bool = Field(False, description="constant bias of the logits (imported models)")
    zero_init: bool = Field(
        False,
        description="initialize W_O of attention and W_2 of the feed-forward network with 0: sub-layers add nothing "
        "at first",
    )

    @property
    def max_length(self) -> int | None:
        return self.max_positions if self.positions == "learned" else None

    @model_validator(mode="after")
    def _zeros_need_residual_connections(self) -> Self:
        if self.zero_init and "no_residual" in self.ablations:
            raise ValueError("zero_init needs residual connections: without them the output of every layer would be 0")
        return self

    _check_heads = model_validator(mode="after")(heads_divide_width)
    _check_rotary = model_validator(mode="after")(rotary_needs_even_heads)
    _check_vectors = model_validator(mode="after")(rotary_has_no_vectors)

    def describe(self) -> str:
        sizes = f"{self.encoder_layers}+{self.decoder_layers} layers, width {self.d_model}"
        return f"{sizes}, {self.heads} heads, feed-forward {self.d_ff}{describe_positions(self.positions)}"


class RecurrentSettings(EncoderDecoderSettings):
    """The recurrent encoder–decoder, with or without attention."""

    family: Literal["recurrent"] = "recurrent"
    encoder_layers: Layers = Field(description="encoder layers")
    decoder_layers: Layers = Field(description="decoder layers")
    cell: Literal["rnn", "lstm", "gru"] = Field("gru", description="recurrent cell")
    attention: Literal["none", "additive", "dot", "general"] = Field(
        "additive", description="none, additive (Bahdanau), dot or general (Luong)"
    )
    bidirectional: bool = Field(True, description="bidirectional encoder; each direction has half of d_model")
    d_model: Positive = Field(description="width of the embeddings and hidden states")
    dropout: float = Field(ge=0, lt=1, description="dropout rate, on embeddings, between layers and before the output")
    tie_embeddings: bool = Field(True, description="one matrix for source embedding, target embedding and output")

    _check_width = model_validator(mode="after")(width_is_even)

    def describe(self) -> str:
        sizes = f"{self.encoder_layers}+{self.decoder_layers} {self.cell} layers, width {self.d_model}"
        return f"{sizes}{', bidirectional' if self.bidirectional else ''}, attention: {self.attention}"


class RecurrentTextSettings(AnyModel):
    """Settings that the recurrent language models share."""

    cell: Literal["rnn", "lstm", "gru"] = Field("lstm", description="recurrent cell")
    layers: Layers = Field(description="recurrent layers per direction")
    d_model: Positive = Field(description="width of the embeddings and of the hidden states per direction")
    dropout: float = Field(ge=0, lt=1, description="dropout rate, on embeddings, between layers and before the output")
    tie_embeddings: bool = Field(True, description="one matrix for embedding and output")

    def describe(self) -> str:
        return f"{self.layers} {self.cell} layers, width {self.d_model}"


class RecurrentLMSettings(RecurrentTextSettings):
    """The recurrent language model."""

    family: Literal["recurrent_lm"] = "recurrent_lm"


class ELMoSettings(RecurrentTextSettings):
    """ELMo: a forward and a backward recurrent language model."""

    family: Literal["elmo"] = "elmo"

    def describe(self) -> str:
        return f"{super().describe()} per direction"


class WindowSettings(AnyModel):
    """The fixed-window language model of Bengio et al. (2003)."""

    family: Literal["window"] = "window"
    window: Positive = Field(4, description="tokens in the window")
    d_model: Positive = Field(description="width of the embeddings")
    d_hidden: Positive = Field(description="width of the hidden layer")
    dropout: float = Field(ge=0, lt=1, description="dropout rate, on embeddings and before the output")

    def describe(self) -> str:
        return f"a window of {self.window} tokens, width {self.d_model}, hidden {self.d_hidden}"


class RecurrentEncoderSettings(AnyModel):
    """The recurrent encoder under a task head."""

    family: Literal["recurrent_encoder"] = "recurrent_encoder"
    cell: Literal["rnn", "lstm", "gru"] = Field("gru", description="recurrent cell")
    bidirectional: bool = Field(True, description="bidirectional; each direction has half of d_model")
    layers: Layers = Field(description="recurrent layers")
    d_model: Positive = Field(description="width of the embeddings and hidden states")
    dropout: float = Field(ge=0, lt=1, description="dropout rate, on embeddings, between layers and before the output")

    _check_width = model_validator(mode="after")(width_is_even)

    def describe(self) -> str:
        sizes = f"{self.layers} {self.cell} layers, width {self.d_model}"
        return f"{sizes}{', bidirectional' if self.bidirectional else ''}"


class SelfAttentionSettings(AnyModel):
    """Settings that GPT and BERT share."""

    ADDED_LATER = frozenset({"positions"})

    layers: Layers = Field(description="layers")
    d_model: Positive = Field(description="width of the model")
    heads: Positive = Field(description="attention heads")
    d_ff: Positive = Field(description="inner width of the feed-forward network")
    max_positions: Positive = Field(description="maximum sequence length")
    positions: Literal["learned", "rotary"] = Field(
        "learned", description="a learned vector per position, or rotary: queries and keys are rotated (RoPE)"
    )
    dropout: float = Field(ge=0, lt=1, description="dropout rate")

    @property
    def max_length(self) -> int:
        return self.max_positions

    _check_heads = model_validator(mode="after")(heads_divide_width)
    _check_rotary = model_validator(mode="after")(rotary_needs_even_heads)

    def describe(self) -> str:
        sizes = f"{self.layers} layers, width {self.d_model}, {self.heads} heads, feed-forward {self.d_ff}"
        return f"{sizes}{describe_positions(self.positions)}"


class GPTSettings(SelfAttentionSettings):
    """GPT-2: a pre-norm decoder without encoder–decoder attention."""

    family: Literal["gpt"] = "gpt"
    activation: Activation = Field("gelu_tanh", description="activation of the feed-forward network")
    norm_epsilon: float = Field(1e-5, gt=0, description="ε of the layer normalization")
    tie_embeddings: bool = Field(True, description="one matrix for embedding and output")
    output_bias: bool = Field(False, description="constant bias of the logits (imported models)")

    def describe(self) -> str:
        return f"{super().describe()}, a window of {self.max_positions} tokens"


class BertSettings(SelfAttentionSettings):
    """BERT: a post-norm encoder with segment embeddings."""

    ADDED_LATER = SelfAttentionSettings.ADDED_LATER | {"pooling"}
    norm: ClassVar[str] = "post"

    family: Literal["bert"] = "bert"
    segments: Positive = Field(2, description="number of segment embeddings")
    activation: Activation = Field("gelu", description="activation of the feed-forward network")
    norm_epsilon: float = Field(1e-12, gt=0, description="ε of the layer normalization")
    pooling: Literal["highest", "first"] = Field(
        "highest", description="pooling for classification: maximum over all tokens, or the first token (BERT)"
    )

    def describe(self) -> str:
        return f"{super().describe()}, texts of at most {self.max_positions} tokens"


class ViTSettings(AnyModel):
    """The Vision Transformer."""

    ADDED_LATER = frozenset({"ablations", "norm_epsilon"})

    family: Literal["vit"] = "vit"
    height: Positive = Field(description="image height in pixels; other images are resized")
    width: Positive = Field(description="image width in pixels")
    channels: Literal[1, 3] = Field(description="1: grey; 3: RGB")
    mean: list[float] = Field(description="mean of each channel in the training images, between 0 and 1")
    deviation: list[Annotated[float, Field(gt=0)]] = Field(
        description="standard deviation of each channel in the training images"
    )
    patch: Positive = Field(description="side of a patch in pixels")
    layers: Layers = Field(description="encoder layers")
    d_model: Positive = Field(description="width of the model")
    heads: Positive = Field(description="attention heads")
    d_ff: Positive = Field(description="inner width of the feed-forward network")
    dropout: float = Field(ge=0, lt=1, description="dropout rate")
    norm: Literal["post", "pre"] = Field("pre", description="pre-norm (paper) or post-norm")
    ablations: list[Ablation] = Field([], description="parts that are removed or replaced for an experiment")
    activation: Activation = Field("gelu", description="activation of the feed-forward network")
    norm_epsilon: float = Field(1e-5, gt=0, description="ε of the layer normalization")

    @property
    def tokens(self) -> int:
        """Number of patches plus the class token."""
        return 1 + (self.height // self.patch) * (self.width // self.patch)

    _check_heads = model_validator(mode="after")(heads_divide_width)

    @model_validator(mode="after")
    def _check_shapes(self) -> Self:
        if self.height % self.patch or self.width % self.patch:
            fitting = [str(n) for n in range(1, self.height + 1) if not (self.height % n or self.width % n)]
            raise ValueError(
                f"patch = {self.patch} does not divide an image of {self.height}×{self.width}: use one of "
                f"{', '.join(fitting)}, or another model.height and model.width"
            )
        if not len(self.mean) == len(self.deviation) == self.channels:
            raise ValueError(f"channels = {self.channels}: mean and deviation need one entry per channel")
        return self

    def describe(self) -> str:
        image = f"{self.height}×{self.width}{' grey' if self.channels == 1 else ''} images in patches of {self.patch}"
        return f"{image}, {self.layers} layers, width {self.d_model}, {self.heads} heads, feed-forward {self.d_ff}"


def family_of(model: Any) -> str:
    """Return the family of model settings; "transformer" if they name none."""
    family = model.get("family", "transformer") if isinstance(model, dict) else getattr(model, "family", "transformer")
    return str(family)


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
MODELS: dict[str, type[AnyModel]] = {
    tag.tag: settings for settings, tag in map(get_args, get_args(get_args(ModelSettings)[0]))
}
