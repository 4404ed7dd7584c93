"""The self-contained page of a trace (glass/static/page.js) in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from glassformer.glass.html import page as page_of
from glassformer.glass.trace import Trace, trace_teacher_forced

SOS, EOS = 1, 2
SOURCE, TARGET = [7, 11, 5, EOS], [SOS, 13, 17, 19, 23]


@pytest.fixture
def model(tiny_model: Any) -> Any:
    return tiny_model()


@pytest.fixture
def found(model: Any) -> Trace:
    return trace_teacher_forced(
        model, lambda ids: [{SOS: "<sos>", EOS: "<eos>"}.get(i, f"▁w{i}") for i in ids], SOURCE, TARGET
    )


@pytest.fixture
def page(chromium: Any, found: Trace, tmp_path: Path) -> Iterator[Any]:
    file = tmp_path / "trace.html"
    file.write_text(page_of(found), encoding="utf-8")
    opened = chromium.new_page()
    errors: list[str] = []
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    opened.goto(file.as_uri())
    yield opened
    opened.close()
    assert not errors


def test_attention_weights_of_one_head_and_of_the_mean(page: Any, found: Trace) -> None:
    layer = found.attention_layer("cross")
    readout = page.locator("#readout")
    cell = page.locator("#grid tbody td").nth(1)
    page.select_option("#head", "0")
    cell.hover()
    assert readout.inner_text().endswith(f": {float(found[layer.name][0, 0, 1])}")
    page.select_option("#head", "mean")
    cell.hover()
    assert float(readout.inner_text().rpartition(" ")[2]) == pytest.approx(float(found[layer.name][:, 0, 1].mean()))
    page.select_option("#head", "all")
    assert page.locator("#grid table").count() == len(found[layer.name])
    page.select_option("#kind", "encoder")
    assert page.locator("#grid table").first.locator("tbody tr").count() == len(SOURCE)


def test_a_tensor_with_its_formula_its_numbers_and_its_parents(page: Any, found: Trace) -> None:
    page.fill("#filter", "encoder.0.self.scores")
    assert page.locator("#names tr").count() == 1
    page.locator("#names button").click()
    heads, rows, columns = found["encoder.0.self.scores"].shape
    assert page.locator("#tensor canvas").count() == heads
    assert "Q·Kᵀ" in page.locator("#tensor").inner_text()
    page.locator("#tensor summary").first.click()
    shown = page.locator("#tensor .exact").first.locator("td").all_inner_texts()
    numbers = found["encoder.0.self.scores"][0].flatten().tolist()
    assert [float(text) for text in shown] == numbers
    assert len(shown) == rows * columns
    page.locator("#tensor button", has_text="encoder.0.self.key").click()
    assert page.locator("#tensor h3").inner_text().startswith("encoder.0.self.key")
