"""The command reference, written from the command line itself."""

from __future__ import annotations

import os
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

INTRO = """# Commands

Every command prints this help with `--help`. Errors of the user end with exit code 2 and one message that says what is
wrong, where, and what to do. This page is generated from the code.
"""


def markdown() -> str:
    """Return the page with every command, its arguments and its options."""
    import typer

    from glassformer.cli import command_line

    group: Any = typer.main.get_command(command_line())
    return "\n\n".join([INTRO, *(section(name, command) for name, command in group.commands.items())])


def section(name: str, command: Any, level: int = 2) -> str:
    """Return the section of a command, or of a group with one section per command."""
    first, *more = paragraphs(command.help or "")
    title = f"{'#' * level} {name}"
    if hasattr(command, "commands"):
        inner = [section(f"{name} {sub}", one, level + 1) for sub, one in command.commands.items()]
        return "\n\n".join([title, first, *more, *inner])
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and not p.hidden and p.name != "help"]
    usage = " ".join(
        ["glassformer", name, "[OPTIONS]", *(metavar(a) if a.required else f"[{metavar(a)}]" for a in arguments)]
    )
    rows = [(metavar(a), a.help) for a in arguments] + [(names(o), described(o)) for o in options]
    table = ["| argument or option | meaning |", "|---|---|", *(f"| `{what}` | {cell(text)} |" for what, text in rows)]
    return "\n\n".join([title, first, code(usage), "\n".join(table), *more])


def paragraphs(text: str) -> list[str]:
    """Return the paragraphs of a help text; the command of an example is set as code."""
    return [_paragraph(paragraph) for paragraph in text.split("\n\n")]


def _paragraph(text: str) -> str:
    title, name, command = text.partition(": glassformer ")
    return f"{title}:\n\n{code(f'glassformer {command}')}" if name and "." not in title else text


def code(text: str) -> str:
    return f"```text\n{text}\n```"


def metavar(argument: Any) -> str:
    return str(argument.metavar or argument.name.upper())


def names(option: Any) -> str:
    """Return all names of an option, and the placeholder of its value."""
    written = ", ".join([*option.opts, *option.secondary_opts])
    value = "" if option.is_flag else f" {option.metavar or option.opts[-1].strip('-').upper()}"
    return f"{written}{value}"


def described(option: Any) -> str:
    default = option.default
    shown = not option.is_flag and default not in (None, "") and not callable(default) and option.show_default
    return f"{option.help} (default: {default})" if shown else str(option.help)


def cell(text: str) -> str:
    return text.replace("|", "\\|")
