"""The command `glassformer lessons`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def lessons(
    out: Annotated[Path, typer.Option("-o", "--out", metavar="DIR", help="folder of the runs")] = Path("runs/lessons"),
    models: Annotated[
        list[str] | None, typer.Argument(metavar="MODEL …", help="models to train (default: all)", show_default=False)
    ] = None,
) -> None:
    """Train the small models of the studio's lessons: RNN, LSTM, GRU, attention, ELMo, BERT, GPT, ViT and the demo.

    Example: glassformer lessons

    Models that are trained already are kept. Then open the studio: glassformer studio runs/lessons/*
    """
    import tempfile

    from glassformer.cli.console import TrainingView
    from glassformer.cli.demo import train_phrasebook
    from glassformer.errors import UserError
    from glassformer.lab.lesson_models import DEMO, LESSON_MODELS
    from glassformer.training.train import train

    titles = {DEMO: "English–French Transformer"} | {model.name: model.title for model in LESSON_MODELS}
    for name in models or []:
        if name not in titles:
            raise UserError(f"There is no lesson model '{name}'.", hint=f"choose from {', '.join(titles)}")
    wanted = {name: out / name for name in models or titles}
    missing = {name: folder for name, folder in wanted.items() if not (folder / "README.md").exists()}
    for number, (name, folder) in enumerate(missing.items(), 1):
        print(f"model {number} of {len(missing)}: {titles[name]}", flush=True)
        if name == DEMO:
            train_phrasebook("fr", folder)
            continue
        model = next(model for model in LESSON_MODELS if model.name == name)
        with tempfile.TemporaryDirectory() as data, TrainingView() as view:
            train(*model.write_data(Path(data)), out=folder, settings=model.settings, listener=view)
    print(f"all {len(wanted)} models are in {out}; open them: glassformer studio {out}/*")
