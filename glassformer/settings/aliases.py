"""Old names of settings, which run folders, recipes and habits still use.

This table is the only place that knows them. `current_names` is applied wherever settings enter: TOML files, the
command line, `train(settings=…)`.
"""

from __future__ import annotations

from typing import Any

# Settings that were renamed: section, old name → new name.
RENAMED = {
    ("model", "longest"): "max_positions",
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
