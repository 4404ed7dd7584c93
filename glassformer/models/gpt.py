"""GPT-2 (Radford et al., 2019): the Transformer's decoder alone, as a language model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import Tensor, nn

from glassformer.nn.attention import SelfAttention
from glassformer.nn.dropout import Dropout
from glassformer.nn.embedding import Embedding, OutputLayer
from glassformer.nn.feedforward import FeedForward
from glassformer.nn.masks import look_ahead_mask
from glassformer.nn.norm import LayerNorm, PreNorm
from glassformer.nn.positions import AddPositions, LearnedPositions
from glassformer.nn.probe import NO_PROBE, Probe
from glassformer.nn.state import KeyValueCache
from glassformer.settings import GPTSettings

DEVIATION = 0.02  # of fresh weights


class Layer(nn.Module):
    """Masked self-attention, then a feed-forward network: x + SubLayer(LayerNorm(x)), twice."""

    def __init__(self, s: GPTSettings) -> None:
        super().__init__()
        self.self_attention = SelfAttention(s.d_model, s.heads)
        self.self_residual = PreNorm(s.d_model, s.dropout, epsilon=s.norm_epsilon)
        self.feed_forward = FeedForward(s.d_model, s.d_ff, activation=s.activation)
        self.feed_forward_residual = PreNorm(s.d_model, s.dropout, epsilon=s.norm_epsilon)

    def forward(self, x_BTD: Tensor, mask: Tensor | None, cache: KeyValueCache | None, probe: Probe) -> Tensor:
        look, think = probe.at("self"), probe.at("ff")
        x_BTD = self.self_residual(x_BTD, lambda x: self.self_attention(x, mask=mask, cache=cache, probe=look), look)
        return self.feed_forward_residual(x_BTD, lambda x: self.feed_forward(x, think), think)

    def lean(self, x_BTD: Tensor, mask: Tensor | None, cache: KeyValueCache) -> Tensor:
        """`forward` for the newest tokens, in inference, when nobody looks."""
        x_BTD = self.self_residual.lean(x_BTD, self.self_attention.lean, cache, mask)
        return self.feed_forward_residual.lean(x_BTD, self.feed_forward.lean)


@dataclass(frozen=True)
class State:
    """The tokens read so far, as keys and values, with one cache per layer. A state is a value: no step changes it."""

    step: int
    caches: list[KeyValueCache]

    def select(self, rows: Tensor) -> State:
        return State(self.step, [cache.select(rows) for cache in self.caches])

    def copy(self) -> State:
        """Return a state whose caches can be appended to independently of this one's."""
        return State(self.step, [cache.copy() for cache in self.caches])


class GPT(nn.Module):
    """Tokens + positions, N layers, a last LayerNorm, and the embedding again as output."""

    def __init__(self, s: GPTSettings, vocab: int, *, pad: int) -> None:
        super().__init__()
        self.pad, self.longest = pad, s.longest
        self.embedding = Embedding(vocab, s.d_model, scaled=False)
        self.positions = AddPositions(LearnedPositions(s.d_model, s.longest))
        self.dropout = Dropout(s.dropout)
        self.decoder = nn.ModuleList(Layer(s) for _ in range(s.layers))
        self.decoder_norm = LayerNorm(s.d_model, s.norm_epsilon)
        tied = self.embedding if s.tie_embeddings else Embedding(vocab, s.d_model, scaled=False)
        self.output = OutputLayer(tied.weight_VD, bias=s.output_bias)
        self._draw()

    def _draw(self) -> None:
        """Fresh weights: small, and smaller where 2N sub-layers are added up, so that their sum is not large."""
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                added = name.endswith(("self_attention.output.weight", "feed_forward.contract.weight"))
                less = (2 * len(self.decoder)) ** -0.5 if added else 1.0
                parameter.detach().normal_(std=DEVIATION * less)

    def forward(self, tokens_BT: Tensor, probe: Probe = NO_PROBE) -> Tensor:
        """Logits for the token after each. B×T×V."""
        return probe("logits", self.output(self.hidden(tokens_BT, probe)))

    def hidden(self, tokens_BT: Tensor, probe: Probe = NO_PROBE) -> Tensor:
        """All positions at once, each blind to its future: what the output layer reads. B×T×D."""
        mask = look_ahead_mask(tokens_BT.shape[1], tokens_BT.device)
        return self._decode(tokens_BT, mask, None, probe.at("decoder"))

    def start(self, memory: None = None, copies: int = 1) -> State:
        """Before the first token. There is no source; the rows are those of the first step."""
        return State(0, [KeyValueCache() for _ in self.decoder])

    def step(self, tokens_N: Tensor, state: State, probe: Probe = NO_PROBE) -> tuple[Tensor, State]:
        """One more token for each row: logits of the next, N×V, and the state after it. At most `longest` times."""
        after = state.copy()
        hidden_N1D = self._decode(tokens_N[:, None], None, after, probe.at("decoder"))
        return probe("logits", self.output(hidden_N1D[:, 0])), replace(after, step=state.step + 1)

    def read(self, tokens_NT: Tensor, state: State) -> tuple[Tensor, State]:
        """As many steps as there are tokens in a row, in one pass: logits after the last, N×V."""
        end = state.step + tokens_NT.shape[1]
        mask = look_ahead_mask(end, tokens_NT.device)[state.step :]
        after = state.copy()
        hidden_NTD = self._decode(tokens_NT, mask, after, NO_PROBE)
        return self.output(hidden_NTD[:, -1]), replace(after, step=end)

    def _decode(self, tokens_BT: Tensor, mask: Tensor | None, state: State | None, probe: Probe) -> Tensor:
        """All tokens under a look-ahead mask, or the newest with a state that holds the rest."""
        x_BTD = self.embedding(tokens_BT, probe)
        x_BTD = probe("input", self.dropout(self.positions(x_BTD, state.step if state else 0, probe)))
        lean = probe is NO_PROBE and not self.training and not torch.is_grad_enabled()
        for i, layer in enumerate(cast("list[Layer]", self.decoder)):
            if lean and state is not None:
                x_BTD = layer.lean(x_BTD, mask, state.caches[i])
            else:
                x_BTD = layer(x_BTD, mask, state.caches[i] if state else None, probe.at(i))
        return probe("hidden", self.decoder_norm(x_BTD, probe))

    @staticmethod
    def work(s: GPTSettings, vocab: int) -> tuple[int, int]:
        """Multiplications that a source token, of which there is none, and a target token take, but for the scores."""
        return 0, s.layers * (4 * s.d_model**2 + 2 * s.d_model * s.d_ff) + s.d_model * vocab

    @staticmethod
    def kept(s: GPTSettings) -> int:
        """Numbers that training keeps of a token for the way back."""
        return s.layers * (12 * s.d_model + 3 * s.d_ff)
