"""Positions, masks and the residual stream in a real browser: what is read on the page is what the trace holds."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from taking import can_be_taken_away, downloaded

import glassformer as gf
from glassformer.glass.mask_removal import trace_with_masks
from glassformer.glass.residual_stream import lens_next_tokens, logit_lens
from glassformer.nn.positional_encoding import sinusoids

FROZEN = Path(__file__).parents[1] / "compat" / "runs" / "format-1"
SENTENCE = "I am a student"
EOS = 2


@pytest.fixture(scope="module")
def translator() -> Any:
    return gf.load(FROZEN)


@pytest.fixture(scope="module")
def trace(translator: Any) -> Any:
    return translator.trace(SENTENCE, translator.translate([SENTENCE], beam=1)[0].text)


def number(text: str) -> float:
    return float(text.replace("−", "-").replace("+", ""))


# ------------------------------------------------------------------------------------------ positions


def test_a_place_and_a_feature(open_page: Any) -> None:
    page = open_page("#/positions")
    table = sinusoids(64, 48).numpy()
    first, second = page.locator(".two > section").all()
    first.locator(".field").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    assert number(first.locator(".readout strong").inner_text()) == pytest.approx(table[10, 5], abs=1e-6)
    assert "= cos(10 / 10000^(4/48))" in first.locator(".readout").inner_text()
    assert "place=10&feature=5" in page.url
    second.locator(".field").focus()
    page.keyboard.press("ArrowRight")
    product = number(second.locator(".readout strong").inner_text())
    chosen = second.locator(".readout").inner_text()
    a, b = (int(n) for n in (chosen.split("position ")[1].split(" ")[0], chosen.split("position ")[2].split(" ")[0]))
    assert a == 10 and product == pytest.approx(float(table[a] @ table[b]), abs=2e-3)
    page.reload()
    page.wait_for_selector(".two .readout strong")
    assert "place=10&feature=5" in page.url
    assert number(first.locator(".readout strong").inner_text()) == pytest.approx(table[10, 5], abs=1e-6)


def test_a_table_of_more_places(open_page: Any) -> None:
    page = open_page("#/positions")
    page.get_by_role("combobox", name="Number of positions").select_option("128")
    page.wait_for_function("() => document.querySelector('.field').clientHeight === 128 * 3")
    rows = list(csv.reader(io.StringIO(downloaded(page, "CSV", ".two > section:first-child").decode())))
    assert np.allclose(np.array(rows[1:], float)[:, 1:], sinusoids(128, 48).numpy(), atol=1e-6)


def test_added_against_side_by_side(open_page: Any, trace: Any) -> None:
    page = open_page("#/positions?part=together&a=2&b=0")
    word, place = (trace[f"encoder.{name}"].double().numpy() for name in ("embedding", "positions"))
    shown = [[cell.inner_text() for cell in row.locator("td").all()] for row in page.locator("tbody tr").all()]
    terms = [word[2] @ word[0], word[2] @ place[0], place[2] @ word[0], place[2] @ place[0]]
    assert [number(row[0]) for row in shown[:4]] == pytest.approx(terms, abs=1e-3)
    assert [number(cell) for cell in shown[4]] == pytest.approx([sum(terms), terms[0] + terms[3]], abs=1e-3)
    assert sum(terms) == pytest.approx(float(trace["encoder.input"][2] @ trace["encoder.input"][0]), rel=1e-4)
    page.get_by_label("First token").select_option("1")
    page.wait_for_function("() => location.hash.includes('a=1')")
    page.get_by_role("button", name="Decoder", exact=True).click()
    page.wait_for_function("() => location.hash.includes('side=decoder')")
    assert page.evaluate("document.activeElement.dataset.value") == "decoder"  # the keyboard stays where it was


# ------------------------------------------------------------------------------------------ masks


def test_a_mask_is_taken_away_and_it_leaks(open_page: Any, translator: Any, trace: Any) -> None:
    page = open_page("#/positions?part=masks")
    page.get_by_text("padding has no effect").wait_for()
    assert "0.0e+0" not in page.locator("main").inner_text()
    assert {bar.get_attribute("title") for bar in page.locator(".leak .number").all()} == {"0"}
    page.get_by_role("checkbox", name="Look-ahead mask").uncheck()
    page.get_by_text("Log-probability of the output:").wait_for()
    made = trace_with_masks(translator.model, trace, ("padding", "cross"), padding=3, eos=EOS)
    page.wait_for_function("() => Number(document.querySelector('.leak .number').title) > 0")
    length = len(trace.target)
    weights = made.trace["decoder.0.self.weights"][0].double()
    hidden = weights[:length, :length].triu(1).sum(-1) + weights[:length, length:].sum(-1)
    shown = [float(one.get_attribute("title")) for one in page.locator(".leak .number").all()]
    assert shown == pytest.approx(hidden.tolist(), abs=1e-5)
    rows = page.locator("main > .view > .view > section:last-child tbody tr").all()
    cells = [[number(cell.inner_text()) for cell in row.locator("td").all()] for row in rows]
    assert [row[0] for row in cells] == pytest.approx([*made.before, sum(made.before)], abs=1e-3)
    assert [row[1] for row in cells] == pytest.approx([*made.after, sum(made.after)], abs=1e-3)
    assert "masks=padding%2Ccross" in page.url
    page.reload()
    page.wait_for_selector(".leak")
    assert not page.get_by_role("checkbox", name="Look-ahead mask").is_checked()


def test_masks_add_up(open_page: Any, translator: Any, trace: Any) -> None:
    page = open_page("#/positions?part=masks&padding=2")
    assert page.locator(".masks figure").count() == 3
    rows = list(csv.reader(io.StringIO(downloaded(page, "CSV", ".two > section:first-child").decode())))
    made = trace_with_masks(translator.model, trace, ("padding", "look_ahead", "cross"), padding=2, eos=EOS)
    assert [float(row[2]) for row in rows[1:]] == made.trace["decoder.0.self.mask"].flatten().tolist()
    page.get_by_role("button", name="Encoder–decoder attention").click()
    page.wait_for_function("() => document.querySelectorAll('.masks figure').length === 1")
    page.get_by_role("group", name="Head").get_by_role("button", name="4").click()
    page.get_by_role("heading", name="Encoder–decoder attention, layer 1, head 4").wait_for()
    page.locator(".leak .field").focus()
    page.keyboard.press("ArrowRight")
    shown = number(page.locator(".leak .readout strong").inner_text())
    assert shown == pytest.approx(float(made.trace["decoder.0.cross.weights"][3, 0, 0]), rel=1e-5)


# ------------------------------------------------------------------------------------------ the stream


def test_lengths_of_the_stream(open_page: Any, trace: Any) -> None:
    page = open_page("#/stream")
    page.get_by_role("button", name="sub-layer output").click()
    field = page.locator(".side-by-side .field")
    page.wait_for_function("() => location.hash.includes('what=output')")
    field.focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
        page.keyboard.press(key)
    said = page.locator(".side-by-side .readout")
    assert said.inner_text().startswith("layer 1, encoder–decoder attention")
    expected = float(trace["decoder.0.cross.output"][1].norm())
    assert number(said.locator("strong").inner_text()) == pytest.approx(expected, abs=1e-3)
    page.get_by_role("link", name="show the vector").click()
    page.wait_for_function("() => document.querySelector('.detail')?.dataset.tensor === 'decoder.0.cross.output'")


def table_rows(page: Any, within: str) -> list[list[str]]:
    rows = page.locator(f"{within} > .scroll tbody tr").all()
    return [[cell.inner_text() for cell in row.locator("td").all()] for row in rows]


def test_before_and_after_normalisation(open_page: Any, trace: Any) -> None:
    page = open_page("#/stream?side=encoder&place=encoder.1.ff.norm&token=2")
    before, after = trace["encoder.1.ff.residual"][2].double(), trace["encoder.1.ff.norm"][2].double()
    for row, x in zip(table_rows(page, ".normalization"), (before, after), strict=True):
        told = [float(x.mean()), float(x.std(unbiased=False)), float(x.min()), float(x.max()), float(x.norm())]
        assert [number(cell) for cell in row] == pytest.approx(told, abs=1e-3)
    page.locator(".normalization select").nth(1).select_option("0")
    page.wait_for_function("() => location.hash.includes('token=0')")
    assert number(table_rows(page, ".normalization")[0][4]) == pytest.approx(
        float(trace["encoder.1.ff.residual"][0].norm()), abs=1e-3
    )


def test_two_axes_of_normalisation(open_page: Any, trace: Any) -> None:
    page = open_page("#/stream?side=encoder&place=encoder.0.self.norm&token=1&feature=7")
    x = trace["encoder.0.self.residual"].double().numpy()
    layer, batch, model = table_rows(page, ".axes")
    for row, taken in ((layer, x[1]), (batch, x[:, 7])):
        told = [taken.mean(), taken.std(), (x[1, 7] - taken.mean()) / taken.std()]
        assert [number(cell) for cell in row[1:]] == pytest.approx(told, abs=1e-3)
    own = [float(trace[f"encoder.0.self.{name}"][1, 0]) for name in ("mean", "deviation")]
    assert [number(cell) for cell in model[1:]] == pytest.approx(
        [*own, float(trace["encoder.0.self.norm"][1, 7])], abs=1e-3
    )
    page.get_by_role("button", name="batch normalization").click()
    page.wait_for_function("() => location.hash.includes('as=batch')")
    rows = list(csv.reader(io.StringIO(downloaded(page, "CSV", ".axes").decode())))
    normalised = np.array([row[1:] for row in rows[1:]], float)
    assert np.allclose(normalised, (x - x.mean(0)) / x.std(0), atol=1e-6)


def test_the_logit_lens(open_page: Any, translator: Any, trace: Any) -> None:
    page = open_page("#/stream")
    said = logit_lens(translator.model, trace)
    shown = page.locator(".words span").evaluate_all("all => all.map(one => one.textContent)")
    assert shown == [piece.lstrip("▁") or "▁" for one in said for piece in one.pieces]
    page.locator(".lens .field").focus()
    for key in ("ArrowUp", "ArrowRight"):
        page.keyboard.press(key)
    page.get_by_role("heading", name="after layer 1, ").wait_for()
    choices = lens_next_tokens(translator.model, trace, said[1].name, 1)
    page.wait_for_function("() => location.hash.includes('lens=1&at=1')")
    page.wait_for_function(
        "p => Math.abs(Number(document.querySelector('.lens .number').title) - p) < 1e-5", arg=choices[0].probability
    )
    names = page.locator(".lens .bars .name").all_inner_texts()
    assert names == [choice.piece.lstrip("▁") or "▁" for choice in choices]
    assert f"has rank {said[1].ranks[1]} here" in page.locator(".lens .readout").inner_text()


def test_the_lens_shows_the_last_chosen_cell_if_an_earlier_answer_comes_later(
    open_page: Any, translator: Any, trace: Any
) -> None:
    page = open_page("#/stream")
    layer = logit_lens(translator.model, trace)[1].name
    earlier, chosen = (
        [choice.piece.lstrip("▁") or "▁" for choice in lens_next_tokens(translator.model, trace, layer, row)]
        for row in (0, 1)
    )
    assert earlier != chosen
    delayed: list[Any] = []
    page.route("**/lens/choices?*", lambda route: delayed.append(route), times=1)
    page.locator(".lens .field").focus()
    page.keyboard.press("ArrowUp")
    with page.expect_response("**/lens/choices?*"):
        page.keyboard.press("ArrowRight")
    page.get_by_role("heading", name="after layer 1, ").wait_for()
    assert page.locator(".lens .bars .name").all_inner_texts() == chosen
    with page.expect_response("**/lens/choices?*") as late:
        delayed[0].continue_()
    late.value.finished()
    page.evaluate("() => fetch('/api/runs').then(answer => answer.text())")  # the page has received the late answer
    assert page.locator(".lens .bars .name").all_inner_texts() == chosen


# ------------------------------------------------------------------------------------------ for everybody


@pytest.mark.parametrize(
    ("where", "within"),
    [
        ("#/positions", ".two > section:first-child"),
        ("#/positions", ".two > section:last-child"),
        ("#/positions?part=together", ".two > section:last-child"),
        ("#/positions?part=masks", ".two > section:first-child"),
        ("#/positions?part=masks&kind=encoder", ".leak"),
        ("#/positions?part=masks", ".view > .view > section:last-child"),
        ("#/stream", ".view > section:first-of-type"),
        ("#/stream", ".normalization"),
        ("#/stream", ".axes"),
        ("#/stream", ".lens"),
    ],
)
def test_what_is_drawn_can_be_taken_away(open_page: Any, where: str, within: str) -> None:
    page = open_page(where)
    can_be_taken_away(page, within)


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("#/positions?run=gru", "no positional encoding"),
        ("#/positions?run=gru&part=together", "no positional encoding"),
        ("#/positions?run=gru&part=masks", "predicts tokens or labels"),
        ("#/stream?run=gru", "has no residual stream"),
        ("#/positions?run=rotary", "sin(pos / 10000^(2i/d_k))"),
        ("#/positions?run=rotary&part=together", "nothing is added to the token embeddings"),
        ("#/positions?run=rotary&part=order", "the model cannot tell the two sentences apart"),
        ("#/positions?run=gpt&text=word", "Learned positional embedding"),
        ("#/positions?run=gpt&text=word&part=together", "the vector has 24 dimensions"),
        ("#/positions?run=gpt&text=word&part=masks", "padding has no effect"),
        ("#/stream?run=gpt&text=word", "normalizes only its own input (pre-norm)"),
    ],
)
def test_other_models_are_told_as_what_they_are(open_page: Any, where: str, said: str) -> None:
    open_page(where).locator("main").get_by_text(said).wait_for()


def test_the_lens_of_a_language_model(open_page: Any, untrained: dict[str, Path]) -> None:
    page = open_page("#/stream?run=gpt&text=word")
    predictor = gf.load(untrained["gpt"])
    said = logit_lens(predictor.model, predictor.trace("word"))
    shown = page.locator(".words span").evaluate_all("all => all.map(one => one.textContent)")
    assert shown == [piece.lstrip("▁") or "▁" for one in said for piece in one.pieces]


@pytest.mark.parametrize("where", ["#/positions", "#/positions?part=together", "#/positions?part=masks", "#/stream"])
def test_everything_is_said_in_korean_too(open_page: Any, where: str) -> None:
    page = open_page(where, locale="ko-KR")
    for text in page.locator("main h2, main h3, main p.soft").all_inner_texts():
        assert any("가" <= character <= "힣" for character in text) or "<" in text or "·" in text, text
