"""The one kind of error that is meant for people."""

from __future__ import annotations

from typing import Any


class UserError(Exception):
    """Something that the person at the keyboard can mend.

    what   what is wrong, in one sentence
    where  the file and line, or the setting
    fix    how to mend it
    """

    def __init__(self, what: str, *, where: str = "", fix: str = "") -> None:
        self.what, self.where, self.fix = what, where, fix
        super().__init__(str(self))

    def __reduce__(self) -> tuple[Any, ...]:
        """An error in a process that was started for a part of the work is raised in the one that started it."""
        return _user_error, (self.what, self.where, self.fix)

    def __str__(self) -> str:
        lines = [self.what]
        if self.where:
            lines.append(f"  where: {self.where}")
        if self.fix:
            lines.append(f"  fix:   {self.fix}")
        return "\n".join(lines)


def _user_error(what: str, where: str, fix: str) -> UserError:
    return UserError(what, where=where, fix=fix)


def out_of_memory(error: BaseException) -> bool:
    """PyTorch has an exception of its own for GPUs only."""
    said = str(error).lower()
    return isinstance(error, MemoryError) or "out of memory" in said or "can't allocate memory" in said
