"""The end of a run: which weights stay, and what they are worth."""

from __future__ import annotations

from glassformer.training.checkpoint import Validation
from glassformer.training.events import Note, Tested
from glassformer.training.trainer import Trainer


def settle_weights(trainer: Trainer) -> None:
    """The final weights: the mean of the best checkpoints, or the best one if the mean is worse."""
    ranks, metric, files = trainer.ranks, trainer.task.metric, trainer.checkpoints
    best = ranks.from_first(lambda: _undamaged(trainer))
    if not best:  # the weights that the run ended with are still there
        trainer.save_model()
        return
    steps = [validation.step for validation in best]
    trainer.held.load(files.average(steps) if ranks.first else {})
    score = trainer.evaluate()[metric] if len(steps) > 1 else best[0].score
    if score < best[0].score:
        trainer.held.load(files.weights(steps[0]) if ranks.first else {})
        said = f"weights of step {steps[0]}: their {metric} of {best[0].score:.2f} beats the mean's {score:.2f}"
    else:
        said = f"weights averaged over steps {', '.join(map(str, sorted(steps)))}: {metric} {score:.2f}"
    trainer.tell(Note(said))
    trainer.save_model()


def _undamaged(trainer: Trainer) -> list[Validation]:
    whole = []
    for validation in trainer.state.best:
        if wrong := trainer.checkpoints.damage_of_weights(validation.step):
            said = f"the weights of step {validation.step} are damaged ({wrong}) and are left out of the mean"
            trainer.tell(Note(said))
        else:
            whole.append(validation)
    return whole


def test(trainer: Trainer, split: str, examples: int) -> Tested:
    """The finished model on a held-out set."""
    tested = Tested(split, trainer.evaluate(split, final=True), trainer.task.signature, examples)
    trainer.tell(tested)
    return tested
