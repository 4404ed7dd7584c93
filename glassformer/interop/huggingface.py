"""Folders of Hugging Face's `transformers`: in as a run, and out again, where they are seen to agree.

Nothing of theirs is executed: weights are read from safetensors, and pickled ones are refused. The files that a run
came from are kept in its folder `huggingface`, for the way back.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from glassformer.errors import UserError
from glassformer.files import no_such, remove, write_text
from glassformer.interop.bert import Bert
from glassformer.interop.bridge import Bridge
from glassformer.interop.gpt2 import GPT2
from glassformer.interop.marian import Marian
from glassformer.interop.tokens import read_tokenizer, renumbered
from glassformer.interop.weights import Vocabulary, to_ours, to_theirs
from glassformer.nn.embedding import OutputLayer
from glassformer.run import (
    Run,
    RunFolder,
    build_model,
    load_run,
    put_weights,
    read_weights,
    save_labels,
    save_settings,
    save_weights,
    weights_of,
)
from glassformer.settings import Raw, resolve
from glassformer.text.tokenizer import EOS, MASK, PAD, SPECIAL, Tokenizer

BRIDGES: tuple[Bridge, ...] = (GPT2(), Bert(), Marian())
KEPT = (
    *("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"),
    *("vocab.json", "vocab.txt", "merges.txt", "source.spm", "target.spm"),
)
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
    bridge.check(config, str(source / "config.json"))
    if folder.path.exists() and any(folder.path.iterdir() if folder.path.is_dir() else [folder.path]):
        raise UserError("There is something already.", where=str(folder.path), fix="name a new folder with -o")
    theirs = _read_weights(source, bridge)
    state = read_tokenizer(source)
    special, entries = bridge.special(config, state), int(config["vocab_size"])
    task, model_settings = bridge.settings(config, set(theirs))
    tokenizer = Tokenizer.from_json(renumbered(state, special, entries))
    labels = [label for _, label in sorted((int(n), label) for n, label in config.get("id2label", {}).items())]
    settings = resolve(
        {
            "task": task,
            "data": {"train": [str(source)]},
            "tokenizer": {"kind": "imported", "vocab": max(300, len(tokenizer))},
            "model": model_settings,
            "train": NO_TRAINING,
        }
    )
    vocabulary = special.vocabulary(entries)
    weights = to_ours(bridge.rules(settings), theirs, vocabulary, bridge.stream(settings), source)
    model = build_model(settings, len(tokenizer), len(labels) if task == "tagging" else 0)
    if (bias := "output.bias_V") in weights_of(model):
        weights[bias] = _never_written(weights.get(bias, torch.zeros(len(tokenizer))), vocabulary)
    put_weights(model, weights, where=source)
    folder.path.mkdir(parents=True, exist_ok=True)
    save_weights(folder.model, weights_of(model))
    write_text(folder.tokenizer, tokenizer.to_json())
    if task == "tagging":
        save_labels(folder, labels)
    _keep(source, _origin(folder))
    write_text(
        folder.card, f"# A {bridge.model_type} model, imported from {source.name}\n\n{settings.model.described()}\n"
    )
    save_settings(folder, settings)  # last: a folder with run.toml is a whole run
    return load_run(folder.path)


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
            fix=f"export: {able}",
        )
    if out.exists() and any(out.iterdir() if out.is_dir() else [out]):
        raise UserError("There is something already.", where=str(out), fix="name a new folder with -o")
    vocabulary, origin = _vocabulary(loaded, bridge), _origin(loaded.folder)
    entries = len(vocabulary.order) - len(vocabulary.added)
    config = bridge.config(loaded.settings, entries, loaded.labels)
    if origin.is_dir():
        config = _read_config(origin) | {"architectures": config["architectures"]}
    rules, stream = bridge.rules(loaded.settings), bridge.stream(loaded.settings)
    theirs = bridge.beside(entries) | to_theirs(rules, weights_of(loaded.model), vocabulary, stream)
    out.mkdir(parents=True, exist_ok=True)
    try:
        save_file(theirs, out / "model.safetensors", metadata={"format": "pt"})
        if origin.is_dir():
            _keep(origin, out)
        else:
            _write_tokenizer(loaded.tokenizer, bridge, out)
        write_text(out / "config.json", json.dumps(config, indent=2))
        apart = _apart(loaded, bridge, vocabulary, out)
        if not apart <= CLOSE:
            raise UserError(
                f"The exported model computes something else: {apart:.1e} apart.", where=str(out), fix="report this"
            )
    except BaseException:
        remove(out)
        raise
    return apart


def _read_config(folder: Path) -> Raw:
    path = folder / "config.json"
    if not folder.is_dir():
        raise no_such(folder, "folder")
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(
            "This is no model of Hugging Face's: there is no config.json.",
            where=str(folder),
            fix="give the folder that save_pretrained wrote",
        ) from None
    except ValueError as error:
        raise UserError(f"This is not JSON: {error}.", where=str(path), fix="copy the folder again") from None
    return dict(config)


def _bridge(config: Raw, where: Path) -> Bridge:
    for bridge in BRIDGES:
        if bridge.model_type == config.get("model_type"):
            return bridge
    raise UserError(
        f"Models of the type '{config.get('model_type')}' are not known here.",
        where=str(where / "config.json"),
        fix=f"give one of {', '.join(bridge.model_type for bridge in BRIDGES)}",
    )


def _read_weights(folder: Path, bridge: Bridge) -> dict[str, Tensor]:
    """All weights, under the names of a model with a head."""
    files = sorted(folder.glob("model*.safetensors"))
    if not files:
        pickled = any(folder.glob("pytorch_model*.bin"))
        raise UserError(
            "The weights are pickled, which can run code." if pickled else "There are no weights.",
            where=str(folder),
            fix="save them as safetensors: save_pretrained(DIR) of a new transformers does",
        )
    weights = {name: weight for file in files for name, weight in read_weights(file).items()}
    weights = {
        name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias"): weight
        for name, weight in weights.items()
    }
    if any(name.startswith(bridge.prefix) for name in weights):
        return weights
    return {bridge.prefix + name: weight for name, weight in weights.items()}


def _never_written(bias_V: Tensor, vocabulary: Vocabulary) -> Tensor:
    """Padding, and what only we have, are not for the output."""
    bias_V = bias_V.clone()
    bias_V[[PAD, *vocabulary.added]] = OutputLayer.NEVER
    return bias_V


def _origin(folder: RunFolder) -> Path:
    return folder.path / "huggingface"


def _keep(source: Path, target: Path) -> None:
    target.mkdir(exist_ok=True)
    for name in KEPT:
        if (source / name).is_file():
            shutil.copyfile(source / name, target / name)


def _vocabulary(run: Run, bridge: Bridge) -> Vocabulary:
    origin = _origin(run.folder)
    if not origin.is_dir():
        return Vocabulary.same(len(run.tokenizer))
    config = _read_config(origin)
    return bridge.special(config, read_tokenizer(origin)).vocabulary(int(config["vocab_size"]))


def _write_tokenizer(tokenizer: Tokenizer, bridge: Bridge, out: Path) -> None:
    """The tokenizer with what stands around a text, which their tokenizers add and ours leave to the model."""
    state = json.loads(tokenizer.to_json())
    names = bridge.template().split()
    pieces = [
        {"Sequence": {"id": "A", "type_id": 0}} if name == "$A" else {"SpecialToken": {"id": name, "type_id": 0}}
        for name in names
    ]
    special = {name: {"id": name, "ids": [SPECIAL.index(name)], "tokens": [name]} for name in names if name in SPECIAL}
    state["post_processor"] = {"type": "TemplateProcessing", "single": pieces, "pair": [], "special_tokens": special}
    state["post_processor"]["pair"] = [*pieces, {"Sequence": {"id": "B", "type_id": 1}}]
    pad, sos, eos = SPECIAL
    described = {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": pad, "bos_token": sos, "eos_token": eos}
    described |= {"cls_token": sos, "sep_token": eos} | ({} if tokenizer.mask is None else {"mask_token": MASK})
    write_text(out / "tokenizer.json", json.dumps(state, ensure_ascii=False))
    write_text(out / "tokenizer_config.json", json.dumps(described))


@torch.inference_mode()
def _apart(run: Run, bridge: Bridge, vocabulary: Vocabulary, folder: Path) -> float:
    """The largest difference of what both models say to the same padded texts, as a share of the largest number.

    Entries that are never written here are left out.
    """
    model = _their_model(folder)
    random, longest = torch.Generator().manual_seed(1), min(13, getattr(run.settings.model, "longest", 13))
    text_BS = torch.randint(EOS + 1, len(run.tokenizer), (3, longest), generator=random)
    text_BS[1, longest // 2 :] = PAD
    real_BS = text_BS != PAD
    their_text_BS = torch.tensor(vocabulary.order)[text_BS]
    theirs = bridge.logits(model, their_text_BS, real_BS.long())[real_BS]
    ours = bridge.our_logits(run.model, text_BS)[real_BS]
    if ours.shape[-1] == len(vocabulary.order):
        ours_NV = vocabulary.theirs(ours.T).T
        written_V = ours_NV[0] > OutputLayer.NEVER / 2
        ours, theirs = ours_NV[:, written_V], theirs[:, written_V]
    return float((ours - theirs).abs().max() / theirs.abs().max().clamp_min(1.0))


def _their_model(folder: Path) -> Any:
    try:
        import transformers
    except ImportError:
        raise UserError(
            "An export is compared with transformers, which is not installed.",
            fix="pip install 'glassformer[huggingface]'",
        ) from None
    architecture = json.loads((folder / "config.json").read_text(encoding="utf-8"))["architectures"][0]
    transformers.utils.logging.disable_progress_bar()
    return getattr(transformers, architecture).from_pretrained(folder, dtype=torch.float32).eval()
