"""The sockets that the studio and the service listen on."""

from __future__ import annotations

import errno
import socket

from glassformer.errors import UserError

TRIED = 20  # number of ports to try


def listen(host: str, port: int | None, *, default: int) -> socket.socket:
    """Return a listening socket at this port, or at the default or the next free one if no port was given."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for tried in range(default, default + TRIED) if port is None else [port]:
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
    taken = f"Port {port} is" if port is not None else f"The ports from {default} to {default + TRIED - 1} are"
    raise UserError(
        f"{taken} in use or not permitted.", where="--port", hint="choose another port, such as --port 8123"
    )


def address_of(host: str, listening: socket.socket) -> str:
    """Return the address of the page for a browser on this machine."""
    name = "localhost" if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host
    return f"http://{name}:{listening.getsockname()[1]}/"
