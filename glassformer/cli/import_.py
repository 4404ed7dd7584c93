"""The command `glassformer import`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def import_(
    source: Annotated[Path, typer.Argument(metavar="DIR", help="folder written by save_pretrained of transformers")],
    out: Annotated[Path, typer.Option("-o", "--out", metavar="RUN", help="folder of the new run")],
) -> None:
    """Import a Hugging Face model (GPT-2, BERT, Marian, Pegasus or ViT) with its tokenizer or image processor as a run.

    Example: glassformer import ./all-MiniLM-L6-v2 -o runs/minilm
    """
    from glassformer.interop.huggingface import import_run
    from glassformer.training.model_card import usage

    run = import_run(source, out)
    weights = sum(parameter.numel() for parameter in run.model.parameters())
    print(f"{out}: {run.settings.model.describe()}, {weights:,} parameters")
    print(f"try it: {usage(run.settings.task, str(out))}")
