"""Folders of Hugging Face's `transformers`: in as a run, and out again, where they are seen to agree.

Nothing of theirs is executed: weights are read from safetensors, and pickled ones are refused. The files that a run
came from are kept in its folder `huggingface`, for the way back.
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

from glassformer.errors import UserError
from glassformer.files import not_found, read_json, remove, write_text
from glassformer.inference.run import (
    Run,
    RunFolder,
    build_model,
    build_on_meta,
    check_weights,
    copy_weights,
    load_run,
    read_weights,
    save_labels,
    save_settings,
    save_weights,
    weights_of,
)
from glassformer.interop.bert import Bert
from glassformer.interop.bridge import Bridge
from glassformer.interop.gpt2 import GPT2
from glassformer.interop.marian import Marian
from glassformer.interop.vit import ViTBridge
from glassformer.interop.weights import Vocabulary, to_ours, to_theirs
from glassformer.nn.embedding import OutputProjection
from glassformer.planning import choices as planning
from glassformer.settings import Raw, Settings, resolve, task_traits
from glassformer.text.tokenizer import PAD, Tokenizer

BRIDGES: tuple[Bridge, ...] = (GPT2(), Bert(), Marian(), ViTBridge())
CLOSE = 1e-4  # of logits, as a share of the largest

# What a run that was not trained here has in the place of its training.
NO_TRAINING: Raw = {
    "steps": 1,
    "batch_tokens": 4096,
    "lr": 1e-4,
    "warmup": 1,
    "validate_every": 1,
    "checkpoint_every": 1,
    "patience": 0,
}


def import_run(source: str | Path, out: str | Path) -> Run:
    """A run from a folder of theirs: a model that is used, looked through and trained further as any other."""
    source, folder = Path(source), RunFolder(out)
    config = _read_config(source)
    bridge = _bridge(config, source)
    if folder.path.exists() and any(folder.path.iterdir() if folder.path.is_dir() else [folder.path]):
        raise UserError("There is something already.", where=str(folder.path), hint="name a new folder with -o")
    config = _Config(bridge.whole(config, source), source / "config.json")
    bridge.check(config, str(source / "config.json"))
    weights = _read_weights(source, bridge)
    with _damaged_config(source):
        _refuse_vocabulary(config, weights, source)
        theirs = bridge.named(weights, config)
        tokenizer, vocabulary = bridge.tokenizer(config, source), bridge.vocabulary(config, source)
        task, sizes = bridge.settings(config, set(theirs))
        settings = _settings(task, sizes, source, tokenizer)
    weights = to_ours(bridge.rules(settings), theirs, vocabulary, bridge.stream(settings), source)
    chooses = task_traits(settings.task).output == "labels"
    labels = _labels(config, len(weights["output.bias"]), source) if chooses else []
    model = build_on_meta(settings, len(vocabulary.order), len(labels), where=str(source / "config.json"))
    if (bias := "output.bias_V") in weights_of(model):
        weights[bias] = _never_written(weights.get(bias, torch.zeros(len(vocabulary.order))), vocabulary)
    check_weights(model, weights, where=source)  # before memory is allocated for what config.json promises
    model = build_model(settings, len(vocabulary.order), len(labels))
    copy_weights(model, weights, where=source)
    card = f"# A {bridge.model_type} model, imported from {source.name}\n\n{settings.model.describe()}\n"
    folder.path.mkdir(parents=True, exist_ok=True)
    try:
        save_weights(folder.model, weights_of(model))
        if tokenizer is not None:
            write_text(folder.tokenizer, tokenizer.to_json())
        if labels:
            save_labels(folder, labels)
        _keep(bridge, source, _origin(folder))
        write_text(folder.card, card)
        save_settings(folder, settings)  # last: a folder with run.toml is a whole run
        return load_run(folder.path)
    except BaseException:  # whatever it was, half a run is of no use
        remove(folder.path)
        raise


def export_run(run: str | Path, out: str | Path) -> float:
    """A folder that `transformers` loads, from a run. Returns how far apart the two models' outputs are at most.

    Where that is more than rounding, nothing is left behind.
    """
    loaded, out = load_run(run), Path(out)
    bridge = next((b for b in BRIDGES if b.family == loaded.settings.model.family), None)
    if bridge is None:
        able = ", ".join(b.family for b in BRIDGES)
        raise UserError(
            f"Hugging Face has no counterpart of a {loaded.settings.model.family}.",
            where=str(run),
            hint=f"export: {able}",
        )
    if out.exists() and any(out.iterdir() if out.is_dir() else [out]):
        raise UserError("There is something already.", where=str(out), hint="name a new folder with -o")
    vocabulary, origin = _vocabulary(loaded, bridge), _origin(loaded.folder)
    entries = len(vocabulary.order) - len(vocabulary.added)
    config = bridge.config(loaded.settings, entries, loaded.labels)
    if origin.is_dir():
        config = _read_config(origin) | {name: config[name] for name in bridge.restated}
    rules, stream = bridge.rules(loaded.settings), bridge.stream(loaded.settings)
    theirs = bridge.beside(entries) | to_theirs(rules, weights_of(loaded.model), vocabulary, stream)
    out.mkdir(parents=True, exist_ok=True)
    try:
        save_file(theirs, out / "model.safetensors", metadata={"format": "pt"})
        if origin.is_dir():
            _keep(bridge, origin, out)
        else:
            bridge.write_beside(loaded, out)
        write_text(out / "config.json", json.dumps(config, indent=2))
        apart = _apart(loaded, bridge, vocabulary, out)
        if not apart <= CLOSE:
            raise UserError(
                f"The exported model computes something else: {apart:.1e} apart.", where=str(out), hint="report this"
            )
    except BaseException:
        remove(out)
        raise
    return apart


class _Config(dict[str, Any]):
    """A config.json that refuses, as a user error, a setting that is not in it."""

    def __init__(self, config: Raw, path: Path) -> None:
        super().__init__(config)
        self.path = path

    def __missing__(self, name: str) -> Any:
        hint = "give the folder that save_pretrained wrote"
        raise UserError(f"The settings lack {name!r}.", where=str(self.path), hint=hint)


def _read_config(folder: Path) -> Raw:
    path = folder / "config.json"
    if not folder.is_dir():
        raise not_found(folder, "folder")
    try:
        config = read_json(path, "config.json", "copy the folder again")
    except FileNotFoundError:
        raise UserError(
            "This is no model of Hugging Face's: there is no config.json.",
            where=str(folder),
            hint="give the folder that save_pretrained wrote",
        ) from None
    if not isinstance(config, dict):
        raise UserError("These are no settings of a model.", where=str(path), hint="copy the folder again")
    return config


def _bridge(config: Raw, where: Path) -> Bridge:
    for bridge in BRIDGES:
        if bridge.model_type == config.get("model_type"):
            return bridge
    raise UserError(
        f"Models of the type '{config.get('model_type')}' are not known here.",
        where=str(where / "config.json"),
        hint=f"give one of {', '.join(bridge.model_type for bridge in BRIDGES)}",
    )


def _read_weights(folder: Path, bridge: Bridge) -> dict[str, Tensor]:
    """All weights, under the names of a model with a head."""
    if (folder / "model.safetensors").exists():
        weights = read_weights(folder / "model.safetensors")
    elif (folder / "model.safetensors.index.json").exists():
        weights = _read_indexed(folder / "model.safetensors.index.json")
    else:
        pickled = any(folder.glob("pytorch_model*.bin"))
        raise UserError(
            "The weights are pickled, which can run code." if pickled else "There are no weights.",
            where=str(folder),
            hint="save them as safetensors: save_pretrained(DIR) of a new transformers does",
        )
    if any(name.startswith(bridge.prefix) for name in weights):
        return weights
    return {bridge.prefix + name: weight for name, weight in weights.items()}


def _read_indexed(index: Path) -> dict[str, Tensor]:
    """Read every weight from the file that the index names for it."""
    try:
        file_of = read_json(index, "The index of the weights", "copy the folder again")["weight_map"]
        entries = sorted((str(file), str(name)) for name, file in file_of.items())
    except (KeyError, TypeError, AttributeError):  # not an object, or `weight_map` is not one
        what = "The index of the weights is damaged: it has no table 'weight_map'."
        raise UserError(what, where=str(index), hint="copy the folder again") from None
    weights: dict[str, Tensor] = {}
    for file, group in itertools.groupby(entries, key=lambda entry: entry[0]):
        if file in ("", ".", "..") or "/" in file or "\\" in file:
            raise UserError(
                f"The index of the weights names '{file}', which is not the name of a file in its folder.",
                where=str(index),
                hint="do not use this folder unless you trust its source; copy it again from there",
            )
        found = read_weights(index.parent / file)
        for _, name in group:
            if name not in found:
                what = f"The index of the weights says that {name} is in {file}, but it is not."
                raise UserError(what, where=str(index), hint="copy the folder again")
            weights[name] = found[name]
    return weights


@contextmanager
def _damaged_config(source: Path) -> Iterator[None]:
    """Turn what a setting of another type leads to into words: config.json may hold anything."""
    where, hint = str(source / "config.json"), "give the folder that save_pretrained wrote"
    try:
        yield
    except KeyError as name:
        raise UserError(f"The settings lack {name}.", where=where, hint=hint) from None
    except (TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        raise UserError(f"The settings do not describe a model: {error}.", where=where, hint=hint) from None


def _refuse_vocabulary(config: Raw, weights: dict[str, Tensor], source: Path) -> None:
    """Refuse a vocabulary with more entries than any weight has rows: a list of that many would be made first."""
    entries = int(config.get("vocab_size", 0))
    rows = max((len(weight) for weight in weights.values() if weight.dim()), default=0)
    if not 0 <= entries <= rows:
        raise UserError(
            f"vocab_size is {entries:,}, and no weight has more than {rows:,} rows.",
            where=str(source / "config.json"),
            hint="keep the files of one model together",
        )


def _settings(task: str, model: Raw, source: Path, tokenizer: Tokenizer | None) -> Settings:
    """What is known of a run that was not trained here."""
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
    """By number; where nobody named them, as they do it."""
    several = config.get("problem_type") == "multi_label_classification"
    if several or count < 2:
        raise UserError(
            f"This model gives {'several labels at once' if several else 'a number'}; here one of several is chosen.",
            where=str(source / "config.json"),
            hint="import a model that chooses one label of two or more",
        )
    with _damaged_config(source):
        named = {int(number): str(label) for number, label in config.get("id2label", {}).items()}
    return [named.get(number, f"LABEL_{number}") for number in range(count)]


def _never_written(bias_V: Tensor, vocabulary: Vocabulary) -> Tensor:
    """Padding, and what only we have, are not for the output."""
    bias_V = bias_V.clone()
    bias_V[[PAD, *vocabulary.added]] = OutputProjection.NEVER
    return bias_V


def _origin(folder: RunFolder) -> Path:
    return folder.path / "huggingface"


def _keep(bridge: Bridge, source: Path, target: Path) -> None:
    target.mkdir(exist_ok=True)
    for name in bridge.kept:
        if (source / name).is_file():
            shutil.copyfile(source / name, target / name)


def _vocabulary(run: Run, bridge: Bridge) -> Vocabulary:
    origin = _origin(run.folder)
    if not origin.is_dir():
        return Vocabulary.same(0 if run.text_tokenizer is None else len(run.text_tokenizer))
    return bridge.vocabulary(_read_config(origin), origin)


@torch.inference_mode()
def _apart(run: Run, bridge: Bridge, vocabulary: Vocabulary, folder: Path) -> float:
    """The largest difference of what both models say to the same input, as a share of the largest number."""
    ours, theirs = bridge.both(run, _their_model(folder), vocabulary)
    return float((ours - theirs).abs().max() / theirs.abs().max().clamp_min(1.0))


def _their_model(folder: Path) -> Any:
    try:
        import transformers
    except ImportError:
        raise UserError(
            "An export is compared with transformers, which is not installed.",
            hint="pip install 'glassformer[huggingface]'",
        ) from None
    architecture = _read_config(folder)["architectures"][0]
    transformers.utils.logging.disable_progress_bar()
    return getattr(transformers, architecture).from_pretrained(folder, dtype=torch.float32).eval()
