"""The end of a run: which weights stay, and what they are worth."""

from __future__ import annotations

from glassformer.errors import Message
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
        said = Message(
            "kept the weights of step {step}: {metric} {best}, averaged weights {score}",
            step=steps[0],
            metric=metric,
            best=f"{best[0].score:.2f}",
            score=f"{score:.2f}",
        )
    else:
        said = Message(
            "weights averaged over steps {steps}: {metric} {score}",
            steps=", ".join(map(str, sorted(steps))),
            metric=metric,
            score=f"{score:.2f}",
        )
    trainer.tell(Note(said))
    trainer.save_model()


def _undamaged(trainer: Trainer) -> list[Validation]:
    whole = []
    for validation in trainer.state.best:
        if wrong := trainer.checkpoints.damage_of_weights(validation.step):
            said = Message(
                "the weights of step {step} are damaged ({why}); left out of the average",
                step=validation.step,
                why=wrong,
            )
            trainer.tell(Note(said))
        else:
            whole.append(validation)
    return whole


def test(trainer: Trainer, split: str, examples: int) -> Tested:
    """The finished model on a held-out set."""
    tested = Tested(split, trainer.evaluate(split, final=True), trainer.task.signature, examples)
    trainer.tell(tested)
    return tested
