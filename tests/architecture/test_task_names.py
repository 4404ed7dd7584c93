"""The name of a task occurs only in its own file: every other module reads the task's `TaskSpec`."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from glassformer.settings import tasks
from glassformer.settings.aliases import TASKS
from glassformer.settings.tasks import DEFAULT_TASK
from glassformer.tasks import TABLE

PACKAGE = Path(__file__).parents[2] / "glassformer"
OUTPUT_FIELDS = {  # "translation" is also a field of JSON output
    "lab/ladder/measurements.py": "translation",
    "lab/ladder/report.py": "translation",
    "cli/translate.py": "translation",
}
NOT_ONLY_TASKS = {"answers", "images", "vectors"}  # old names that are also ordinary words: SQuAD's key, tensor names …


def strings_of(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def test_no_other_module_names_a_task() -> None:
    names = {spec.name for spec in TABLE} | set(TASKS) - NOT_ONLY_TASKS
    found = set()
    for path in PACKAGE.rglob("*.py"):
        file = path.relative_to(PACKAGE).as_posix()
        if not file.startswith("tasks/") and file not in ("settings/aliases.py", "settings/tasks.py"):
            found |= {(file, name) for name in strings_of(path) & names}
    assert found == set(OUTPUT_FIELDS.items())


def test_no_script_of_the_studio_names_a_task() -> None:
    names = {spec.name for spec in TABLE}
    scripts = (PACKAGE / "studio" / "static" / "js").rglob("*.js")
    found = {(path.name, name) for path in scripts for name in names if f'"{name}"' in path.read_text(encoding="utf-8")}
    assert found == set()


@pytest.mark.parametrize("spec", TABLE, ids=lambda spec: spec.name)
def test_a_task_is_named_in_its_own_file_only(spec: object) -> None:
    name = spec.name  # type: ignore[attr-defined]
    naming = [path.name for path in (PACKAGE / "tasks").glob("*.py") if name in strings_of(path)]
    assert naming == [f"{name}.py"]


def test_the_table_is_the_registry() -> None:
    assert list(tasks().values()) == list(TABLE)
    assert TABLE[0].name == DEFAULT_TASK
