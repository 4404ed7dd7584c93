"""What is known of a family of models elsewhere: its settings, its weights and its special entries."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor

from glassformer.errors import UserError
from glassformer.interop.tokens import Special
from glassformer.interop.weights import Weight
from glassformer.settings import Raw, Settings

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

    def settings(self, config: Raw, weights: set[str]) -> tuple[str, Raw]:
        """Our task and model, for their settings and the names of their weights."""
        raise NotImplementedError

    def config(self, settings: Settings, entries: int, labels: list[str]) -> Raw:
        """Their settings, for a model of ours."""
        raise NotImplementedError

    def special(self, config: Raw, tokenizer: Raw) -> Special:
        """Their numbers for our special entries."""
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

    def template(self) -> str:
        """What stands around a text that is read."""
        raise NotImplementedError

    def logits(self, model: Any, text_BS: Tensor, mask_BS: Tensor) -> Tensor:
        """What their model makes of padded texts, in their numbers."""
        raise NotImplementedError

    def our_logits(self, model: Any, text_BS: Tensor) -> Tensor:
        """What ours makes of the same, in our numbers."""
        return model(text_BS)

    def check(self, config: Raw, where: str) -> None:
        """Refuses a model that computes what ours cannot."""
        for name, right in self.needed.items():
            if config.get(name, right) != right:
                raise UserError(
                    f"This {self.model_type} model has {name} = {config[name]}, which Glassformer does not know.",
                    where=where,
                    fix=f"import one with {name} = {right}",
                )

    def our_activation(self, config: Raw, default: str, where: str) -> str:
        theirs = config.get(self.activation, default)
        if theirs not in ACTIVATIONS:
            raise UserError(
                f"The activation '{theirs}' is not known here.", where=where, fix=f"there are: {', '.join(ACTIVATIONS)}"
            )
        return ACTIVATIONS[theirs]

    def their_activation(self, ours: str) -> str:
        return next(theirs for theirs, name in ACTIVATIONS.items() if name == ours)
