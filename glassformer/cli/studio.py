"""glassformer studio"""

from __future__ import annotations

import errno
import socket
from pathlib import Path
from typing import Annotated

import typer

from glassformer.cli.demo import free_folder, train_phrasebook

PORT = 8000
TRIED = 20  # ports after it, where somebody else has it


def studio(
    runs: Annotated[list[Path] | None, typer.Argument(metavar="RUN …", help="folders that train wrote")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help=f"{PORT} or the next that is free")] = None,
    host: Annotated[str, typer.Option(help="who may come: 127.0.0.1 is this machine alone")] = "127.0.0.1",
    browser: Annotated[bool, typer.Option(help="open the page")] = True,
) -> None:
    """Open a page that looks through models: every number of a sentence on its way, and where each came from.

    Example: glassformer studio runs/en-de

    With no RUN it shows the phrasebook's model, which is trained on first use (about two minutes).
    """
    from glassformer.errors import UserError
    from glassformer.inference.run_folder import RunFolder, load_settings

    try:
        import uvicorn

        from glassformer.studio.app import studio as application
    except ModuleNotFoundError as error:
        raise UserError(f"The studio needs {error.name}.", hint='pip install "glassformer[studio]"') from None
    for run in runs or []:
        load_settings(RunFolder(run))  # a wrong folder is said at once
    listening = _listen(host, port)
    server = uvicorn.Server(uvicorn.Config(application(runs or [_phrasebook()]), log_level="warning"))
    address = f"http://{_named(host)}:{listening.getsockname()[1]}/"
    print(f"the studio is at {address}  (Ctrl-C ends it)", flush=True)
    if browser:
        import webbrowser

        webbrowser.open(address)  # the port listens already, so the page waits until it is answered
    server.run(sockets=[listening])


def _phrasebook() -> Path:
    """The run that the demo leaves behind; trained here where there is none."""
    finished = sorted(card.parent for card in Path("runs").glob("demo-en-fr*/README.md"))
    return finished[0] if finished else train_phrasebook("fr", free_folder("fr")).path


def _listen(host: str, port: int | None) -> socket.socket:
    """A socket at this port; at the next free one, if nobody said which."""
    from glassformer.errors import UserError

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for tried in range(PORT, PORT + TRIED) if port is None else [port]:
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, tried))
            listening.listen()
        except OSError as error:
            listening.close()
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                hint = "take 127.0.0.1, 0.0.0.0 or an address of this machine"
                raise UserError(f"The studio cannot be at {host}: {error}.", where="--host", hint=hint) from None
        else:
            return listening
    taken = f"Port {port} is" if port is not None else f"The ports from {PORT} to {PORT + TRIED - 1} are"
    raise UserError(f"{taken} taken, or not for you.", where="--port", hint="take another, such as --port 8123")


def _named(host: str) -> str:
    """What a person types into the browser."""
    if host in ("0.0.0.0", "::"):
        return "localhost"
    return f"[{host}]" if ":" in host else host
