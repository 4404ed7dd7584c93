"""BERT (Devlin et al., 2019): the Transformer's encoder alone. Its heads are in `heads.py`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.models.transformer import EncoderLayer
from glassformer.nn.dropout import Dropout
from glassformer.nn.embedding import Embedding
from glassformer.nn.masks import padding_mask
from glassformer.nn.norm import LayerNorm
from glassformer.nn.positional_encoding import AddPositions, LearnedPositions, RotaryPositions
from glassformer.nn.probe import NO_PROBE, Probe
from glassformer.reference import embeddings as embedding_ops
from glassformer.reference import layers as ops
from glassformer.reference.operation import Operation
from glassformer.settings import BertSettings

DEVIATION = 0.02  # of the initial embeddings; matrices are initialized by their shape, as in every family


@dataclass(frozen=True)
class Segments:
    """The segment of each token, B×S, with the reference operation that it comes from."""

    ids_BS: Tensor
    operation: Operation
    operands: tuple[Any, ...] = ()


class BERT(nn.Module):
    """Embeddings of tokens, segments and positions, layer normalization, then N layers; `heads.py` reads the output.

    With `model.positions=rotary`, queries and keys are rotated in every layer in place of the position embeddings.
    """

    reads_sos = True  # before a text: BERT's [CLS], as <eos> is its [SEP]

    def __init__(self, s: BertSettings, vocab: int, *, pad: int) -> None:
        super().__init__()
        self.pad, self.width, self.max_positions, self.segment_count = pad, s.d_model, s.max_positions, s.segments
        self.activation, self.epsilon = s.activation, s.norm_epsilon
        self.tokens = Embedding(vocab, s.d_model, scaled=False)
        self.segments = Embedding(s.segments, s.d_model, scaled=False)
        learned = LearnedPositions(s.d_model, s.max_positions) if s.positions == "learned" else None
        self.positions = AddPositions(learned) if learned else None
        self.rotary = RotaryPositions(s.d_model, s.heads) if s.positions == "rotary" else None
        self.input_norm = LayerNorm(s.d_model, s.norm_epsilon)
        self.dropout = Dropout(s.dropout)
        self.encoder = nn.ModuleList(EncoderLayer(s, epsilon=s.norm_epsilon) for _ in range(s.layers))
        for table in (self.tokens.weight_VD, self.segments.weight_VD, *([learned.weight_TD] if learned else [])):
            table.detach().normal_(std=DEVIATION)

    def forward(self, tokens_BS: Tensor, probe: Probe = NO_PROBE, segments: Segments | None = None) -> Tensor:
        """Return the hidden states of the top layer, B×S×D; those at padding are not defined.

        Without `segments` all tokens are in the first one.
        """
        probe = probe.at("encoder")
        x_BSD = self.tokens(tokens_BS, probe)
        segments = segments or Segments(torch.zeros_like(tokens_BS), embedding_ops.model_input)
        segments_BS = probe("segments", segments.ids_BS, segments.operation, *segments.operands)
        segment_BSD = self.segments(segments_BS)
        segment_BSD = probe(
            "segment_vectors", segment_BSD, embedding_ops.segment_embedding, segments_BS, self.segments.weight_VD
        )
        if self.positions is None:
            x_BSD = probe("sum", x_BSD + segment_BSD, ops.segment_sum, x_BSD, segment_BSD)
        else:
            position_SD = self.positions.positions(x_BSD, 0, probe)
            sum_BSD = x_BSD + segment_BSD + position_SD
            x_BSD = probe("sum", sum_BSD, ops.embedding_sum, x_BSD, segment_BSD, position_SD)
        x_BSD = self.dropout(self.input_norm(x_BSD, probe, "input"))
        mask = padding_mask(tokens_BS, self.pad)
        rotation_SE = None if self.rotary is None else self.rotary(x_BSD, 0, probe)
        for i, layer in enumerate(self.encoder):
            x_BSD = layer(x_BSD, mask, probe.at(i), rotation_SE=rotation_SE)
        return probe("hidden", x_BSD)
