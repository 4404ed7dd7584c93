"""BLEU by minutes of training: a recipe and the peer, trained for seconds."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from glassformer.errors import UserError
from glassformer.lab.bench import quality, runner
from glassformer.phrasebook.corpus import phrasebook

pytestmark = pytest.mark.slow

RECIPE = """
task = "translation"
[data]
train = ["train.en", "train.fr"]
valid = ["valid.en", "valid.fr"]
test = ["test.en", "test.fr"]
[tokenizer]
vocab = 300
[model]
layers = 1
d_model = 16
heads = 2
d_ff = 16
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    book = phrasebook(size=200)
    for name, triples in (("train", book.train), ("valid", book.valid[:5]), ("test", book.test[:5])):
        for language in ("en", "fr"):
            lines = "".join(f"{triple.text(language)}\n" for triple in triples)
            (tmp_path / f"{name}.{language}").write_text(lines, encoding="utf-8")
    path = tmp_path / "small.toml"
    path.write_text(RECIPE, encoding="utf-8")
    return path


def test_a_recipe_and_the_peer_are_trained_and_tested(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("transformers", reason="transformers is not installed")
    monkeypatch.setenv("GLASSFORMER_BENCH_HF", sys.executable)
    monkeypatch.setattr(
        runner, "BASE", runner.BASE | {"model.layers": 1, "model.d_model": 16, "model.heads": 2, "model.d_ff": 16}
    )
    data = tmp_path / "data"
    runner.prepare(tmp_path / "train.en", tmp_path / "train.fr", tmp_path / "test.en", data)
    rows = quality.run([recipe], [0.02], threads=1, peer=(data, tmp_path / "test.fr"), log=print)
    assert [row.contender for row in rows] == ["small", "hf"]
    for row in rows:
        assert 0 <= row.median("bleu") <= 100 and row.median("steps") >= 1 and row.median("minutes") > 0
    page = quality.save(rows, "glassformer bench quality", "a machine", tmp_path / "results")
    assert all(line in page.read_text(encoding="utf-8") for line in quality.table(rows))
    assert (tmp_path / "results" / "quality" / "minutes.svg").exists()


def refused(*recipes: Path) -> UserError:
    with pytest.raises(UserError) as found:
        quality.run(recipes, [1], threads=1, peer=None, log=pytest.fail)  # it would log the first training
    return found.value


def test_what_would_fail_after_the_training_is_refused_before_it(recipe: Path, tmp_path: Path) -> None:
    assert "There is no file" in refused(tmp_path / "nothing.toml").message
    other = tmp_path / "other" / recipe.name
    other.parent.mkdir()
    other.write_bytes(recipe.read_bytes())
    assert "same name" in refused(recipe, other).message
    untested = tmp_path / "untested.toml"
    untested.write_text(RECIPE.replace("test =", "# test ="), encoding="utf-8")
    assert "no test data" in refused(recipe, untested).message
    (tmp_path / "labels.toml").write_text('task = "classification"\n[data]\ntrain = ["a.tsv"]', encoding="utf-8")
    assert "no BLEU" in refused(tmp_path / "labels.toml").message


def test_a_recipe_that_fails_is_named_with_the_reason(recipe: Path, tmp_path: Path) -> None:
    (tmp_path / "train.fr").write_text("une ligne\n", encoding="utf-8")
    with pytest.raises(UserError, match="could not be trained") as failed:
        quality.run([recipe], [1], threads=1, peer=None, log=print)
    assert failed.value.where.startswith("The two sides have different numbers of lines")
