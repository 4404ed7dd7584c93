"""The pages of the documentation, and the modules that generate some of them."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "docs" / "hooks"))
