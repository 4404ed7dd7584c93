"""glassformer ablate"""

from __future__ import annotations

from glassformer.cli.ladder import Arguments, AsJson, Budget, Only, Out, Test, Valid, compare


def ablate(
    arguments: Arguments = None,
    valid: Valid = None,
    test: Test = None,
    budget: Budget = None,
    only: Only = "",
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Take the Transformer apart: train it and its twins, each with one thing changed, and see what each was for.

    No √d_k, no residual, batch normalisation, other positions or none, one head, pre-norm, no look-ahead mask. Ctrl-C
    stops; the same command goes on, and writes the report again.

    Example: glassformer ablate train.en train.de --only transformer,no-positions -o runs/ablate
    """
    compare("ablate", arguments, valid, test, budget, only, out, as_json)
