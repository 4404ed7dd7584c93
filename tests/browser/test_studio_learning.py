"""What students do in the studio: a worked example, the flow through the figure, equations, words, shared links."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from taking import can_be_taken_away, downloaded

import glassformer as gf

FROZEN = Path(__file__).parents[1] / "compat" / "runs" / "format-1"
TIRED = "text=The+animal+didn%27t+cross+the+street+because+it+was+too+tired."
FIELD = ".equations > li:nth-child({step}) figure:last-child .field"


@pytest.fixture(scope="module")
def translator() -> Any:
    return gf.load(FROZEN)


def number(text: str) -> float:
    return float(text.replace("−", "-"))


# ------------------------------------------------------------------------------------------ worked example


def test_a_cell_of_the_example_is_written_out(open_page: Any) -> None:
    page = open_page("#/worked")
    scores = page.locator(FIELD.format(step=4))
    assert scores.locator(".cell-numbers").inner_text().split() == ["2", "4", "4", "4", "16", "12", "4", "12", "10"]
    scores.hover(position={"x": 120, "y": 40})
    written = page.locator(".equations > li:nth-child(4) .written-out")
    assert written.inner_text() == "scores[2, 3] = 2·2 + 2·3 + 2·1 = 12.000"
    assert page.locator(".equations > li:nth-child(4) .lit span").count() == 2  # a row of Q, a column of Kᵀ
    scores.click(position={"x": 120, "y": 40})
    page.reload()
    page.wait_for_selector(".equations > li:nth-child(4) .written-out strong")
    can_be_taken_away(page, ".worked", rows=10)


def test_other_matrices_are_typed_shared_and_refused(open_page: Any) -> None:
    page = open_page("#/worked", refusals=True)
    page.get_by_label("divide the scores by √d_k").uncheck()
    page.get_by_role("button", name="1 decimal place", exact=True).click()
    page.locator(".equations h3", has_text="Rounded weights").wait_for()
    last = page.locator(FIELD.format(step=7))
    assert last.locator(".cell-numbers").inner_text().split()[3:] == ["2", "8", "0", "2", "7.80", "0.30"]
    page.get_by_label("x (one row per token)").fill("[[2, 0, 0, 0], [0, 0, 0, 1]]")
    page.wait_for_function("() => location.hash.includes('x=2%2C0%2C0%2C0%3B0%2C0%2C0%2C1')")
    other = open_page(page.url[page.url.index("#") :])
    assert other.locator(FIELD.format(step=1)).locator(".cell-numbers").inner_text().split() == list("202011")
    page.get_by_label("x (one row per token)").fill("1 2 three 4")
    page.get_by_text("“three” in x is not a number").wait_for()
    page.get_by_role("button", name="Encoder–decoder attention").click()
    page.get_by_label("memory (encoder output)").wait_for()
    assert page.locator(".equations .soft", has_text="memory·W_K").count() == 1


# ------------------------------------------------------------------------------------------ flow


def test_the_sentence_is_played_through_the_figure(open_page: Any) -> None:
    page = open_page("#/flow")
    assert page.locator(".block.done").count() == 1
    page.get_by_role("button", name="Step", exact=True).click()
    page.wait_for_function("() => document.querySelectorAll('.block.done').length === 2")
    page.get_by_role("button", name="Step", exact=True).click()
    page.get_by_role("heading", name="Input of the first layer Encoder").wait_for()
    page.wait_for_selector(".on-arrow canvas", state="attached")
    assert page.locator(".on-arrow text").first.text_content() == "10 × 48"
    page.get_by_role("button", name="Play").click()
    page.wait_for_function("() => document.querySelectorAll('.block.done').length >= 5")
    page.get_by_role("button", name="Pause").click()
    page.locator("[data-block='encoder.0.ff']").click()
    page.get_by_role("heading", name="Feed-forward Encoder, layer 1").wait_for()
    assert "step=5" in page.url


def test_a_block_marks_what_it_reads_and_what_reads_it(open_page: Any) -> None:
    page = open_page("#/worksheet")
    page.locator("[data-block='decoder.0.cross']").hover()
    marked = "name => [...document.querySelectorAll(`.block.${name}`)].map(one => one.dataset.block).sort()"
    assert page.evaluate(marked, "reads") == ["decoder.0.self:after", "encoder:end"]
    assert page.evaluate(marked, "results") == ["decoder.0.cross:after"]
    page.mouse.move(5, 5)
    assert page.evaluate(marked, "reads") == []


# ------------------------------------------------------------------------------------------ worksheet


@pytest.mark.parametrize(("run", "rotated"), [("format-1", ""), ("rotary", "rotated ")])
def test_attention_is_one_row_of_matrices(open_page: Any, run: str, rotated: str) -> None:
    page = open_page(f"#/worksheet?run={run}&block=encoder.0.self&tensor=encoder.0.self.weights&text=I+am")
    captions = page.locator(".attention-equation figcaption button").all_inner_texts()
    assert captions == [
        f"{rotated}query", f"{rotated}keyᵀ", "attention scores", "scaled scores", "attention weights", "value",
        "head output",
    ]  # fmt: skip
    numbers = page.locator(".attention-equation .term:nth-of-type(5) .cell-numbers span")
    assert sum(number(text) for text in numbers.all_inner_texts()) == pytest.approx(4, abs=0.1)  # four rows
    page.locator(".attention-equation .term:nth-of-type(3) .field").hover(position={"x": 5, "y": 5})
    assert page.locator(".attention-equation .lit span").count() == 2
    page.get_by_role("button", name="keyᵀ").click()
    page.wait_for_selector(f".detail[data-tensor='encoder.0.self.{rotated.replace(' ', '_')}key']")


def test_the_heads_are_concatenated_and_projected(open_page: Any, translator: Any) -> None:
    page = open_page("#/worksheet?block=encoder.1.self&tensor=encoder.1.self.output&head=2&text=I+am")
    page.get_by_text("4 × 12 = 48 columns; head 3 is marked").wait_for()
    first, weight, output = page.locator(".concatenation .field").all()
    box, marked = first.bounding_box(), first.locator(".lit span").bounding_box()
    assert (marked["x"] - box["x"]) / box["width"] == pytest.approx(2 / 4, abs=0.03)
    assert marked["width"] / box["width"] == pytest.approx(1 / 4, abs=0.03)
    output.hover(position={"x": 5, "y": 5})
    assert first.locator(".lit span").bounding_box()["width"] == pytest.approx(box["width"], abs=2)
    assert weight.locator(".lit span").bounding_box()["height"] == pytest.approx(weight.bounding_box()["height"], abs=2)
    first.hover(position={"x": box["width"] - 1, "y": 1})  # the last column is the last dimension of head 4
    trace = translator.trace("I am", translator.translate(["I am"], beam=1)[0].text)
    expected = float(trace["encoder.1.self.head_output"][3, 0, 11])
    assert number(page.locator(".hover-tip").inner_text().split(": ")[1]) == pytest.approx(expected, abs=6e-4)
    first.click(position={"x": box["width"] - 1, "y": 1})
    page.wait_for_selector(".detail[data-tensor='encoder.1.self.head_output']")
    page.wait_for_selector(".cell h3 strong")
    assert number(page.locator(".cell h3 strong").inner_text()) == pytest.approx(expected, rel=1e-5)


def test_before_and_after_relu(open_page: Any, translator: Any) -> None:
    page = open_page("#/worksheet?block=encoder.0.ff&text=I+am")  # a link without a tensor opens the block
    activations = translator.trace("I am", translator.translate(["I am"], beam=1)[0].text)["encoder.0.ff.activations"]
    page.get_by_text(f"{int((activations == 0).sum())} of {activations.numel()} numbers are 0").wait_for()
    row, column = divmod(int((activations == 0).flatten().int().argmax()), activations.shape[1])
    before, after = page.locator(".activation .field").all()
    size = before.bounding_box()
    cell = {
        "x": (column + 0.5) * size["width"] / activations.shape[1],
        "y": (row + 0.5) * size["height"] / len(activations),
    }
    before.hover(position=cell)
    assert number(page.locator(".hover-tip").inner_text().split(": ")[1]) <= 0
    assert after.locator(".lit span").count() == 1
    after.hover(position=cell)
    assert number(page.locator(".hover-tip").inner_text().split(": ")[1]) == 0
    row, column = divmod(int(activations.argmax()), activations.shape[1])
    cell = {
        "x": (column + 0.5) * size["width"] / activations.shape[1],
        "y": (row + 0.5) * size["height"] / len(activations),
    }
    before.hover(position=cell)
    shown = number(page.locator(".hover-tip").inner_text().split(": ")[1])
    assert shown == pytest.approx(float(activations.max()), abs=6e-4)  # ReLU keeps positive numbers


def test_logits_have_words_and_a_prediction(open_page: Any, translator: Any) -> None:
    page = open_page("#/worksheet?block=probabilities&tensor=probabilities&cell=0,7")
    trace = translator.trace("I am a student", translator.translate(["I am a student"], beam=1)[0].text)
    best = trace.next_tokens(1)[0][0]
    assert page.locator(".detail .names.across span").first.inner_text() == (best.piece.lstrip("▁") or "▁")
    assert number(page.locator(".cell h3 strong").inner_text()) == pytest.approx(
        float(trace["logits"][0].softmax(-1)[7]), rel=1e-4
    )
    page.locator("[data-block='argmax']").click()
    page.wait_for_selector(".detail[data-block='argmax'] table")
    words = page.locator(".detail td").all_inner_texts()
    assert words == [piece.lstrip("▁") or "▁" for piece in trace.predicted]


def test_a_weight_has_the_name_of_the_textbook(open_page: Any) -> None:
    page = open_page("#/worksheet?block=encoder.0.self&tensor=encoder.0.self.query&cell=1,2,3")
    page.wait_for_selector(".operand")
    assert page.locator(".operand .symbol").all_inner_texts() == ["W_Q[:, 16]", "b_Q[16]"]
    assert not page.locator(".operand .exact-name").first.is_visible()
    page.get_by_label("exact tensor names").check()
    assert page.locator(".operand .exact-name").first.is_visible()
    page.get_by_text("Weights: W_Q (48 × 48), b_Q (48)").click()
    page.wait_for_selector(".weight .field")


# ------------------------------------------------------------------------------------------ links, presets, exports


def test_the_example_opens_at_the_head_of_the_pronoun(open_page: Any, translator: Any) -> None:
    page = open_page("#/attention")
    page.get_by_role("link", name="it was too tired").click()
    page.get_by_text("Opened at the head in which “it” attends most to “animal”").wait_for()
    trace = translator.trace("The animal didn't cross the street because it was too tired.", "")
    row = [piece.lstrip("▁") for piece in trace.source].index("it")
    weights = [trace[f"encoder.{layer}.self.weights"][:, row, 1:4].sum(-1) for layer in range(2)]  # an · im · al
    layer = max(range(2), key=lambda i: float(weights[i].max()))
    expected = f"layer {layer + 1}, head {int(weights[layer].argmax()) + 1}"
    page.get_by_role("heading", name=expected).wait_for()
    assert page.get_by_label("merge subwords into words").is_checked()  # "animal" is split into subwords
    assert page.locator(".readout").inner_text().startswith("it ⟶ animal: ")
    page.get_by_role("button", name="layer 1, head 2").click()
    page.get_by_role("heading", name="layer 1, head 2").wait_for()
    page.go_back()
    page.get_by_role("heading", name=expected).wait_for()


def test_without_positions_word_order_is_lost(open_page: Any) -> None:
    page = open_page("#/positions?part=order")
    page.get_by_text("the model cannot tell the two sentences apart").wait_for()
    outputs = page.locator("main td").all_inner_texts()
    assert outputs[0] != outputs[2] and outputs[1] == outputs[3]
    page.get_by_role("link", name="“not” in another place").click()
    page.locator("main tr", has_text="I could not get in the Ph.D program.").wait_for()
    assert page.get_by_text("words are not in the vocabulary").count() == 1
    assert page.get_by_text("do not have the same tokens").count() == 0


def test_the_first_page_says_where_to_start(open_page: Any) -> None:
    for name, there in {"Lessons: ": "#/lessons", "Flow: ": "#/flow", "Worked example: ": "#/worked"}.items():
        page = open_page()
        page.get_by_role("link", name=name).click()
        page.wait_for_function("there => location.hash.startsWith(there)", arg=there)
        page.wait_for_selector("nav [aria-current=page]")


def test_a_link_is_copied(open_page: Any) -> None:
    page = open_page(f"#/attention?{TIRED}", permissions=["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy link").click()
    page.get_by_role("button", name="Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == page.url


def test_an_export_is_light_in_the_dark_theme(open_page: Any) -> None:
    page = open_page("#/attention?kind=cross", color_scheme="dark")
    drawing = ElementTree.fromstring(downloaded(page, "SVG", ".two > section:last-child"))
    background = next(drawing.iter("{http://www.w3.org/2000/svg}rect")).get("fill")
    title = next(drawing.iter("{http://www.w3.org/2000/svg}text")).text
    assert background == "#ffffff"
    assert title == "Encoder–decoder attention, layer 2, head 1 · “I am a student”"
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(15, 18, 22)"


def test_the_cell_under_the_pointer_is_told(open_page: Any) -> None:
    page = open_page("#/attention?kind=encoder&text=I+am")
    page.locator(".field").hover(position={"x": 5, "y": 5})
    assert page.locator(".hover-tip").inner_text().startswith("I → I: ")
    assert page.locator(".names .on").count() == 2
    page.mouse.move(5, 5)
    assert page.locator(".hover-tip").count() == 0
