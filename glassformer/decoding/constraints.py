"""What an output may not do, said as a function of its tokens so far. Constraints compose."""

from __future__ import annotations

import torch
from torch import Tensor

from glassformer.decoding import Constraint


def no_repeated(n: int) -> Constraint:
    """No n tokens in a row that stand in the output already."""

    def forbidden(output_NT: Tensor, vocab: int) -> Tensor | None:
        N, T = output_NT.shape
        if n <= T:
            mask_NV = torch.zeros(N, vocab, dtype=torch.bool, device=output_NT.device)
            for row, tokens in enumerate(output_NT.tolist()):
                last = tokens[T - n + 1 :]
                for i in range(T - n + 1):
                    if tokens[i : i + n - 1] == last:
                        mask_NV[row, tokens[i + n - 1]] = True
            return mask_NV
        return None

    return forbidden


def not_empty(eos: int) -> Constraint:
    """The first token is not the end."""

    def forbidden(output_NT: Tensor, vocab: int) -> Tensor | None:
        if output_NT.shape[1] > 0:
            return None
        mask_NV = torch.zeros(output_NT.shape[0], vocab, dtype=torch.bool, device=output_NT.device)
        mask_NV[:, eos] = True
        return mask_NV

    return forbidden


def all_of(*constraints: Constraint) -> Constraint:
    """What any of them forbids."""

    def forbidden(output_NT: Tensor, vocab: int) -> Tensor | None:
        masks = [mask for c in constraints if (mask := c(output_NT, vocab)) is not None]
        return torch.stack(masks).any(dim=0) if masks else None

    return forbidden
