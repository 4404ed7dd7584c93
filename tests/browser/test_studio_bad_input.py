"""What goes wrong, gone wrong in the real page: each ends in a sentence that is read there, and in no error of ours."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import Request, urlopen

import pytest

from glassformer.studio.trace_store import MAX_TRACES

FROZEN = Path(__file__).parents[1] / "compat" / "runs" / "format-1"
VIEWS = ["worksheet", "attention", "decode", "positions", "positions?part=masks", "stream", "intervene", "compare"]
MARKUP = "<img src=x onerror=\"document.title='broken in'\"><script>document.title='broken in'</script>"


@pytest.fixture(scope="module")
def doomed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of a run, to be deleted while somebody looks at it."""
    return Path(shutil.copytree(FROZEN, tmp_path_factory.mktemp("doomed") / "doomed"))


@pytest.fixture(scope="module")
def address(serve: Any, untrained: dict[str, Path], doomed: Path) -> Iterator[str]:
    with serve([FROZEN, untrained["gru"], doomed]) as where:
        yield where


def at(view: str, **where: str) -> str:
    return f"#/{view}{'&' if '?' in view else '?'}{'&'.join(f'{key}={quote(value)}' for key, value in where.items())}"


def told(page: Any, sentence: str) -> None:
    page.get_by_role("alert").get_by_text(sentence).first.wait_for()


# ------------------------------------------------------------------------------------------ what is typed


@pytest.mark.parametrize("view", [*VIEWS, "training"])
def test_nothing_is_typed(open_page: Any, view: str) -> None:
    page = open_page(f"#/{view}" if view == "training" else at(view, text="  "))
    if view != "training":  # which also shows what does not depend on a sentence
        page.locator("main").get_by_text("Type a sentence and press Enter").wait_for()
    page.fill("#text", "   ")
    page.keyboard.press("Enter")
    told(page, "The input is empty. Type a sentence.")
    page.fill("#text", "I am a student")  # and goes on
    page.keyboard.press("Enter")
    page.wait_for_selector("main .panel")


@pytest.mark.parametrize("view", ["worksheet", "compare", "training"])
def test_ten_thousand_words(open_page: Any, view: str) -> None:
    page = open_page(f"#/{view}", refusals=True)
    page.evaluate("text => { document.querySelector('#text').value = text; }", "word " * 10_000)
    page.get_by_role("button", name="Run").click()
    told(page, "The text is too long: 49,999 characters.")
    page.get_by_text("Hint: use at most 256 tokens").wait_for()


def test_ten_thousand_words_as_a_target(open_page: Any) -> None:
    page = open_page("#/decode", refusals=True)
    page.evaluate("text => { document.querySelector('#given').value = text; }", "mot " * 10_000)
    page.get_by_role("button", name="Compare").click()
    told(page, "The text is too long")


@pytest.mark.parametrize("view", VIEWS)
def test_any_text_is_shown_as_text(open_page: Any, view: str) -> None:
    text = f"{MARKUP} 😀 🙂 👩‍👩‍👧 I am a student \u202eleft &amp; right"
    page = open_page(at(view, text=text))
    page.wait_for_selector("main .panel")
    assert page.input_value("#text") == text
    assert page.locator("img, main script").count() == 0 and "broken in" not in page.title()


def test_what_no_piece_has_is_read_as_bytes(open_page: Any) -> None:
    page = open_page(at("worksheet", text=MARKUP))
    assert page.locator(".chips").first.locator("span").nth(1).inner_text() == "<0x3C>"  # the byte of <, as a piece


@pytest.mark.parametrize(
    ("where", "said"),
    [
        (at("worksheet", run=MARKUP), "There is no model “<img"),
        (at("intervene", changes=MARKUP), "'<img"),
        (at("decode", forced="0:999999"), "There is no token 999999."),
        (at("worksheet", block="encoder.0.self", tensor="encoder.0.self.scores", cell="9,9,99"), "The index 9"),
    ],
)
def test_an_address_that_somebody_wrote(open_page: Any, where: str, said: str) -> None:
    page = open_page(where, refusals=True)
    told(page, said)
    assert page.locator("img").count() == 0


@pytest.mark.parametrize(
    "where",
    [
        at(MARKUP, text="I am a student"),
        "#/constructor",
        "#/worksheet?layer=x&block=no&tensor=no&cell=x",
        "#/attention?kind=no&layer=x&head=-1&row=1.5",
        "#/decode?step=-4&temperature=x&k=y&beam=z",
        "#/positions?part=constructor&side=no&place=x&feature=y&length=z",
        "#/positions?part=together&a=x&b=99",
        "#/positions?part=masks&padding=0&kind=no&layer=-1&head=x",
        "#/stream?side=no&what=no&token=x&feature=y&place=z&lens=q&at=r",
        "#/compare?other=nobody&layer-a=x&head-a=99",
        "#/training?step=x&kind=no&layer=y&head=z",
    ],
)
def test_what_an_address_says_wrongly_is_passed_over(open_page: Any, where: str) -> None:
    page = open_page(where)
    page.wait_for_selector("main .panel")
    assert page.get_by_role("alert").count() == 0


# ------------------------------------------------------------------------------------------ what is no longer there


def test_a_run_that_is_deleted_while_somebody_looks(open_page: Any, doomed: Path) -> None:
    page = open_page("#/attention?run=doomed&text=I+am+a+student", refusals=True)
    moved = doomed.rename(doomed.with_name("moved"))
    try:
        page.get_by_role("button", name="layer 1, head 3").click()  # what was computed is still there
        page.get_by_role("heading", name="layer 1, head 3").wait_for()
        for view in ("Decode", "Intervene", "Compare", "Training"):
            page.get_by_role("link", name=view).click()
            told(page, "The run folder or its weights were moved")
        page.fill("#text", "The cat is small.")
        page.keyboard.press("Enter")
        told(page, "The run folder or its weights were moved")
        page.get_by_text("Hint: restore the folder").first.wait_for()
        page.reload()
        told(page, "There is no model “doomed”")
        page.select_option("#run", "format-1")
        page.wait_for_selector(".output")
    finally:
        moved.rename(doomed)


def test_what_is_wrong_is_said_in_the_language_of_the_page(open_page: Any, doomed: Path) -> None:
    page = open_page("#/worksheet?run=doomed&text=I+am+a+student", refusals=True, locale="ko-KR")
    page.fill("#text", " ")
    page.keyboard.press("Enter")
    told(page, "입력이 비어 있습니다. 문장을 입력하세요.")
    page.evaluate("text => { document.querySelector('#text').value = text; }", "word " * 10_000)
    page.get_by_role("button", name="실행").click()
    told(page, "텍스트가 너무 깁니다: 49,999자.")
    page.get_by_text("해결 방법: 토큰 256개 이하로 입력하세요").wait_for()
    moved = doomed.rename(doomed.with_name("moved"))
    try:
        page.fill("#text", "The cat is small.")
        page.keyboard.press("Enter")
        told(page, "실행 폴더나 가중치 파일이 이동 또는 삭제되었습니다.")
    finally:
        moved.rename(doomed)
    page.route("**/api/traces/*/**", lambda route: route.continue_(url=_with_trace(route.request.url, "unknown")))
    page.goto(page.url.partition("#")[0] + "#/stream?run=doomed&text=I+am+a+student")
    told(page, "트레이스가 없거나 만료되었습니다.")


def test_a_trace_that_is_no_longer_kept_is_asked_for_again(open_page: Any, address: str) -> None:
    page = open_page("#/attention?kind=encoder&text=I+am+a+student", refusals=True)
    question = json.dumps({"run": "format-1", "text": "I"}).encode()
    for _ in range(MAX_TRACES):  # others ask so much that this one is let go
        urlopen(Request(f"{address}/api/traces", question, {"Content-Type": "application/json"}, method="POST")).close()
    page.get_by_role("button", name="layer 2, head 4").click()
    page.get_by_role("heading", name="layer 2, head 4").wait_for()
    assert page.locator(".field").count() == 1 and page.get_by_role("alert").count() == 0


def test_a_server_that_does_not_answer(open_page: Any) -> None:
    page = open_page("#/attention?kind=encoder", refusals=True)
    page.context.set_offline(True)
    page.get_by_role("button", name="layer 2, head 4").click()
    told(page, "The studio server does not respond.")
    page.context.set_offline(False)
    page.get_by_role("button", name="layer 2, head 3").click()
    page.get_by_role("heading", name="layer 2, head 3").wait_for()


# ------------------------------------------------------------------------------------------ what is somebody else's


def test_the_trace_of_another_visitor(open_page: Any, address: str) -> None:
    mine, theirs = (open_page("#/attention?text=I+am+a+student", refusals=True) for _ in range(2))
    with theirs.expect_response("**/api/traces") as asked:
        theirs.fill("#text", "Our secret is safe.")
        theirs.keyboard.press("Enter")
    secret = asked.value.json()["id"]
    # In every request of the page, as if its own trace had this number.
    mine.route("**/api/traces/*/**", lambda route: route.continue_(url=_with_trace(route.request.url, secret)))
    mine.get_by_role("link", name="Residual stream").click()
    told(mine, "The trace does not exist or has expired.")
    assert "secret" not in mine.locator("body").inner_text()
    mine.unroute_all()
    for part in ("choices", "written", "values?name=encoder.tokens", "weights?kind=encoder"):
        answer = mine.goto(f"{address}/api/traces/{secret}/{part}")
        assert answer.status == 404 and "The trace does not exist" in mine.locator("body").inner_text()
    assert theirs.evaluate("id => fetch(`/api/traces/${id}/written`).then(answer => answer.status)", secret) == 200


def _with_trace(url: str, trace: str) -> str:
    before, _, after = url.partition("/api/traces/")
    return f"{before}/api/traces/{trace}/{after.partition('/')[2]}"
