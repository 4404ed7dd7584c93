"""The public interface is what docs/compatibility.md promises; a change is made deliberately or not at all."""

from __future__ import annotations

import difflib
import inspect

import pytest

pytest.importorskip("fastapi", reason="the service is an extra")
pytest.importorskip("py3langid", reason="the service is an extra")

import public_api

UPDATE = "python tests/compat/public_api.py"


def test_the_public_interface_is_the_recorded_one() -> None:
    recorded, found = public_api.SNAPSHOT.read_text(encoding="utf-8"), public_api.public_api()
    changes = difflib.unified_diff(recorded.splitlines(), found.splitlines(), "recorded", "found", n=1, lineterm="")
    assert found == recorded, "\n".join(
        ["The public interface changed. A removed or renamed name needs a deprecation (docs/compatibility.md).",
         f"If the change is meant, record it: {UPDATE}", *changes]
    )  # fmt: skip


class Base:
    def old(self, size: int = 3) -> str:
        return str(size)


class Derived(Base):
    @property
    def width(self) -> int:
        return 1


def test_signatures_are_written_as_in_the_source(monkeypatch: pytest.MonkeyPatch) -> None:
    sources = {one: inspect.getsource(one) for one in (Base, Derived)}
    for one in sources:
        monkeypatch.setattr(one, "__module__", "glassformer.tests")
    monkeypatch.setattr(inspect, "getsource", lambda one: sources[one])
    inherited = list(public_api.class_lines("Derived", Derived, set()))
    assert inherited == ["Derived", "    width: int", "    old(self, size: int=3) -> str"]
    assert list(public_api.class_lines("Derived", Derived, {Base})) == ["Derived(Base)", "    width: int"]
