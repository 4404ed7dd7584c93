"""Import folders of Hugging Face `transformers` as runs, and export runs, with a comparison of the outputs.

No foreign code is executed: weights are read from safetensors, pickled weights are refused. The original files are kept
in the folder `huggingface` of the run and are used for export.
"""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from glassformer.errors import UserError, import_optional
from glassformer.files import not_found, read_json, remove, write_text
from glassformer.inference.run import (
    Run,
    build_model,
    build_on_meta,
    check_weights,
    copy_weights,
    load_run,
    read_weights,
    save_weights,
    weights_of,
)
from glassformer.inference.run_folder import RunFolder, save_labels, save_settings
from glassformer.interop.bert import BertConverter
from glassformer.interop.converter import HuggingFaceConverter
from glassformer.interop.gpt2 import GPT2Converter
from glassformer.interop.marian import MarianConverter
from glassformer.interop.pegasus import PegasusConverter
from glassformer.interop.vit import ViTConverter
from glassformer.interop.weight_rules import VocabularyMap, export_weights, import_weights
from glassformer.nn.output_projection import OutputProjection
from glassformer.planning import choices as planning
from glassformer.settings import Raw, Settings, resolve, task_traits
from glassformer.text.tokenizer import PAD, Tokenizer

CONVERTERS: tuple[HuggingFaceConverter, ...] = (
    GPT2Converter(),
    BertConverter(),
    MarianConverter(),
    PegasusConverter(),
    ViTConverter(),
)
CLOSE = 1e-4  # largest difference of logits, relative to the largest logit

# Training settings of an imported run, which has no training.
NO_TRAINING: Raw = {"batch_tokens": 4096, "lr": 1e-4, "patience": 0}
NO_TRAINING |= dict.fromkeys(("steps", "warmup", "validate_every", "checkpoint_every"), 1)


def import_run(source: str | Path, out: str | Path) -> Run:
    """Convert a Hugging Face folder to a run and load it."""
    source, folder = Path(source), RunFolder(out)
    config = _read_config(source)
    converter = _converter_for(config, source)
    if folder.path.exists() and any(folder.path.iterdir() if folder.path.is_dir() else [folder.path]):
        raise UserError("The output folder is not empty.", where=str(folder.path), hint="choose a new folder with -o")
    config = _Config(converter.complete_config(config, source), source / "config.json")
    converter.check(config, str(source / "config.json"))
    weights = _read_weights(source, converter)
    with _damaged_config(source):
        _refuse_vocabulary(config, weights, source)
        external = converter.normalize_names(weights, config)
        tokenizer, vocabulary = converter.tokenizer(config, source), converter.vocabulary(config, source)
        task, sizes = converter.settings(config, set(external))
        settings = _settings(task, sizes, source, tokenizer)
    weights = import_weights(converter.rules(settings), external, vocabulary, converter.feature_order(settings), source)
    chooses = task_traits(settings.task).output == "labels"
    labels = _labels(config, len(weights["output.bias"]), source) if chooses else []
    model = build_on_meta(settings, len(vocabulary.order), len(labels), where=str(source / "config.json"))
    if (bias := "output.bias_V") in weights_of(model):
        weights[bias] = _exclude_from_output(weights.get(bias, torch.zeros(len(vocabulary.order))), vocabulary)
    check_weights(model, weights, where=source)  # before memory is allocated for the sizes of config.json
    model = build_model(settings, len(vocabulary.order), len(labels))
    copy_weights(model, weights, where=source)
    card = f"# A {converter.model_type} model, imported from {source.name}\n\n{settings.model.describe()}\n"
    folder.path.mkdir(parents=True, exist_ok=True)
    try:
        save_weights(folder.model, weights_of(model))
        if tokenizer is not None:
            write_text(folder.tokenizer, tokenizer.to_json())
        if labels:
            save_labels(folder, labels)
        _copy_files(converter, source, _origin(folder))
        write_text(folder.card, card)
        save_settings(folder, settings)  # last: a folder with run.toml counts as a complete run
        return load_run(folder.path)
    except BaseException:  # an incomplete run is removed, whatever the failure was
        remove(folder.path)
        raise


def export_run(run: str | Path, out: str | Path) -> float:
    """Convert a run to a folder that `transformers` loads; return the largest relative difference of the outputs.

    If the difference exceeds rounding errors, the folder is deleted and an error is raised.
    """
    loaded, out = load_run(run), Path(out)
    converter = next((b for b in CONVERTERS if b.exports(loaded.settings.model)), None)
    if converter is None:
        able = ", ".join(dict.fromkeys(b.family for b in CONVERTERS))
        raise UserError(
            f"Models of the family {loaded.settings.model.family} cannot be exported to Hugging Face.",
            where=str(run),
            hint=f"export a model of the family {able}",
        )
    if out.exists() and any(out.iterdir() if out.is_dir() else [out]):
        raise UserError("The output folder is not empty.", where=str(out), hint="choose a new folder with -o")
    vocabulary, origin = _vocabulary(loaded, converter), _origin(loaded.folder)
    entries = len(vocabulary.order) - len(vocabulary.added)
    config = converter.config(loaded.settings, entries, loaded.labels)
    if origin.is_dir():
        config = _read_config(origin) | {name: config[name] for name in converter.overridden}
    rules, stream = converter.rules(loaded.settings), converter.feature_order(loaded.settings)
    external = converter.extra_weights(config, stream)
    external |= export_weights(rules, weights_of(loaded.model), vocabulary, stream)
    out.mkdir(parents=True, exist_ok=True)
    try:
        save_file(external, out / "model.safetensors", metadata={"format": "pt"})
        if origin.is_dir():
            _copy_files(converter, origin, out)
        else:
            converter.write_processor(loaded, out)
        write_text(out / "config.json", json.dumps(config, indent=2))
        difference = _output_difference(loaded, converter, vocabulary, out)
        if not difference <= CLOSE:
            hint = "report this as a bug"
            raise UserError(f"The outputs of the exported model differ by {difference:.1e}.", where=str(out), hint=hint)
    except BaseException:
        remove(out)
        raise
    return difference


class _Config(dict[str, Any]):
    """A config.json that raises a `UserError` for a missing setting."""

    def __init__(self, config: Raw, path: Path) -> None:
        super().__init__(config)
        self.path = path

    def __missing__(self, name: str) -> Any:
        hint = "use the folder that save_pretrained wrote"
        raise UserError(f"The setting {name!r} is missing.", where=str(self.path), hint=hint)


def _read_config(folder: Path) -> Raw:
    path = folder / "config.json"
    if not folder.is_dir():
        raise not_found(folder, "folder")
    try:
        config = read_json(path, "config.json", "copy the folder again")
    except FileNotFoundError:
        raise UserError(
            "This is not a Hugging Face model: there is no config.json.",
            where=str(folder),
            hint="use the folder that save_pretrained wrote",
        ) from None
    if not isinstance(config, dict):
        raise UserError(
            "The file does not contain the settings of a model.", where=str(path), hint="copy the folder again"
        )
    return config


def _converter_for(config: Raw, where: Path) -> HuggingFaceConverter:
    for converter in CONVERTERS:
        if converter.model_type == config.get("model_type"):
            return converter
    raise UserError(
        f"The model type '{config.get('model_type')}' is not supported.",
        where=str(where / "config.json"),
        hint=f"use one of {', '.join(converter.model_type for converter in CONVERTERS)}",
    )


def _read_weights(folder: Path, converter: HuggingFaceConverter) -> dict[str, Tensor]:
    """Return all weights, with the prefix of a model with a head."""
    if (folder / "model.safetensors").exists():
        weights = read_weights(folder / "model.safetensors")
    elif (folder / "model.safetensors.index.json").exists():
        weights = _read_indexed(folder / "model.safetensors.index.json")
    else:
        pickled = any(folder.glob("pytorch_model*.bin"))
        raise UserError(
            "The weights are pickled, which can execute code." if pickled else "The weights are missing.",
            where=str(folder),
            hint="save them as safetensors: model.save_pretrained(DIR) with a current transformers",
        )
    if any(name.startswith(converter.prefix) for name in weights):
        return weights
    return {converter.prefix + name: weight for name, weight in weights.items()}


def _read_indexed(index: Path) -> dict[str, Tensor]:
    """Read every weight from the file that the index names for it."""
    try:
        file_of = read_json(index, "The index of the weights", "copy the folder again")["weight_map"]
        entries = sorted((str(file), str(name)) for name, file in file_of.items())
    except (KeyError, TypeError, AttributeError):  # not an object, or `weight_map` is not one
        message = "The index of the weights is damaged: it has no table 'weight_map'."
        raise UserError(message, where=str(index), hint="copy the folder again") from None
    weights: dict[str, Tensor] = {}
    for file, group in itertools.groupby(entries, key=lambda entry: entry[0]):
        if file in ("", ".", "..") or "/" in file or "\\" in file:
            raise UserError(
                f"The index of the weights refers to '{file}', which is not a file in its folder.",
                where=str(index),
                hint="use this folder only if you trust its source; copy it again",
            )
        found = read_weights(index.parent / file)
        for _, name in group:
            if name not in found:
                message = f"The weight {name} is not in {file}, where the index of the weights expects it."
                raise UserError(message, where=str(index), hint="copy the folder again")
            weights[name] = found[name]
    return weights


@contextmanager
def _damaged_config(source: Path) -> Iterator[None]:
    """Report a setting with a value of the wrong type as a `UserError`."""
    where, hint = str(source / "config.json"), "use the folder that save_pretrained wrote"
    try:
        yield
    except KeyError as name:
        raise UserError(f"The settings lack {name}.", where=where, hint=hint) from None
    except (TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        raise UserError(f"The settings do not describe a model: {error}.", where=where, hint=hint) from None


def _refuse_vocabulary(config: Raw, weights: dict[str, Tensor], source: Path) -> None:
    """Refuse a vocabulary with more entries than any weight has rows, before a list of that size is created."""
    entries = int(config.get("vocab_size", 0))
    rows = max((len(weight) for weight in weights.values() if weight.dim()), default=0)
    if not 0 <= entries <= rows:
        raise UserError(
            f"vocab_size is {entries:,}, and no weight has more than {rows:,} rows.",
            where=str(source / "config.json"),
            hint="keep the files of one model together",
        )


def _settings(task: str, model: Raw, source: Path, tokenizer: Tokenizer | None) -> Settings:
    """Return the settings of an imported run."""
    raw: Raw = {"task": task, "data": {"train": [str(source)]}, "model": model, "train": NO_TRAINING}
    if tokenizer is not None:
        raw["tokenizer"] = {"kind": "imported", "vocab": max(300, len(tokenizer))}
    if task_traits(task).input == "question":
        raw, _ = planning.apply(raw, planning.choose_window(raw))
    try:
        return resolve(raw)
    except UserError as error:
        raise UserError(
            f"The settings do not describe a model: {error.where}.", where=str(source / "config.json"), hint=error.hint
        ) from None


def _labels(config: Raw, count: int, source: Path) -> list[str]:
    """Return the labels by number; unnamed ones are called LABEL_0 …, as in transformers."""
    several = config.get("problem_type") == "multi_label_classification"
    if several or count < 2:
        raise UserError(
            f"{'Multi-label classification' if several else 'Regression'} is not supported.",
            where=str(source / "config.json"),
            hint="import a model that predicts one of two or more classes",
        )
    with _damaged_config(source):
        named = {int(number): str(label) for number, label in config.get("id2label", {}).items()}
    return [named.get(number, f"LABEL_{number}") for number in range(count)]


def _exclude_from_output(bias_V: Tensor, vocabulary: VocabularyMap) -> Tensor:
    """Return the bias that excludes padding and added tokens from the output."""
    bias_V = bias_V.clone()
    bias_V[[PAD, *vocabulary.added]] = OutputProjection.NEVER
    return bias_V


def _origin(folder: RunFolder) -> Path:
    return folder.path / "huggingface"


def _copy_files(converter: HuggingFaceConverter, source: Path, target: Path) -> None:
    target.mkdir(exist_ok=True)
    for name in converter.kept_files:
        if (source / name).is_file():
            shutil.copyfile(source / name, target / name)


def _vocabulary(run: Run, converter: HuggingFaceConverter) -> VocabularyMap:
    origin = _origin(run.folder)
    if not origin.is_dir():
        return VocabularyMap.identity(0 if run.text_tokenizer is None else len(run.text_tokenizer))
    return converter.vocabulary(_read_config(origin), origin)


@torch.inference_mode()
def _output_difference(run: Run, converter: HuggingFaceConverter, vocabulary: VocabularyMap, folder: Path) -> float:
    """Return the largest difference of the outputs of both models, relative to the largest output."""
    ours, external = converter.logits_of_both(run, _load_with_transformers(folder), vocabulary)
    return float((ours - external).abs().max() / external.abs().max().clamp_min(1.0))


def _load_with_transformers(folder: Path) -> Any:
    transformers = import_optional("transformers", extra="huggingface", use="Export")
    architecture = _read_config(folder)["architectures"][0]
    transformers.utils.logging.disable_progress_bar()
    return getattr(transformers, architecture).from_pretrained(folder, dtype=torch.float32).eval()
