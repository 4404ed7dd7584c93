"""The command `glassformer heads`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer


def heads(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="run folder")],
    most: Annotated[int, typer.Option(min=1, help="number of heads to show")] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="print all heads as JSON")] = False,
) -> None:
    """Rank encoder heads by how well they resolve pronouns in the English sentences of the phrasebook.

    Example: glassformer heads runs/demo-en-fr

    A head is correct if the attention weight from "it" to the noun it refers to is larger than to the other noun. Heads
    are ranked on the validation split and evaluated on the test split. Attention weights alone do not show that a head
    influences the output: ablate it to test that.
    """
    from glassformer.inference.translator import load_translator
    from glassformer.lab.pronoun_heads import rank_heads

    ranking = rank_heads(load_translator(run))
    if as_json:
        print(json.dumps(asdict(ranking)))
        return
    print("            validation            test    first noun  second noun   animal when tired,")
    print("layer  head   accuracy        accuracy       correct      correct   street when wide")
    for head in ranking.heads[:most]:
        valid, test = head.valid.accuracy, head.test
        print(
            f"{head.layer:>5}  {head.head:>4}  {valid:>9.1%}  {test.accuracy:>14.1%}  {test.first:>12.1%}  "
            f"{test.second:>11.1%}   {'yes' if head.tired_and_wide else 'no'}"
        )
    print(
        f"\nranked on {ranking.num_valid} validation sentences, tested on {ranking.num_test}; chance level, also of a "
        "head that always prefers the same noun: 50.0%"
    )
    classic = [f"encoder.{head.layer}.self.{head.head}" for head in ranking.heads if head.tired_and_wide]
    print(f"animal when tired and street when wide: {', '.join(classic) or 'no head'}")
    best = ranking.heads[0]
    print(f'try it: glassformer explain {run} "…" --change silence=encoder.{best.layer}.self.{best.head}')
