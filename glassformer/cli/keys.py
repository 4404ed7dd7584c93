"""The command `glassformer keys`: API keys of the service."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Add, remove and list the API keys of `glassformer serve`.", no_args_is_help=True)

FileOption = Annotated[Path | None, typer.Option("--file", help="file of the keys (default: in ~/.config/glassformer)")]
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="who uses the key")]


@app.command()
def add(
    name: NameArgument,
    requests_per_minute: Annotated[int | None, typer.Option(min=1, help="its own rate limit")] = None,
    admin: Annotated[bool, typer.Option("--admin", help="it may also reload models")] = False,
    file: FileOption = None,
) -> None:
    """Create a key and print it once. Only its hash is stored.

    Example: glassformer keys add laptop
    """
    from glassformer.serving.keys import add_key, default_path

    print(add_key(file or default_path(), name, requests_per_minute=requests_per_minute, admin=admin))


@app.command()
def remove(name: NameArgument, file: FileOption = None) -> None:
    """Delete a key. A running service stops accepting it after SIGHUP.

    Example: glassformer keys remove laptop
    """
    from glassformer.serving.keys import default_path, remove_key

    remove_key(file or default_path(), name)


@app.command("list")
def list_(
    file: FileOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object per line")] = False,
) -> None:
    """List the names of the keys.

    Example: glassformer keys list
    """
    from glassformer.serving.keys import default_path, list_keys

    for key in list_keys(file or default_path()):
        fields = {name: value for name, value in asdict(key).items() if name != "hash"}
        limit = f"  {key.requests_per_minute} requests per minute" if key.requests_per_minute else ""
        print(json.dumps(fields) if as_json else f"{key.name}  {key.created}{limit}{'  admin' if key.admin else ''}")
