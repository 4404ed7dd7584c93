"""API keys: created once, shown once, stored as hashes.

A key is 256 random bits, so a plain SHA-256 cannot be inverted; slow password hashes are for secrets that people
choose. The file contains no key, only its hash.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import secrets
import stat
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from glassformer.errors import UserError
from glassformer.files import read_json, write_text

PREFIX = "gf_"
NAME = re.compile(r"[\w.@-]{1,64}")
ENVIRONMENT = "GLASSFORMER_API_KEY"


@dataclass(frozen=True)
class Key:
    """A stored key.

    Attributes:
        hash: SHA-256 of the key, in hexadecimal.
        requests_per_minute: its own rate limit; None for the limit of the service.
        admin: it may reload models.
    """

    name: str
    hash: str
    created: str
    requests_per_minute: int | None = None
    admin: bool = False


class KeyStore:
    """The keys of a file, and one from the environment. The file is read again by `reload`."""

    def __init__(self, path: Path | None, secret: str | None = None) -> None:
        self.path, self._secret = path, secret
        self.keys: list[Key] = []
        self.reload()

    def reload(self) -> None:
        """Read the file again."""
        keys = _read(self.path) if self.path is not None else []
        if self._secret:
            keys.append(Key(ENVIRONMENT, hash_key(self._secret), "", admin=True))
        self.keys = keys

    def find(self, secret: str) -> Key | None:
        """Return the key with this secret. The time does not depend on how much of a hash agrees."""
        digest = hash_key(secret)
        found = None
        for key in self.keys:
            if hmac.compare_digest(key.hash, digest):
                found = key
        return found


def hash_key(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def default_path() -> Path:
    """Return the file of the keys: ~/.config/glassformer/keys.json."""
    home = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(home) / "glassformer" / "keys.json"


def add_key(path: Path, name: str, *, requests_per_minute: int | None = None, admin: bool = False) -> str:
    """Create a key and return it. Only its hash is stored."""
    if not NAME.fullmatch(name):
        raise UserError(f"The name {name!r} is not valid.", where="NAME", hint="use letters, digits, . @ _ and -")
    keys = _read(path) if path.exists() else []
    if any(key.name == name for key in keys):
        raise UserError(
            f"There is already a key named {name}.", where=str(path), hint=f"glassformer keys remove {name}"
        )
    secret = PREFIX + secrets.token_urlsafe(32)
    created = datetime.now(UTC).isoformat(timespec="seconds")
    _write(path, [*keys, Key(name, hash_key(secret), created, requests_per_minute, admin)])
    return secret


def remove_key(path: Path, name: str) -> None:
    """Delete a key. The service stops accepting it after SIGHUP."""
    keys = _read(path)
    if all(key.name != name for key in keys):
        raise UserError(f"There is no key named {name}.", where=str(path), hint="glassformer keys list")
    _write(path, [key for key in keys if key.name != name])


def list_keys(path: Path) -> list[Key]:
    """Return the stored keys without their hashes."""
    return [replace(key, hash="") for key in (_read(path) if path.exists() else [])]


def _read(path: Path) -> list[Key]:
    hint = "create a key with glassformer keys add NAME"
    try:
        raw: Any = read_json(path, "The file of the API keys", hint)
    except FileNotFoundError:
        raise UserError("There is no file of API keys.", where=str(path), hint=hint) from None
    try:
        keys = [Key(**one) for one in raw]
    except TypeError:
        raise UserError("The file of the API keys is damaged.", where=str(path), hint=hint) from None
    _refuse_readable(path)
    return keys


def _refuse_readable(path: Path) -> None:
    """Refuse a file that other users may change: they could add keys of their own."""
    if os.name == "posix" and path.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise UserError("Other users may write the file of the API keys.", where=str(path), hint=f"chmod 600 {path}")


def _write(path: Path, keys: list[Key]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_text(path, json.dumps([asdict(key) for key in keys], indent=1) + "\n")
    path.chmod(0o600)
