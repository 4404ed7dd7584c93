"""Types of request fields."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator


def _encodable(text: str) -> str:
    """Refuse lone surrogates, which JSON can escape but which are no characters: no tokenizer can encode them."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("not valid Unicode") from None
    return text


Text = Annotated[str, AfterValidator(_encodable)]
