"""All settings of a run: the sections together, and what must fit between them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, get_args

import tomli_w
from pydantic import BaseModel, Field, ValidationInfo, field_validator, model_validator

from glassformer.settings.aliases import current_names
from glassformer.settings.models import MODELS, AnyModel, EncoderDecoderSettings, ModelSettings, family_of
from glassformer.settings.sections import DataSettings, DecodeSettings, Section, TokenizerSettings, TrainSettings
from glassformer.settings.tasks import FITTING, WITHOUT_SOURCE, WITHOUT_TEXT, Task, with_family

FORMAT = 1  # of the run folder; a later version reads all earlier ones


class Settings(Section):
    format: int = Field(FORMAT, description="version of the run folder")
    task: Task = "translation"
    data: DataSettings
    tokenizer: TokenizerSettings | None = None  # of images there is none
    model: ModelSettings
    train: TrainSettings
    decode: DecodeSettings = DecodeSettings()

    @model_validator(mode="before")
    @classmethod
    def _old_names(cls, raw: Any) -> Any:
        return current_names(raw)

    @model_validator(mode="before")
    @classmethod
    def _family_of_the_task(cls, raw: Any) -> Any:
        return with_family(raw)

    @model_validator(mode="before")
    @classmethod
    def _text_has_a_tokenizer(cls, raw: Any) -> Any:
        if isinstance(raw, dict) and raw.get("task", "translation") not in WITHOUT_TEXT:
            return {"tokenizer": {}, **raw}
        return raw

    @field_validator("tokenizer")
    @classmethod
    def _images_have_none(cls, tokenizer: TokenizerSettings | None, others: ValidationInfo) -> TokenizerSettings | None:
        if tokenizer is not None and others.data.get("task") in WITHOUT_TEXT:
            raise ValueError("images are not spelled: leave it out")
        return tokenizer

    @field_validator("model", mode="before")
    @classmethod
    def _family_fits_the_task(cls, model: Any, others: ValidationInfo) -> Any:
        task, family = others.data.get("task"), family_of(model)
        if task is None or family not in MODELS or family in FITTING[task]:
            return model
        able = ", ".join(FITTING[task])
        if task == "translation" and family in WITHOUT_SOURCE:
            raise ValueError(f"{family} reads no source, so it cannot translate: take one of {able}")
        tasks = ", ".join(other for other, families in FITTING.items() if family in families)
        raise ValueError(f"{family} is not for {task}, which has {able}; a {family} is for {tasks} (say task=…)")

    def to_toml(self) -> str:
        return tomli_w.dumps(self.model_dump(exclude_none=True))


def setting_names(family: str | None = None) -> Iterable[str]:
    """Every path that can be set, `model.layers` included: of one model family, or of all."""
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
