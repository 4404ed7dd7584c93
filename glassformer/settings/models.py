"""The section of the model, one class a family: what can be chosen of it, and what must fit together."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from glassformer.settings.sections import Layers, Positive, Section


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
Ablation = Literal["no_scaling", "no_residual", "batch_norm", "no_norm"]


class TransformerSettings(TwoSided):
    """The defaults are the paper's; sizes are chosen from the corpus."""

    LATER = frozenset({"ablations", "activation", "output_bias"})

    family: Literal["transformer"] = "transformer"
    encoder_layers: Layers = Field(description="N of the encoder")
    decoder_layers: Layers = Field(description="N of the decoder")
    d_model: Positive = Field(description="model width")
    heads: Positive = Field(description="h, attention heads")
    d_ff: Positive = Field(description="width inside the feed-forward network")
    dropout: float = Field(ge=0, lt=1, description="rate of dropout (§5.4)")
    norm: Literal["post", "pre"] = Field("post", description="normalisation after (paper) or before a sub-layer")
    ablations: list[Ablation | Literal["no_look_ahead_mask"]] = Field(
        [], description="parts taken out or exchanged for an experiment (models/ablations.py)"
    )
    positions: Literal["sinusoidal", "learned", "none"] = Field(
        "sinusoidal", description="how a token is told its place (§3.5)"
    )
    combine_positions: Literal["add", "concatenate"] = Field(
        "add", description="positions are added to the embedding (§3.5), or stand beside it, projected"
    )
    max_positions: Positive = Field(1024, description="number of positions, where they are learned")
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
    encoder_layers: Layers = Field(description="layers of the encoder")
    decoder_layers: Layers = Field(description="layers of the decoder")
    cell: Literal["rnn", "lstm", "gru"] = Field("gru", description="what a recurrent layer computes in a step")
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

    cell: Literal["rnn", "lstm", "gru"] = Field("lstm", description="what a recurrent layer computes in a step")
    layers: Layers = Field(description="recurrent layers, of each direction")
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
    cell: Literal["rnn", "lstm", "gru"] = Field("gru", description="what a recurrent layer computes in a step")
    bidirectional: bool = Field(True, description="reads from both ends, each with half of d_model")
    layers: Layers = Field(description="recurrent layers")
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

    layers: Layers = Field(description="N")
    d_model: Positive = Field(description="model width")
    heads: Positive = Field(description="h, attention heads")
    d_ff: Positive = Field(description="width inside the feed-forward network")
    max_positions: Positive = Field(description="maximum sequence length")
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
        return f"{super().described()}, a window of {self.max_positions} tokens"


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
        return f"{super().described()}, texts of at most {self.max_positions} tokens"


class ViTSettings(AnyModel):
    """The Vision Transformer: an encoder over the patches of an image. What is unsaid is chosen from the images."""

    LATER = frozenset({"ablations", "norm_epsilon"})

    family: Literal["vit"] = "vit"
    height: Positive = Field(description="pixels of an image from top to bottom; others are brought to this size")
    width: Positive = Field(description="pixels of an image from left to right")
    channels: Literal[1, 3] = Field(description="1: shades of grey; 3: red, green and blue")
    mean: list[float] = Field(description="of each channel in the training images, from 0 to 1")
    deviation: list[Annotated[float, Field(gt=0)]] = Field(description="standard deviation of each channel there")
    patch: Positive = Field(description="pixels of a patch's side")
    layers: Layers = Field(description="N of the encoder")
    d_model: Positive = Field(description="model width")
    heads: Positive = Field(description="attention heads")
    d_ff: Positive = Field(description="width inside the feed-forward network")
    dropout: float = Field(ge=0, lt=1, description="rate of dropout")
    norm: Literal["post", "pre"] = Field("pre", description="normalisation before (paper) or after a sub-layer")
    ablations: list[Ablation] = Field([], description="parts taken out or exchanged for an experiment")
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


def family_of(model: Any) -> str:
    """The family that the settings of a model ask for; a Transformer if they name none."""
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
