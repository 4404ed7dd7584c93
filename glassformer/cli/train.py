"""glassformer train"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.arguments import given_paths
from glassformer.errors import UserError

if TYPE_CHECKING:
    from glassformer.settings import Raw
    from glassformer.training.events import Listener
    from glassformer.training.train import TrainedRun


def train(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILES… [section.name=value …]",
            help="two aligned files, one .tsv, .jsonl, .txt, .conllu or .json, a folder of images, or a recipe.toml; "
            "then settings, if any",
            show_default=False,
        ),
    ] = None,
    valid: Annotated[
        tuple[str, str] | None,
        typer.Option(metavar="A B", help="held-out files (or one .tsv, .txt …) to choose the best weights by"),
    ] = None,
    test: Annotated[
        tuple[str, str] | None, typer.Option(metavar="A B", help="held-out files for the final score")
    ] = None,
    out: Annotated[Path | None, typer.Option("-o", "--out", metavar="RUN", help="folder of the run")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="go on with the run in -o")] = False,
    start_from: Annotated[
        Path | None,
        typer.Option("--from", metavar="MODEL", help="a run to begin with: its weights and tokenizer"),
    ] = None,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="also write events for TensorBoard")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="end with one line of JSON")] = False,
) -> None:
    """Train a translator on your own text. No settings needed: they are chosen from the corpus.

    Example: glassformer train train.en train.de -o runs/en-de

    With settings: glassformer train train.en train.de train.steps=2000 model.layers=3

    Other files, other tasks: a .tsv of labels and texts (classification), a .conllu (tagging), a .txt (a language
    model; tokenizer.kind=characters for one of letters), a .json of pieces (music) or of questions about texts
    (answers), a folder that holds a folder of images for each class, or two idx files (images).

    Every setting: docs/settings.md. Those of a run that is there: glassformer info RUN.
    """
    if resume and start_from is not None:
        raise UserError("--resume and --from were both given.", hint="give --resume to go on, --from to begin anew")
    files, raw = read_arguments(arguments or [])

    from glassformer.cli.console import TrainingView
    from glassformer.training import train as training
    from glassformer.training.distributed import group_from_environment
    from glassformer.training.events import all_of

    first = group_from_environment().is_rank0  # of several processes, one talks
    with TrainingView(quiet=not first) as view:
        listener = all_of(view, _tensorboard(out)) if tensorboard and first else view
        run = training.train(
            *files,
            valid=given_paths(valid),
            test=given_paths(test),
            out=out,
            settings=raw,
            start_from=start_from,
            resume=resume,
            listener=listener,
        )
    if first:
        print(_as_json(run) if as_json else _next_step(run))


def read_arguments(arguments: list[str]) -> tuple[list[str], Raw]:
    """The files of text, and the settings: those of the command line over those of a recipe."""
    from glassformer.settings import merge, parse_overrides, read_settings

    files, overrides = sort_arguments(arguments)
    raw = parse_overrides(overrides)
    if recipes := [file for file in files if file.endswith(".toml")]:
        if len(files) > 1:
            hint = 'name the text in the recipe: [data] train = ["train.en", "train.de"]'
            raise UserError("A recipe stands alone, but other files were given.", where=", ".join(files), hint=hint)
        raw, files = merge(read_settings(Path(recipes[0])), raw), []
    return files, raw


def sort_arguments(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Files and settings apart: a setting has an equals sign, and no file is called so."""
    from glassformer.settings import setting_names

    for name in set(arguments) & set(setting_names()):
        if not Path(name).exists():
            raise UserError(f"The setting '{name}' has no value.", hint=f"write {name}=VALUE, without spaces")
    overrides = [a for a in arguments if "=" in a and not Path(a).exists()]
    return [a for a in arguments if a not in overrides], overrides


def _as_json(run: TrainedRun) -> str:
    scores = {name: tested.scores | {"signature": tested.signature} for name, tested in run.scores.items()}
    return json.dumps({"run": str(run.path), "reason": run.reason, "step": run.step, "seconds": run.seconds} | scores)


def _next_step(run: TrainedRun) -> str:
    from glassformer.inference.run import RunFolder, load_settings
    from glassformer.training.card import usage

    return f"{run.path}\ntry it: {usage(load_settings(RunFolder(run.path)).task, str(run.path))}"


def _tensorboard(out: Path | None) -> Listener:
    from glassformer.training.events import TensorBoard

    if out is None:
        raise UserError("TensorBoard needs to know the folder.", hint="name it with -o RUN")
    try:
        return TensorBoard(out / "tensorboard")
    except ImportError:
        raise UserError("TensorBoard is not installed.", hint="pip install 'glassformer[tensorboard]'") from None
