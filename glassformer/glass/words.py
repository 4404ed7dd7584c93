"""What views say to people, in one place, so that another language is one more table.

Attention is called "where it looked": what it was used for is another question, which interventions ask.
"""

from __future__ import annotations

ENGLISH: dict[str, str] = {
    "title": "Where it looked",
    "cross": "The decoder at the source",
    "encoder": "The encoder at the source",
    "decoder": "The decoder at what it has read",
    "question": "The text at the question",
    "rows cross": "down: what it wrote; across: the source",
    "rows encoder": "down: the piece that looks; across: where",
    "rows decoder": "down: the piece that looks; across: where",
    "rows question": "down: the piece that looks; across: where",
    "mean": "mean of the heads",
    "all heads": "all heads",
    "layer": "layer",
    "head": "head",
    "kind": "attention",
    "source": "source",
    "output": "output",
    "read": "read",
    "written": "wrote",
    "teacher-forced": "It read the given target.",
    "free-running": "It read what it had written itself, one step at a time.",
    "step": "step",
    "next": "What could have come next",
    "probability": "probability",
    "tensors": "Every named tensor",
    "tensor": "tensor",
    "shape": "shape",
    "formula": "formula",
    "numbers": "numbers",
    "put in": "put in",
    "no formula": "no formula is known for this tensor",
    "table": "as a table",
    "left out": "Only attention is in this file: with every tensor it would be larger than {most} MB.",
    "no script": "The tables below need no script; the pictures do.",
    "diverges": "step {step}: given {given}, wrote {own}",
    "same": "the free run wrote the given target",
    "change": "change in log-probability",
    "before": "before",
    "after": "after",
    "silenced": "change in log-probability when a head is silenced; layers down, heads across",
    "no picture": "PNG pictures need matplotlib, which is not installed.",
}


def say(key: str, **values: object) -> str:
    return ENGLISH[key].format(**values)
