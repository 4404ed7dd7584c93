"""`Settings`: all sections of a run's settings, and the rules between them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, get_args

import tomli_w
from pydantic import BaseModel, Field, ValidationInfo, field_validator, model_validator

from glassformer.settings.aliases import current_names
from glassformer.settings.models import MODELS, AnyModel, EncoderDecoderSettings, ModelSettings, family_of
from glassformer.settings.sections import DataSettings, DecodeSettings, Section, TokenizerSettings, TrainSettings
from glassformer.settings.tasks import TaskTraits, default_task, task_of, task_traits, tasks, with_family

FORMAT = 1  # version of the run folder; a later version reads all earlier ones


class Settings(Section):
    format: int = Field(FORMAT, description="version of the run folder")
    task: str = Field(default_factory=default_task)
    data: DataSettings
    tokenizer: TokenizerSettings | None = None  # None for a task on images
    model: ModelSettings
    train: TrainSettings
    decode: DecodeSettings = Field(default_factory=DecodeSettings)

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, raw: Any) -> Any:
        """Replace old names; add the task's default family, and an empty tokenizer section for a task on text."""
        raw = with_family(current_names(raw))
        if not isinstance(raw, dict):
            return raw
        task = tasks().get(task_of(raw))
        return raw if task is not None and task.input == "image" else {"tokenizer": {}, **raw}

    @field_validator("task")
    @classmethod
    def _task_exists(cls, task: str) -> str:
        if task not in tasks():
            raise ValueError(f"there is no task {task!r}; task should be one of {', '.join(tasks())}")
        return task

    @field_validator("data")
    @classmethod
    def _diversification_fits_the_task(cls, data: DataSettings, others: ValidationInfo) -> DataSettings:
        if data.diversify:
            _require_task("diversify", others.data.get("task"), lambda task: task.sequence_to_sequence)
        return data

    @field_validator("tokenizer")
    @classmethod
    def _images_have_no_tokenizer(
        cls, tokenizer: TokenizerSettings | None, others: ValidationInfo
    ) -> TokenizerSettings | None:
        task = others.data.get("task")
        if tokenizer is not None and task is not None and task_traits(task).input == "image":
            raise ValueError(f"task={task} has no tokenizer: leave out tokenizer.*")
        return tokenizer

    @field_validator("model", mode="before")
    @classmethod
    def _family_fits_the_task(cls, model: Any, others: ValidationInfo) -> Any:
        task, family = others.data.get("task"), family_of(model)
        if task is None or family not in MODELS or family in task_traits(task).families:
            return model
        fitting = ", ".join(task_traits(task).families)
        able = ", ".join(other.name for other in tasks().values() if family in other.families)
        raise ValueError(f"model.family={family} cannot be used for task={task}: use {fitting}, or set task={able}")

    @field_validator("train")
    @classmethod
    def _consistency_fits_the_task(cls, train: TrainSettings, others: ValidationInfo) -> TrainSettings:
        if train.consistency:
            _require_task("consistency", others.data.get("task"), lambda task: task.consistency)
        return train

    def to_toml(self) -> str:
        return tomli_w.dumps(self.model_dump(exclude_none=True))


def _require_task(setting: str, task: str | None, able: Callable[[TaskTraits], bool]) -> None:
    """Raise a ValueError if a setting is not for the task; a task that is None is refused elsewhere."""
    if task is not None and not able(task_traits(task)):
        names = ", ".join(other.name for other in tasks().values() if able(other))
        raise ValueError(f"{setting} cannot be used for task={task}: it is for {names}")


def setting_names(family: str | None = None) -> Iterable[str]:
    """Yield every path that can be set, such as `model.layers`: those of one model family, or of all."""
    yield "task"
    for section, field in Settings.model_fields.items():
        inner = field.annotation
        if section == "model":
            families = [MODELS[family]] if family else MODELS.values()
            named = {name: None for model in families for name in _names_in(model)}
            yield from (f"model.{name}" for name in named)
        for part in get_args(inner) or (inner,):
            if section != "model" and isinstance(part, type) and issubclass(part, BaseModel):
                yield from (f"{section}.{name}" for name in part.model_fields)


def _names_in(model: type[AnyModel]) -> list[str]:
    return [*(["layers"] if issubclass(model, EncoderDecoderSettings) else []), *model.model_fields]
