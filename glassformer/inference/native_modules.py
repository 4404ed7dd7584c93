"""BERT and GPT in the native engine, in the place of the PyTorch modules they were made from."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.engine.library import Unavailable
from glassformer.engine.model import NativeModel, Worker
from glassformer.inference.engine import Precision
from glassformer.inference.run import Run, weights_of
from glassformer.inference.run_folder import vocab_size
from glassformer.models.bert import BERT, Segments
from glassformer.models.gpt import GPT
from glassformer.nn.probe import NO_PROBE, Probe


def use_native_engine(run: Run, precision: Precision = "fp32") -> str | None:
    """Let the native engine compute the encoder or decoder of a run on a CPU.

    Traces still use the PyTorch modules.

    Returns:
        Why PyTorch is used; None if the native engine is.
    """
    weights = weights_of(run.model)
    if any(weight.device.type != "cpu" for weight in weights.values()):
        return "the native engine runs on CPUs only"
    encoder = getattr(run.model, "encoder", None)
    if not isinstance(run.model, GPT) and not isinstance(encoder, BERT):
        return f"model.family={run.settings.model.family} runs in PyTorch"
    try:
        native = NativeModel.from_tensors(weights, run.settings.model, vocab_size(run.text_tokenizer), precision)
    except Unavailable as reason:
        return str(reason)
    if isinstance(encoder, BERT):
        run.model.encoder = NativeBERT(encoder, native)
    elif isinstance(run.model, GPT):
        object.__setattr__(run, "model", NativeGPT(run.model, native))
    return None


class _PerThread(threading.local):
    """One worker per thread."""

    def __init__(self, native: NativeModel) -> None:
        self.worker = Worker(native)
        self.read: tuple[int, ...] = ()  # tokens that the worker has read (GPT)


class NativeBERT(nn.Module):
    """A BERT encoder whose forward pass runs in the native engine, unless it is traced."""

    def __init__(self, bert: BERT, native: NativeModel) -> None:
        super().__init__()
        self.bert = bert
        self._of_thread = _PerThread(native)
        self.pad, self.width, self.max_positions, self.reads_sos = bert.pad, bert.width, bert.max_positions, True

    def forward(self, tokens_BS: Tensor, probe: Probe = NO_PROBE, segments: Segments | None = None) -> Tensor:
        """Return the hidden states of the top layer, B×S×D; those at padding are 0."""
        if probe is not NO_PROBE or torch.is_grad_enabled():
            hidden_BSD: Tensor = self.bert(tokens_BS, probe, segments)
            return hidden_BSD
        real_BS = tokens_BS != self.pad
        rows = [row[real].tolist() for row, real in zip(tokens_BS, real_BS, strict=True)]
        of_rows = None
        if segments is not None:
            of_rows = [row[real].tolist() for row, real in zip(segments.ids_BS, real_BS, strict=True)]
        flat_ND = torch.frombuffer(self._of_thread.worker.encode(rows, of_rows), dtype=torch.float32)
        hidden_BSD = torch.zeros(*tokens_BS.shape, self.width)
        hidden_BSD[real_BS] = flat_ND.view(-1, self.width)
        return hidden_BSD


@dataclass(frozen=True)
class TokensRead:
    """The state of `NativeGPT`: all tokens read so far, of a single row."""

    tokens: tuple[int, ...] = ()


class NativeGPT(nn.Module):
    """A GPT whose steps run in the native engine, one row at a time. Anything else is computed by PyTorch."""

    def __init__(self, gpt: GPT, native: NativeModel) -> None:
        super().__init__()
        self.gpt = gpt
        self._of_thread = _PerThread(native)
        self.pad, self.max_positions, self.output = gpt.pad, gpt.max_positions, gpt.output

    def forward(self, tokens_BT: Tensor, probe: Probe = NO_PROBE) -> Tensor:
        logits_BTV: Tensor = self.gpt(tokens_BT, probe)
        return logits_BTV

    def hidden(self, tokens_BT: Tensor, probe: Probe = NO_PROBE) -> Tensor:
        return self.gpt.hidden(tokens_BT, probe)

    def start(self, memory: None = None, copies: int = 1, probe: Probe = NO_PROBE) -> Any:
        """Return the state before the first token."""
        return TokensRead() if probe is NO_PROBE else self.gpt.start(memory, copies, probe)

    def step(self, tokens_N: Tensor, state: Any, probe: Probe = NO_PROBE) -> tuple[Tensor, Any]:
        """Read one more token; return the logits of the next, 1×V, and the state after it."""
        if not isinstance(state, TokensRead):
            return self.gpt.step(tokens_N, state, probe)
        return self.read(tokens_N[:, None], state)

    def read(self, tokens_NT: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Read further tokens; return the logits after the last, 1×V, and the state after it."""
        if not isinstance(state, TokensRead):
            return self.gpt.read(tokens_NT, state)
        (new,) = tokens_NT.tolist()
        mine = self._of_thread
        after = (*state.tokens, *new)
        if not state.tokens or mine.read != state.tokens:  # another text: read it from its start
            mine.worker.start(self.max_positions)
            new = list(after)
        logits_V = torch.frombuffer(mine.worker.read(new), dtype=torch.float32)
        mine.read = after
        return logits_V[None].clone(), TokensRead(after)
