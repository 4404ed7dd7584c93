"""The command `glassformer studio`."""

from __future__ import annotations

import errno
import socket
from pathlib import Path
from typing import Annotated

import typer

from glassformer.cli.demo import free_folder, train_phrasebook

PORT = 8000
TRIED = 20  # number of ports to try


def studio(
    runs: Annotated[list[Path] | None, typer.Argument(metavar="RUN …", help="run folders")] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help=f"port (default: {PORT} or the next free one)")
    ] = None,
    host: Annotated[str, typer.Option(help="address to listen on; 127.0.0.1 allows only this machine")] = "127.0.0.1",
    browser: Annotated[bool, typer.Option(help="open the page in a browser")] = True,
) -> None:
    """Open a web page for inspecting models: every tensor computed for a sentence, and how it was computed.

    Example: glassformer studio runs/en-de

    Without RUN it shows the model of `glassformer demo`, which is trained on first use (about two minutes).
    """
    from glassformer.errors import UserError
    from glassformer.inference.run_folder import RunFolder, load_settings

    try:
        import uvicorn

        from glassformer.studio.app import studio as application
    except ModuleNotFoundError as error:
        raise UserError(
            f"The studio needs the package {error.name}, which is not installed.",
            hint='pip install "glassformer[studio]"',
        ) from None
    for run in runs or []:
        load_settings(RunFolder(run))  # report a wrong folder immediately
    listening = _listen(host, port)
    server = uvicorn.Server(uvicorn.Config(application(runs or [_phrasebook()]), log_level="warning"))
    address = f"http://{_named(host)}:{listening.getsockname()[1]}/"
    print(f"the studio is running at {address}  (Ctrl-C stops it)", flush=True)
    if browser:
        import webbrowser

        webbrowser.open(address)  # the socket is already listening, so the browser waits for the server
    server.run(sockets=[listening])


def _phrasebook() -> Path:
    """Return the run of the demo; train it if there is none."""
    finished = sorted(card.parent for card in Path("runs").glob("demo-en-fr*/README.md"))
    return finished[0] if finished else train_phrasebook("fr", free_folder("fr")).path


def _listen(host: str, port: int | None) -> socket.socket:
    """Return a listening socket at this port, or at the next free one if no port was given."""
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
                hint = "use 127.0.0.1, 0.0.0.0 or an address of this machine"
                raise UserError(f"Cannot listen on {host}: {error}.", where="--host", hint=hint) from None
        else:
            return listening
    taken = f"Port {port} is" if port is not None else f"The ports from {PORT} to {PORT + TRIED - 1} are"
    raise UserError(
        f"{taken} in use or not permitted.", where="--port", hint="choose another port, such as --port 8123"
    )


def _named(host: str) -> str:
    """Return the host name for the address in the browser."""
    if host in ("0.0.0.0", "::"):
        return "localhost"
    return f"[{host}]" if ":" in host else host
