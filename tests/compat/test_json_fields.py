"""Output with `--json` keeps its fields; new ones may be added (docs/compatibility.md)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from glassformer.cli import command_line

RUN = str(Path(__file__).parent / "runs" / "format-1")
TRANSLATION = {"source", "translation", "score"}
SCORES = {"bleu", "bleu_signature", "chrf", "chrf_signature", "exact_match", "bleu_by_length", "sentences", "seconds"}
COMMANDS: dict[tuple[str, ...], set[str]] = {
    ("translate", RUN, "I am a student."): TRANSLATION,
    ("translate", RUN, "I am a student.", "--beam", "2", "--n-best", "2"): TRANSLATION | {"n_best"},
    ("info", RUN): {"run", "settings", "finished", "last", "engine", "engine_reason"},
    ("evaluate", RUN, "--source", "a.en", "--reference", "a.fr"): SCORES | {"output_tokens_per_second"},
    ("explain", RUN, "I am a student."): {"source", "target", "attention", "tensors"},
}


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join((command[0], *command[2:])))
def test_json_output_keeps_its_fields(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.en").write_text("I am a student.\nThe cat sleeps.\n", encoding="utf-8")
    Path("a.fr").write_text("Je suis étudiant.\nLe chat dort.\n", encoding="utf-8")
    found = CliRunner().invoke(command_line(command[:1]), [*command, "--json"])
    assert found.exit_code == 0, found.output
    assert COMMANDS[command] <= json.loads(found.stdout.splitlines()[0]).keys()
