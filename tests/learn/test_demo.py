"""The demo, as `make demo` runs it: a translator in minutes that resolves pronouns."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import glassformer as gf


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    command = [sys.executable, "-m", "glassformer", "demo", "--json"]
    folder = tmp_path_factory.mktemp("demo")
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    scores = json.loads(done.stdout.splitlines()[-1])
    return scores | {"run": folder / scores["run"]}


@pytest.mark.learns
def test_demo_translates_unseen_sentences(demo: dict[str, float]) -> None:
    assert demo["exact_match"] >= 95
    assert demo["pronoun_exact_match"] >= 90
    assert demo["bleu"] >= 95


@pytest.mark.learns
def test_demo_resolves_pronouns(demo: dict[str, Path]) -> None:
    translator = gf.load(demo["run"])
    start = "The animal didn't cross the street because it was too "
    tired, wide = translator([start + "tired.", start + "wide."])
    assert tired == "L'animal n'a pas traversé la rue parce qu'il était trop fatigué."
    assert wide == "L'animal n'a pas traversé la rue parce qu'elle était trop large."
    assert translator("I am a student") == "Je suis étudiant"


@pytest.mark.learns
def test_demo_output_does_not_depend_on_the_batch(demo: dict[str, Path]) -> None:
    translator = gf.load(demo["run"])
    lines = ["I am a student", "", "The small red houses are beautiful.", "Where is the station?", "I am a student"]
    for beam in (1, 4):
        together = [t.text for t in translator.translate(lines, beam=beam)]
        alone = [translator.translate([line], beam=beam)[0].text for line in lines]
        assert together == alone
    assert together[1] == ""
