"""The model card: what a run was trained on, how it scores and how to use it, as README.md of its folder."""

from __future__ import annotations

from importlib.metadata import version

from torch import nn

from glassformer.settings import Settings
from glassformer.text.report import DataReport
from glassformer.training.checkpoint import TrainState
from glassformer.training.events import Tested


def model_card(
    settings: Settings, report: DataReport, scores: dict[str, Tested], state: TrainState, model: nn.Module
) -> str:
    m = settings.model
    parameters = sum(parameter.numel() for parameter in model.parameters())
    data = "\n".join(
        f"- {name}: {report.pairs.get(name, 0):,} pairs from {_paths(paths)}"
        for name, paths in (
            ("train", settings.data.train),
            ("valid", settings.data.valid),
            ("test", settings.data.test),
        )
        if paths
    )
    table = "\n".join(
        f"| {s.split} | {s.sentences:,} | {s.bleu:.2f} | {s.chrf:.2f} | `{s.bleu_signature}` |" for s in scores.values()
    )
    return f"""# A {m.family} trained with Glassformer {version("glassformer")}

{m.described()},
{parameters:,} weights; {state.step:,} steps in {state.seconds / 60:.1f} minutes.

## Data
{data}
{report.held_out}

What was read, kept and dropped is in `data-report.json`.

## Scores (beam {settings.decode.beam})
| set | sentences | BLEU | chrF | signature |
|---|---|---|---|---|
{table}

## Use
```
glassformer translate RUN "…"
```
"""


def _paths(paths: list[str | list[str]]) -> str:
    return ", ".join(f"`{p}`" if isinstance(p, str) else ", ".join(f"`{shard}`" for shard in p) for p in paths)
