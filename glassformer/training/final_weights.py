"""The final weights of a run: checkpoint averaging (§6.1)."""

from __future__ import annotations

from glassformer.errors import Message
from glassformer.tasks.metrics import metric_name
from glassformer.training.checkpoint import Validation
from glassformer.training.events import Note
from glassformer.training.trainer import Trainer


def save_final_weights(trainer: Trainer) -> None:
    """Save the mean of the best checkpoints, or the best one if the mean scores lower."""
    group, metric, checkpoints = trainer.group, trainer.task.metric, trainer.checkpoints
    best = group.broadcast_from_rank0(lambda: _undamaged(trainer))
    if not best:  # keep the weights of the last step
        trainer.save_model()
        return
    steps = [validation.step for validation in best]
    trainer.training_model.load(checkpoints.average(steps) if group.is_rank0 else {})
    score = trainer.evaluate()[metric] if len(steps) > 1 else best[0].score
    if score < best[0].score:
        trainer.training_model.load(checkpoints.weights(steps[0]) if group.is_rank0 else {})
        note = Message(
            "weights of step {step}: {metric} {best}, higher than {score} of the mean weights",
            step=steps[0],
            metric=metric_name(metric),
            best=f"{best[0].score:.2f}",
            score=f"{score:.2f}",
        )
    else:
        note = Message(
            "weights averaged over steps {steps}: {metric} {score}",
            steps=", ".join(map(str, sorted(steps))),
            metric=metric_name(metric),
            score=f"{score:.2f}",
        )
    trainer.listener(Note(note))
    trainer.save_model()


def _undamaged(trainer: Trainer) -> list[Validation]:
    undamaged = []
    for validation in trainer.state.best:
        if damage := trainer.checkpoints.damage_of_weights(validation.step):
            note = Message(
                "the weights of step {step} are damaged ({why}); they are not averaged",
                step=validation.step,
                why=damage,
            )
            trainer.listener(Note(note))
        else:
            undamaged.append(validation)
    return undamaged
