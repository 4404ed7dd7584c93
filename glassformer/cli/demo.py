"""The command `glassformer demo`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from glassformer.inference.translator import Translator
    from glassformer.phrasebook.corpus import Phrasebook, Triple
    from glassformer.training.train import TrainedRun

# Tuned to learn the phrasebook in two minutes on two cores. The vocabulary contains whole words, and there are few
# heads and one decoder layer, so that pronouns are resolved by a single head of the encoder. With post-norm, as in the
# paper, no head resolves them alone (docs/looking.md).
SETTINGS = {
    "tokenizer.vocab": 2000,
    "model.encoder_layers": 3,
    "model.decoder_layers": 1,
    "model.norm": "pre",
    "model.d_model": 128,
    "model.heads": 2,
    "model.d_ff": 256,
    "model.dropout": 0.1,
    "train.batch_tokens": 2048,
    "train.steps": 1400,
    "train.warmup": 300,
    "train.lr": 2e-3,
    "train.validate_every": 200,
    "train.valid_sentences": 300,
    "train.average": 3,
    "train.checkpoint_every": 100,
    "train.keep_all_checkpoints": True,
}
SHOWN = (
    "I am a student",
    "The animal didn't cross the street because it was too tired.",
    "The animal didn't cross the street because it was too wide.",
)


def demo(
    language: Annotated[str, typer.Option(help="target language: fr or ko")] = "fr",
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="RUN", help="run folder (default: a new folder in runs/)")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print the scores as one line of JSON")] = False,
) -> None:
    """Train on the embedded phrasebook, translate, and show the attention weights. Takes about two minutes.

    Example: glassformer demo
    """
    from glassformer.errors import UserError
    from glassformer.inference.translator import load_translator
    from glassformer.phrasebook.corpus import phrasebook

    if language not in ("fr", "ko"):
        raise UserError(
            f"The demo does not support the language '{language}'.", where="--language", hint="choose fr or ko"
        )
    book = phrasebook()
    run = train_phrasebook(language, out or free_folder(language))
    translator = load_translator(run.path)
    scores = _held_out(translator, book.test, language)
    if as_json:
        print(json.dumps({"run": str(run.path), **scores, "seconds": round(run.seconds, 1)}))
        return
    _show(translator, book.test, language)
    print(
        f"\nexact match on {len(book.test):,} test sentences: {scores['exact_match']:.1f} %; on those with a pronoun "
        f"to resolve: {scores['pronoun_exact_match']:.1f} %; BLEU {scores['bleu']:.1f}"
    )
    print(f'\ntry it: glassformer translate {run.path} "The cat is small."')


def train_phrasebook(language: str, out: Path, settings: Mapping[str, Any] = SETTINGS) -> TrainedRun:
    """Train the phrasebook model with a progress display; also used by the studio."""
    import tempfile

    from glassformer.cli.console import TrainingView
    from glassformer.phrasebook.corpus import phrasebook
    from glassformer.training.train import train

    book = phrasebook()
    with tempfile.TemporaryDirectory() as folder, TrainingView() as view:
        files = {split: _write(Path(folder), book, split, language) for split in ("train", "valid")}
        return train(*files["train"], valid=files["valid"], out=out, settings=settings, listener=view)


def _write(folder: Path, book: Phrasebook, split: str, language: str) -> list[str]:
    paths = [folder / f"{split}.{side}" for side in ("en", language)]
    for path in paths:
        path.write_text(book.text(split, path.suffix[1:]), encoding="utf-8")
    return [str(path) for path in paths]


def free_folder(language: str) -> Path:
    number, folder = 1, Path("runs") / f"demo-en-{language}"
    while folder.exists():
        number += 1
        folder = folder.with_name(f"demo-en-{language}-{number}")
    return folder


def _held_out(translator: Translator, test: list[Triple], language: str) -> dict[str, float]:
    from glassformer.tasks import metrics

    outputs = [t.text for t in translator.translate([triple.english for triple in test])]
    references = [triple.text(language) for triple in test]
    pronouns = [i for i, triple in enumerate(test) if triple.pronoun]
    return {
        "exact_match": round(metrics.exact_match(outputs, references), 2),
        "pronoun_exact_match": round(
            metrics.exact_match([outputs[i] for i in pronouns], [references[i] for i in pronouns]), 2
        ),
        "bleu": round(metrics.bleu(outputs, references).value, 2),
    }


def _show(translator: Translator, test: list[Triple], language: str) -> None:
    from glassformer.glass.terminal import attention_view

    shown = test[:10]
    print("\ntest sentences, not seen in training:")
    for triple in shown:
        output = translator(triple.english)
        mark = "✓" if output == triple.text(language) else f"✗ {triple.text(language)}"
        print(f"  {triple.english}\n    → {output}  {mark}")
    print("\nencoder–decoder attention, last layer, mean over heads (rows: output tokens, columns: source tokens):\n")
    print("\n".join(attention_view(translator.trace(SHOWN[1]))))
