"""`UserError`, the error that is shown to the user, and `Message`, a text that can be translated."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class Message(str):
    """English text made from a template, which keeps the template and the values so that it can be translated.

    `Message("There is no row {row}.", row=3)` is the string "There is no row 3." A translation is looked up by
    `template` and filled in with `values`; a value that is itself a `Message` is translated as well.
    """

    template: str
    values: dict[str, object]

    def __new__(cls, template: str, **values: object) -> Message:
        message = super().__new__(cls, template.format(**values) if values else template)
        message.template, message.values = template, values
        return message

    def to_json(self) -> dict[str, Any]:
        """Return the template and the values."""
        values = {name: value.to_json() if isinstance(value, Message) else value for name, value in self.values.items()}
        return {"text": self.template, "values": values}


def as_message(text: str) -> Message:
    """Return a text as a `Message`; a plain string is a template without values."""
    return text if isinstance(text, Message) else Message(text)


class UserError(Exception):
    """An error that the user can correct.

    Args:
        message: what is wrong, in one sentence; a `Message` if it contains values and is shown in the studio.
        where: the file and line, or the setting.
        hint: how to correct it, with the exact command or setting.
    """

    def __init__(self, message: str, *, where: str = "", hint: str = "") -> None:
        self.message, self.where, self.hint = message, where, hint
        super().__init__(str(self))

    def __reduce__(self) -> tuple[Any, ...]:
        """Allow an error in a worker process to be raised in the process that started it."""
        return _user_error, (self.message, self.where, self.hint)

    def __str__(self) -> str:
        lines = [self.message]
        if self.where:
            lines.append(f"  where: {self.where}")
        if self.hint:
            lines.append(f"  hint:  {self.hint}")
        return "\n".join(lines)


def _user_error(message: str, where: str, hint: str) -> UserError:
    return UserError(message, where=where, hint=hint)


def import_optional(module: str, *, extra: str, use: str) -> Any:
    """Import a module of an optional dependency.

    Args:
        extra: the extra of Glassformer that installs it.
        use: subject of the error message, such as "This export".

    Raises:
        UserError: if it is not installed.
    """
    try:
        return import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        message = f"{use} needs the package {package}, which is not installed."
        raise UserError(message, hint=f"pip install 'glassformer[{extra}]'") from None


def out_of_memory(error: BaseException) -> bool:
    """Return whether an error means that memory ran out. PyTorch has its own exception for GPUs only."""
    text = str(error).lower()
    return isinstance(error, MemoryError) or "out of memory" in text or "can't allocate memory" in text
