"""The command `glassformer lessons`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from glassformer.lab.lesson_models import LessonModel
    from glassformer.training.train import TrainedRun


def lessons(
    models: Annotated[
        list[str] | None, typer.Argument(metavar="MODEL …", help="models to train (default: all)", show_default=False)
    ] = None,
    out: Annotated[Path, typer.Option("-o", "--out", metavar="DIR", help="folder of the runs")] = Path("runs/lessons"),
) -> None:
    """Train the small models of the studio's lessons: RNN, LSTM, GRU, attention, Transformer, ELMo, BERT, GPT and ViT.

    Example: glassformer lessons

    Finished models are kept, and an interrupted one is resumed. Then open the studio: glassformer studio runs/lessons/*
    """
    from glassformer.cli.demo import SETTINGS
    from glassformer.errors import UserError
    from glassformer.lab.lesson_models import DEMO, LESSON_MODELS, LessonModel, write_pairs
    from glassformer.phrasebook.corpus import phrasebook

    demo = LessonModel(DEMO, "English–French Transformer", lambda folder: write_pairs(folder, phrasebook()), SETTINGS)
    known = {model.name: model for model in (demo, *LESSON_MODELS)}
    for name in models or []:
        if name not in known:
            raise UserError(f"There is no lesson model '{name}'.", hint=f"choose from {', '.join(known)}")
    wanted = [known[name] for name in models or known]
    unfinished = [model for model in wanted if not (out / model.name / "README.md").exists()]
    for number, model in enumerate(unfinished, 1):
        print(f"model {number} of {len(unfinished)}: {model.title}", flush=True)
        if _train(model, out).reason == "interrupted":
            print("interrupted; the same command continues")
            return
    print(f"all {len(wanted)} models are in {out}; open them: glassformer studio {out}/*")


def _train(model: LessonModel, out: Path) -> TrainedRun:
    """Train a model, or resume its training. The data stays in a hidden folder, because resuming reads it again."""
    from glassformer.cli.console import TrainingView
    from glassformer.training.train import train

    run, data = out / model.name, out / ".data" / model.name
    with TrainingView() as view:
        if run.exists():
            return train(out=run, resume=True, listener=view)
        data.mkdir(parents=True, exist_ok=True)
        return train(*model.write_data(data), out=run, settings=model.settings, listener=view)
