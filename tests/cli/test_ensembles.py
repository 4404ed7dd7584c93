"""Ensembles on the command line: `translate`, `evaluate` and `data diversify`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import bad, glassformer, good

from glassformer.files import ResumableFile
from glassformer.phrasebook.corpus import phrasebook
from tests.untrained_runs import SMALL_GPT, exchange_tokens, perturbed_run, trained_run, untrained_run


@pytest.fixture(scope="session")
def template(made_once: Callable[..., Path]) -> Path:
    """The runs a, b and c of one vocabulary, a language model, and the text test.en and test.fr."""
    return made_once("ensembles", _fill_template)


def _fill_template(folder: Path) -> None:
    trained_run(folder / "a")
    perturbed_run(folder / "a", folder / "b", seed=2)
    perturbed_run(folder / "a", folder / "c", seed=3)
    untrained_run(folder / "gpt", {"task": "language_model", "data": {"train": ["a"]}, "model": SMALL_GPT})
    pairs = phrasebook(size=300).pairs("train", "en", "fr")[:11]
    for side, language in enumerate(("en", "fr")):
        (folder / f"test.{language}").write_text("".join(f"{pair[side]}\n" for pair in pairs), encoding="utf-8")


def read_lines(path: str) -> list[str]:
    return Path(path).read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("how", ["--beam 1", "--n-best 3", "--mbr", "--sample --top-k 3"])
def test_translate_with_the_run_itself_gives_the_output_of_the_run(workdir: Path, how: str) -> None:
    alone, together = (
        good(f"translate a -i test.en --scores {how} {members}").out.splitlines()
        for members in ("--engine torch", "--ensemble a --ensemble a")
    )
    assert [line.split("\t")[1] for line in together] == [line.split("\t")[1] for line in alone]
    scores = [[float(line.split("\t")[0]) for line in lines] for lines in (together, alone)]
    assert scores[0] == pytest.approx(scores[1], abs=2e-4)
    assert len(set(together)) > 5


def test_translate_and_evaluate_use_all_members(workdir: Path) -> None:
    together = good("translate a --ensemble b --ensemble c -i test.en --scores").out
    for members in ("a", "a --ensemble b", "a --ensemble c"):
        assert good(f"translate {members} -i test.en --scores").out != together
    scored = good("evaluate a --ensemble b --ensemble c --source test.en --reference test.fr -o out.fr --json --beam 4")
    assert json.loads(scored.out)["sentences"] == 11
    assert read_lines("out.fr") == [line.split("\t")[1] for line in together.splitlines()]


def test_an_interrupted_translation_is_resumed_only_with_the_same_members(
    workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("glassformer.inference.translator.STREAM_LINES", 4)
    command, left, write = "translate a -i test.en -o out.fr --ensemble", 6, ResumableFile.write

    def interrupted(file: ResumableFile, text: str) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise KeyboardInterrupt
        write(file, text)

    with monkeypatch.context() as patch:
        patch.setattr(ResumableFile, "write", interrupted)
        assert glassformer(f"{command} b").code == 130
    shutil.copytree(workdir, workdir / "copy", ignore=shutil.ignore_patterns("copy"))
    assert "resuming after line 4\n" in good(f"{command} b").err
    monkeypatch.chdir(workdir / "copy")
    assert "resuming" not in good(f"{command} c").err
    assert read_lines("out.fr") == good("translate a --ensemble c -i test.en").out.splitlines()


def test_diversify_takes_every_run_or_their_ensemble(workdir: Path) -> None:
    pairs = list(zip(read_lines("test.en"), read_lines("test.fr"), strict=True))
    sources = [source for source, _ in pairs]
    good("data diversify test.en test.fr --forward a --forward b --forward a -o each")
    good("data diversify test.en test.fr --forward a --forward b --ensemble -o together")
    alone = [good(f"translate {run} -i test.en").out.splitlines() for run in ("a", "b")]
    assert alone[0] != alone[1]
    expected = {
        "each": [*pairs, *zip(sources, alone[0], strict=True), *zip(sources, alone[1], strict=True)],
        "together": [*pairs, *zip(sources, good("translate a --ensemble b -i test.en").out.splitlines(), strict=True)],
    }
    for folder, every in expected.items():
        found = list(zip(read_lines(f"{folder}/train.en"), read_lines(f"{folder}/train.fr"), strict=True))
        assert found == [pair for pair in dict.fromkeys(every) if all(pair)]
        assert len(found) > len(pairs)
    refused = bad("data diversify test.en test.fr --forward a --backward b --ensemble -o more", "at least two runs")
    assert "--ensemble" in refused.err


def test_what_cannot_be_an_ensemble_is_refused(workdir: Path) -> None:
    evaluate = "evaluate {} --source test.en --reference test.fr"
    for command in ("translate {} hello", evaluate):
        bad(command.format("a --ensemble b --engine native"), "does not run ensembles", "leave out --engine native")
        bad(command.format("a --ensemble gpt"), "does not translate", "gpt", "hint")
        bad(command.format("a --ensemble absent"), "absent")
    bad("evaluate gpt --ensemble a test.en", "Only runs that translate", "remove --ensemble")
    exchange_tokens(workdir / "c")
    for command in ("translate {} hello", evaluate):
        bad(command.format("a --ensemble b --ensemble c"), "same vocabulary", "c/tokenizer.json", "hint")
    bad("data diversify test.en test.fr --forward a --forward c --ensemble -o more", "same vocabulary")
