"""The studio of runs that do not translate: every view shows something, or says in a sentence why it does not fit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from other_runs import train_others

import glassformer as gf
from glassformer.glass.mask_removal import trace_with_masks

EOS = 2
PARTS = ["together", "masks"]  # of the positions
VIEWS = ["worksheet", "attention", "decode", "positions", *PARTS, "stream", "intervene", "compare", "training"]
ASKED = {
    "gpt": {"text": "Ana likes"},
    "bert": {"text": "Ana likes red ."},
    "words": {"text": "Ana likes ___ ."},
    "vit": {},
    "answers": {"text": "Ana likes red . Ben likes blue .", "question": "what likes Ben ?"},
    "reader": {"text": "Ana likes red . Ben likes blue .", "question": "what likes Ben ?"},
}
ROTARY = ("gpt", "bert", "words", "reader")
TRANSLATES = "This view needs a sequence-to-sequence model"
UNFIT = {
    "intervene": dict.fromkeys(ASKED, TRANSLATES),
    "compare": dict.fromkeys(ASKED, TRANSLATES),
    "decode": dict.fromkeys(["answers", "reader"], "predicts the start and the end of the answer span"),
    "positions": {"answers": "no positional encoding"},
    "together": {
        "answers": "no positional encoding",
        **dict.fromkeys(ROTARY, "nothing is added to the token embeddings"),
    },
    "masks": {
        "vit": "This model has no masks",
        "answers": "predicts tokens or labels",
        "reader": "predicts tokens or labels",
    },
    "stream": {"answers": "has no residual stream"},
    "recurrent": {"gpt": "has no recurrent layers"},
    "contrast": {"words": "needs a decoder with Transformer layers"},
    "gradient": {"reader": "no loss to differentiate"},
    "embeddings": {"vit": "reads no tokens"},
    "image": {"gpt": "This model reads text"},
}
# Views of some models.
SOME = [
    ("answers", "recurrent"), ("gpt", "recurrent"), ("gpt", "contrast"), ("words", "contrast"), ("gpt", "gradient"),
    ("vit", "gradient"), ("reader", "gradient"), ("words", "embeddings"), ("vit", "embeddings"), ("vit", "image"),
    ("gpt", "image"),
]  # fmt: skip


@pytest.fixture(scope="module")
def runs(made_once: Any) -> dict[str, Path]:
    folder = made_once("others", train_others)
    return {name: folder / name for name in ASKED}


@pytest.fixture(scope="module")
def address(serve: Any, runs: dict[str, Path]) -> Iterator[str]:
    with serve(list(runs.values())) as where:
        yield where


def address_of(run: str, view: str, **more: str) -> str:
    part = {"part": view} if view in PARTS else {}
    name = "positions" if part else view
    return f"#/{name}?{urlencode({'run': run} | ASKED[run] | part | more)}"


@pytest.fixture
def opened(open_page: Any, runs: dict[str, Path]) -> Any:
    """`opened("bert", "masks")`: a view of what is asked of a run; a picture is chosen as people choose one."""

    def open_at(run: str, view: str, **more: str) -> Any:
        page = open_page(address_of(run, view, **more))
        if run == "vit":
            page.set_input_files("#image", runs["vit"].parent / "pictures" / "left" / "3.png")
            page.wait_for_selector(".output")
            page.wait_for_selector("main > .view")
        return page

    return open_at


def number(text: str) -> float:
    return float(text.replace("−", "-"))


@pytest.mark.parametrize("run", sorted({*ASKED, *dict(SOME)}))
def test_every_view_works_or_says_why_not(opened: Any, run: str) -> None:
    views = [*(VIEWS if run in ASKED else ()), *(view for other, view in SOME if other == run)]
    page = opened(run, views[0])
    for view in views:
        if view != views[0]:
            page.evaluate("document.querySelector('main').replaceChildren()")  # what was there before is no answer
            page.evaluate("address => { location.hash = address; }", address_of(run, view))
        why = UNFIT.get(view, {}).get(run)
        if why:
            page.locator("main").get_by_text(why).wait_for()
        else:
            page.wait_for_selector("main .panel")
            assert page.locator("main .empty").count() == 0, view
        assert page.get_by_role("alert").count() == 0, view


# ------------------------------------------------------------------------------------------ masks


@pytest.mark.parametrize(
    ("run", "masks", "switch"), [("gpt", ["padding"], "Look-ahead mask"), ("bert", [], "Padding mask")]
)
def test_a_mask_is_taken_away_and_it_leaks(
    opened: Any, runs: dict[str, Path], run: str, masks: list[str], switch: str
) -> None:
    page, predictor = opened(run, "masks"), gf.load(runs[run])
    page.get_by_text("padding has no effect").wait_for()
    assert {bar.get_attribute("title") for bar in page.locator(".leak .number").all()} == {"0"}
    page.get_by_role("checkbox", name=switch).uncheck()
    page.wait_for_function("() => Number(document.querySelector('.leak .number').title) > 0")
    made = trace_with_masks(predictor.model, predictor.trace(ASKED[run]["text"]), masks, padding=3, eos=EOS)
    rows = page.locator("main > .view > .view > section:last-child tbody tr").all()
    cells = [[number(cell.inner_text()) for cell in row.locator("td").all()] for row in rows]
    assert [row[0] for row in cells] == pytest.approx([*made.before, sum(made.before)], abs=1e-3)
    assert [row[1] for row in cells] == pytest.approx([*made.after, sum(made.after)], abs=1e-3)
    assert page.get_by_role("checkbox").count() == {"gpt": 2, "bert": 1}[run]


# ------------------------------------------------------------------------------------------ what is chosen


def test_labels_are_chosen_at_once(opened: Any, runs: dict[str, Path]) -> None:
    page = opened("bert", "decode")
    (found,) = gf.load(runs["bert"]).predict([ASKED["bert"]["text"]])
    page.get_by_text(f"Prediction: “{found.label}”.").wait_for()
    assert page.locator(".bars .name").all_inner_texts() == list(found.probabilities)
    shown = [float(one.get_attribute("title")) for one in page.locator(".bars .number").all()]
    assert shown == pytest.approx(list(found.probabilities.values()), abs=1e-5)
    assert page.get_by_role("button", name="Play").count() == 0


def test_a_picture_is_looked_through(opened: Any, runs: dict[str, Path]) -> None:
    page = opened("vit", "attention")
    trace = gf.load(runs["vit"]).trace(runs["vit"].parent / "pictures" / "left" / "3.png")
    assert page.locator(".output").inner_text().endswith(trace.label)
    page.locator(".field").click(position={"x": 5, "y": 5})
    shown = number(page.locator(".readout strong").inner_text())
    assert shown == pytest.approx(float(trace["encoder.1.self.weights"][0, 0, 0]), rel=1e-6)


def test_before_a_picture_is_chosen_and_after_a_wrong_one(open_page: Any, runs: dict[str, Path]) -> None:
    page = open_page("#/worksheet?run=vit", refusals=True)
    page.get_by_text("Choose an image above").wait_for()
    page.set_input_files("#image", runs["vit"].parent / "lines.txt")
    page.get_by_role("alert").get_by_text("The image cannot be decoded").wait_for()


def test_a_question_is_asked_for(open_page: Any) -> None:
    page = open_page("#/attention?run=answers&text=Ana+likes+red+.", refusals=True)
    page.get_by_role("alert").get_by_text("The question is empty.").wait_for()
    page.fill("#question", "what likes Ana ?")
    page.get_by_role("button", name="Run").click()
    page.wait_for_selector(".field")


def test_a_patch_is_projected_cell_by_cell(opened: Any, runs: dict[str, Path]) -> None:
    page = opened("vit", "worksheet", block="encoder:embedding", tensor="encoder.embedding", cell="2,5")
    page.wait_for_selector(".operand")
    trace = gf.load(runs["vit"]).trace(runs["vit"].parent / "pictures" / "left" / "3.png")
    shown = number(page.locator(".cell h3 strong").inner_text())
    assert shown == pytest.approx(float(trace["encoder.embedding"][2, 5]), rel=1e-6)
    assert page.locator(".operand .role").all_inner_texts() == ["image", "weight", "bias"]
    assert "Patch embedding" in page.locator(".detail h2").inner_text()
    assert "looked up in a table" not in page.locator(".detail").inner_text()
    assert page.locator(".operand").first.get_attribute("title") == "encoder.image[:, 0:4, 4:8]"
