"""Checks of HTTP requests that the studio and the service share. Nothing heavy is imported here."""

from __future__ import annotations

import socket
from ipaddress import ip_address
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator

# Sent with every response. No page of Glassformer loads anything from another host.
SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' blob:; frame-ancestors 'self'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


def is_local(host: str) -> bool:
    """Return whether a Host header is an IP address or a name of this machine, which no other site can use.

    Another web page can make a browser send requests here. It cannot read the responses unless its own domain name
    resolves to this machine (DNS rebinding). In that case the Host header contains that name.
    """
    try:
        name = host_name(host)
        if name in ("localhost", socket.gethostname().lower()):
            return True
        ip_address(name)
    except ValueError:
        return False
    return True


def host_name(host: str) -> str:
    """Return the name of a Host header without the port, in lower case. ValueError if it is malformed."""
    return urlsplit(f"//{host}").hostname or ""


def is_own_origin(origin: str | None, host: str) -> bool:
    """Return whether a request comes from no web page, or from a page of this server."""
    return origin in (None, f"http://{host}", f"https://{host}")


def check_encodable(text: str) -> str:
    """Refuse lone surrogates, which JSON can escape but which are no characters: no tokenizer can encode them."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("not valid Unicode") from None
    return text


Text = Annotated[str, AfterValidator(check_encodable)]
