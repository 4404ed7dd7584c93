"""The lessons as the studio sends them."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient
from test_messages import is_translated

from glassformer.lessons import LANGUAGES, lessons
from glassformer.studio.markdown import render

NAME = "09-self-attention-by-hand"


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_list_has_all_lessons_in_order(visitor: TestClient, language: str) -> None:
    found = visitor.get("/api/lessons", params={"language": language}).json()
    assert [(one["name"], one["title"]) for one in found] == [(one.name, one.title) for one in lessons(language)]
    assert all(one["exercises"] >= 1 for one in found)


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_lesson_has_its_parts_in_order(visitor: TestClient, language: str) -> None:
    for lesson in lessons(language):
        found = visitor.get(f"/api/lessons/{lesson.name}", params={"language": language}).json()
        assert (found["name"], found["title"]) == (lesson.name, lesson.title)
        assert [part["kind"] for part in found["parts"]] == [kind for kind, _ in lesson.parts]


def test_the_parts_of_a_lesson(visitor: TestClient) -> None:
    lesson = next(one for one in lessons("en") if one.name == NAME)
    parts = visitor.get(f"/api/lessons/{NAME}", params={"language": "en"}).json()["parts"]
    markdown, view, python, exercise = (
        next(part for part in parts if part["kind"] == kind) for kind in ("markdown", "view", "python", "exercise")
    )
    assert markdown["html"].startswith("<h3>The claim</h3>\n<p>")
    assert view["address"] == {"view": "worked", "cell": "scores,1,2"}
    assert view["caption"] == lesson.of_kind("view")[0].caption
    assert python["code"] == lesson.of_kind("python")[0]
    assert (exercise["answer"], exercise["tolerance"], exercise["options"]) == (12.0, 0.01, [])
    assert exercise["question"].startswith("<p>What is the score")
    assert "check" not in exercise


@pytest.mark.parametrize("name", ["nothing", "..", "%2e%2e%2fen%2f" + NAME, "..%2f__init__.py", f"{NAME}.md", "%00"])
def test_an_unknown_lesson_is_not_found(visitor: TestClient, name: str) -> None:
    answer = visitor.get(f"/api/lessons/{name}", params={"language": "en"})
    assert answer.status_code == 404 and "def " not in answer.text


def test_the_error_of_an_unknown_lesson_has_a_hint(visitor: TestClient) -> None:
    error = visitor.get("/api/lessons/nothing", params={"language": "en"}).json()
    assert error["what"] == "There is no lesson with this name."
    assert error["where"] == "nothing" and error["hint"]
    assert all(map(is_translated, error["messages"].values()))


@pytest.mark.parametrize("path", ["/api/lessons", f"/api/lessons/{NAME}"])
@pytest.mark.parametrize("language", ["fr", "", "../en", "EN"])
def test_an_unknown_language_is_refused(visitor: TestClient, path: str, language: str) -> None:
    answer = visitor.get(path, params={"language": language})
    assert answer.status_code == 400 and answer.json()["hint"] == "choose one of en, ko"


def test_only_the_studio_itself_may_frame_its_pages(visitor: TestClient) -> None:
    for path in ("/", "/?embedded=1", "/api/lessons?language=en"):
        assert "frame-ancestors 'self'" in visitor.get(path).headers["content-security-policy"]


def test_html_and_scripts_in_markdown_are_text() -> None:
    html = render("<script>alert(1)</script> <b onclick=a>x</b> [link](javascript:alert(1))")
    assert "<script" not in html and "<b " not in html and "href" not in html


def test_a_table_scrolls_and_has_no_style_attributes() -> None:
    html = render("| a | b |\n|---|--:|\n| 1 | 2 |")
    assert html.startswith('<div class="scroll"><table>') and html.rstrip().endswith("</table></div>")
    assert '<td class="right">2</td>' in html and "style" not in html


def test_headings_are_below_the_title() -> None:
    assert render("## a\n\n### b") == "<h3>a</h3>\n<h4>b</h4>\n"
