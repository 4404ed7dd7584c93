"""Old names of settings, which existing run folders, recipes and scripts still use.

These tables are the only place that knows them. `current_names` is applied wherever settings enter: TOML files, the
command line, `train(settings=…)`. `original_names` is the inverse, for the identity that checkpoints record.
"""

from __future__ import annotations

from typing import Any

# Settings that were renamed: section, old name → new name.
RENAMED = {
    ("model", "longest"): "max_positions",
    ("train", "film"): "keep_all_checkpoints",
}

# Tasks that were renamed: old name → new name.
TASKS = {
    "masked_words": "masked_language_model",
    "answers": "question_answering",
    "word_vectors": "contextual_embeddings",
    "vectors": "sentence_embeddings",
    "images": "image_classification",
}

# Flags of the model that became entries of `model.ablations`: old name → old value → ablation (None: the default).
ABLATION_FLAGS: dict[str, dict[Any, str | None]] = {
    "normalize": {"layer": None, "batch": "batch_norm", "none": "no_norm"},
    "residual": {True: None, False: "no_residual"},
    "scale_scores": {True: None, False: "no_scaling"},
    "look_ahead_mask": {True: None, False: "no_look_ahead_mask"},
}


def current_names(raw: Any) -> Any:
    """Return settings with every old name replaced by the current one. A current name wins over an old one."""
    if not isinstance(raw, dict):
        return raw
    raw = dict(raw)
    if isinstance(task := raw.get("task"), str):
        raw["task"] = TASKS.get(task, task)
    for (section, old), new in RENAMED.items():
        if isinstance(values := raw.get(section), dict) and old in values:
            rest = {name: value for name, value in values.items() if name != old}
            raw[section] = {new: values[old]} | rest
    if isinstance(model := raw.get("model"), dict):
        raw["model"] = _with_ablations(model)
    return raw


def original_names(dumped: dict[str, Any]) -> dict[str, Any]:
    """Return dumped settings under the first name of every setting, in the original order."""
    first_names = {(section, new): old for (section, old), new in RENAMED.items()}
    model: dict[str, Any] = {}
    for name, value in dumped["model"].items():
        if name != "ablations":
            model[first_names.get(("model", name), name)] = value
        if name == "norm":
            model |= _ablation_flags(dumped["model"])
    return dumped | {"task": original_task_name(dumped["task"]), "model": model}


def _ablation_flags(model: dict[str, Any]) -> dict[str, Any]:
    """Return the old flags for `model.ablations`. Default flags count for a ViT only, as in the first versions."""
    flags = {}
    for flag, meanings in ABLATION_FLAGS.items():
        for value, ablation in meanings.items():
            is_default = ablation is None and model["family"] == "vit" and flag != "look_ahead_mask"
            if is_default or ablation in model.get("ablations", []):
                flags[flag] = value  # an ablation comes after the default and replaces it
    return flags


def _with_ablations(model: dict[str, Any]) -> dict[str, Any]:
    old = {name: value for name, value in model.items() if name in ABLATION_FLAGS}
    known = {
        name: value for name, value in old.items() if isinstance(value, str | bool) and value in ABLATION_FLAGS[name]
    }
    if not known:
        return model
    made = [ablation for name, value in known.items() if (ablation := ABLATION_FLAGS[name][value])]
    rest = {name: value for name, value in model.items() if name not in known}
    return rest if not made and "ablations" not in rest else {**rest, "ablations": [*rest.get("ablations", []), *made]}


def original_task_name(task: str) -> str:
    """Return the first name of a task. Fingerprints are made from it, so that a renamed task resumes older runs."""
    return next((old for old, new in TASKS.items() if new == task), task)
