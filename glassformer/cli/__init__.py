"""The command line: one module a command. Heavy imports happen inside the commands, so that --help is quick."""

from __future__ import annotations

import os
import sys

import click
import typer

from glassformer.cli import data, demo, evaluate, explain, info, train, translate
from glassformer.errors import UserError

app = typer.Typer(
    name="glassformer",
    help="Train a Transformer on your own text, translate with it, look through it as through glass.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (demo.demo, train.train, translate.translate, evaluate.evaluate, explain.explain, info.info):
    app.command()(command)
app.add_typer(data.app, name="data")


def main() -> None:
    """Runs a command. A person's mistake ends with code 2 and one message, never with a traceback."""
    try:
        app(standalone_mode=False)
    except UserError as error:
        sys.exit(_complain(str(error)))
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        print("stopped", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output left, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)


def _complain(message: str) -> int:
    from rich.console import Console

    console = Console(stderr=True, highlight=False, soft_wrap=True)
    console.print("error: ", style="bold red", end="")
    console.print(message, markup=False)
    return 2
