"""The command `glassformer studio`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from glassformer.cli.demo import free_folder, train_phrasebook
from glassformer.cli.listening import address_of, listen

PORT = 8000


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
        hint = 'pip install "glassformer[studio]"'
        raise UserError(f"The studio needs the package {error.name}, which is not installed.", hint=hint) from None
    for run in runs or []:
        load_settings(RunFolder(run))  # report a wrong folder immediately
    listening = listen(host, port, default=PORT)
    server = uvicorn.Server(uvicorn.Config(application(runs or [_phrasebook()]), log_level="warning"))
    address = address_of(host, listening)
    print(f"the studio is running at {address}  (Ctrl-C stops it)", flush=True)
    if browser:
        import webbrowser

        webbrowser.open(address)  # the socket is already listening, so the browser waits for the server
    server.run(sockets=[listening])


def _phrasebook() -> Path:
    """Return the run of the demo; train it if there is none."""
    finished = sorted(card.parent for card in Path("runs").glob("demo-en-fr*/README.md"))
    return finished[0] if finished else train_phrasebook("fr", free_folder("fr")).path
