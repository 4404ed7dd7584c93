"""The notebook tour as a page. Its cells are run when the site is built, and their outputs are shown below them."""

from __future__ import annotations

import ast
import io
import json
import tempfile
from contextlib import chdir, redirect_stdout
from functools import cache
from html import escape
from typing import Any

from site_paths import DOCS

NOTEBOOK = DOCS / "notebooks" / "tour.ipynb"


def cells() -> list[tuple[str, str]]:
    """Return the kind ("markdown" or "code") and the text of every cell."""
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    return [(cell["cell_type"], "".join(cell["source"])) for cell in notebook["cells"]]


def markdown() -> str:
    """Return the notebook as Markdown, with a mark in place of each output."""
    parts = [
        text if kind == "markdown" else f"```python\n{text}\n```\n\n{_mark(i)}"
        for i, (kind, text) in enumerate(cells())
    ]
    return "\n\n".join(parts) + "\n"


def with_outputs(html: str) -> str:
    """Return a page with the outputs in place of their marks."""
    for i, output in outputs().items():
        html = html.replace(_mark(i), f'<div class="output">{output}</div>' if output else "")
    return html


def _mark(cell: int) -> str:
    return f'<div id="output-{cell}"></div>'


@cache
def outputs() -> dict[int, str]:
    """Run the notebook in a temporary folder; return the output of each code cell as HTML."""
    names: dict[str, Any] = {"__name__": "__main__"}
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        return {i: run_cell(text, names) for i, (kind, text) in enumerate(cells()) if kind == "code"}


def run_cell(text: str, names: dict[str, Any]) -> str:
    """Run a cell; return what it printed and the value of its last line, as a notebook shows them."""
    tree = ast.parse(text)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with redirect_stdout(printed):
        exec(compile(tree, "<cell>", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
    text = f"<pre><code>{escape(printed.getvalue())}</code></pre>" if printed.getvalue() else ""
    return text if value is None else text + value._repr_html_()
