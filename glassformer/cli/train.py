"""The command `glassformer train`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
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
            "optionally followed by settings",
            show_default=False,
        ),
    ] = None,
    valid: Annotated[
        tuple[str, str] | None,
        typer.Option(metavar="A B", help="validation files (or one .tsv, .txt …) that select the best weights"),
    ] = None,
    test: Annotated[tuple[str, str] | None, typer.Option(metavar="A B", help="test files for the final score")] = None,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", metavar="RUN", help="run folder to write (default: a new folder in runs/)"),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="resume the run in -o")] = False,
    start_from: Annotated[
        Path | None,
        typer.Option("--from", metavar="MODEL", help="fine-tune this run: start with its weights and tokenizer"),
    ] = None,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="write events for TensorBoard")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print the result as one line of JSON")] = False,
) -> None:
    """Train a model on your own data. Settings that are not given are chosen from the data.

    Example: glassformer train train.en train.de -o runs/en-de

    With settings: glassformer train train.en train.de train.steps=2000 model.layers=3

    The task follows from the files: two aligned files (translation), a .tsv of labels and texts (classification), a
    .conllu (tagging), a .txt (language model; tokenizer.kind=characters for a character-level model), a .json of pieces
    (music) or of questions about texts (question answering), a folder with one folder of images per class, or two idx
    files (image classification).

    All settings: docs/settings.md. Settings of a run: glassformer info RUN.
    """
    if resume and start_from is not None:
        raise UserError(
            "--resume and --from were both given.", hint="use --resume to continue a run, --from to start a new one"
        )
    files, raw = read_arguments(arguments or [])

    from glassformer.training import train as training
    from glassformer.training.distributed import group_from_environment

    is_rank0 = group_from_environment().is_rank0
    with _progress(out, prints=is_rank0, tensorboard=tensorboard) as listener:
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
    if is_rank0:
        print(_as_json(run) if as_json else _next_step(run))


@contextmanager
def _progress(out: Path | None, *, prints: bool, tensorboard: bool) -> Iterator[Listener]:
    """Show the events of a run on rank 0, and write them for TensorBoard if asked to."""
    from glassformer.cli.console import TrainingView
    from glassformer.training.events import all_of

    with TrainingView(quiet=not prints) as view:
        yield all_of(view, _tensorboard(out)) if tensorboard and prints else view


def read_arguments(arguments: list[str]) -> tuple[list[str], Raw]:
    """Return the data files and the settings; settings of the command line override those of a recipe."""
    from glassformer.settings import merge, parse_overrides, read_settings

    files, overrides = sort_arguments(arguments)
    raw = parse_overrides(overrides)
    if recipes := [file for file in files if file.endswith(".toml")]:
        if len(files) > 1:
            hint = 'name the files in the recipe: [data] train = ["train.en", "train.de"]'
            raise UserError("A recipe cannot be combined with other files.", where=", ".join(files), hint=hint)
        raw, files = merge(read_settings(Path(recipes[0])), raw), []
    return files, raw


def sort_arguments(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Separate files and settings: a setting has an equals sign and is not the name of a file."""
    from glassformer.settings import setting_names

    for name in set(arguments) & set(setting_names()):
        if not Path(name).exists():
            raise UserError(f"The setting '{name}' has no value.", hint=f"write {name}=VALUE, without spaces")
    overrides = [a for a in arguments if "=" in a and not Path(a).exists()]
    return [a for a in arguments if a not in overrides], overrides


def _as_json(run: TrainedRun) -> str:
    scores = {name: tested.scores | {"signature": tested.signature} for name, tested in run.scores.items()}
    result = {"run": str(run.path), "reason": run.reason, "step": run.step, "seconds": run.seconds} | scores
    return json.dumps(result | ({"forgetting": asdict(run.forgetting)} if run.forgetting else {}))


def _next_step(run: TrainedRun) -> str:
    from glassformer.inference.run_folder import RunFolder, load_settings
    from glassformer.training.model_card import usage

    if run.reason == "interrupted":
        return f"{run.path}\ncontinue: glassformer train -o {run.path} --resume"
    return f"{run.path}\ntry it: {usage(load_settings(RunFolder(run.path)).task, str(run.path))}"


def _tensorboard(out: Path | None) -> Listener:
    from glassformer.training.events import TensorBoard

    if out is None:
        raise UserError("--tensorboard needs a run folder.", hint="add -o RUN")
    try:
        return TensorBoard(out / "tensorboard")
    except ImportError:
        raise UserError("TensorBoard is not installed.", hint="pip install 'glassformer[tensorboard]'") from None
