"""The payload of an exported page (page/payload.js): sections of bytes, deflated and written as text of 7 bits each."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

_ILLEGAL = "\0\r<"  # characters that a script element cannot contain, in the order of payload.js
_PAIR = re.compile(f"([{re.escape(_ILLEGAL)}])(.?)", flags=re.DOTALL)


def write_payload(info: Mapping[str, Any], sections: Mapping[str, bytes]) -> str:
    """Return a description of the run and its sections as the text that `readPayload` of payload.js reads."""
    places, offset = {}, 0
    for name, content in sections.items():
        places[name] = (offset, len(content))
        offset += len(content)
    described = json.dumps({**info, "sections": places}, ensure_ascii=False, separators=(",", ":")).encode()
    content = len(described).to_bytes(4, "little") + described + b"".join(sections.values())
    deflated = zlib.compress(content, 9)
    return f"{len(deflated)} {encode_text(deflated)}"


def encode_text(content: bytes) -> str:
    """Return bytes as 7-bit characters; a forbidden character is combined with the next one into a single character.

    UTF-8 stores 8 bytes per 7 bytes of content; Base64 would take 9.3.
    """
    bits = np.unpackbits(np.frombuffer(content, np.uint8))
    padded = np.pad(bits, (0, -len(bits) % 7)).reshape(-1, 7)
    values = np.packbits(padded, axis=1).ravel() >> 1
    return _PAIR.sub(_join, values.tobytes().decode("ascii"))


def _join(pair: re.Match[str]) -> str:
    return chr(128 + 128 * _ILLEGAL.index(pair[1]) + ord(pair[2] or "\0"))
