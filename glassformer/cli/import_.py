"""glassformer import"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def import_(
    source: Annotated[Path, typer.Argument(metavar="DIR", help="a folder that save_pretrained of transformers wrote")],
    out: Annotated[Path, typer.Option("-o", "--out", metavar="RUN", help="folder of the new run")],
) -> None:
    """Make a run from a model of Hugging Face's: GPT-2, BERT, Marian or ViT, with what it reads by.

    Example: glassformer import ./all-MiniLM-L6-v2 -o runs/minilm
    """
    from glassformer.interop.huggingface import import_run
    from glassformer.training.model_card import usage

    run = import_run(source, out)
    weights = sum(parameter.numel() for parameter in run.model.parameters())
    print(f"{out}: {run.settings.model.describe()}, {weights:,} weights")
    print(f"try it: {usage(run.settings.task, str(out))}")
