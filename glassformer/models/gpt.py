"""GPT-2 (Radford et al., 2019): the Transformer's decoder alone, as a language model."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor, nn

from glassformer.nn.attention import SelfAttention
from glassformer.nn.cache import KeyValueCache
from glassformer.nn.dropout import Dropout
from glassformer.nn.embedding import Embedding
from glassformer.nn.feed_forward import FeedForward
from glassformer.nn.masks import Mask, look_ahead_mask
from glassformer.nn.norm import LayerNorm, PreNorm
from glassformer.nn.output_projection import OutputProjection
from glassformer.nn.positional_encoding import AddPositions, LearnedPositions, NoPositions, RotaryPositions
from glassformer.nn.probe import NO_PROBE, Probe
from glassformer.settings import GPTSettings

DEVIATION = 0.02  # of the initial weights


class DecoderLayer(nn.Module):
    """Masked self-attention, then a feed-forward network: x + SubLayer(LayerNorm(x)), twice."""

    def __init__(self, s: GPTSettings) -> None:
        super().__init__()
        self.self_attention = SelfAttention(s.d_model, s.heads)
        self.self_residual = PreNorm(s.d_model, s.dropout, epsilon=s.norm_epsilon)
        self.feed_forward = FeedForward(s.d_model, s.d_ff, activation=s.activation)
        self.feed_forward_residual = PreNorm(s.d_model, s.dropout, epsilon=s.norm_epsilon)

    def forward(
        self,
        x_BTD: Tensor,
        mask: Mask | None,
        cache: KeyValueCache | None,
        rotation_TE: Tensor | None,
        probe: Probe,
    ) -> Tensor:
        self_probe, ff_probe = probe.at("self"), probe.at("ff")
        x_BTD = self.self_residual(
            x_BTD,
            lambda x: self.self_attention(x, mask=mask, cache=cache, rotation_TE=rotation_TE, probe=self_probe),
            self_probe,
        )
        return self.feed_forward_residual(x_BTD, lambda x: self.feed_forward(x, ff_probe), ff_probe)


@dataclass(frozen=True)
class State:
    """The tokens read so far, as keys and values of each layer."""

    steps: int
    caches: list[KeyValueCache]

    def select(self, rows: Tensor) -> State:
        return State(self.steps, [cache.select(rows) for cache in self.caches])

    def next(self, tokens: int) -> State:
        """Return the state after this many more tokens, with caches that may be appended to."""
        return State(self.steps + tokens, [cache.fork() for cache in self.caches])


class GPT(nn.Module):
    """Token and position embeddings, N layers, a final LayerNorm, and an output layer tied to the token embedding.

    With `model.positions=rotary`, queries and keys are rotated in every layer in place of the position embeddings.
    """

    def __init__(self, s: GPTSettings, vocab: int, *, pad: int) -> None:
        super().__init__()
        self.pad, self.max_positions = pad, s.max_positions
        self.embedding = Embedding(vocab, s.d_model, scaled=False)
        rotary = s.positions == "rotary"
        self.positions = NoPositions() if rotary else AddPositions(LearnedPositions(s.d_model, s.max_positions))
        self.rotary = RotaryPositions(s.d_model, s.heads) if rotary else None
        self.dropout = Dropout(s.dropout)
        self.decoder = nn.ModuleList(DecoderLayer(s) for _ in range(s.layers))
        self.decoder_norm = LayerNorm(s.d_model, s.norm_epsilon)
        tied = self.embedding if s.tie_embeddings else Embedding(vocab, s.d_model, scaled=False)
        self.output = OutputProjection(tied.weight_VD, bias=s.output_bias)
        self._initialize()

    def _initialize(self) -> None:
        """Draw the initial weights; those of the 2N layers added to the residual stream are scaled by 1/√(2N)."""
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                added = name.endswith(("self_attention.output.weight", "feed_forward.contract.weight"))
                scale = (2 * len(self.decoder)) ** -0.5 if added else 1.0
                parameter.detach().normal_(std=DEVIATION * scale)

    def forward(self, tokens_BT: Tensor, probe: Probe = NO_PROBE) -> Tensor:
        """Return the logits of the token after each, B×T×V."""
        return self.output(self.hidden(tokens_BT, probe), probe)

    def hidden(self, tokens_BT: Tensor, probe: Probe = NO_PROBE) -> Tensor:
        """Return the input of the output layer, B×T×D: all positions at once, with the look-ahead mask."""
        mask = look_ahead_mask(tokens_BT.shape[1], tokens_BT.device)
        return self._decode(tokens_BT, mask, probe=probe)

    def start(self, memory: None = None, copies: int = 1, probe: Probe = NO_PROBE) -> State:
        """Return the state before the first token. There is no source; the first step gives the number of rows."""
        return State(0, [KeyValueCache() for _ in self.decoder])

    def step(self, tokens_N: Tensor, state: State, probe: Probe = NO_PROBE) -> tuple[Tensor, State]:
        """Read one more token per row, at most `max_positions` in all; return the logits of the next, N×V."""
        after = state.next(1)
        hidden_N1D = self._decode(tokens_N[:, None], None, start=state.steps, caches=after.caches, probe=probe)
        return self.output(hidden_N1D[:, 0], probe), after

    def read(self, tokens_NT: Tensor, state: State) -> tuple[Tensor, State]:
        """Take T steps in one pass; return the logits after the last token, N×V."""
        after = state.next(tokens_NT.shape[1])
        mask = look_ahead_mask(after.steps, tokens_NT.device)
        mask = replace(mask, values=mask.values[state.steps :], causal=False)
        hidden_NTD = self._decode(tokens_NT, mask, start=state.steps, caches=after.caches, probe=NO_PROBE)
        return self.output(hidden_NTD[:, -1]), after

    def _decode(
        self,
        tokens_BT: Tensor,
        mask: Mask | None,
        *,
        start: int = 0,
        caches: list[KeyValueCache] | None = None,
        probe: Probe,
    ) -> Tensor:
        """Run the layers over all tokens, or over the newest with caches of those before."""
        probe = probe.at("decoder")
        x_BTD = self.dropout(self.positions(self.embedding(tokens_BT, probe), start, probe))
        rotation_TE = None if self.rotary is None else self.rotary(x_BTD, start, probe)
        for i, layer in enumerate(self.decoder):
            x_BTD = layer(x_BTD, mask, caches[i] if caches else None, rotation_TE, probe.at(i))
        return self.decoder_norm(x_BTD, probe, "hidden")
