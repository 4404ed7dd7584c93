"""What is known of a family of models elsewhere: its settings, its weights, and the files that stand beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from torch import Tensor

from glassformer.errors import UserError
from glassformer.inference.run import Run
from glassformer.interop.weights import Vocabulary, Weight
from glassformer.settings import AnyModel, Raw, Settings
from glassformer.text.tokenizer import Tokenizer

# Their names, and ours; the first of several is the one to write.
ACTIVATIONS = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "swish": "swish",
    "silu": "swish",
}


class Bridge:
    """A family of theirs, and the one of ours that computes the same."""

    model_type: str  # in their config.json
    family: str  # of ours
    prefix: str  # of their weights, but for the head; older files leave it out
    activation: str  # the setting that names it in their config.json
    needed: ClassVar[Raw] = {}  # settings of theirs without a counterpart here, as they must be if they are said
    kept: ClassVar[tuple[str, ...]] = ("config.json",)  # files of theirs that go back as they came
    restated: ClassVar[tuple[str, ...]] = ("architectures",)  # settings of theirs that go back as ours say

    def whole(self, config: Raw, folder: Path) -> Raw:
        """Their settings with those that stand in other files of the folder."""
        return config

    def named(self, weights: dict[str, Tensor], config: Raw) -> dict[str, Tensor]:
        """Their weights, under the names that the rules have for them."""
        return weights

    def settings(self, config: Raw, weights: set[str]) -> tuple[str, Raw]:
        """Our task and model, for their settings and the names of their weights."""
        raise NotImplementedError

    def config(self, settings: Settings, entries: int, labels: list[str]) -> Raw:
        """Their settings, for a model of ours."""
        raise NotImplementedError

    def rules(self, settings: Settings) -> list[Weight]:
        """Which weight becomes which."""
        raise NotImplementedError

    def stream(self, settings: Settings) -> Tensor | None:
        """Of each feature of our residual stream, its number there; None where they are the same."""
        return None

    def beside(self, entries: int) -> dict[str, Tensor]:
        """Weights that they want and that a model of ours may lack."""
        return {}

    def tokenizer(self, config: Raw, folder: Path) -> Tokenizer | None:
        """Theirs with our numbers; None where no text is read."""
        return None

    def vocabulary(self, config: Raw, folder: Path) -> Vocabulary:
        """Their entries in our order."""
        return Vocabulary.same(0)

    def write_beside(self, run: Run, out: Path) -> None:
        """What their model is used with, for a run that did not come from them."""
        raise NotImplementedError

    def both(self, run: Run, model: Any, vocabulary: Vocabulary) -> tuple[Tensor, Tensor]:
        """What our model and theirs make of the same random input."""
        raise NotImplementedError

    def check(self, config: Raw, where: str) -> None:
        """Refuses a model that computes what ours cannot."""
        for name, right in self.needed.items():
            if config.get(name, right) != right:
                raise UserError(
                    f"This {self.model_type} model has {name} = {config[name]}, which Glassformer does not know.",
                    where=where,
                    hint=f"import one with {name} = {right}",
                )

    def our_activation(self, config: Raw, default: str, where: str) -> str:
        theirs = config.get(self.activation, default)
        if theirs not in ACTIVATIONS:
            raise UserError(
                f"The activation '{theirs}' is not known here.",
                where=where,
                hint=f"import a model with one of {', '.join(ACTIVATIONS)}",
            )
        return ACTIVATIONS[theirs]

    def their_activation(self, ours: str) -> str:
        return next(theirs for theirs, name in ACTIVATIONS.items() if name == ours)


def refuse_others(model: AnyModel, as_theirs: Raw, there_is_none: str) -> None:
    """Refuses a model of ours that has settings which theirs is never made with."""
    for name, right in as_theirs.items():
        if getattr(model, name) != right:
            raise UserError(
                f"{there_is_none} with {name} = {getattr(model, name)}.",
                where=f"model.{name}",
                hint=f"export one with model.{name}={right}",
            )


def name_labels(labels: list[str]) -> Raw:
    """Labels as their settings have them."""
    return {
        "id2label": {str(n): label for n, label in enumerate(labels)},
        "label2id": {label: n for n, label in enumerate(labels)},
    }
