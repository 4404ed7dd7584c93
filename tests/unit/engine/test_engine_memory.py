"""The native engine under AddressSanitizer and UndefinedBehaviorSanitizer, in child processes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

DAMAGED_FILES = 10_000


def test_emulated_amx_gives_the_same_int8_products_as_portable_c(sanitized: Callable[..., str]) -> None:
    if "no AVX-512" in (said := sanitized("checked_amx")):
        pytest.skip("this CPU does not run AVX-512, which the emulation is built on")
    assert said == "132 products\n"


def test_calls_of_odd_sizes_and_with_numbers_that_are_not_finite(sanitized: Callable[..., str]) -> None:
    assert sanitized("checked_calls") == "no error\n"


def test_damaged_packed_files_are_refused_or_run_without_a_memory_error(
    sanitized: Callable[..., str], tmp_path: Path
) -> None:
    """Only what was signed again, with other settings or weights that fit the size, may be opened."""
    opened = json.loads(sanitized("checked_files", str(tmp_path), str(DAMAGED_FILES)))
    assert opened.keys() == {"header_edited", "hostile", "any_weights"}
    assert opened["any_weights"] == DAMAGED_FILES // 10  # so models with hostile weights did run
