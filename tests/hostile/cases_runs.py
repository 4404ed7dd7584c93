"""Run folders and weights that are damaged, incomplete, or made to fill the memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import making
import torch
from harness import Case, Prepare, Result
from making import DEEP, both, changed_json, folder, halved, linked, remove, replaced, tensors, write, write_json

Tensors = dict[str, torch.Tensor]

# What may happen to a file of a run.
DAMAGE: dict[str, Any] = {
    "missing": remove,
    "empty": lambda name: write(name, b""),
    "cut off": halved,
    "random bytes": lambda name: write(name, bytes(range(256)) * 9),
    "a folder": folder,
    "a list": lambda name: write_json(name, [1]),
    "a number": lambda name: write(name, "3"),
    "null": lambda name: write(name, "null"),
    "deep nesting": lambda name: write(name, DEEP),
    "endless": lambda name: linked(name, "/dev/zero"),
}
# Every command that loads a run, and the files without which it cannot.
LOADERS = {
    "translate run hello": ("run", ("run.toml", "tokenizer.json", "model.safetensors")),
    "explain run hello": ("run", ("tokenizer.json", "model.safetensors")),
    "evaluate run --source test.en --reference test.fr": ("run", ("model.safetensors",)),
    "heads run": ("run", ("run.toml",)),
    "info run": ("run", ("run.toml",)),
    "studio run --no-browser": ("run", ("run.toml",)),
    "export run --to huggingface -o new": ("run", ("tokenizer.json",)),
    "train train.en train.fr -o new --from run": ("run", ("run.toml", "tokenizer.json", "model.safetensors")),
    "train -o run --resume": ("run", ("run.toml", "tokenizer.json")),
    "predict runs/labels ba": ("runs/labels", ("labels.json", "tokenizer.json")),
    "predict runs/vit images/cat/1.png": ("runs/vit", ("labels.json",)),
}


def _matrix() -> list[Case]:
    cases = []
    for command, (run, files) in LOADERS.items():
        for file in files:
            for kind, damage in DAMAGE.items():
                name = f"{' '.join(command.split()[:2])}: {file} {kind}"
                cases.append(Case(name, command, (run,), damage(f"{run}/{file}")))
    return cases


# Files that a run can do without -------------------------------


def _says_finished(workdir: Path, result: Result) -> bool:
    return "run: finished" in result.out


def _logs() -> list[Case]:
    cases = []
    logs = {
        "null": "null\n",
        "a list": "[1]\n",
        "a number": "3\n",
        "a text": '"event"\n',
        "an event without a name": '{"time": 1}\n',
        "an event whose name is a number": '{"event": 3}\n',
        "an event without its fields": '{"event": "progress"}\n',
        "a test without its split": '{"event": "tested"}\n',
        "deep nesting": DEEP + "\n",
        "no UTF-8": b"\xff\xfe\n",
        "binary": bytes(range(256)),
        "empty": "",
    }
    for kind, content in logs.items():
        for option in ("", " --json"):
            damage = write("run/log.jsonl", content)
            held = _says_finished if not option else None
            cases.append(Case(f"info{option}: log.jsonl {kind}", f"info run{option}", (), damage, code=0, holds=held))
    cases.append(Case("info: log.jsonl missing", "info run", (), remove("run/log.jsonl"), code=0, holds=_says_finished))
    cases.append(Case("info: README.md missing", "info run", (), remove("run/README.md"), code=0))
    cases.append(Case("info: model.safetensors missing", "info run", (), remove("run/model.safetensors"), code=0))
    cases.append(Case("info: log.jsonl a folder", "info run", ("run/log.jsonl",), folder("run/log.jsonl")))
    return cases


# Checkpoints ---------------------------------------------------


def _checkpoints() -> list[Case]:
    step = "run/checkpoints/step-5"
    cases = []
    for file in ("state.json", "checksums.json", "model.safetensors", "optimizer.safetensors"):
        for kind in ("missing", "empty", "cut off", "random bytes", "a list", "null", "deep nesting"):
            damage = DAMAGE[kind](f"{step}/{file}")
            cases.append(Case(f"resume: {file} {kind}", "train -o run --resume", ("checkpoint", "step-5"), damage))
    for kind in ("empty", "cut off", "random bytes", "a list", "null", "deep nesting", "a folder"):
        damage = DAMAGE[kind]("run/data-report.json")
        cases.append(Case(f"resume: data-report.json {kind}", "train -o run --resume", (), damage))
    return cases


# Settings of a run ---------------------------------------------

TOML: dict[str, tuple[str, str]] = {
    "a billion layers": ("encoder_layers = 1", "encoder_layers = 1000000000"),
    "1,000 layers": ("decoder_layers = 1", "decoder_layers = 1000"),
    "no layers": ("encoder_layers = 1", "encoder_layers = 0"),
    "a width of 10^12": ("d_model = 16", "d_model = 1000000000000"),
    "a width of 10^6": ("d_model = 16", "d_model = 1000000"),
    "a width beyond 64 bits": ("d_model = 16", f"d_model = {10**30}"),
    "a feed-forward width of 10^12": ("d_ff = 16", "d_ff = 1000000000000"),
    "a feed-forward width of 2^62": ("d_ff = 16", f"d_ff = {2**62}"),
    "learned positions of 10^12": (
        'positions = "sinusoidal"\ncombine_positions = "add"\nmax_positions = 1024',
        'positions = "learned"\ncombine_positions = "add"\nmax_positions = 1000000000000',
    ),
    "a length penalty of 1e300": ("length_penalty = 0.6", "length_penalty = 1e300"),
    "a length penalty of nan": ("length_penalty = 0.6", "length_penalty = nan"),
    "a length penalty of text": ("length_penalty = 0.6", 'length_penalty = "x"'),
    "a beam of 10^9": ("beam = 4", "beam = 1000000000"),
    "another family": ('family = "transformer"', 'family = "bert"'),
    "no such family": ('family = "transformer"', 'family = "resnet"'),
    "another task": ('task = "translation"', 'task = "tagging"'),
    "another activation": ('activation = "relu"', 'activation = "sine"'),
    "a section that is a number": ("[decode]", "decode = 3\n[decoded]"),
    "a format that is text": ("format = 1", 'format = "one"'),
    "a format to come": ("format = 1", "format = 99"),
}


def _settings() -> list[Case]:
    return [
        Case(f"run.toml: {name}", "translate run hello", ("run",), replaced("run/run.toml", old, new))
        for name, (old, new) in TOML.items()
    ]


# Weights --------------------------------------------------------


def _as(dtype: torch.dtype) -> Prepare:
    return tensors("run/model.safetensors", lambda old: {name: tensor.to(dtype) for name, tensor in old.items()})


def _first(change: Any) -> Prepare:
    """Change the first tensor, by name."""

    def apply(old: Tensors) -> Tensors:
        name = sorted(old)[0]
        return old | {name: change(old[name].clone())}

    return tensors("run/model.safetensors", apply)


def _one_line(workdir: Path, result: Result) -> bool:
    return result.out.count("\n") == 1


def _filled(number: float) -> Prepare:
    return _first(lambda tensor: tensor.fill_(number))


def _weights() -> list[Case]:
    file = ("run/model.safetensors",)
    says = {
        "integers": (_as(torch.int64), ("floating-point", *file)),
        "bytes": (_as(torch.uint8), ("floating-point", *file)),
        "truth values": (_as(torch.bool), ("floating-point", *file)),
        "NaN": (_filled(float("nan")), ("NaN", *file)),
        "infinity": (_filled(float("inf")), ("infinity", *file)),
        "an extra tensor": (tensors(*file, lambda old: old | {"extra": torch.ones(2)}), ("do not fit", *file)),
        "a tensor too few": (tensors(*file, lambda old: dict(list(old.items())[1:])), ("do not fit", *file)),
        "no tensor": (tensors(*file, lambda old: {}), ("do not fit", *file)),
        "an axis too many": (_first(lambda tensor: tensor[None].contiguous()), ("do not fit", *file)),
        "an empty tensor": (_first(lambda tensor: tensor[:0].contiguous()), ("do not fit", *file)),
        "twice the size": (_first(lambda tensor: torch.cat([tensor, tensor])), ("do not fit", *file)),
        "a header of 2^63 bytes": (
            making.changed(*file, lambda old: b"\xff" * 7 + b"\x7f" + old[8:]),
            ("damaged", *file),
        ),
        "a header that nests": (write(*file, (9999).to_bytes(8, "little") + b"[" * 9999), ("damaged", *file)),
        "a pickle": (write(*file, making.PICKLE), ("not in safetensors format", *file, "can run code")),
    }
    cases = [Case(f"weights: {name}", "translate run hello", parts, prepare) for name, (prepare, parts) in says.items()]
    for name, dtype in {"bf16": torch.bfloat16, "fp16": torch.float16, "fp64": torch.float64}.items():
        for command in ("translate run hello", "translate run hello --precision int8", "explain run hello --next"):
            holds = _one_line if command == "translate run hello" else None
            title = f"weights: {name}, {command.split()[0]} {command.split()[-1]}"
            cases.append(Case(title, command, (), _as(dtype), code=0, holds=holds))
    return cases + _overflowing()


def _overflowing() -> list[Case]:
    """Weights so large that the logits are not finite: sampling from them must not raise an IndexError."""

    def grown(old: Tensors) -> Tensors:
        return {name: tensor.sign() * 3e38 if tensor.dim() == 2 else tensor for name, tensor in old.items()}

    return [
        Case(
            "weights: logits that overflow, drawn",
            "translate run hello --sample",
            ("not finite", "train.lr"),
            tensors("run/model.safetensors", grown),
        ),
        Case(
            "weights: logits that overflow, continued",
            "predict runs/gpt ba --length 5 --json",
            ("not finite", "train.lr"),
            tensors("runs/gpt/model.safetensors", grown),
        ),
    ]


# Tokenizers -----------------------------------------------------


def _vocab(old: Any) -> dict[str, int]:
    vocab: dict[str, int] = old["model"]["vocab"]
    return vocab


def _padding(old: Any) -> None:
    old["padding"] = {
        "strategy": {"Fixed": 10**9},
        "direction": "Right",
        "pad_to_multiple_of": None,
        "pad_id": 0,
        "pad_type_id": 0,
        "pad_token": "<pad>",
    }


def _regex(pattern: str) -> Any:
    def change(old: Any) -> None:
        old["pre_tokenizer"] = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}

    return change


def _tokenizers() -> list[Case]:
    file = "run/tokenizer.json"
    far = {
        "id": 4 * 10**9,
        "content": "far",
        "special": True,
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
    }
    says: dict[str, tuple[Any, str]] = {
        "an id of 100 million": (lambda old: _vocab(old).update({"far": 10**8}), "limit"),
        "an id of 4 billion": (lambda old: _vocab(old).update({"far": 4 * 10**9}), "limit"),
        "an id beyond 64 bits": (lambda old: _vocab(old).update({"far": 10**30}), "limit"),
        "an id that leaves a gap": (lambda old: _vocab(old).update({"far": 10**5}), "gaps"),
        "an id that is negative": (lambda old: _vocab(old).update({"far": -1}), "damaged"),
        "an id that is text": (lambda old: _vocab(old).update({"far": "x"}), "damaged"),
        "an added id of 4 billion": (lambda old: old["added_tokens"].append(far), "limit"),
        "an added entry that is text": (lambda old: old["added_tokens"].append("x"), "damaged"),
        "no added entries": (lambda old: old.pop("added_tokens") and None, "damaged"),
        "no model": (lambda old: old.pop("model") and None, "damaged"),
        "a model that is text": (lambda old: old.update(model="x"), "damaged"),
        "a model of no type": (lambda old: old["model"].update(type="x"), "damaged"),
        "an expression that does not parse": (_regex("("), "damaged"),
        "a merge of nothing": (lambda old: old["model"]["merges"].append(["x", "y"]), "damaged"),
    }
    cases = [
        Case(f"tokenizer: {name}", "translate run hello", (what, file), changed_json(file, change))
        for name, (change, what) in says.items()
    ]
    slow = changed_json(file, _regex("(a+)+$"))
    cases += [
        Case("tokenizer: an expression without end", ["translate", "run", "a" * 60 + "!"], ("tokenizer",), slow),
        Case(
            "tokenizer: an expression without end, from a file",
            "translate run -i x.en",
            ("tokenizer",),
            both(slow, write("x.en", "b\n" + "a" * 60 + "!\n")),
        ),
        Case("tokenizer: padding to a billion", "translate run hello", (), changed_json(file, _padding), code=0),
        Case("labels: one only", "predict runs/labels ba", ("labels.json",), write("runs/labels/labels.json", '["a"]')),
        Case(
            "labels: too many",
            "predict runs/labels ba",
            ("labels.json",),
            write_json("runs/labels/labels.json", list("abc")),
        ),
        Case("labels: numbers", "predict runs/labels ba", ("labels.json",), write("runs/labels/labels.json", "[1, 2]")),
        Case(
            "labels: a lone surrogate",
            "predict runs/labels ba",
            ("surrogate", "labels.json"),
            write("runs/labels/labels.json", '["\\ud800", "b"]'),
        ),
    ]
    return cases


def _ladders() -> list[Case]:
    cases = []
    for kind in ("empty", "cut off", "a list", "null", "deep nesting", "random bytes"):
        plan = both(write("l/plan.json", '{"kind": "ladder"'), DAMAGE[kind]("l/plan.json"))
        command = "ladder train.en train.fr --only gru -o l"
        cases.append(Case(f"ladder: plan.json {kind}", command, ("l/plan.json",), plan))
    return cases


RUNS = [*_matrix(), *_logs(), *_checkpoints(), *_settings(), *_weights(), *_tokenizers(), *_ladders()]
