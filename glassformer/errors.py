"""`UserError`: the one kind of error that is shown to people."""

from __future__ import annotations

from typing import Any


class UserError(Exception):
    """An error that the user can correct.

    Args:
        message: what is wrong, in one sentence.
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


def out_of_memory(error: BaseException) -> bool:
    """Return whether an error means that memory ran out. PyTorch has its own exception for GPUs only."""
    text = str(error).lower()
    return isinstance(error, MemoryError) or "out of memory" in text or "can't allocate memory" in text
