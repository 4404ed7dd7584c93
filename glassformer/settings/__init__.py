"""All settings: name, type, description, limits and validation.

A run is described by a TOML file, by `section.name=value` on the command line, or by both. Settings that are not given
are chosen from the data (`glassformer/planning`); those have no default here. Unknown names, wrong types and values out
of range are reported all at once, each with its path.

    sections.py  data, tokenizer, train, decode
    models.py    model: one class per family
    tasks.py     registry of the tasks, filled by glassformer.tasks
    aliases.py   old names of settings
    run.py       `Settings`: all sections of a run
    messages.py  error messages for invalid settings
    reading.py   read, merge and validate settings
"""

from __future__ import annotations

from glassformer.settings.aliases import current_names, original_names
from glassformer.settings.models import (
    MODELS,
    AnyModel,
    BertSettings,
    ELMoSettings,
    GPTSettings,
    RecurrentEncoderSettings,
    RecurrentLMSettings,
    RecurrentSettings,
    TransformerSettings,
    ViTSettings,
    WindowSettings,
    family_of,
)
from glassformer.settings.reading import (
    Raw,
    check,
    merge,
    nest,
    parse_overrides,
    read_settings,
    read_toml,
    resolve,
    with_absolute_paths,
)
from glassformer.settings.run import FORMAT, Settings, setting_names
from glassformer.settings.sections import DataSettings, DecodeSettings, Limits, Paths, TokenizerSettings, TrainSettings
from glassformer.settings.tasks import TaskTraits, task_of, task_traits, tasks, with_family

__all__ = [
    "FORMAT", "MODELS", "AnyModel", "BertSettings", "DataSettings", "DecodeSettings", "ELMoSettings", "GPTSettings",
    "Limits", "Paths", "Raw", "RecurrentEncoderSettings", "RecurrentLMSettings", "RecurrentSettings", "Settings",
    "TaskTraits", "TokenizerSettings", "TrainSettings", "TransformerSettings", "ViTSettings", "WindowSettings",
    "check", "current_names", "family_of", "merge", "nest", "original_names", "parse_overrides", "read_settings",
    "read_toml", "resolve", "setting_names", "task_of", "task_traits", "tasks",
    "with_absolute_paths", "with_family",
]  # fmt: skip
