"""The views that ask, in a real browser: what if, which of two, and how it came to be."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from taking import can_be_taken_away

import glassformer as gf
from glassformer.glass.interventions import Average, ForceToken, Silence
from glassformer.inference.run import load_run
from glassformer.inference.translator import Translator
from glassformer.training.events import Finished, LogFile, Progress, Started

FROZEN = Path(__file__).parents[1] / "compat" / "runs" / "format-1"
SENTENCE = "The animal didn't cross the street because it was too tired."
TIRED = "text=The+animal+didn%27t+cross+the+street+because+it+was+too+tired."
VIEWS = ["#/intervene?run=gru", "#/compare?run=format-1&other=gru", "#/training?run=transformer&step=10"]


@pytest.fixture(scope="module")
def runs(small_runs: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run with no log, three small ones, and one that is to be trained further while somebody looks."""
    growing = shutil.copytree(small_runs["gru"], tmp_path_factory.mktemp("growing") / "growing")
    (growing / "README.md").unlink()
    return {"format-1": FROZEN, **small_runs, "growing": growing}


@pytest.fixture(scope="module")
def address(serve: Any, runs: dict[str, Path]) -> Iterator[str]:
    with serve(list(runs.values())) as where:
        yield where


@pytest.fixture(scope="module")
def translator() -> Any:
    return gf.load(FROZEN)


def number(text: str) -> float:
    return float(text.replace("−", "-"))


# ------------------------------------------------------------------------------------------ intervene


def test_a_head_is_ablated(open_page: Any, translator: Any) -> None:
    page = open_page(f"#/intervene?run=format-1&{TIRED}")
    page.get_by_label("Attention", exact=True).select_option("encoder.1.self")
    page.get_by_label("Head", exact=True).select_option(label="3")
    page.get_by_role("button", name="Apply").click()
    page.wait_for_selector(".swings li")
    effect = translator.effect(SENTENCE, [Silence("encoder.1.self", 2)])
    shown = page.locator(".swings .number").evaluate_all("all => all.map(one => one.title)")
    for text, before, after in zip(shown, effect.before, effect.after, strict=True):
        assert number(text) == pytest.approx(after - before, abs=1e-6)
    outputs = page.locator("main .output").all_inner_texts()
    assert outputs == [translator.tokenizer.decode(ids) for ids in (effect.output_before, effect.output_after)]
    assert "changes=silence%3Dencoder.1.self.2" in page.url
    page.reload()
    page.wait_for_selector(".swings li")
    page.get_by_role("button", name="Remove: Encoder, layer 2, self-attention, head 3: ablated").click()
    page.get_by_text("No interventions yet.").wait_for()


def test_the_grid_is_read_and_chosen_from(open_page: Any, translator: Any) -> None:
    page = open_page(f"#/intervene?run=format-1&grid=cross&{TIRED}")
    page.locator(".field").focus()
    for key in ("ArrowRight", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    expected = translator.ablate_heads(SENTENCE, kind="cross").change[1][1]
    assert number(page.locator(".readout strong").inner_text()) == pytest.approx(expected, abs=1e-6)
    page.wait_for_function("() => location.hash.includes('silence%3Ddecoder.1.cross.1')")
    page.wait_for_selector(".swings li")
    total = translator.effect(SENTENCE, [Silence("decoder.1.cross", 1)]).change
    said = re.search(r"change: (\S+)\)\.$", page.locator(".total").inner_text())
    assert said is not None and number(said[1]) == pytest.approx(total, abs=1e-5) == pytest.approx(expected, abs=1e-3)


def test_every_kind_of_change_can_be_made(open_page: Any, translator: Any) -> None:
    page = open_page("#/intervene?run=format-1&text=I+am+a+student")
    kinds = page.get_by_role("group", name="Interventions").get_by_role("button")
    names = kinds.all_inner_texts()
    assert len(names) == 7
    for i, name in enumerate(names):
        kinds.nth(i).click()
        if name == "edit a row":
            page.wait_for_selector(".sliders input")
            page.locator(".sliders input").first.fill("1000")
        page.get_by_role("button", name="Apply").click()
        page.wait_for_function("n => document.querySelectorAll('.chips.acting li').length === n", arg=i + 1)
    page.wait_for_selector(".swings li")
    page.get_by_role("button", name="Remove all").click()
    page.get_by_text("No interventions yet.").wait_for()
    kinds.nth(names.index("force a token")).click()
    page.get_by_role("button", name="Apply").click()
    page.wait_for_selector(".swings li")
    second = translator.trace("I am a student").next_tokens(2)[0][1]
    effect = translator.effect("I am a student", [ForceToken(0, second.token)])
    assert page.locator("main .output").nth(1).inner_text() == translator.tokenizer.decode(effect.output_after)


def test_a_recurrent_network_is_averaged_and_has_no_grid(open_page: Any, runs: dict[str, Path]) -> None:
    page = open_page("#/intervene?run=gru&text=The+cat+is+small.&changes=average%3Ddecoder.cross.0")
    page.get_by_text("no multi-head attention layers to ablate").wait_for()
    page.wait_for_selector(".swings li")
    effect = gf.load(runs["gru"]).effect("The cat is small.", [Average("decoder.cross", 0)])
    shown = page.locator(".swings .number").evaluate_all("all => all.map(one => one.title)")
    assert sum(map(number, shown)) == pytest.approx(effect.change, abs=1e-5)
    assert page.get_by_role("button", name="remove the positional encoding").count() == 0


# ------------------------------------------------------------------------------------------ compare


def test_two_runs_on_one_sentence(open_page: Any, runs: dict[str, Path], translator: Any) -> None:
    page = open_page(f"#/compare?run=format-1&other=gru&{TIRED}")
    page.wait_for_selector(".in-numbers td")
    other = gf.load(runs["gru"])
    other.settings = other.settings.model_copy(update={"guard": False})  # a page shows loops
    outputs = [one.translate([SENTENCE], beam=1)[0].text for one in (translator, other)]
    assert page.locator("main .output").all_inner_texts() == [output or "–" for output in outputs]
    cells = dict(page.locator(".in-numbers tbody tr").evaluate_all(
        "all => all.map(row => [row.cells[0].textContent, [...row.cells].slice(1).map(cell => cell.textContent)])"
    ))  # fmt: skip
    assert cells["Parameters"] == [f"{sum(p.numel() for p in one.model.parameters()):,}" for one in (translator, other)]
    log = [json.loads(line) for line in (runs["gru"] / "log.jsonl").read_text().splitlines()]
    tested = next(event for event in log if event["event"] == "tested")
    assert cells["BLEU, validation set"] == ["–", f"{tested['scores']['bleu']:.2f}"]
    own = translator.translate([SENTENCE], beam=1)[0].candidates[0].log_probability
    assert number(cells["Log-probability of its own output"][0]) == pytest.approx(own, abs=1e-4)


def test_both_maps_are_read(open_page: Any, runs: dict[str, Path], translator: Any) -> None:
    page = open_page(f"#/compare?run=format-1&other=gru&{TIRED}")
    sides = ((translator, "decoder.1.cross.weights"), (gf.load(runs["gru"]), "decoder.cross.weights"))
    for side, (loaded, name) in enumerate(sides):
        panel = page.locator(".side").nth(side)
        panel.locator(".field").click(position={"x": 5, "y": 5})
        trace = loaded.trace(SENTENCE, loaded.translate([SENTENCE], beam=1)[0].text)
        expected = float(trace[name].mean(dim=0)[0, 0])
        assert number(panel.locator(".readout strong").inner_text()) == pytest.approx(expected, abs=1e-6)
    page.locator(".side").first.get_by_label("Head", exact=True).select_option(label="4")
    page.wait_for_function("() => location.hash.includes('head-a=3')")


def test_a_model_that_does_not_look_at_the_source(open_page: Any) -> None:
    page = open_page("#/compare?run=format-1&other=plain&text=I+am+a+student")
    page.get_by_text("has no encoder–decoder attention").wait_for()
    page.get_by_label("Compare format-1 with").select_option("gru")
    page.wait_for_function("() => document.querySelectorAll('.side .field').length === 2")
    assert "other=gru" in page.url


# ------------------------------------------------------------------------------------------ training


def test_the_log_as_curves(open_page: Any, runs: dict[str, Path]) -> None:
    page = open_page("#/training?run=transformer&text=The+cat+is+small.")
    page.get_by_text("Ended at step 20 of 20").wait_for()
    log = [json.loads(line) for line in (runs["transformer"] / "log.jsonl").read_text().splitlines()]
    progress = [event for event in log if event["event"] == "progress"]
    page.locator(".plot").first.focus()
    page.keyboard.press("ArrowRight")
    said = page.locator(".readout").first.inner_text()
    assert f"Step 10: training {progress[0]['loss']:.3f}" in said
    page.locator(".twin summary").nth(2).click()
    shown = page.locator("section", has=page.get_by_role("heading", name="Learning rate")).locator("td:last-child")
    shown.first.wait_for()
    assert [number(text) for text in shown.all_inner_texts()] == [event["lr"] for event in progress]


def test_the_ticks_of_a_chart_can_be_told_apart(open_page: Any) -> None:
    page = open_page("#/training?run=transformer&text=The+cat+is+small.")
    page.wait_for_selector(".plot .tick-name")
    read = """async most => {
        const { chart } = await import("/static/js/chart.js");
        const plot = chart({ label: "test", onchoose: () => {} });
        plot.update([{ name: "lr", hue: "residual", points: [[0, 0], [10, most]] }]);
        return [...plot.element.querySelectorAll(".tick-name[x='52']")].map(one => one.textContent);
    }"""
    assert page.evaluate(read, 0.0021) == ["0", "0.001", "0.002", "0.003"]
    for most in (7.7, 0.31, 0.0019, 0.00088, 3.1e-5, 9.7e-9, 1234.0, 250_000.0):
        shown = page.evaluate(read, most)
        numbers = [float(text) for text in shown]
        step = numbers[1]
        assert numbers == pytest.approx([i * step for i in range(len(numbers))], rel=1e-9)
        assert numbers[-1] >= 0.999 * most


def test_a_sentence_at_every_checkpoint(open_page: Any, runs: dict[str, Path]) -> None:
    text, folder = "The cat is small.", runs["transformer"]
    page = open_page("#/training?run=transformer&text=The+cat+is+small.")
    page.locator(".checkpoints").get_by_role("heading", name="Step 20").wait_for()
    page.locator(".checkpoints").get_by_role("button", name="Back").click()
    page.locator(".checkpoints").get_by_role("heading", name="Step 10").wait_for()
    run = load_run(folder, weights=folder / "checkpoints" / "step-10" / "model.safetensors")
    then = Translator(run.model, run.tokenizer, run.settings.decode)
    assert page.locator(".checkpoints .output").inner_text() == (then.translate([text], beam=1)[0].text or "–")
    page.locator(".checkpoints .field").click(position={"x": 5, "y": 5})
    target = gf.load(folder).translate([text], beam=1)[0].text
    expected = float(then.trace(text, target)["decoder.1.cross.weights"][0, 0, 0])
    assert number(page.locator(".checkpoints .readout strong").inner_text()) == pytest.approx(expected, abs=1e-6)
    assert "step=10" in page.url
    page.wait_for_function("() => document.querySelectorAll('.checkpoints .two tbody tr').length === 2")
    page.get_by_role("button", name="Play").click()
    page.locator(".checkpoints").get_by_role("heading", name="Step 20").wait_for()


def test_a_training_that_goes_on_is_followed(open_page: Any, runs: dict[str, Path]) -> None:
    page = open_page("#/training?run=growing&text=The+cat+is+small.")
    write = LogFile(runs["growing"] / "log.jsonl")
    write(Started(20, 40, 1000, "cpu"))
    write(Progress(step=30, epoch=3, loss=1.25, lr=0.001, gradient_norm=0.5, tokens_per_second=10.0))
    page.get_by_text("Training: step 30 of 40").wait_for()
    page.locator(".plot").first.press("End")
    assert "Step 30: training 1.250" in page.locator(".readout").first.inner_text()
    shutil.copytree(runs["growing"] / "checkpoints" / "step-20", runs["growing"] / "checkpoints" / "step-30")
    page.wait_for_function("() => document.querySelector('.checkpoints input[type=range]').max === '2'")
    write(Finished(40, "interrupted", 90.0))
    page.get_by_text("Ended at step 40 of 40 after 1.5 minutes: interrupted.").wait_for()


def test_a_run_without_a_log_says_so(open_page: Any) -> None:
    page = open_page("#/training?run=format-1")
    page.get_by_role("main").get_by_text("This run has no training log").first.wait_for()
    page.get_by_text("has no checkpoints").wait_for()


# ------------------------------------------------------------------------------------------ all three


@pytest.mark.parametrize(
    ("where", "within"),
    [
        ("#/intervene?run=format-1&changes=cut%3Dencoder.0.ff", ".view > section"),
        ("#/intervene?run=format-1", ".two > section:last-child"),
        ("#/compare?run=format-1&other=gru", ".pair"),
        ("#/compare?run=format-1&other=gru", ".in-numbers"),
        ("#/training?run=transformer", ".two > section:first-child"),
        ("#/training?run=transformer", ".checkpoints"),
    ],
)
def test_what_is_taken_away_can_be_read(open_page: Any, where: str, within: str) -> None:
    page = open_page(where)
    can_be_taken_away(page, within, rows=2)


@pytest.mark.parametrize("where", VIEWS)
def test_nothing_is_cut_off_on_a_phone_in_korean(open_page: Any, where: str) -> None:
    page = open_page(where, viewport={"width": 360, "height": 740}, locale="ko-KR")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    messages = json.loads((Path(gf.__file__).parent / "studio" / "static" / "messages.json").read_text("utf-8"))
    shown = page.locator("main h2, main h3, main button, main p, main th").all_inner_texts()
    assert not {key for key in messages if " " in key and key in shown}  # a message that was not found


def test_every_message_has_both_languages() -> None:
    messages = json.loads((Path(gf.__file__).parent / "studio" / "static" / "messages.json").read_text("utf-8"))
    for key, said in messages.items():
        assert set(said) == {"en", "ko"} and all(said.values()), key
        assert set(re.findall(r"\{\w+\}", said["en"])) == set(re.findall(r"\{\w+\}", said["ko"])), key
