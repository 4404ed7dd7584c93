"""What stands on an encoder: one answer for a whole text or image, or one for each token."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from glassformer.nn.linear import Linear
from glassformer.nn.probe import NO_PROBE, Probe


class Classifier(nn.Module):
    """Many to one: of each feature its highest value in the text, then a linear layer over the labels.

    On SST-2 the maximum over the text did best; its mean learnt sooner and then fell back, and the last states of
    both directions learnt latest.
    """

    def __init__(self, encoder: Any, labels: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.output = Linear(encoder.width, labels)

    def forward(self, tokens_BS: Tensor, probe: Probe = NO_PROBE) -> Tensor:
        """Logits of the labels, B×L."""
        hidden_BSD = self.encoder(tokens_BS, probe)
        padding_BS1 = (tokens_BS == self.encoder.pad)[:, :, None]
        pooled_BD = probe("pooled", hidden_BSD.masked_fill(padding_BS1, float("-inf")).amax(dim=1))
        return probe("logits", self.output(pooled_BD))


class Tagger(nn.Module):
    """Many to many: the linear layer reads the state of every token."""

    def __init__(self, encoder: Any, labels: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.output = Linear(encoder.width, labels)

    def forward(self, tokens_BS: Tensor, probe: Probe = NO_PROBE) -> Tensor:
        """Logits of the labels of every token, B×S×L."""
        return probe("logits", self.output(self.encoder(tokens_BS, probe)))


class FirstTokenClassifier(nn.Module):
    """Many to one, as BERT and ViT do it: a linear layer reads the first state, which gathered what the rest say."""

    def __init__(self, encoder: Any, labels: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.output = Linear(encoder.width, labels)

    def forward(self, input_B: Tensor, probe: Probe = NO_PROBE) -> Tensor:
        """Logits of the labels, B×L."""
        pooled_BD = probe("pooled", self.encoder(input_B, probe)[:, 0])
        return probe("logits", self.output(pooled_BD))


HEADS: dict[str, type[Classifier] | type[Tagger] | type[FirstTokenClassifier]] = {
    "classification": Classifier,
    "tagging": Tagger,
    "images": FirstTokenClassifier,
}
