"""The texts of the views, in one table."""

from __future__ import annotations

ENGLISH: dict[str, str] = {
    "title": "Attention weights",
    "cross": "Encoder–decoder attention",
    "encoder": "Encoder self-attention",
    "decoder": "Masked decoder self-attention",
    "question": "Attention of the text to the question",
    "rows cross": "rows: output tokens; columns: source tokens",
    "rows encoder": "rows: queries; columns: keys",
    "rows decoder": "rows: queries; columns: keys",
    "rows question": "rows: queries; columns: keys",
    "mean": "mean of the heads",
    "all heads": "all heads",
    "layer": "layer",
    "head": "head",
    "kind": "attention",
    "source": "source",
    "output": "output",
    "read": "input",
    "written": "output",
    "teacher-forced": "Teacher forcing: the decoder read the given target.",
    "free-running": "Free running: the decoder read its own output, one step at a time.",
    "step": "step",
    "next": "Most probable next tokens",
    "probability": "probability",
    "tensors": "All tensors",
    "tensor": "tensor",
    "shape": "shape",
    "formula": "formula",
    "numbers": "numbers",
    "put in": "input of the model",
    "table": "as a table",
    "left out": "This file contains the attention weights only: with all tensors it would be larger than {most} MB.",
    "no script": "The interactive views need JavaScript; the tables below do not.",
    "diverges": "step {step}: target {given}, output {own}",
    "same": "the free-running output equals the target",
    "change": "change",
    "before": "before",
    "after": "after",
    "ablation": "change in log-probability when a head is ablated; rows: layers, columns: heads",
    "no picture": "PNG files need matplotlib, which is not installed.",
}


def view_text(key: str, **values: object) -> str:
    """Return the text of a key with its values filled in."""
    return ENGLISH[key].format(**values)
