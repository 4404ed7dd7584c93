"""`data.diversify`: what the models of a run are trained on, and that a killed run continues to the same bits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from killed import SETTINGS, bits, train_until
from processes import events, forked_ranks, training

import glassformer as gf
from glassformer.errors import UserError
from glassformer.inference.run_folder import RunFolder, load_settings
from glassformer.settings import nest
from glassformer.training.diversification import Workspace
from glassformer.training.events import ignore

DIVERSIFIED: dict[str, Any] = SETTINGS | {"data.diversify": 1}
STEPS = SETTINGS["train.steps"]


@pytest.fixture(scope="module")
def diversified(corpus: tuple[str, str], made_once: Callable[..., Path]) -> Path:
    made = made_once("diversified", lambda folder: gf.train(*corpus, out=folder / "run", settings=DIVERSIFIED))
    return made / "run"


def pairs_of(folder: Path, split: str) -> list[tuple[str, str]]:
    sides = [(folder / f"{split}.{name}").read_text(encoding="utf-8").splitlines() for name in ("en", "fr")]
    return list(zip(*sides, strict=True))


def test_the_final_model_learns_the_pairs_and_their_translations_in_both_directions(diversified: Path) -> None:
    folder = diversified / "diversification"
    train, every = pairs_of(folder, "train"), pairs_of(folder, "diversified")
    assert every[: len(train)] == train
    new = every[len(train) :]
    assert len(set(every)) == len(every)
    sources, targets = {source for source, _ in train}, {target for _, target in train}
    forward = gf.load(folder / "forward-1")
    assert ((source := train[0][0]), forward(source)) in every
    backward = gf.load(folder / "backward-1")
    assert (backward(target := train[0][1]), target) in every
    assert new and all(source in sources or target in targets for source, target in new)
    assert load_settings(RunFolder(diversified)).data.train == [str(folder / f"diversified.{n}") for n in ("en", "fr")]


def test_the_validation_pairs_are_not_trained_on_in_any_direction(diversified: Path) -> None:
    folder = diversified / "diversification"
    valid = pairs_of(folder, "valid")
    assert valid and not {source for source, _ in valid} & {source for source, _ in pairs_of(folder, "diversified")}
    used = [load_settings(RunFolder(run)).data for run in (folder / "forward-1", folder / "backward-1", diversified)]
    sides = [str(folder / f"valid.{name}") for name in ("en", "fr")]
    assert [data.valid for data in used] == [sides, sides[::-1], sides]


@pytest.mark.parametrize(
    ("kind", "count", "final"),
    [("Saved", 3, False), ("Started", 2, False), ("Finished", 2, False), ("Saved", 28, True)],
)
def test_killed_and_resumed_is_bit_identical(
    kind: str, count: int, final: bool, corpus: tuple[str, str], diversified: Path, tmp_path: Path
) -> None:
    """Killed in the training of the first model, at the beginning and the end of the second, and in the final one."""
    run = tmp_path / "run"
    train_until(kind, count, *corpus, out=run, settings=DIVERSIFIED)
    assert RunFolder(run).settings.exists() == final
    assert gf.train(*corpus, out=run, settings=DIVERSIFIED, resume=True).step == STEPS
    assert bits(run) == bits(diversified)
    for split in ("train", "diversified"):
        assert pairs_of(run / "diversification", split) == pairs_of(diversified / "diversification", split)


def test_a_finished_run_is_resumed_with_more_steps(corpus: tuple[str, str], tmp_path: Path) -> None:
    run = tmp_path / "run"
    gf.train(*corpus, out=run, settings=DIVERSIFIED | {"train.steps": 2})
    assert gf.train(out=run, settings={"train.steps": 3}, resume=True).step == 3


def test_two_processes_train_all_models(corpus: tuple[str, str], tmp_path: Path) -> None:
    run = tmp_path / "run"
    few = {"train.steps": 6, "train.validate_every": 6, "train.checkpoint_every": 6, "train.valid_sentences": 2}
    ranks = forked_ranks(2, training(corpus, run, DIVERSIFIED | few), tmp_path)
    assert ranks.wait() == 0, ranks.err
    started = [events(folder, "started") for folder in (*sorted(run.glob("diversification/*-1/")), run)]
    assert [[event["processes"] for event in found] for found in started] == [[2], [2], [2]]
    assert ranks.err.count("data diversification: the final model") == 1


def test_settings_of_the_models(corpus: tuple[str, str], tmp_path: Path) -> None:
    """The seeds differ; the time is divided; chosen steps are more for the final model, and given ones are the same."""
    work = Workspace(tmp_path)
    given = {name: value for name, value in DIVERSIFIED.items() if name != "train.steps"}
    more = {"data.train": list(corpus), "data.diversify": 2, "train.minutes": 8.0, "train.seed": 5, "train.clip": None}
    raw = nest(given | more)
    work.begin(raw, ignore)
    teachers = work.teachers()
    assert [teacher.name for teacher in teachers] == ["forward-1", "backward-1", "forward-2", "backward-2"]
    chosen = [work.teacher_settings(teacher) for teacher in teachers]
    assert [settings["train"]["seed"] for settings in chosen] == [5, 6, 7, 8]
    assert {settings["train"]["minutes"] for settings in chosen} == {1.0}
    assert chosen[1]["data"]["train"] == chosen[0]["data"]["train"][::-1]
    gf.train(out=work.folder / "forward-1", settings=chosen[0] | {"train": chosen[0]["train"] | {"steps": 2}})
    final = work.final_settings()
    assert (final["train"]["steps"], final["train"]["seed"], final["train"]["minutes"]) == (3, 5, 4.0)
    assert work.changed_settings(nest({"train.minutes": 6.0}))["train"]["minutes"] == 3.0


def test_a_file_of_pairs_and_a_run_that_is_resumed_in_another_folder(
    corpus: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sides = [Path(file).read_text(encoding="utf-8").splitlines() for file in corpus]
    (tmp_path / "pairs.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in zip(*sides, strict=True)), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    settings = DIVERSIFIED | {"train.steps": 2, "data.cache": "cache"}
    train_until("Started", 3, "pairs.tsv", out=Path("run"), settings=settings)
    monkeypatch.chdir("/")
    assert gf.train(out=tmp_path / "run", resume=True).step == 2
    names = ["diversified.source", "diversified.target"]
    assert load_settings(RunFolder(tmp_path / "run")).data.train == [
        str(tmp_path / "run" / "diversification" / name) for name in names
    ]


def test_refuses_what_it_cannot_do(corpus: tuple[str, str], diversified: Path, tmp_path: Path) -> None:
    def refused(*files: str, settings: dict[str, Any], **options: Any) -> str:
        with pytest.raises(UserError) as error:
            gf.train(*files, **{"out": tmp_path / "run", "settings": settings} | options)
        assert not (tmp_path / "run").exists()
        return str(error.value)

    text = tmp_path / "text.txt"
    text.write_text("one line\n" * 50, encoding="utf-8")
    assert "task=language_model" in refused(str(text), settings={"data.diversify": 1})
    also = {"data.also": [{"train": list(corpus)}]}
    assert "also cannot be combined" in refused(*corpus, settings=DIVERSIFIED | also)
    assert "--from" in refused(*corpus, settings={"data.diversify": 1}, start_from=diversified)
    assert "absent.en" in refused(*corpus, test=("absent.en", "absent.fr"), settings=DIVERSIFIED)
    assert "train.lora" in refused(*corpus, settings=DIVERSIFIED | {"train.lora": 4})
    assert "-o RUN --resume" in refused(*corpus, settings=DIVERSIFIED, out=None, resume=True)


def test_an_unfinished_run_is_continued_only_as_it_began(corpus: tuple[str, str], tmp_path: Path) -> None:
    run = tmp_path / "run"
    train_until("Saved", 1, *corpus, out=run, settings=DIVERSIFIED)
    with pytest.raises(UserError, match="final model") as error:
        gf.load(run)
    assert "--resume" in str(error.value)
    for settings in (DIVERSIFIED, SETTINGS):
        with pytest.raises(UserError, match="already contains a run"):
            gf.train(*corpus, out=run, settings=settings)
    with pytest.raises(UserError, match="cannot change") as error:
        gf.train(out=run, settings={"train.seed": 7}, resume=True)
    assert error.value.where == "train.seed"


def test_settings_can_be_corrected_until_the_first_model_is_trained(corpus: tuple[str, str], tmp_path: Path) -> None:
    run, short = tmp_path / "run", DIVERSIFIED | {"train.steps": 2}
    with pytest.raises(UserError, match="positional embeddings"):
        gf.train(*corpus, out=run, settings=short | {"model.max_positions": 3, "model.positions": "learned"})
    gf.train(*corpus, out=run, settings=short | {"model.max_positions": 99}, resume=True)


def test_the_text_of_a_run_cannot_change(corpus: tuple[str, str], diversified: Path) -> None:
    with pytest.raises(UserError, match="cannot change") as error:
        gf.train(*corpus[::-1], out=diversified, resume=True)
    assert error.value.where == "data.train"
    with pytest.raises(UserError, match=r"without data\.diversify"):
        gf.train(*corpus, out=diversified / "diversification" / "forward-1", settings=DIVERSIFIED, resume=True)
