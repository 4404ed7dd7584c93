"""The command line, one module per command. Only the module of the given command is imported."""

from __future__ import annotations

import errno
import inspect
import io
import keyword
import os
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from glassformer import machine
from glassformer.cli.arguments import pair_up, refuse_bytes
from glassformer.errors import UserError, out_of_memory
from glassformer.files import write_error

# The commands by the headings of --help. Each has a module of its own here, with a function or an `app` of that name.
HEADINGS = {
    "Train and use": ("demo", "train", "translate", "predict", "evaluate", "info", "adapters", "data"),
    "Look inside": ("explain", "heads", "studio", "lessons"),
    "Serve and share": ("serve", "keys", "export", "import"),
    "Compare": ("ladder", "ablate", "bench"),
}
COMMANDS = tuple(command for commands in HEADINGS.values() for command in commands)


def command_line(commands: tuple[str, ...] = COMMANDS) -> typer.Typer:
    """Return the command line with these commands."""
    app = typer.Typer(
        name="glassformer",
        help="Train Transformers and their relatives on your own data, use them, and inspect every tensor inside them.",
        no_args_is_help=True,
        add_completion=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_before_every_command)
    headings = {command: heading for heading, under in HEADINGS.items() for command in under}
    for name in commands:
        module = import_module(f"glassformer.cli.{_python_name(name)}")
        if hasattr(module, "app"):  # a group of commands
            for one in module.app.registered_commands:
                one.help = _help(one.callback)
            app.add_typer(module.app, name=name, rich_help_panel=headings[name])
        else:
            command = getattr(module, _python_name(name))
            app.command(name, help=_help(command), rich_help_panel=headings[name])(command)
    return app


def _python_name(command: str) -> str:
    return f"{command}_" if keyword.iskeyword(command) else command


def _help(command: Callable[..., None]) -> str:
    """Return the docstring of a command with one line per paragraph, which the terminal wraps."""
    paragraphs = (inspect.getdoc(command) or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def _print_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        print(f"glassformer {version('glassformer')}")
        raise typer.Exit


def _before_every_command(
    _: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None: ...


def main() -> None:
    """Run a command. User errors end with exit code 2 and one message, without a traceback."""
    _open_streams()
    machine.limit_spinning()
    machine.limit_kernel_caches()
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "1")  # the search for plugins takes 30 ms
    try:
        try:
            refuse_bytes(*sys.argv[1:])
            _app_for(sys.argv[1:])(pair_up(sys.argv[1:]))  # reports wrong commands and options itself
        finally:
            print(end="", flush=True)  # flush here, where a full disk or a closed pipe can still be handled
    except UserError as error:
        sys.exit(_print_error(error))
    except OSError as error:
        _discard_output()
        if isinstance(error, BrokenPipeError):  # the reader closed the pipe, as `head` does
            sys.exit(1)
        sys.exit(_print_error(_os_error(error)))
    except (MemoryError, RuntimeError) as error:
        if not out_of_memory(error):
            raise
        hint = "reduce model.d_model, model.d_ff, tokenizer.vocab, train.batch_tokens or --beam"
        sys.exit(_print_error(UserError("Not enough memory.", where=str(error), hint=hint)))


def _app_for(arguments: list[str]) -> typer.Typer:
    """Return the command line with the given command alone, which starts faster, or with all commands."""
    return command_line((arguments[0],) if arguments and arguments[0] in COMMANDS else COMMANDS)


def _open_streams() -> None:
    """Write UTF-8 independent of the locale, and handle a stream that was closed before the program started."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")  # file names may be any bytes
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 (open until the process ends)
    if sys.stdout is None:
        sys.stdout = _Closed()


class _Closed(io.StringIO):
    """A closed standard output: writing to it fails, as it does for every other program."""

    def write(self, text: str) -> int:
        if not text:  # a flush
            return 0
        raise OSError(errno.EBADF, os.strerror(errno.EBADF), "standard output")


def _os_error(error: OSError) -> UserError:
    where = error.filename or "standard output"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return write_error(Path(where), error)
    message = f"The operating system reported: {error.strerror or error}."
    return UserError(message, where=str(where), hint="check that the file exists and that you have permission")


def _discard_output() -> None:
    """Discard unwritten output; otherwise Python tries to write it again at exit and reports another error."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _print_error(error: UserError) -> int:
    from rich.console import Console

    console = Console(stderr=True, highlight=False, soft_wrap=True)
    process = f"process {os.environ['RANK']}: " if os.environ.get("RANK", "0") != "0" else ""
    console.print(f"{process}error: ", style="bold red", end="")
    console.print(str(error), markup=False)
    return 2
