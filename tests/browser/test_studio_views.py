"""What people do in the studio, done in a real browser."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from typing import Any

import pytest
from taking import can_be_taken_away, downloaded

import glassformer as gf

FROZEN = Path(__file__).parents[1] / "compat" / "runs" / "format-1"
SENTENCE = "The animal didn't cross the street because it was too tired."
IN_ADDRESS = "text=The+animal+didn%27t+cross+the+street+because+it+was+too+tired."


@pytest.fixture(scope="module")
def translator() -> Any:
    return gf.load(FROZEN)


def test_a_sentence_is_typed_and_translated(open_page: Any, translator: Any) -> None:
    page = open_page()
    page.fill("#text", SENTENCE)
    page.keyboard.press("Enter")
    expected = translator.translate([SENTENCE], beam=1)[0].text
    page.wait_for_function("text => document.querySelector('.output')?.textContent.endsWith(text)", arg=expected)
    assert IN_ADDRESS in page.url
    page.go_back()
    page.wait_for_function("() => document.querySelector('#text').value === 'I am a student'")


def test_the_figure_has_the_models_blocks(open_page: Any) -> None:
    page = open_page()
    labels = page.locator(".flow [role=button]").evaluate_all("all => all.map(one => one.dataset.block)")
    assert "encoder.0.self" in labels and "decoder.0.cross" in labels and "encoder.1.self" not in labels
    page.get_by_role("group", name="Layer").get_by_role("button", name="2").click()
    page.wait_for_selector("[data-block='encoder.1.self']")


def test_a_block_its_matrix_a_cell_and_its_operands(open_page: Any, translator: Any) -> None:
    page = open_page()
    page.click("[data-block='encoder.0.self']")
    page.get_by_role("group", name="Tensors").get_by_role("button", name="attention scores", exact=True).click()
    page.wait_for_selector(".detail[data-tensor='encoder.0.self.scores']")
    page.locator(".tensor-map .field").click(position={"x": 5, "y": 5})
    page.wait_for_selector(".operand")
    trace = translator.trace("I am a student", translator.translate(["I am a student"], beam=1)[0].text)
    said = page.locator(".cell h3 strong").inner_text().replace("−", "-")
    assert float(said) == pytest.approx(float(trace["encoder.0.self.scores"][0, 0, 0]), rel=1e-6)
    assert page.locator(".operand .role").all_inner_texts() == ["query", "key"]
    page.locator(".operand button").first.click()
    page.wait_for_selector(".detail[data-tensor='encoder.0.self.query']")
    assert "tensor=encoder.0.self.query" in page.url


def test_a_gate_of_a_recurrent_network(open_page: Any, untrained: dict[str, Path]) -> None:
    gate = "encoder.0.forwards.update_gate"
    page = open_page(f"#/worksheet?run=gru&block=encoder.0.forwards&tensor={gate}&cell=2,1")
    page.wait_for_selector(".operand")
    expected = float(gf.load(untrained["gru"]).trace("I am a student")[gate][2, 1])
    shown = float(page.locator(".cell h3 strong").inner_text().replace("−", "-"))
    assert shown == pytest.approx(expected, rel=1e-6)
    assert page.locator(".operand .role").all_inner_texts() == ["x", "w", "b", "previous", "u", "d"]
    page.get_by_text("= σ(Σ x·w + b + Σ previous·u + d)").wait_for()
    again = page.get_by_text("Recomputed from these operands").inner_text().split(": ")[1].split(". The")[0]
    assert float(again) == pytest.approx(expected, rel=1e-4)


def test_copy_as_numpy(open_page: Any) -> None:
    clipboard = ["clipboard-read", "clipboard-write"]
    page = open_page("#/worksheet?block=decoder.0.cross&tensor=decoder.0.cross.weights", permissions=clipboard)
    page.get_by_role("button", name="Copy as NumPy").click()
    page.get_by_role("button", name="Copied").wait_for()
    assert "def softmax(scores):" in page.evaluate("navigator.clipboard.readText()")


def test_a_head_is_opened_and_a_cell_is_read(open_page: Any, translator: Any) -> None:
    page = open_page(f"#/attention?kind=encoder&{IN_ADDRESS}")
    page.get_by_role("button", name="layer 2, head 4").click()
    page.get_by_role("heading", name="layer 2, head 4").wait_for()
    field = page.locator(".field")
    field.focus()
    for key in ("ArrowRight", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    trace = translator.trace(SENTENCE, translator.translate([SENTENCE], beam=1)[0].text)
    page.wait_for_function("() => document.querySelector('.readout strong')")
    said = float(page.locator(".readout strong").inner_text().replace("−", "-"))
    assert said == pytest.approx(float(trace["encoder.1.self.weights"][3, 1, 1]), rel=1e-6)
    assert "layer=1&head=3" in page.url and "row=1" in page.url
    page.reload()
    page.wait_for_selector(".token .bars")
    assert page.locator(".token .bars li").count() == len(trace.source)


def test_the_mean_of_the_heads(open_page: Any, translator: Any) -> None:
    page = open_page(f"#/attention?kind=cross&{IN_ADDRESS}")
    page.get_by_role("button", name="layer 1, mean of all heads").click()
    page.get_by_role("heading", name="layer 1, mean of all heads").wait_for()
    trace = translator.trace(SENTENCE, translator.translate([SENTENCE], beam=1)[0].text)
    mean = trace["decoder.0.cross.weights"].double().mean(dim=0)
    page.locator(".field").click(position={"x": 5, "y": 5})
    assert float(page.locator(".readout strong").inner_text()) == pytest.approx(float(mean[0, 0]), rel=1e-6)
    rows = list(csv.reader(io.StringIO(downloaded(page, "CSV", ".two > section:last-child").decode())))
    assert [float(row[2]) for row in rows[1:]] == pytest.approx(mean.flatten().tolist(), rel=1e-6)
    assert "layer=0&head=mean" in page.url
    page.reload()
    page.get_by_role("heading", name="layer 1, mean of all heads").wait_for()


def test_words_lines_and_special_tokens(open_page: Any) -> None:
    page = open_page(f"#/attention?kind=cross&{IN_ADDRESS}")
    rows = page.locator(".names.down span").all_inner_texts()
    assert rows[0].startswith("<sos> → ")  # input → predicted
    page.get_by_label("merge subwords into words").check()
    page.get_by_label("hide <sos>, <eos>").check()
    page.locator(".names.across span", has_text="tired.").wait_for()
    assert "<eos>" not in page.locator(".names.across span").all_inner_texts()
    page.get_by_role("button", name="lines").click()
    page.wait_for_selector(".lines .look", state="attached")
    page.locator(".lines [role=button]").first.press("Enter")
    page.wait_for_selector(".token .bars")


def test_the_decoder_step_by_step(open_page: Any, translator: Any) -> None:
    page = open_page(f"#/decode?{IN_ADDRESS}")
    trace = translator.trace(SENTENCE)
    page.get_by_role("button", name="Step", exact=True).click()
    page.get_by_role("heading", name="Step 2:").wait_for()
    first = trace.next_tokens(1)[1][0]
    shown = page.locator(".bars li").first
    assert shown.locator(".name").inner_text() == first.piece.lstrip("▁")
    assert float(shown.locator(".number").get_attribute("title")) == pytest.approx(first.probability, rel=1e-4)
    page.get_by_label("Temperature").fill("3")
    page.wait_for_function("p => Number(document.querySelector('.bars .number')?.title) < p", arg=first.probability)
    page.get_by_label("Top-k").fill("1")
    page.wait_for_function("() => Number(document.querySelector('.bars .number')?.title) === 1")
    page.get_by_role("button", name="Back").click()
    page.get_by_role("heading", name="Step 1:").wait_for()


def test_another_token_is_forced_and_it_goes_on(open_page: Any, translator: Any) -> None:
    page = open_page("#/decode?text=I+am+a+student")
    second = translator.trace("I am a student").next_tokens(2)[0][1]
    page.get_by_role("button", name=re.compile("^Force the token “")).first.click()
    page.wait_for_function("() => location.hash.includes('forced=0')")
    page.wait_for_selector(".chips .forced")
    expected = translator.trace("I am a student", forced={0: second.token}).written
    page.wait_for_function("n => document.querySelectorAll('.chips')[0].children.length === n", arg=len(expected))
    shown = page.locator(".chips").first.locator("span").all_inner_texts()
    assert shown == [piece.lstrip("▁") or "▁" for piece in expected]
    page.get_by_role("link", name="Undo the forced tokens").click()
    page.wait_for_function("() => !document.querySelector('.chips .forced')")


def test_a_forced_end_is_said_to_be_written(open_page: Any) -> None:
    page = open_page("#/decode?text=I+am+a+student&step=1&forced=1%3A2")
    page.get_by_text("You chose this token.").wait_for()
    assert "output “<eos>”" in page.locator("p", has_text="You chose this token.").inner_text()
    assert page.locator(".chips").first.locator("span").all_inner_texts()[1:] == ["<eos>"]


def _lines(grid: Any) -> list[str]:
    """The tokens of the two lines of a grid, each without its label."""
    tokens = grid.locator("span").all_inner_texts()
    return [" ".join(tokens[: len(tokens) // 2]), " ".join(tokens[len(tokens) // 2 :])]


def test_teacher_forcing_and_free_running(open_page: Any, translator: Any) -> None:
    page = open_page("#/decode?text=I+am+a+student")
    page.fill("#given", "Je mange")
    page.get_by_role("button", name="Compare").click()
    step = translator.compare_teacher_forcing("I am a student", "Je mange").divergence
    page.get_by_text(f"They diverge at step {step + 1}").wait_for()
    assert page.locator(".run .now").count() == 2
    read, target = (line.split() for line in _lines(page.locator(".shifted").first))
    assert read[:1] + target == [*read, "<eos>"]  # the decoder reads the target, shifted right by one position
    page.reload()  # the comparison is part of the address
    page.get_by_text(f"They diverge at step {step + 1}").wait_for()


def test_the_beam_as_a_tree(open_page: Any, translator: Any) -> None:
    page = open_page("#/decode?text=I+am+a+student")
    page.locator(".fold > summary").click()
    page.wait_for_selector(".tree .node")
    tree = translator.search("I am a student", beam=4)
    assert page.locator(".tree .node").count() == len(tree.nodes)
    page.locator(".tree .node").nth(1).press("Enter")
    assert "log-probability" in page.locator(".fold .readout").inner_text()


@pytest.mark.parametrize(
    ("where", "within"),
    [
        ("#/worksheet", ".worksheet > section:first-child"),
        ("#/worksheet?block=encoder.0.self&tensor=encoder.0.self.query", ".detail"),
        ("#/attention?kind=cross", ".two > section:last-child"),
        ("#/attention?kind=cross&as=lines", ".two > section:last-child"),
        ("#/decode", ".view > section:nth-child(2)"),
    ],
)
def test_what_is_taken_away_can_be_read(open_page: Any, where: str, within: str) -> None:
    page = open_page(where)
    can_be_taken_away(page, within)


def test_the_language_is_switched(open_page: Any) -> None:
    page = open_page()
    page.select_option("#language", "ko")
    page.get_by_role("link", name="어텐션", exact=True).wait_for()
    assert page.evaluate("document.documentElement.lang") == "ko"
    page.reload()
    page.get_by_role("link", name="어텐션", exact=True).wait_for()
    assert open_page(locale="ko-KR").evaluate("document.documentElement.lang") == "ko"
