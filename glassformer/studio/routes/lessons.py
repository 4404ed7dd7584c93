"""The lessons: their list, and each lesson with its Markdown rendered as HTML."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse

from glassformer.errors import Message, UserError
from glassformer.lessons import LANGUAGES, Exercise, Lesson, View, lessons
from glassformer.studio.context import StudioContext
from glassformer.studio.markdown import render
from glassformer.studio.serialization import error_response


def routes(context: StudioContext) -> APIRouter:
    router = APIRouter()

    @router.get("/lessons")
    def list_lessons(language: str) -> list[dict[str, Any]]:
        """Return the name, the title and the number of exercises of every lesson, in order."""
        return [
            {"name": lesson.name, "title": lesson.title, "exercises": len(lesson.of_kind("exercise"))}
            for lesson in _lessons(language)
        ]

    @router.get("/lessons/{name}")
    def lesson(name: str, language: str) -> Response:
        """Return a lesson. Its name is looked up in the list, so it cannot be the path of another file."""
        found = next((lesson for lesson in _lessons(language) if lesson.name == name), None)
        if found is None:
            hint = "open the list of lessons"
            return error_response(404, "There is no lesson with this name.", where=name, hint=hint)
        return JSONResponse(_lesson_json(found))

    return router


def _lessons(language: str) -> tuple[Lesson, ...]:
    if language not in LANGUAGES:
        hint = Message("choose one of {names}", names=", ".join(LANGUAGES))
        raise UserError("There are no lessons in this language.", where=language, hint=hint)
    return lessons(language)


def _lesson_json(lesson: Lesson) -> dict[str, Any]:
    parts = [_part_json(kind, content) for kind, content in lesson.parts]
    return {"name": lesson.name, "title": lesson.title, "parts": parts}


def _part_json(kind: str, content: Any) -> dict[str, Any]:
    match content:
        case View():
            return {"kind": kind, "caption": content.caption, "address": content.address}
        case Exercise():
            return {"kind": kind} | _exercise_json(content)
    return {"kind": kind, "code": content} if kind == "python" else {"kind": kind, "html": render(content)}


def _exercise_json(exercise: Exercise) -> dict[str, Any]:
    return {
        "question": render(exercise.question),
        "options": exercise.options,
        "answer": exercise.answer,
        "tolerance": exercise.tolerance,
        "hint": render(exercise.hint),
        "solution": render(exercise.solution),
    }
