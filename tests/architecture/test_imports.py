"""Imports point one way. A door in the wrong wall fails here."""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "glassformer"

# From the ground up. A room may open doors into rooms before it, and into its own.
GROUND = ["errors", "files", "settings", "machine"]
ROOMS = [
    *GROUND,
    "reference",
    "nn",
    "text",
    "images",
    "metrics",
    "models",
    "decoding",
    "glass",
    "run",
    "translator",
    "answerer",
    "predictor",
    "workers",
    "shares",
    "sizes",
    "planning",
    "tasks",
    "training",
    "interop",
    "lab",
    "studio",
    "cli",
]
# Rooms on the same floor that must not know each other.
STRANGERS = {
    "reference": {*GROUND},
    "nn": {"text", "settings"},
    "text": {"nn"},
    "images": {"nn"},
    "decoding": {"models", "text", "nn", "settings"},
    "models": {"decoding", "text"},
    "glass": {"models", "text", "decoding"},
}


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_rooms(path: Path) -> set[str]:
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == "glassformer":
            rooms |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("glassformer."):
            rooms.add(str(node.module).split(".")[1])
        elif isinstance(node, ast.Import):
            rooms |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("glassformer.")}
    return rooms


def doors() -> list[tuple[Path, str, str]]:
    return [(path, room_of(path), other) for path in files() for other in imported_rooms(path)]


def files() -> list[Path]:
    return [path for path in PACKAGE.rglob("*.py") if room_of(path) not in ("__init__", "__main__")]


def test_every_room_is_on_the_plan() -> None:
    assert {room_of(path) for path in files()} == set(ROOMS)


def test_imports_point_down() -> None:
    wrong = [f"{path}: {room} → {other}" for path, room, other in doors() if ROOMS.index(other) > ROOMS.index(room)]
    assert not wrong


def test_strangers_stay_strangers() -> None:
    assert not [f"{path}: {room} → {other}" for path, room, other in doors() if other in STRANGERS.get(room, set())]


def test_only_the_command_line_prints() -> None:
    talkers = [
        str(path)
        for path in PACKAGE.rglob("*.py")
        if room_of(path) != "cli"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]
    assert not talkers
