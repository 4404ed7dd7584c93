"""The model card, README.md of a run folder: data, scores and usage."""

from __future__ import annotations

from importlib.metadata import version

from torch import nn

from glassformer.inference.base_run import BaseRun
from glassformer.nn.lora import merged
from glassformer.settings import Settings
from glassformer.tasks import Report, task_spec
from glassformer.tasks.metrics import metric_name
from glassformer.training.checkpoint import TrainState
from glassformer.training.events import Forgetting, Tested


def model_card(
    settings: Settings,
    report: Report,
    scores: dict[str, Tested],
    state: TrainState,
    model: nn.Module,
    *,
    base: BaseRun | None = None,
    forgetting: Forgetting | None = None,
) -> str:
    """Return the model card as Markdown."""
    m = settings.model
    with merged(model) as plain:
        parameters = sum(parameter.numel() for parameter in plain.parameters())
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
{_fine_tuning(settings, base, forgetting) if base else ""}
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


def _fine_tuning(settings: Settings, base: BaseRun, forgetting: Forgetting | None) -> str:
    """Return the section about the run that this one was started from."""
    lines = ["", "## Fine-tuning", f"Started from the run `{base.name}`."]
    if settings.train.lora:
        lines += [
            f"Trained as a LoRA adapter of rank {settings.train.lora}: `adapter.safetensors` needs the run "
            f"`{base.name}` beside its folder.",
            "`glassformer adapters merge` makes an ordinary run of both.",
        ]
    if forgetting:
        names = list(forgetting.after)
        lines += [
            "",
            f"| validation set of `{base.name}`, {forgetting.examples:,} examples "
            f"| {' | '.join(map(metric_name, names))} |",
            "|---" * (len(names) + 1) + "|",
            *(
                f"| {when} | {' | '.join(f'{scores[name]:.2f}' for name in names)} |"
                for when, scores in (("before", forgetting.before), ("after", forgetting.after))
            ),
        ]
    return "\n".join([*lines, ""])


def usage(task: str, run: str) -> str:
    """Return the command that uses a run."""
    return task_spec(task).usage.format(run=run)


def _paths(paths: list[str | list[str]]) -> str:
    return ", ".join(f"`{p}`" if isinstance(p, str) else ", ".join(f"`{shard}`" for shard in p) for p in paths)
