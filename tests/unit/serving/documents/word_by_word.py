"""Translations whose right result is known: every word in capitals, in the same order or reversed."""

from __future__ import annotations

from glassformer.serving.documents.document import Document
from glassformer.serving.jobs import Hypothesis


def same_order(text: str) -> Hypothesis:
    words = text.split()
    return Hypothesis(" ".join(words).upper(), 0.0, tuple((i, i) for i in range(len(words))))


def reversed_order(text: str) -> Hypothesis:
    words = text.split()
    return Hypothesis(" ".join(words[::-1]).upper(), 0.0, tuple((len(words) - 1 - i, i) for i in range(len(words))))


def translated(document: Document, *, reverse: bool = False) -> str:
    translate = reversed_order if reverse else same_order
    return document.render([translate(source.text) for source in document.sources])
