"""The arguments and options of `glassformer bench`, by the kinds of benchmark that have them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

What = Annotated[
    str,
    typer.Argument(
        metavar="WHAT",
        help="train, decode, trained, encode, startup, limits, tricks, growth, scaling, prepare, quality, runs or "
        "compare",
    ),
]
Files = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="FILES",
        help="two kept results, the old one first (for compare); recipes (for quality); run folders (for runs)",
    ),
]

# All kinds that measure.
Against = Annotated[
    str,
    typer.Option(
        help="other toolkits, separated by commas: hf, ctranslate2, fairseq, joeynmt, torch; "
        "for encode: onnxruntime, openvino; for trained: ctranslate2"
    ),
]
Rounds = Annotated[int, typer.Option(min=1, help="number of runs per toolkit")]
Data = Annotated[Path | None, typer.Option(help="folder with train.en, train.de and test_2016_flickr.en of Multi30k")]

# One kind each.
TrainedRun = Annotated[Path | None, typer.Option(help="run folder of a trained Transformer (for trained)")]
Pairs = Annotated[int, typer.Option(min=1000, help="sentence pairs of the generated corpus (for prepare)")]
Minutes = Annotated[str, typer.Option(help="of training, separated by commas (for quality)")]

# Output.
AsJson = Annotated[bool, typer.Option("--json", help="print one JSON object per line")]
Save = Annotated[
    Path | None, typer.Option(help="save the results in this folder and update its page, such as speed.md")
]
History = Annotated[
    Path | None, typer.Option(help="keep the results here, in one folder per CPU model; default: the cache folder")
]
