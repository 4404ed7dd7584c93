"""Folders of the repository, and the links of a page."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

_CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def link_targets(markdown: str) -> list[str]:
    """Return the relative targets of the links and images of a page, without anchors."""
    targets = re.findall(r"\]\(([^)\s]+)\)", _CODE.sub("", markdown))
    return [place for target in targets if "://" not in target and (place := target.split("#")[0])]
