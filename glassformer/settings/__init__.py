"""Every setting there is: its name, type, meaning and limits. The only place that validates.

A run is described by a TOML file, by `section.name=value` on the command line, or by both. What nobody said is
chosen from the corpus (`planning.py`); those settings have no default here. A setting that is misspelt, of the
wrong type or out of range is refused with its path, and all mistakes are reported at once.

    sections.py  data, tokenizer, train, decode
    models.py    model: one class a family
    tasks.py     registry of the tasks, filled by glassformer.tasks
    aliases.py   old names of settings
    run.py       all of them together: `Settings`
    refusal.py   the words for a setting that is wrong
    reading.py   a file and overrides, merged, checked and resolved
"""

from __future__ import annotations

from glassformer.settings.aliases import current_names
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
from glassformer.settings.reading import Raw, check, merge, nest, parse_overrides, read_settings, read_toml, resolve
from glassformer.settings.run import FORMAT, Settings, setting_names
from glassformer.settings.sections import (
    DataSettings,
    DecodeSettings,
    Limits,
    Paths,
    TokenizerSettings,
    TrainSettings,
)
from glassformer.settings.tasks import TaskTraits, task_of, task_traits, tasks, with_family

__all__ = [
    "FORMAT",
    "MODELS",
    "AnyModel",
    "BertSettings",
    "DataSettings",
    "DecodeSettings",
    "ELMoSettings",
    "GPTSettings",
    "Limits",
    "Paths",
    "Raw",
    "RecurrentEncoderSettings",
    "RecurrentLMSettings",
    "RecurrentSettings",
    "Settings",
    "TaskTraits",
    "TokenizerSettings",
    "TrainSettings",
    "TransformerSettings",
    "ViTSettings",
    "WindowSettings",
    "check",
    "current_names",
    "family_of",
    "merge",
    "nest",
    "parse_overrides",
    "read_settings",
    "read_toml",
    "resolve",
    "setting_names",
    "task_of",
    "task_traits",
    "tasks",
    "with_family",
]
