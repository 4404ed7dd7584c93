"""Forgetting: how fine-tuning changes the scores on the validation set of the run that is fine-tuned."""

from __future__ import annotations

from glassformer.errors import Message, UserError
from glassformer.inference.base_run import BaseRun
from glassformer.inference.run_folder import RunFolder, load_settings, recorded_fingerprint
from glassformer.settings import Settings
from glassformer.tasks import VALID, Data, read_data
from glassformer.text.tokenizer import Tokenizer
from glassformer.training.events import Forgetting, Listener, Note, preparation_progress
from glassformer.training.trainer import Trainer


def old_settings(start: RunFolder, data: Data, base: BaseRun, listener: Listener) -> Settings | None:
    """Return the settings of the run to start from, with only its validation data if that is in files of its own.

    Returns:
        None if its validation set cannot be scored: the task or its data is another one, or the files are gone.
    """
    fingerprint = recorded_fingerprint(start)
    if base.prefix or fingerprint == data.fingerprint:
        return None
    settings = load_settings(start)
    if valid := settings.data.valid:
        only_valid = settings.data.model_copy(update={"train": valid, "also": None, "test": None})
        settings = settings.model_copy(update={"data": only_valid})
    try:
        old = read_data(settings.task, settings.data, preparation_progress(listener))
        if old.labels == data.labels and (valid or old.fingerprint == fingerprint):
            return settings
    except UserError:
        pass  # the files are gone: the note says so
    note = Message("the validation data of {run} is not there any more: forgetting is not measured", run=base.name)
    listener(Note(note))
    return None


class OldValidationSet:
    """The validation set of the run that is fine-tuned; every rank holds it."""

    def __init__(self, settings: Settings, tokenizer: Tokenizer | None, listener: Listener) -> None:
        progress = preparation_progress(listener)
        data = read_data(settings.task, settings.data, progress)
        self.task, self.examples = data.task(tokenizer, settings, progress), data.report.counts[VALID]

    def measure(self, trainer: Trainer, base: BaseRun) -> Forgetting:
        """Score the current weights, and report them beside the scores of the base run."""
        found = Forgetting(base.name, base.scores, trainer.evaluate(task=self.task), self.examples)
        trainer.listener(found)
        return found
