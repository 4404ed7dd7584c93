"""Types of request fields."""

from __future__ import annotations

from glassformer.web_requests import Text

__all__ = ["Text"]
