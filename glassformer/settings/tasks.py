"""The tasks there are, and the families of models that each can be done by."""

from __future__ import annotations

from typing import Any, Literal

WITHOUT_SOURCE = ("recurrent_lm", "window", "gpt")  # families that go on with a text

Task = Literal[
    "translation",
    "language_model",
    "music",
    "word_vectors",
    "classification",
    "tagging",
    "masked_words",
    "vectors",
    "answers",
    "images",
]
FITTING: dict[str, tuple[str, ...]] = {  # the families for each task; the first where none is named
    "translation": ("transformer", "recurrent"),
    "language_model": WITHOUT_SOURCE,
    "music": WITHOUT_SOURCE,
    "word_vectors": ("elmo",),
    "classification": ("recurrent_encoder", "bert"),
    "tagging": ("recurrent_encoder", "bert"),
    "masked_words": ("bert",),
    "vectors": ("bert",),
    "answers": ("recurrent_encoder", "bert"),
    "images": ("vit",),
}
CHOOSING = ("classification", "tagging", "images")  # tasks whose answer is one of a few labels
PRETRAINED = ("masked_words", "vectors")  # tasks that leave an encoder for others to begin with
WITHOUT_TEXT = ("images",)  # tasks that need no tokenizer


def with_family(raw: Any) -> Any:
    """Settings whose model names its family: where nobody did, the one that the task is usually done by."""
    if not isinstance(raw, dict) or raw.get("task", "translation") not in list(FITTING):  # it may be of any type
        return raw
    model = raw.get("model", {})
    if not isinstance(model, dict) or "family" in model or raw.get("task", "translation") == "translation":
        return raw
    return {**raw, "model": {"family": FITTING[raw["task"]][0], **model}}
