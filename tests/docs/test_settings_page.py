"""The page of settings has every one of them, with its values, its default and its meaning as they are in the code."""

from __future__ import annotations

import re

from settings_page import PAGE, updated

from glassformer.settings import setting_names, tasks


def test_the_tables_are_those_of_the_code() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == updated(page), "update the page: python docs/hooks/settings_page.py"
    assert set(setting_names()) <= {*re.findall(r"`(\w+(?:\.\w+)?)`", page)}


def test_every_task_and_family_is_named() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for task, spec in tasks().items():
        assert f"| `{task}` | {', '.join(f'`{family}`' for family in spec.families)} |" in page
