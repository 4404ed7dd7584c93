"""The events of MkDocs: add the generated pages to the site and point links at them.

Generated pages exist only in the built site: the home page (the README), the lessons, the command reference, the
notebook, and a page for every source file that another page links to.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from posixpath import join, normpath, relpath
from typing import Any

import command_page
import lesson_pages
import notebook_page
from mkdocs.plugins import event_priority
from site_paths import DOCS, ROOT, link_targets

LANGUAGES = {"en": "", "ko": ".ko"}  # ending of a page's name before .md
SOURCES = "source"  # folder of the pages with source code
HIDDEN_FROM_SEARCH = "---\nsearch:\n  exclude: true\n---\n"
CODE = {".py": "python", ".c": "c", ".h": "c", ".toml": "toml", ".js": "javascript", ".sh": "bash", ".yaml": "yaml"}


@cache
def generated() -> dict[str, Callable[[], str]]:
    """Return the path of every generated page in the site's folder, and the function that writes its Markdown."""
    pages: dict[str, Callable[[], str]] = {"commands.md": command_page.markdown}
    for language, ending in LANGUAGES.items():
        pages[f"index{ending}.md"] = lambda ending=ending: home(ending)
        pages |= lesson_pages.pages(language, ending)
    pages["notebooks/tour.md"] = notebook_page.markdown
    return pages | {source_page(file): lambda file=file: source(file) for file in linked_sources()}


def home(ending: str) -> str:
    """Return the README of a language without the link to the other language."""
    text = (ROOT / f"README{ending}.md").read_text(encoding="utf-8")
    without_link = re.sub(r"^\[[^]]+\]\(README(?:\.ko)?\.md\)\n+", "", text, flags=re.MULTILINE)
    return f"---\nhide:\n  - navigation\n---\n{without_link}"


def linked_sources() -> list[str]:
    """Return the files outside docs/ that pages link to, as paths in the repository."""
    pages = [*DOCS.rglob("*.md"), *ROOT.glob("*.md")]
    found = {
        normpath(join(page.parent.relative_to(ROOT).as_posix(), target))
        for page in pages
        if "learn" not in page.relative_to(ROOT).parts
        for target in link_targets(page.read_text(encoding="utf-8"))
    }
    return sorted(path for path in found if is_source(path))


def is_source(path: str) -> bool:
    return not path.startswith(("docs/", "README")) and (ROOT / path).is_file()


def source_page(path: str) -> str:
    """Return the path of the page of a source file, without a dot, which i18n would take for a language."""
    return f"{SOURCES}/{path.replace('.', '-')}.md"


def root_pages() -> set[str]:
    """Return the pages of Markdown files in the folder of the repository, such as CONTRIBUTING.md."""
    return {source_page(file.name) for file in ROOT.glob("*.md")}


def source(path: str) -> str:
    """Return the page of a source file."""
    text = (ROOT / path).read_text(encoding="utf-8")
    if path.endswith(".md"):
        return HIDDEN_FROM_SEARCH + text
    language = CODE.get((ROOT / path).suffix, "text")
    return f'{HIDDEN_FROM_SEARCH}# {path}\n\n````{language} linenums="1"\n{text}````\n'


def site_link(target: str, page: str) -> str | None:
    """Return the link of a page to a path relative to the repository; None if the site does not have it."""
    if is_source(target):
        target = f"docs/{source_page(target)}"
    elif target.startswith("glassformer/lessons/"):
        target = "docs/lessons/index.md"
    elif not target.startswith("docs/"):
        return None
    target = target.replace(".ipynb", ".md")
    return relpath(target, join("docs", page, ".."))


# ------------------------------------------------------------------------------------ events


def on_config(config: Any) -> Any:
    """List the lessons in the navigation; their titles are those of the pages, in each language."""
    learn = next(section["Learn"] for section in config.nav if "Learn" in section)
    lessons = [f"lessons/{lesson.name}.md" for lesson in lesson_pages.lessons("en")]
    if not any("Lessons" in item for item in learn):  # i18n builds the site once per language
        learn.insert(0, {"Lessons": ["lessons/index.md", *lessons]})
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the generated pages. i18n handles them like the others, because its own event comes later."""
    from mkdocs.structure.files import File

    for path in generated():
        files.append(File(path, config.docs_dir, config.site_dir, config.use_directory_urls))
    return files


def on_page_read_source(page: Any, config: Any) -> str | None:
    """Return the Markdown of a generated page; None for a page with a file."""
    write = generated().get(page.file.src_uri)
    return write() if write else None


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Point links to files outside docs/ at their pages; a link to a folder becomes plain text."""
    path = page.file.src_uri
    if path.startswith((SOURCES, "lessons")) and path not in root_pages():
        return markdown
    base = "" if path.startswith("index") or path in root_pages() else normpath(join("docs", path, ".."))

    def replace(link: re.Match[str]) -> str:
        text, target = link["text"], link["target"]
        place, _, anchor = target.partition("#")
        if "://" in target or not place:
            return link[0]
        found = site_link(normpath(join(base, place)), path)
        return text if found is None else f"[{text}]({found}{'#' + anchor if anchor else ''})"

    outside = re.split(r"(^```.*?^```$)", markdown, flags=re.MULTILINE | re.DOTALL)  # odd parts are code
    link = r"\[(?P<text>(?:[^][]|\[[^]]*\])*)\]\((?P<target>[^)\s]+)\)"
    return "".join(part if i % 2 else re.sub(link, replace, part) for i, part in enumerate(outside))


def on_page_content(html: str, page: Any, config: Any, files: Any) -> str:
    """Insert the outputs of the notebook, which Markdown must not change."""
    return notebook_page.with_outputs(html) if page.file.src_uri == "notebooks/tour.md" else html


@event_priority(-200)
def on_post_build(config: Any) -> None:
    """Write the search index as a script for pages opened from a folder, after i18n has put all languages into it."""
    index = Path(config.site_dir, "search", "search_index.json").read_text(encoding="utf-8")
    Path(config.site_dir, "search", "search_index.js").write_text(f"var __index = {index}", encoding="utf-8")
