"""Options of the service: limits of requests, and access."""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path

from glassformer.errors import UserError
from glassformer.serving.keys import KeyStore


@dataclass(frozen=True)
class Limits:
    """Limits of one request. A request beyond a limit is refused with a message that names it.

    Attributes:
        body: bytes of the request body, uploaded files included.
        characters: characters of all texts of a request.
        sentence: characters of a sentence.
        texts: number of texts.
        beam: beam size, and the number of hypotheses.
        tokens: tokens of a completion.
        terms: entries of a glossary.
        seconds: time until the response is complete.
        requests_per_minute: per key, or per address without keys; 0 for no limit.
    """

    body: int = 4 * 2**20
    characters: int = 50_000
    sentence: int = 2_000
    texts: int = 256
    beam: int = 16
    tokens: int = 2_048
    terms: int = 200
    seconds: float = 60.0
    requests_per_minute: int = 0


@dataclass(frozen=True)
class ServeOptions:
    """How the service runs.

    Attributes:
        languages: (source, target) by model name, where they are not to be read from the run.
        keys: the keys that requests must carry; None if none are needed.
        host_names: names in the Host header that are accepted, besides IP addresses and the names of this machine.
        origins: web pages of other origins that may use the service (CORS).
        log_text: write the texts of requests into the log.
        drain_seconds: time for running requests after SIGTERM.
        ready_delay: seconds after SIGTERM in which connections are still accepted while /ready returns 503.
    """

    limits: Limits = field(default_factory=Limits)
    languages: dict[str, tuple[str, str]] = field(default_factory=dict)
    keys: KeyStore | None = None
    host_names: frozenset[str] = frozenset()
    origins: frozenset[str] = frozenset()
    log_text: bool = False
    drain_seconds: float = 30.0
    ready_delay: float = 0.0


def is_loopback(host: str) -> bool:
    """Return whether only this machine can connect to an address."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def refuse_open_address(host: str, *, has_keys: bool, insecure: bool, keys_file: Path) -> None:
    """Refuse to listen on an address that others can reach, unless keys are required or it is explicitly allowed."""
    if not (is_loopback(host) or has_keys or insecure):
        raise UserError(
            f"Anyone who can reach {host} could use the service: no API key is required.",
            where="--host",
            hint=f"create a key with glassformer keys add NAME (written to {keys_file}), set GLASSFORMER_API_KEY, "
            "or allow it with --insecure",
        )
