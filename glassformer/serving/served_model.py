"""A run in a worker process: its batches, or its predictor. PyTorch is imported only for runs that need it."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

from glassformer.decoding import Sampling
from glassformer.engine.library import Unavailable
from glassformer.engine.model import NativeModel
from glassformer.engine.session import Session
from glassformer.errors import UserError
from glassformer.inference.run_folder import RunFolder, read_settings
from glassformer.inference.search_engine import EngineName, NativeEngine, Precision, load_native
from glassformer.inference.translator import Translator, load_translator
from glassformer.serving.batching import Answer, NativeBatcher
from glassformer.serving.continuation_jobs import ContinuationWork
from glassformer.serving.jobs import Job, ModelInfo
from glassformer.serving.static_batching import StaticBatcher
from glassformer.serving.translation_jobs import SearchCache, TranslationWork
from glassformer.settings import GPTSettings, task_traits
from glassformer.settings.tasks import default_task, task_of
from glassformer.text.languages import languages_of_files
from glassformer.text.tokenizer import Tokenizer

MAX_BEAM = 64


class ServedModel:
    """A run that decodes jobs (`begin`, `step`) or predicts (`predict`)."""

    batcher: NativeBatcher | StaticBatcher | None = None

    def __init__(self, info: ModelInfo) -> None:
        self.info = info

    @property
    def busy(self) -> bool:
        return self.batcher is not None and self.batcher.busy

    def begin(self, number: int, job: Job, *, stream: bool) -> list[Answer]:
        """Begin a job.

        Raises:
            UserError: if this run does not decode, or the job is invalid.
        """
        raise UserError(
            f"This run does not generate text: its task is {self.info.task}.", where=job.model, hint="use predict"
        )

    def predict(self, texts: list[str]) -> list[dict[str, Any]]:
        """Return one object per text, as `glassformer predict --json` prints it."""
        raise UserError(f"predict is not available for task={self.info.task}.", where=self.info.name)


class ServedTranslator(ServedModel):
    """A sequence-to-sequence run."""

    def __init__(self, info: ModelInfo, translator: Translator) -> None:
        is_native = isinstance(translator.engine, NativeEngine)
        super().__init__(replace(info, max_source=translator.max_source, aligns=is_native))
        self.info.limits.update(beam=translator.settings.beam, max_beam=MAX_BEAM)
        self.searches = SearchCache(translator)
        if isinstance(translator.engine, NativeEngine):
            self.batcher = NativeBatcher(Session(translator.engine.model), NativeEngine.batch_rows)
        else:
            self.batcher = StaticBatcher(translator)

    def begin(self, number: int, job: Job, *, stream: bool) -> list[Answer]:
        assert self.batcher is not None
        return self.batcher.add(TranslationWork(number, job, self.searches, stream))


class ServedLanguageModel(ServedModel):
    """A GPT in the native engine."""

    def __init__(self, info: ModelInfo, model: NativeModel, tokenizer: Tokenizer) -> None:
        super().__init__(replace(info, max_source=model.shape.max_positions))
        self.info.limits.update(beam=1, max_beam=1)
        self.tokenizer = tokenizer
        self.batcher = NativeBatcher(Session(model), NativeEngine.batch_rows)

    def begin(self, number: int, job: Job, *, stream: bool) -> list[Answer]:
        assert isinstance(self.batcher, NativeBatcher)
        return self.batcher.add(ContinuationWork(number, job, self.tokenizer, self.info.max_source or 1, stream))


class ServedPredictor(ServedModel):
    """A run of another task: classification, tagging, …"""

    def __init__(self, info: ModelInfo, path: Path, engine: EngineName) -> None:
        super().__init__(info)
        from glassformer.inference.loading import load_predictor

        _, self.predictor = load_predictor(path, engine=engine)

    def predict(self, texts: list[str]) -> list[dict[str, Any]]:
        from glassformer.tasks import PredictRequest, task_spec

        spec = task_spec(self.info.task)
        if spec.predict is None:
            return super().predict(texts)
        request = PredictRequest(texts, None, None, None, Sampling(), True, lambda message: None)
        return [json.loads(line) for line in "".join(spec.predict(self.predictor, request)).splitlines()]


def load_served(name: str, path: Path, *, precision: Precision, engine: EngineName) -> ServedModel:
    """Load a run for serving, in the native engine where that can run it.

    Raises:
        UserError: if the run cannot be loaded.
    """
    folder = RunFolder(path)
    raw = read_settings(folder)
    source, target = languages_of_files(raw.get("data", {}).get("train", [])) or (None, None)
    info = ModelInfo(name, task_of(raw), source, target)
    if engine != "torch" and (model := _load_gpt(info, folder, raw, precision)):
        return model
    if info.task == default_task() or task_traits(info.task).sequence_to_sequence:
        translator = load_translator(path, precision=precision, engine=engine, device="cpu")
        if translator.notice:
            logging.getLogger(__name__).warning("%s: %s", name, translator.notice)
        return ServedTranslator(info, translator)
    return ServedPredictor(info, path, engine)


def _load_gpt(info: ModelInfo, folder: RunFolder, raw: dict[str, Any], precision: Precision) -> ServedModel | None:
    """Load a GPT that writes text, without importing PyTorch; None if the run is another one."""
    try:
        if raw["model"]["family"] != GPTSettings.model_fields["family"].default or raw["tokenizer"]["kind"] == "notes":
            return None
        settings = GPTSettings.model_validate(raw["model"])
        tokenizer = Tokenizer.load(folder.tokenizer, requested_vocab=int(raw["tokenizer"]["vocab"]))
        return ServedLanguageModel(info, load_native(folder, settings, len(tokenizer), precision), tokenizer)
    except (KeyError, TypeError, ValueError, Unavailable):  # an older file or no engine: PyTorch says what is wrong
        return None
