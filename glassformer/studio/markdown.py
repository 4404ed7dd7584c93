"""Markdown as HTML. HTML inside the Markdown is shown as text."""

from __future__ import annotations

from markdown_it import MarkdownIt

# The page has the heading of level 1, the title of a lesson is of level 2.
_HEADINGS = {"h1": "h2", "h2": "h3", "h3": "h4", "h4": "h5", "h5": "h6"}
_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table")


def render(markdown: str) -> str:
    """Return the HTML of a text: headings one level lower, every table in a box that scrolls."""
    tokens = _MARKDOWN.parse(markdown)
    for token in tokens:
        token.tag = _HEADINGS.get(token.tag, token.tag)
        # The content security policy of the studio forbids style attributes, so the alignment of a column is a class.
        if alignment := token.attrs.pop("style", None):
            token.attrs["class"] = str(alignment).removeprefix("text-align:")
    html: str = _MARKDOWN.renderer.render(tokens, _MARKDOWN.options, {})
    return html.replace("<table>", '<div class="scroll"><table>').replace("</table>", "</table></div>")
