"""The lessons of glassformer/lessons as pages: views of the studio become links, exercises can be unfolded."""

from __future__ import annotations

import json
from collections.abc import Callable
from textwrap import indent
from typing import Any
from urllib.parse import urlencode

from site_paths import ROOT

from glassformer.lessons import Exercise, Lesson, View, lessons

STUDIO = "http://127.0.0.1:8000/"  # where `glassformer studio` listens
TEXTS = {
    "en": {
        "language": "en",
        "lessons": "Lessons",
        "intro": "Each lesson makes one claim, shows it in a real model, corrects a common misreading, computes it in "
        "Python and ends with an exercise.",
        "studio": "The studio has the same lessons, with live views of the models. These commands train the small "
        "models of the lessons, which takes a few minutes, and open the studio:",
        "view": "In the studio: {view}",
        "open view": "Open this view",
        "of model": "of the model `{run}`. The studio must be running: [how to open it](index.md#studio).",
        "exercise": "Exercise",
        "hint": "Hint",
        "solution": "Answer and solution",
        "answer": "Answer",
    },
    "ko": {
        "language": "ko",
        "lessons": "강의",
        "intro": "각 강의는 핵심 하나를 설명하고, 실제 모델에서 확인한 뒤, 흔한 오해를 바로잡고, "
        "파이썬으로 계산해 봅니다. 마지막에는 연습 문제가 있습니다.",
        "studio": "스튜디오에도 같은 강의가 있으며, 모델 화면이 강의 안에 함께 나옵니다. "
        "다음 명령으로 강의에 쓰는 작은 모델을 학습하고(몇 분 걸립니다) 스튜디오를 엽니다.",
        "view": "스튜디오: {view}",
        "open view": "이 화면 열기",
        "of model": "(모델 `{run}`). 스튜디오가 실행 중이어야 합니다: [여는 방법](index.md#studio).",
        "exercise": "연습 문제",
        "hint": "힌트",
        "solution": "정답과 풀이",
        "answer": "정답",
    },
}
MESSAGES = json.loads((ROOT / "glassformer/studio/static/messages.json").read_text(encoding="utf-8"))


def pages(language: str, ending: str) -> dict[str, Callable[[], str]]:
    """Return the pages of a language: the list, and one page per lesson."""
    found = {f"lessons/index{ending}.md": lambda: index(language)}
    return found | {f"lessons/{one.name}{ending}.md": lambda one=one: page(one) for one in lessons(language)}


def index(language: str) -> str:
    texts = TEXTS[language]
    listed = "\n".join(f"{n}. [{one.title}]({one.name}.md)" for n, one in enumerate(lessons(language), 1))
    commands = "```bash\nglassformer lessons\nglassformer studio runs/lessons/*\n```"
    studio = f"{texts['studio']}\n{{: #studio }}"
    return f"# {texts['lessons']}\n\n{texts['intro']}\n\n{listed}\n\n{studio}\n\n{commands}\n"


def page(lesson: Lesson) -> str:
    """Return a lesson as the Markdown of a page."""
    title = f"{int(lesson.name[:2])}. {lesson.title}"
    front = f"---\ntitle: {json.dumps(title, ensure_ascii=False)}\n---\n# {title}"
    return "\n\n".join([front, *(part(kind, content, TEXTS[lesson.language]) for kind, content in lesson.parts)]) + "\n"


def part(kind: str, content: Any, texts: dict[str, str]) -> str:
    if kind == "markdown":
        return str(content)
    if kind == "python":
        return f"```python\n{content}```"
    return view(content, texts) if kind == "view" else exercise(content, texts)


def view(shown: View, texts: dict[str, str]) -> str:
    """Return a box with what the view shows, and the link that opens it."""
    parameters = {name: value for name, value in shown.address.items() if name != "view"}
    name = MESSAGES[f"view {shown.address['view']}"][texts["language"]]
    model = texts["of model"].format(run=parameters["run"]) if "run" in parameters else ""
    link = f"{STUDIO}#/{shown.address['view']}?{urlencode(parameters)}"
    return box(
        "!!!", "example", texts["view"].format(view=name), f"{shown.caption}\n\n[{texts['open view']}]({link}) {model}"
    )


def exercise(asked: Exercise, texts: dict[str, str]) -> str:
    """Return the question, and its hint and its solution to unfold."""
    options = "\n".join(f"- {option}" for option in asked.options)
    answer = f"{texts['answer']}: **{asked.answer}**\n\n{asked.solution}"
    return "\n\n".join(
        [
            box("!!!", "question", texts["exercise"], f"{asked.question}\n\n{options}".strip()),
            box("???", "tip", texts["hint"], asked.hint),
            box("???", "success", texts["solution"], answer),
        ]
    )


def box(fold: str, kind: str, title: str, text: str) -> str:
    return f'{fold} {kind} "{title}"\n\n{indent(text, "    ")}'
