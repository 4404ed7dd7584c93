"""The recurrent, gradient, contrast, embeddings and image views, and sampling, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from taking import can_be_taken_away

import glassformer as gf

TEXT = "I am a student"
CHANGED = "before => ![before, undefined].includes(document.querySelector('main h2')?.textContent)"


@pytest.fixture(scope="module")
def address(serve: Any, lesson_runs: list[Path]) -> Iterator[str]:
    with serve(lesson_runs) as where:
        yield where


@pytest.fixture(scope="module")
def run_of(lesson_runs: list[Path]) -> dict[str, Path]:
    return {run.name: run for run in lesson_runs}


def number(text: str) -> float:
    return float(text.replace("−", "-").replace("+", ""))


def chosen_value(page: Any) -> float:
    """The value of the chosen cell; the value recomputed from its operands is the same."""
    page.locator(".cell h3 strong").wait_for()
    value = number(page.locator(".cell h3 strong").inner_text())
    again = page.get_by_text("Recomputed from these operands").inner_text().split(": ")[1].split(". ")[0]
    assert number(again) == pytest.approx(value, rel=1e-4, abs=1e-7)
    return value


def test_a_bottleneck_and_its_gates(open_page: Any, run_of: dict[str, Path]) -> None:
    page = open_page("#/recurrent?run=lstm&text=I+am+a+student&tensor=encoder.0.forget_gate&cell=2,5")
    trace = gf.load(run_of["lstm"]).trace(TEXT)
    assert chosen_value(page) == pytest.approx(float(trace["encoder.0.forget_gate"][2, 5]), rel=1e-5)
    assert page.locator(".chain.encoder .state").count() == len(trace.source)
    assert page.locator(".chain.encoder .token").all_inner_texts() == ["I", "am", "a", "student", "<eos>"]
    assert "5 tokens are compressed into 96 numbers" in page.locator(".notice").inner_text()
    page.locator(".context.only").click()
    page.get_by_role("checkbox", name="exact tensor names").check()
    page.get_by_text("encoder.0.last_hidden_state").first.wait_for()
    page.locator('[data-tensor="encoder.0.cell_state"]').click()
    page.locator(".detail:not([inert]) .field").focus()
    page.keyboard.press("ArrowRight")
    assert chosen_value(page) == pytest.approx(float(trace["encoder.0.cell_state"][0, 0]), rel=1e-5)
    assert "cell=0%2C0" in page.url


def test_energies_become_weights_and_a_context_vector(open_page: Any, run_of: dict[str, Path]) -> None:
    page = open_page("#/recurrent?run=gru-additive&text=I+am+a+student")
    trace = gf.load(run_of["gru-additive"]).trace(TEXT)
    assert page.locator(".context.only").count() == 0
    page.get_by_label("Decoder step").select_option("2")
    page.get_by_text("Step 3: energies → softmax → weights → context vector").wait_for()
    shown = [float(bar.get_attribute("title")) for bar in page.locator(".energies .number").all()]
    assert shown == pytest.approx(trace["decoder.cross.weights"][0, 2].tolist(), rel=1e-5)
    page.locator(".masks .field").first.focus()
    page.keyboard.press("ArrowRight")
    assert chosen_value(page) == pytest.approx(float(trace["decoder.cross.energies"][0, 0, 0]), rel=1e-5)


def test_directions_are_named(open_page: Any) -> None:
    page = open_page("#/recurrent?run=elmo&text=I+am+a+student&tensor=backwards.0.hidden_state")
    titles = page.locator(".stack h2").all_inner_texts()
    assert titles == ["Encoder, layer 1, forward, LSTM", "Encoder, layer 1, backward, LSTM"]
    assert page.locator(".state.backwards").count() == 6
    rows = page.locator(".detail .down span").all_inner_texts()
    assert rows == ["<eos>", "student", "a", "am", "I", "<sos>"]


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        ("lstm", ["Input of the first layer", "LSTM"]),
        ("bigru", ["Input of the first layer", "GRU, forward", "GRU, backward", "Concatenate directions"]),
        ("elmo", ["Input of the first layer", "LSTM, forward", "Reverse the order", "LSTM, backward",
                  "Reverse the order", "Encoder output (memory)"]),
    ],
)  # fmt: skip
def test_recurrent_blocks_are_named_in_the_order_of_computation(open_page: Any, run: str, expected: list[str]) -> None:
    page = open_page(f"#/worksheet?run={run}&text=I+am+a+student")
    blocks = page.locator(".block").evaluate_all("""all => all.map(one => {
      const { x, y } = one.getBoundingClientRect();
      return { x, y, text: [...one.querySelectorAll('text')].map(line => line.textContent).join(' ') };
    })""")
    left = min(block["x"] for block in blocks)
    encoder = [one["text"] for one in sorted(blocks, key=lambda one: -one["y"]) if one["x"] < left + 5]
    assert encoder[1 : 1 + len(expected)] == expected
    arrows = page.locator(".arrow").evaluate_all("all => all.map(({ dataset }) => [dataset.from, dataset.to])")
    assert not {("encoder.0.forwards", "encoder.0.backwards"), ("forwards.0", "backwards:input")} & set(
        map(tuple, arrows)
    )


def test_gradients_of_blocks_heads_and_over_time(open_page: Any) -> None:
    page = open_page("#/gradient?run=demo&text=I+am+a+student&kind=encoder&layer=1")
    page.get_by_text("Gradient norm of each block").wait_for()
    assert page.locator(".bar.gradient").count() > 20
    page.get_by_role("button", name="Through one head").click()
    page.locator('[data-tensor="gradient.encoder.1.self.scaled_scores"]').click()
    page.locator(".detail:not([inert]) .field").focus()
    page.keyboard.press("ArrowRight")
    chosen_value(page)
    assert "Σ weights·gradient" in page.locator(".cell .formula").first.inner_text()
    difference = page.locator(".worksheet .readout").first.inner_text().split(": ")[1]
    assert number(difference) < 1e-6
    page.locator(".operand button", has_text="∂L/∂(attention weights)").click()
    page.locator(".formula", has_text="gradient of the head output · Vᵀ").wait_for()
    page.get_by_role("button", name="Vanishing gradient").click()
    page.wait_for_function("() => document.querySelectorAll('svg.curves polyline.curve').length === 7")


def test_another_target_gives_another_loss(open_page: Any) -> None:
    page = open_page("#/gradient?run=demo&text=I+am+a+student")
    before = page.locator("h2", has_text="Loss").inner_text()
    page.get_by_label("Target").fill("Je suis un chat")
    page.get_by_role("button", name="Use as target").click()
    page.wait_for_function(CHANGED, arg=before)
    names = page.locator("section:has(.bar.loss) .name").all_inner_texts()
    assert "".join(names).replace("▁", "") == "Jesuisunchat<eos>"


@pytest.mark.parametrize("run", ["demo", "gpt"])
def test_the_shares_of_two_tokens_add_up(open_page: Any, run: str) -> None:
    page = open_page(f"#/contrast?run={run}&text=I+am+a+student&step=1")
    page.get_by_text("Sum of all parts").wait_for()
    said = page.get_by_text("Sum of all parts").inner_text()
    parts = [number(bar.inner_text()) for bar in page.locator(".wide-names .number").all()]
    total, difference = (number(part.split(": ")[1]) for part in said.split("; "))
    assert total == pytest.approx(difference, abs=2e-3) and sum(parts) == pytest.approx(total, abs=6e-3)
    title = page.locator("main h2").first.inner_text()
    page.get_by_label("Token B").select_option(index=4)
    page.wait_for_function(CHANGED, arg=title)
    page.locator(".field").first.focus()
    page.keyboard.press("ArrowRight")
    page.get_by_text("Attended tokens: masked self-attention, layer 1, head 1").wait_for()
    assert page.get_by_text("Ablation: the difference without one head").is_visible()


def test_a_language_model_continues_a_text(open_page: Any) -> None:
    page = open_page("#/decode?run=gpt&text=The+animal")
    page.get_by_role("button", name="Continue (greedy)").click()
    page.locator(".sampled mark").wait_for()
    greedy = page.locator(".sampled p").inner_text()
    page.get_by_role("button", name="Sample", exact=True).click()
    page.wait_for_function("() => document.querySelectorAll('.sampled p').length === 2")
    assert (
        greedy.startswith("The animal") and "temperature 1, top-k all" in page.locator(".sampled p").first.inner_text()
    )
    page.get_by_role("link", name="use as input").last.click()
    page.wait_for_function("() => document.querySelector('#text').value.length > 'The animal'.length")


def test_a_masked_language_model_says_how_to_write_a_blank(open_page: Any) -> None:
    page = open_page("#/decode?run=bert")
    assert "___ (or [MASK])" in page.get_attribute("#text", "placeholder")
    page.fill("#text", "I am a student")
    page.keyboard.press("Enter")
    page.get_by_text("The text has no blank.").wait_for()
    page.fill("#text", "I am a [MASK]")
    page.keyboard.press("Enter")
    page.get_by_text("The text has no blank.").wait_for(state="detached")
    page.get_by_role("link", name="The ___ is small.").click()
    page.wait_for_function("() => document.querySelector('#text').value === 'The ___ is small.'")


def test_an_example_image_its_patches_and_attention(open_page: Any) -> None:
    page = open_page("#/image?run=vit&image=3&layer=0")
    assert page.locator(".overlay span").count() == 16 and page.locator(".thumb").count() == 8
    weights = page.locator(".overlay span").evaluate_all("cells => cells.map(cell => Number(cell.title))")
    assert 0 < sum(weights) <= 1.01
    page.locator(".patches").focus()
    page.keyboard.press("ArrowDown")
    page.get_by_role("heading", name="Patch 2,1 (row, column) attends to the patches: layer 1, head 1").wait_for()
    page.get_by_role("link", name="Example: 0").click()
    page.get_by_role("heading", name="Class token attends to the patches").wait_for()  # the view of the new image
    assert "image=0" in page.url
    page.get_by_role("checkbox", name="Show the image").uncheck()
    page.locator(".picture").wait_for(state="detached")
    page.get_by_role("checkbox", name="Show the attention weights").uncheck()
    transparent = "cells => cells.every(cell => getComputedStyle(cell).backgroundColor === 'rgba(0, 0, 0, 0)')"
    page.locator(".overlay.bare").wait_for()
    assert page.locator(".overlay span").evaluate_all(transparent)
    can_be_taken_away(page, ".two > section:first-child", rows=4)
    assert page.get_by_role("link", name="Embeddings").count() == 0
    page.get_by_role("link", name="Worksheet").click()
    page.locator(".detail", has_text="The image is split into patches").wait_for()
    assert page.locator(".detail h3").all_inner_texts() == ["Encoder input", "Prediction", "Where to start"]


def test_embeddings_and_their_neighbours(open_page: Any) -> None:
    page = open_page("#/embeddings?run=demo&text=I+am+a+student")
    page.get_by_text("Nearest tokens to “I”").wait_for()
    page.locator(".field").focus()
    for key in ("ArrowRight", "ArrowDown", "ArrowDown"):
        page.keyboard.press(key)
    page.get_by_text("Nearest tokens to “a”").wait_for()
    page.get_by_role("button", name="in context (encoder output)").click()
    page.wait_for_function("() => location.hash.includes('what=memory')")
