"""The Vision Transformer (Dosovitskiy et al., 2021): the Transformer's encoder over the patches of an image."""

from __future__ import annotations

from torch import Tensor, nn

from glassformer.models.transformer import EncoderLayer
from glassformer.nn.dropout import Dropout
from glassformer.nn.norm import LayerNorm
from glassformer.nn.patches import ClassToken, PatchEmbedding
from glassformer.nn.positional_encoding import AddPositions, LearnedPositions
from glassformer.nn.probe import NO_PROBE, Probe
from glassformer.reference import embeddings as ops
from glassformer.settings import ViTSettings

# Standard deviation of the initial position vectors, on the scale of the patch embeddings. With 1/√d it learns more
# slowly: on Fashion-MNIST the training accuracy in steps 300 to 600 was 81 % instead of 84 %.
POSITION_DEVIATION = 0.5


class ViT(nn.Module):
    """Wired as in the paper's figure 1, without the classification layer, which is a head (`heads.py`)."""

    def __init__(self, s: ViTSettings) -> None:
        super().__init__()
        self.width = s.d_model
        self.scaling = PixelScaling(s.mean, s.deviation)
        self.embedding = PatchEmbedding(s.channels, s.patch, s.d_model)
        self.class_token = ClassToken(s.d_model)
        self.positions = AddPositions(LearnedPositions(s.d_model, s.tokens, POSITION_DEVIATION))
        self.dropout = Dropout(s.dropout)
        self.encoder = nn.ModuleList(EncoderLayer(s, epsilon=s.norm_epsilon) for _ in range(s.layers))
        self.encoder_norm = LayerNorm(s.d_model, s.norm_epsilon) if s.norm == "pre" else None

    def forward(self, pixels_BCYX: Tensor, probe: Probe = NO_PROBE) -> Tensor:
        """Return the hidden states of the class token and of every patch, B×(1+P)×D, from the pixels as bytes."""
        probe = probe.at("encoder")
        pixels_BCYX = probe("pixels", pixels_BCYX, ops.model_input)
        scaling, patches = self.scaling, self.embedding
        image_BCYX = probe("image", scaling(pixels_BCYX), ops.image, pixels_BCYX, scaling.mean, scaling.deviation)
        x_BPD = self.class_token(patches(image_BCYX))
        weights = (*patches.project.part(), self.class_token.weight_D)
        x_BPD = probe("embedding", x_BPD, ops.patch_embedding, image_BCYX, patches.patch, *weights)
        x_BPD = self.dropout(self.positions(x_BPD, probe=probe))
        for i, layer in enumerate(self.encoder):
            x_BPD = layer(x_BPD, None, probe.at(i))
        return probe("hidden", x_BPD) if self.encoder_norm is None else self.encoder_norm(x_BPD, probe, "hidden")


class PixelScaling(nn.Module):
    """Scale bytes to mean 0 and standard deviation 1, by the statistics of the training images per channel."""

    def __init__(self, mean: list[float], deviation: list[float]) -> None:
        super().__init__()
        self.mean, self.deviation = mean, deviation

    def forward(self, pixels_BCYX: Tensor) -> Tensor:
        share_BCYX = pixels_BCYX.float() / 255
        mean_C11 = share_BCYX.new_tensor(self.mean)[:, None, None]
        deviation_C11 = share_BCYX.new_tensor(self.deviation)[:, None, None]
        return (share_BCYX - mean_C11) / deviation_C11
