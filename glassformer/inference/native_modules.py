"""BERT and GPT in the native engine, in the place of the PyTorch modules they were made from."""

from __future__ import annotations

import copy
import threading
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from glassformer.engine.library import Unavailable
from glassformer.engine.model import NativeModel, Worker
from glassformer.inference.run import Run, weights_of
from glassformer.inference.run_folder import vocab_size
from glassformer.inference.search_engine import Precision
from glassformer.models.bert import BERT, Segments
from glassformer.models.gpt import GPT
from glassformer.models.heads import Head
from glassformer.nn.probe import NO_PROBE, Probe


def native_copy(run: Run, precision: Precision = "fp32") -> nn.Module | None:
    """Return the model of a run with its GPT, or its BERT encoder, in the native engine; None if it cannot run there.

    The model of the run itself is not changed: traces are computed by PyTorch.
    """
    weights = weights_of(run.model)
    if any(weight.device.type != "cpu" for weight in weights.values()):
        return None
    try:
        native = NativeModel.from_tensors(weights, run.settings.model, vocab_size(run.text_tokenizer), precision)
    except Unavailable:  # another family, or no library
        return None
    if isinstance(run.model, GPT):
        return NativeGPT(run.model, native)
    if isinstance(run.model, Head) and isinstance(run.model.encoder, BERT):
        fast = copy.copy(run.model)
        fast._modules = run.model._modules | {"encoder": NativeBERT(run.model.encoder, native)}
        return fast
    return None


class _PerThread(threading.local):
    """One worker per thread."""

    def __init__(self, native: NativeModel) -> None:
        self.worker = Worker(native)
        self.read: tuple[int, ...] = ()  # tokens that the worker has read (GPT)


class NativeBERT(BERT):
    """A BERT whose forward pass runs in the native engine. Weights and attributes are those of the PyTorch module."""

    def __init__(self, bert: BERT, native: NativeModel) -> None:
        nn.Module.__init__(self)
        self.__dict__ |= bert.__dict__
        self._of_thread = _PerThread(native)

    def forward(self, tokens_BS: Tensor, probe: Probe = NO_PROBE, segments: Segments | None = None) -> Tensor:
        """Return the hidden states of the top layer, B×S×D; those at padding are 0."""
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
    """A GPT in the native engine, as a `Generator` with one row."""

    def __init__(self, gpt: GPT, native: NativeModel) -> None:
        super().__init__()
        self._of_thread = _PerThread(native)
        self.max_positions = gpt.max_positions

    def start(self, memory: None = None, copies: int = 1) -> TokensRead:
        """Return the state before the first token."""
        return TokensRead()

    def step(self, tokens_N: Tensor, state: TokensRead) -> tuple[Tensor, TokensRead]:
        """Read one more token; return the logits of the next, 1×V, and the state after it."""
        return self.read(tokens_N[:, None], state)

    def read(self, tokens_NT: Tensor, state: TokensRead) -> tuple[Tensor, TokensRead]:
        """Read further tokens; return the logits after the last, 1×V, and the state after it."""
        (new,) = tokens_NT.tolist()
        mine = self._of_thread
        after = (*state.tokens, *new)
        if not state.tokens or mine.read != state.tokens:  # another text: read it from its start
            mine.worker.start(self.max_positions)
            new = list(after)
        mine.read = ()  # the state of the worker is undefined if this fails
        logits_V = torch.frombuffer(mine.worker.read(new), dtype=torch.float32)
        mine.read = after
        return logits_V[None].clone(), TokensRead(after)
