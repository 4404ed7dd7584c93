"""A comparison of systems: equal budgets, interrupting, resuming, and failures."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from glassformer.errors import UserError
from glassformer.lab.ladder import runner as ladder
from glassformer.lab.ladder.measurements import length_ranges, measures_file
from glassformer.lab.ladder.results import collect, table
from glassformer.lab.ladder.runner import Plan, SystemEvent, make_plan, read_plan, run_systems
from glassformer.lab.ladder.systems import select_systems
from glassformer.phrasebook.corpus import phrasebook
from glassformer.settings import merge, nest
from glassformer.training.events import Event, Note, Progress

TINY = {
    "model.layers": 1,
    "model.d_model": 16,
    "model.heads": 2,
    "model.d_ff": 16,
    "tokenizer.vocab": 400,
    "train.steps": 100,
}


@pytest.fixture
def text(tmp_path: Path) -> dict[str, Any]:
    book = phrasebook(size=100)
    data = {}
    for split in ("train", "valid"):
        data[split] = [str(tmp_path / f"{split}.{side}") for side in ("en", "fr")]
        for path, side in zip(data[split], ("en", "fr"), strict=True):
            Path(path).write_text("".join(f"{triple.text(side)}\n" for triple in getattr(book, split)))
    return {"data": data}


@pytest.fixture(autouse=True)
def _no_trials_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ladder.machine, "fastest_safe_precision", lambda: ("fp32", "told"))
    monkeypatch.setattr("glassformer.planning.estimate._matmul_speed", lambda dtype: 1e11)


@pytest.fixture
def planned(text: dict[str, Any], tmp_path: Path) -> Any:
    """`planned("rnn,gru", budget=6)`: a plan for a folder, with tiny settings."""

    def make(
        only: str = "rnn,gru,transformer", *, kind: str = "ladder", budget: float | None = None, **over: Any
    ) -> Plan:
        raw = merge(text, nest(TINY | {name.replace("__", "."): value for name, value in over.items()}))
        return make_plan(kind, raw, select_systems(kind, only), out=tmp_path / "out", budget=budget)

    return make


def test_an_ablation_with_muon_starts_from_the_model_of_the_paper(planned: Any) -> None:
    plan = planned("transformer,rotary-positions,pre-norm", kind="ablate", train__optimizer="muon")
    models = {name: (raw["model"]["norm"], raw["model"]["positions"]) for name, raw in plan.settings.items()}
    assert models == {
        "transformer": ("post", "sinusoidal"),
        "rotary-positions": ("post", "rotary"),
        "pre-norm": ("pre", "sinusoidal"),
    }


def test_recurrent_systems_are_trained_with_adam(planned: Any) -> None:
    plan = planned("gru,transformer", train__optimizer="muon", train__steps=500)
    gru, transformer = (plan.settings[name]["train"] for name in ("gru", "transformer"))
    assert (gru["optimizer"], transformer["optimizer"]) == ("adam", "muon")
    assert {name for name in transformer if gru[name] != transformer[name]} <= {"optimizer", "lr", "weight_decay"}


class Fake:
    """Replaces training: records the trained systems, and fails or stops as instructed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, plan: Plan) -> None:
        self.plan, self.trained = plan, list[str]()
        self.fails: dict[str, BaseException] = {}
        self.stops: set[str] = set()
        monkeypatch.setattr(ladder, "measure", self.measure)

    def __call__(self, *, out: Path, settings: Any, resume: bool, listener: Any) -> Any:
        assert resume
        self.trained.append(out.name)
        if out.name in self.fails:
            raise self.fails[out.name]
        out.mkdir(parents=True, exist_ok=True)
        (out / "tokenizer.json").write_text(self.plan.tokenizer.to_json())
        listener(Note("heard already"))
        listener(Progress(10, 0, 1.0, 1.0, 1.0, 1.0))
        return SimpleNamespace(reason="interrupted" if out.name in self.stops else "steps")

    def measure(self, run: Path, split: str, pairs: list[Any], progress: Any) -> dict[str, Any]:
        assert split == "valid" and len(pairs) == 4
        measured = {"bleu": 1.0, "chrf": 2.0, "decoding_tokens_per_second": 3, "held_out": split}
        measured |= {"sentences": 4, "beam": 4, "bleu_signature": "b", "chrf_signature": "c", "gradient_sentences": 1}
        measured |= {"decoding_seconds": 1.0, "decoding_cpu_seconds": 1.0}
        measures_file(run).write_text(json.dumps(measured))
        return measured


def test_the_budget_is_divided_equally(planned: Any) -> None:
    plan = planned(budget=6)
    settings = list(plan.settings.values())
    assert [one["train"]["minutes"] for one in settings] == [2, 2, 2]
    assert all(one["train"] == settings[0]["train"] for one in settings)
    assert all(one["data"] == settings[0]["data"] and one["tokenizer"] == settings[0]["tokenizer"] for one in settings)
    assert settings[0]["train"]["patience"] == 0
    assert read_plan(plan.folder) is not None


def test_a_short_time_limit_shortens_the_warmup(planned: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ladder, "_estimated_minutes", lambda raw, vocab: 20.0)
    hasty = planned(budget=3, train__steps=4000).settings["gru"]["train"]
    assert hasty["warmup"] == 50  # a quarter of the 200 steps of a minute
    monkeypatch.setattr(ladder, "_estimated_minutes", lambda raw, vocab: 90.0)  # a busy machine changes nothing
    assert planned(budget=3, train__steps=4000).settings["gru"]["train"] == hasty
    with pytest.raises(UserError, match="other settings"):
        planned(budget=3, train__steps=4000, train__warmup=77)


def test_finished_systems_are_skipped_and_interrupted_ones_resumed(
    planned: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, events = planned(), list[Event]()
    training = Fake(monkeypatch, plan)
    training.stops = {"gru"}
    assert not run_systems(plan, events.append, training=training)
    assert training.trained == ["rnn", "gru"]
    training.stops = set()
    assert run_systems(planned(), events.append, training=training)
    assert training.trained == ["rnn", "gru", "gru", "transformer"]
    states = [(event.state, event.system.name) for event in events if isinstance(event, SystemEvent)]
    assert states == [
        ("begins", "rnn"),
        ("done", "rnn"),
        ("begins", "gru"),
        ("stopped", "gru"),
        ("skipped", "rnn"),
        ("begins", "gru"),
        ("done", "gru"),
        ("begins", "transformer"),
        ("done", "transformer"),
    ]
    assert any(isinstance(event, Progress) for event in events) and not any(isinstance(e, Note) for e in events)
    assert run_systems(planned(), training=training)
    assert len(training.trained) == 4


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (UserError("The numbers ran away.", hint="begin again"), "The numbers ran away."),
        (RuntimeError("out of <memory>"), "RuntimeError: out of <memory>"),
    ],
)
def test_a_failed_system_is_reported_and_the_others_continue(
    planned: Any, monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
) -> None:
    plan = planned()
    training = Fake(monkeypatch, plan)
    training.fails = {"gru": error}
    assert run_systems(plan, training=training)
    states = {system["name"]: system["state"] for system in collect(plan.folder)["systems"]}
    assert states == {"rnn": "done", "gru": "failed", "transformer": "done"}
    (gru,) = (system for system in collect(plan.folder)["systems"] if system["name"] == "gru")
    assert gru["reason"].startswith(said)
    assert any(line.startswith("GRU") and said in line for line in table(collect(plan.folder)))
    training.fails = {}
    assert run_systems(planned(), training=training)
    assert training.trained == ["rnn", "gru", "transformer", "gru"]
    assert {system["state"] for system in collect(plan.folder)["systems"]} == {"done"}


def test_a_second_ctrl_c_stops_too(planned: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = planned()
    training = Fake(monkeypatch, plan)
    training.fails = {"rnn": KeyboardInterrupt()}
    assert not run_systems(plan, training=training)
    assert training.trained == ["rnn"]


def test_a_system_with_another_tokenizer_fails(planned: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = planned("gru")
    training = Fake(monkeypatch, planned("gru"))
    monkeypatch.setattr(ladder.Tokenizer, "load", lambda path: SimpleNamespace(to_json=lambda: "{}"))
    assert run_systems(plan, training=training)
    (gru,) = collect(plan.folder)["systems"]
    assert "tokenizer of this system differs" in gru["reason"]


def test_a_folder_holds_one_comparison(planned: Any, text: dict[str, Any]) -> None:
    planned("gru", budget=2)
    assert read_plan(planned("gru,rnn", budget=4).folder)["systems"] == ["gru", "rnn"]
    for wrong, message in (
        ({"train__seed": 7, "budget": 2}, "other settings"),
        ({"budget": 3}, r"(?s)has 2 minutes per system; this command has 3 minutes per system.*--budget 2"),
        ({}, "no time limit"),
        ({"only": "no-residual", "kind": "ablate", "budget": 2}, "other settings"),
    ):
        with pytest.raises(UserError, match=message):
            planned(**({"only": "gru"} | wrong))
    Path(text["data"]["train"][0]).write_text("other\ntext\n")
    Path(text["data"]["train"][1]).write_text("un autre\ntexte\n")
    with pytest.raises(UserError, match="text has changed"):
        planned("gru", budget=2)


def test_systems_are_not_chosen_by_settings(text: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=r"(?s)cannot be set.*model\.family"):
        make_plan("ladder", text | {"model": {"family": "recurrent"}}, select_systems("ladder", "gru"))


def test_a_folder_with_other_files_is_refused(planned: Any, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/thesis.txt").write_text("mine")
    with pytest.raises(UserError, match="other files"):
        planned()
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["thesis.txt"]


def test_length_ranges_have_about_equally_many_sentences() -> None:
    lines = ["w " * words for words in (1, 2, 2, 3, 3, 3, 8, 9, 9, 20)]
    assert length_ranges(lines) == [(1, 2), (3, 3), (4, 9), (10, 20)]
    assert length_ranges(["one two"] * 3) == [(2, 2)]


def test_two_processes_share_the_systems(planned: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second process starts while the first trains the RNN, and trains the next system."""
    plan, second = planned(), planned()
    training, told = Fake(monkeypatch, plan), list[tuple[str, str]]()

    def tell(event: Event) -> None:
        if isinstance(event, SystemEvent):
            told.append((event.state, event.system.name))

    def first(**asked: Any) -> Any:
        if not training.trained:
            training.trained.append("rnn")
            assert run_systems(second, tell, training=training)
            training.trained.remove("rnn")
        return training(**asked)

    assert run_systems(plan, training=first)
    assert told == [
        ("elsewhere", "rnn"),
        ("begins", "gru"),
        ("done", "gru"),
        ("begins", "transformer"),
        ("done", "transformer"),
    ]
    assert training.trained == ["gru", "transformer", "rnn"]
    assert {system["state"] for system in collect(plan.folder)["systems"]} == {"done"}
