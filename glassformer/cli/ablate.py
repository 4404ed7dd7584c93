"""The command `glassformer ablate`."""

from __future__ import annotations

from typing import Annotated

import typer

from glassformer.cli.ladder import Arguments, AsJson, Budget, Out, Test, Valid, compare

Only = Annotated[
    str, typer.Option(metavar="NAMES", help="only these systems, separated by commas: transformer,no-positions")
]


def ablate(
    arguments: Arguments = None,
    valid: Valid = None,
    test: Test = None,
    budget: Budget = None,
    only: Only = "",
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Run an ablation study: train the Transformer and variants with one component changed.

    No √d_k scaling, no residual connections, batch normalization, learned, rotary or no positions, one head, pre-norm,
    no look-ahead mask. Ctrl-C stops; the same command resumes and updates the report.

    Example: glassformer ablate train.en train.de --only transformer,no-positions -o runs/ablate
    """
    compare("ablate", arguments, valid, test, budget, only, out, as_json)
