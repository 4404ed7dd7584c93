"""glassformer heads"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer


def heads(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="the folder that train wrote")],
    most: Annotated[int, typer.Option(min=1, help="how many heads to show")] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="every head, as JSON")] = False,
) -> None:
    """Rank encoder heads by whether "it" looks at the noun that it stands for, on the phrasebook's English sentences.

    Example: glassformer heads runs/demo-en-fr

    A head is right where "it" looks more at the noun that is meant than at the other. Heads are ranked by one set of
    sentences and judged by another. Where it looked is not why it wrote what it wrote: silence the head to see that.
    """
    from glassformer.inference.translator import load_translator
    from glassformer.lab.pronouns import rank_heads

    ranking = rank_heads(load_translator(run))
    if as_json:
        print(json.dumps(asdict(ranking)))
        return
    print("             chosen by       judged by    first noun  second noun   animal when tired,")
    print("layer  head   accuracy        accuracy         meant        meant   street when wide")
    for head in ranking.heads[:most]:
        chosen, judged = head.chosen_by.accuracy, head.judged_by
        print(
            f"{head.layer:>5}  {head.head:>4}  {chosen:>9.1%}  {judged.accuracy:>14.1%}  {judged.first:>12.1%}  "
            f"{judged.second:>11.1%}   {'yes' if head.tired_and_wide else 'no'}"
        )
    print(
        f"\nchosen by {ranking.choosing} sentences, judged by {ranking.judging} others; by chance, and for a head that "
        "always prefers the same noun, 50.0%"
    )
    classic = [f"encoder.{head.layer}.self.{head.head}" for head in ranking.heads if head.tired_and_wide]
    print(f"at the animal when tired and at the street when wide: {', '.join(classic) or 'no head'}")
    best = ranking.heads[0]
    print(f'try it: glassformer explain {run} "…" --change silence=encoder.{best.layer}.self.{best.head}')
