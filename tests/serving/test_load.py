"""64 clients, a killed worker and a reload at the same time: every answer is what `glassformer translate` writes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from glassformer.phrasebook.corpus import phrasebook

SOAK = Path(__file__).parents[2] / "bench" / "soak.py"


def test_translations_under_load(english_french: Path, tmp_path: Path) -> None:
    lines = tmp_path / "lines.en"
    lines.write_text("\n".join(triple.text("en") for triple in phrasebook(size=300).train), encoding="utf-8")
    options = ("--lines", lines, "--target", "fr", "--seconds", "5", "--clients", "64", "--rate", "0")
    done = subprocess.run([sys.executable, SOAK, english_french, *options], capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout, done.stderr)
    found = json.loads(done.stdout)
    assert found["answers"] > 64 and found["lost_workers"] == 1 and found["reloaded"] == found["stopped"] == 1
    assert found["not_json"] == []
    assert found["poisoned"] == found["refused"] == found["failed"] == found["error"] == 0
