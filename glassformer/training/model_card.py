"""The model card, README.md of a run folder: data, scores and usage."""

from __future__ import annotations

from importlib.metadata import version

from torch import nn

from glassformer.settings import Settings
from glassformer.tasks import Report, task_spec
from glassformer.training.checkpoint import TrainState
from glassformer.training.events import Tested, metric_name


def model_card(
    settings: Settings, report: Report, scores: dict[str, Tested], state: TrainState, model: nn.Module
) -> str:
    """Return the model card as Markdown."""
    m = settings.model
    parameters = sum(parameter.numel() for parameter in model.parameters())
    data = "\n".join(
        f"- {name}: {report.counts.get(name, 0):,} examples from {_paths(paths)}"
        for name, paths in (
            ("train", [*settings.data.train, *(path for other in settings.data.also or () for path in other.train)]),
            ("valid", settings.data.valid),
            ("test", settings.data.test),
        )
        if paths
    )
    names = list(next(iter(scores.values())).scores)
    table = "\n".join(
        [
            f"| set | examples | {' | '.join(map(metric_name, names))} |",
            "|---" * (len(names) + 2) + "|",
            *(
                f"| {tested.split} | {tested.examples:,} | "
                + " | ".join(f"{tested.scores[name]:.2f}" for name in names)
                + " |"
                for tested in scores.values()
            ),
        ]
    )
    signature = next(iter(scores.values())).signature
    return f"""# A {m.family} for {settings.task.replace("_", " ")}, trained with Glassformer {version("glassformer")}

{m.describe()},
{parameters:,} parameters; {state.step:,} steps in {state.seconds / 60:.1f} minutes.

## Data
{data}
{report.held_out}

`data-report.json` lists what was read, kept and dropped.

## Scores{f" (beam {settings.decode.beam})" if task_spec(settings.task).sequence_to_sequence else ""}
{table}
{f"{chr(10)}`{signature}`{chr(10)}" if signature else ""}
## Use
```
{usage(settings.task, "RUN")}
```
"""


def usage(task: str, run: str) -> str:
    """Return the command that uses a run."""
    return task_spec(task).usage.format(run=run)


def _paths(paths: list[str | list[str]]) -> str:
    return ", ".join(f"`{p}`" if isinstance(p, str) else ", ".join(f"`{shard}`" for shard in p) for p in paths)
