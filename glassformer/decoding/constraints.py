"""Constraints on outputs: each sets the logits of forbidden tokens to −∞. Constraints compose."""

from __future__ import annotations

from torch import Tensor

from glassformer.decoding import Constraint

FORBIDDEN = float("-inf")


def no_repeated_ngram(n: int) -> Constraint:
    """Forbid every n-gram that is already in the output."""

    def forbid(output_NT: Tensor, logits_NV: Tensor) -> None:
        T = output_NT.shape[1]
        for row, tokens in enumerate(output_NT.tolist() if n <= T else []):
            last = tokens[T - n + 1 :]
            repeated = [tokens[i + n - 1] for i in range(T - n + 1) if tokens[i : i + n - 1] == last]
            logits_NV[row, repeated] = FORBIDDEN

    return forbid


def min_length(length: int, eos: int) -> Constraint:
    """Forbid `<eos>` before `length` tokens."""

    def forbid(output_NT: Tensor, logits_NV: Tensor) -> None:
        if output_NT.shape[1] < length:
            logits_NV[:, eos] = FORBIDDEN

    return forbid


def combine(*constraints: Constraint) -> Constraint:
    """Apply several constraints."""

    def forbid(output_NT: Tensor, logits_NV: Tensor) -> None:
        for constraint in constraints:
            constraint(output_NT, logits_NV)

    return forbid
