"""Finding one's way in the studio: the address, the back button, the keyboard, small screens, edges, colours."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from taking import downloaded

SENTENCE = "The animal didn't cross the street because it was too tired."
WORKSHEET = "#/worksheet?text=I+am+a+student"
LONG = "text=" + SENTENCE.replace(" ", "+").replace("'", "%27")
PHONE = {"width": 390, "height": 844}


def block(page: Any, name: str) -> Any:
    return page.locator(f"[data-block='{name}']")


def wait_for_block(page: Any, name: str) -> None:
    page.wait_for_selector(f".detail[data-block='{name}']")


# ------------------------------------------------------------------------------------------ address and history


def test_a_cell_of_the_tokens_says_where_it_comes_from(open_page: Any) -> None:
    page = open_page(f"{WORKSHEET}&block=encoder:embedding&tensor=encoder.tokens")
    page.locator(".tensor-map .field").click()
    page.locator(".cell h3").wait_for()
    said = page.locator(".cell").inner_text()
    assert "input of the model" in said and "false" not in said and "null" not in said


def test_the_back_button_undoes_a_block_and_a_cell(open_page: Any) -> None:
    page = open_page(WORKSHEET)
    block(page, "encoder.0.ff").click()
    wait_for_block(page, "encoder.0.ff")
    block(page, "encoder.0.self").click()
    wait_for_block(page, "encoder.0.self")
    page.locator(".tensor-map .field").click()
    page.locator(".cell h3").wait_for()
    page.keyboard.press("ArrowRight")  # to the cell beside: not a step of its own
    page.wait_for_function(
        "() => document.querySelector('.cell > .exact-name').textContent.includes("
        "`[${new URLSearchParams(location.hash.split('?')[1]).get('cell').replaceAll(',', ', ')}]`)"
    )
    cell = page.locator(".cell h3").inner_text()
    page.reload()
    page.locator(".cell h3").wait_for()
    assert page.locator(".cell h3").inner_text() == cell
    page.go_back()
    page.locator(".cell h3").wait_for(state="detached")
    wait_for_block(page, "encoder.0.self")
    page.go_back()
    wait_for_block(page, "encoder.0.ff")
    page.go_back()
    page.get_by_role("heading", name="Input and output").wait_for()


def test_the_skip_link_keeps_the_sentence_and_the_view(open_page: Any) -> None:
    page = open_page("#/attention?text=I+am+a+student")
    before = page.evaluate("location.hash")
    page.locator(".skip").focus()
    page.keyboard.press("Enter")
    assert page.evaluate("[location.hash, document.activeElement.id]") == [before, "view"]


@pytest.mark.parametrize("forced", ["a:b", "1", "1:2:3", "1:-2", "99999999999:1"])
def test_a_forced_token_that_is_none_is_explained(open_page: Any, forced: str) -> None:
    page = open_page(f"#/decode?text=I+am+a+student&forced={forced}", refusals=True)
    said = page.locator(".problem").inner_text()
    assert f"“{forced}”" in said and "forced=3:17" in said


# ------------------------------------------------------------------------------------------ keyboard and small screens


def test_all_blocks_are_one_stop_of_the_tab_key(open_page: Any) -> None:
    page = open_page(WORKSHEET)
    assert page.locator(".block[tabindex='0']").count() == 1
    block(page, "encoder.0.ff").focus()
    page.keyboard.press("ArrowUp")
    above = page.evaluate("document.activeElement.getBoundingClientRect().y")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.dataset.block") == "encoder.0.ff"
    assert page.evaluate("document.activeElement.getBoundingClientRect().y") > above
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.dataset.block").startswith("decoder")


def test_a_matrix_that_is_chosen_by_keyboard_keeps_the_focus(open_page: Any) -> None:
    page = open_page(f"{WORKSHEET}&block=encoder.0.self")
    page.locator(".detail [data-value='encoder.0.self.scores']").press("Enter")
    page.wait_for_selector(".detail[data-tensor='encoder.0.self.scores']")
    page.wait_for_function("() => document.activeElement.dataset.value === 'encoder.0.self.scores'")


def test_a_tap_on_a_phone_shows_the_numbers(open_page: Any) -> None:
    page = open_page(WORKSHEET, viewport=PHONE)
    block(page, "encoder.0.ff").click()
    wait_for_block(page, "encoder.0.ff")
    page.wait_for_function("() => { const { top } = document.querySelector('.detail h2').getBoundingClientRect();"
                           " return top >= 0 && top < innerHeight / 2; }")  # fmt: skip


def test_the_numbers_of_a_low_block_stay_in_view(open_page: Any) -> None:
    page = open_page(WORKSHEET)
    low = block(page, "encoder:embedding")
    low.scroll_into_view_if_needed()
    low.click()
    wait_for_block(page, "encoder:embedding")
    box = page.locator(".detail h2").bounding_box()
    assert 0 <= box["y"] < 400


@pytest.mark.parametrize(
    ("where", "box"),
    [
        (f"#/attention?{LONG}&kind=cross", ".scroll:has(.map)"),
        (f"#/stream?{LONG}", ".lens .scroll"),
    ],
    ids=["map", "lens"],
)
def test_content_beyond_an_edge_has_a_sign(open_page: Any, where: str, box: str) -> None:
    page = open_page(where, viewport=PHONE)
    page.wait_for_selector(f"{box}.more-right")
    assert page.locator(box).first.evaluate("e => getComputedStyle(e).maskImage") != "none"
    page.locator(box).first.evaluate("e => e.scrollTo(e.scrollWidth, 0)")
    page.wait_for_selector(f"{box}.more-left:not(.more-right)")


@pytest.mark.parametrize("size", [{"width": 1280, "height": 800}, PHONE], ids=["desktop", "phone"])
def test_no_word_of_the_lines_is_cut_off(open_page: Any, size: dict[str, int]) -> None:
    page = open_page(f"#/attention?{LONG}&kind=cross&as=lines", viewport=size)
    outside = """svg => [...svg.querySelectorAll('text')].filter(text => {
      const box = text.getBBox(), { width } = svg.viewBox.baseVal;
      return box.x < 0 || box.x + box.width > width;
    }).length"""
    assert page.locator("svg.lines").evaluate(outside) == 0


# ------------------------------------------------------------------------------------------ colours and exports


def _hue(red: int, green: int, blue: int) -> str:
    return "blue" if blue > red + 8 else "orange" if red > blue + 8 else "none"


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("tensor", ["query", "key", "value", "output"])
def test_numbers_above_and_below_0_have_different_hues(open_page: Any, theme: str, tensor: str) -> None:
    page = open_page(f"{WORKSHEET}&block=encoder.0.self&tensor=encoder.0.self.{tensor}", color_scheme=theme)
    page.wait_for_selector(".detail canvas")
    pixels = page.locator(".tensor-map .field canvas").evaluate(
        "c => [...c.getContext('2d').getImageData(0, 0, c.width, c.height).data]"
    )
    hues = {_hue(*pixels[i : i + 3]) for i in range(0, len(pixels), 4)}
    assert {"blue", "orange"} <= hues
    assert "Blue: positive. Orange: negative." in page.locator(".detail").inner_text()


def test_an_exported_figure_keeps_its_titles(open_page: Any) -> None:
    page = open_page(WORKSHEET)
    page.wait_for_selector(".flow .told")
    drawing = ElementTree.fromstring(downloaded(page, "SVG", ".worksheet section:first-child"))
    texts = {text.text: text for text in drawing.iter("{http://www.w3.org/2000/svg}text")}
    assert "Architecture · “I am a student”" in texts
    layer = texts["layer 1 of 2"]
    # Its outline keeps it apart from the arrows; without this order it would be painted over the letters.
    assert layer.get("paint-order") == "stroke"


def test_exported_lines_have_a_title(open_page: Any) -> None:
    page = open_page("#/attention?text=I+am+a+student&kind=cross&as=lines&layer=1&head=2")
    drawing = ElementTree.fromstring(downloaded(page, "SVG", "main"))
    texts = [text.text or "" for text in drawing.iter("{http://www.w3.org/2000/svg}text")]
    assert any("layer 2, head 3" in text for text in texts)


# ------------------------------------------------------------------------------------------ unknown words, Korean


def test_unknown_words_are_named(open_page: Any) -> None:
    page = open_page("#/worksheet?text=The+zzyzx+is+big.")
    assert "“zzyzx” (z · z · y · z · x)" in page.locator(".notice").inner_text()
    page = open_page("#/worksheet?text=The+zzyzx+is+big.", locale="ko")
    assert "단어 집합에 없는 단어" in page.locator(".notice").inner_text()
    assert open_page(f"#/worksheet?{LONG}").locator(".notice").count() == 0


def test_formulas_and_particles_in_korean(open_page: Any) -> None:
    page = open_page(f"{WORKSHEET}&block=encoder.0.self&tensor=encoder.0.self.query", locale="ko")
    assert "x·W_Q + b_Q를 헤드로 나눈 것" in page.locator(".detail").inner_text()
    page = open_page("#/decode?text=I+am+a+student&step=1", locale="ko")
    assert "”을(를) 출력했습니다" in page.locator("[aria-live=polite]", has_text="출력했습니다").inner_text()


# ------------------------------------------------------------------------------------------ pictures


@pytest.fixture(scope="module")
def pictures(serve: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, bytes]]:
    """A studio of a run that reads images and one that translates, and a picture."""
    import numpy as np
    from PIL import Image

    from glassformer.training.train import train

    folder, chance = tmp_path_factory.mktemp("pictures"), np.random.default_rng(1)
    for label in "ab":
        (folder / "data" / label).mkdir(parents=True)
        for number in range(8):
            Image.fromarray(chance.integers(0, 255, (8, 16), dtype=np.uint8)).save(
                folder / "data" / label / f"{number}.png"
            )
    sizes = {"family": "vit", "layers": 1, "d_model": 10, "heads": 2, "d_ff": 14, "patch": 4, "dropout": 0.0}
    steps = {"steps": 2, "validate_every": 2, "checkpoint_every": 2, "batch_tokens": 100}
    train(
        str(folder / "data"),
        out=folder / "vit",
        settings={"task": "image_classification", "model": sizes, "train": steps},
    )
    file = io.BytesIO()
    Image.new("L", (16, 8)).save(file, "png")
    with serve([folder / "vit", Path(__file__).parents[1] / "compat" / "runs" / "format-1"]) as where:
        yield where, file.getvalue()


def test_another_model_leaves_nothing_of_a_picture(chromium: Any, pictures: tuple[str, bytes]) -> None:
    where, picture = pictures
    page = chromium.new_page()
    page.goto(where)
    page.wait_for_selector(".empty")
    chosen = {"name": "a.png", "mimeType": "image/png", "buffer": picture}
    page.set_input_files("#image", chosen)
    page.wait_for_selector("#answer .output")
    page.select_option("#run", "format-1")
    page.wait_for_selector("text=Je suis")
    page.select_option("#run", "vit")
    page.wait_for_selector("main > .empty:not(.waiting)")
    assert page.locator("#answer .output").count() == 0
    assert page.evaluate("document.getElementById('image').files.length") == 0
    page.set_input_files("#image", chosen)
    page.wait_for_selector("#answer .output")
    page.close()
