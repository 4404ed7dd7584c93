"""What an output may not do: each constraint sets the logits of forbidden tokens to −∞. Constraints compose."""

from __future__ import annotations

from torch import Tensor

from glassformer.decoding import Constraint

NEVER = float("-inf")


def no_repeated(n: int) -> Constraint:
    """No n tokens in a row that stand in the output already."""

    def forbid(output_NT: Tensor, logits_NV: Tensor) -> None:
        T = output_NT.shape[1]
        for row, tokens in enumerate(output_NT.tolist() if n <= T else []):
            last = tokens[T - n + 1 :]
            again = [tokens[i + n - 1] for i in range(T - n + 1) if tokens[i : i + n - 1] == last]
            logits_NV[row, again] = NEVER

    return forbid


def at_least(length: int, eos: int) -> Constraint:
    """No end before so many tokens."""

    def forbid(output_NT: Tensor, logits_NV: Tensor) -> None:
        if output_NT.shape[1] < length:
            logits_NV[:, eos] = NEVER

    return forbid


def all_of(*constraints: Constraint) -> Constraint:
    """What any of them forbids."""

    def forbid(output_NT: Tensor, logits_NV: Tensor) -> None:
        for constraint in constraints:
            constraint(output_NT, logits_NV)

    return forbid
