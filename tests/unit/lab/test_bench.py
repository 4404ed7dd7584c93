"""The benchmarks: contenders in separate processes, and their tables."""

from __future__ import annotations

import json
import math
import shutil
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from glassformer.cli import command_line
from glassformer.errors import UserError
from glassformer.lab.bench import cost_curves, history, processes, results
from glassformer.lab.bench import runner as bench
from glassformer.lab.bench.processes import megabytes
from glassformer.lab.bench.processes import run as run_process
from glassformer.lab.bench.runner import CONTENDERS, LIMITS, OURS, Case, Row, measure, prepare, prepare_trained, run
from glassformer.machine import cores
from glassformer.operating_system import cpu_name
from glassformer.phrasebook.corpus import phrasebook

pytestmark = pytest.mark.slow

RANDOM = {"layers": 1, "vocab": 307, "threads": 1}  # a model of another size than the prepared one


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bench")
    book = phrasebook(size=1500)
    for name, language, triples in (("a.en", "en", book.train), ("a.fr", "fr", book.train), ("t.en", "en", book.test)):
        (folder / name).write_text("".join(f"{t.text(language)}\n" for t in triples), encoding="utf-8")
    small = {"model.layers": 1, "model.d_model": 16, "model.heads": 2, "model.d_ff": 16}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bench, "BASE", bench.BASE | small)
        prepare(folder / "a.en", folder / "a.fr", folder / "t.en", folder / "data")
    return folder / "data"


def test_ids_are_the_same_for_all_contenders(data: Path) -> None:
    pairs, meta = (json.loads((data / f"{name}.json").read_text(encoding="utf-8")) for name in ("train", "meta"))
    assert len(pairs) > 1000
    assert all(2 < token < meta["vocab"] for source, target in pairs for token in source + target)


@pytest.mark.parametrize(
    "case",
    [
        Case("train", "train", {"size": "tiny", "layers": 1, "batches": 1, "threads": 1}),
        Case("decode", "decode", {"beam": 2, "sentences": 8, "batch": 4, "length": 5, "threads": 1}),
        Case("int8", "decode", {"precision": "int8", "sentences": 8, "batch": 1, "length": 5, "threads": 1}),
        Case("other size", "decode", RANDOM | {"sentences": 8, "batch": 4, "length": 5}),
        Case("other size, int8", "decode", RANDOM | {"precision": "int8", "sentences": 8, "batch": 4, "length": 5}),
        Case("encode, fp32", "encode", {"sentences": 8, "batch": 4}),
        Case("encode, int8", "encode", {"sentences": 8, "batch": 4, "precision": "int8"}),
        Case("startup", "startup", {"precision": "int8", "threads": 1}),
        Case("loop", "loop", {"size": "tiny", "layers": 1, "batches": 10, "threads": 1}),
    ],
    ids=lambda case: case.name,
)
def test_our_own_contender_is_measured_for_real(data: Path, case: Case) -> None:
    result = measure(case, CONTENDERS[OURS], sys.executable, data)
    assert result["seconds"] > 0
    with_torch = case.what in ("train", "loop") or "vocab" in case.options  # PyTorch takes more than 100 MB
    assert (100 if with_torch else 10) < result["peak_megabytes"] < 4000
    if case.what == "decode":
        assert result["tokens_per_second"] == pytest.approx(8 * 5 / result["seconds"])
    if case.what == "encode":
        assert result["sentences_per_second"] == pytest.approx(8 / result["seconds"])
    if case.what == "loop":
        assert 0 < result["share_of_bare_step"] < 10


def test_a_trained_run_is_decoded_to_its_natural_length(data: Path, tmp_path: Path) -> None:
    test = tmp_path / "test.en"
    test.write_text("I am a student .\n\nyou are here .\n" * 4, encoding="utf-8")
    shutil.copy(data / "meta.json", tmp_path)
    prepare_trained(data / "glassformer", test, tmp_path)
    known = json.loads((tmp_path / "trained.json").read_text(encoding="utf-8"))
    assert len(known["sources"]) == 8  # without empty lines
    assert {beam: len(outputs) for beam, outputs in known["expected"].items()} == {"1": 8, "4": 8}
    case = Case("trained", "trained", {"precision": "int8", "beam": 4, "sentences": 6})
    result = measure(case, CONTENDERS[OURS], sys.executable, tmp_path, data / "glassformer")
    assert result["sentences_per_second"] == pytest.approx(6 / result["seconds"])
    assert result["tokens_per_sentence"] == 30  # in the settings of this run


def test_prepared_files_of_an_older_format_are_made_again(data: Path, tmp_path: Path) -> None:
    (tmp_path / "meta.json").write_text('{"vocab": 7}', encoding="utf-8")
    (tmp_path / "left over").touch()
    source = data.parent
    prepare(source / "a.en", source / "a.fr", source / "t.en", tmp_path)
    assert json.loads((tmp_path / "meta.json").read_text(encoding="utf-8"))["format"] == bench.FORMAT
    assert not (tmp_path / "left over").exists()


def test_a_contender_with_other_hidden_states_is_refused(data: Path, tmp_path: Path) -> None:
    for path in data.iterdir():
        (tmp_path / path.name).symlink_to(path)
    known = json.loads((data / "encoded.json").read_text(encoding="utf-8"))
    known["first_tokens"][3][0] += 1
    (tmp_path / "encoded.json").unlink()
    (tmp_path / "encoded.json").write_text(json.dumps(known), encoding="utf-8")
    with pytest.raises(UserError, match="hidden states differ"):
        measure(Case("encode", "encode", {"sentences": 4}), CONTENDERS[OURS], sys.executable, tmp_path)


def test_every_case_has_options_that_the_contenders_know(data: Path) -> None:
    """The parser of `one.py` itself, asked to start a contender that does not exist."""
    for case in [*(case for cases in bench.CASES.values() for case in cases), *cost_curves.cases()]:
        with pytest.raises(UserError, match="no result") as refused:
            measure(case, bench.Contender("no_such_contender"), sys.executable, data)
        assert "No module named 'no_such_contender'" in str(refused.value), case.name


def test_a_contender_that_fails_is_named(data: Path) -> None:
    with pytest.raises(UserError, match="no result"):
        measure(Case("train", "train", {"size": "no such size"}), CONTENDERS["glassformer"], sys.executable, data)


def test_an_unknown_peer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no toolkit 'fairsec'(.|\n)*hf"):
        run(bench.CASES["train"], ["fairsec"], data=tmp_path, rounds=1, log=lambda text: None)


def row(case: str, name: str, *speeds: float, **more: float) -> Row:
    measured = [{"tokens_per_second": s, "peak_megabytes": 10.0, "seconds": 1 / s, **more} for s in speeds]
    return Row(case, name, results=measured)


def test_the_table_has_medians_and_ratios() -> None:
    rows = [row("decoding", "hf", 500, 400, 600), row("decoding", OURS, 990, 1000, 4000)]
    lines = results.table("decode", rows)
    assert lines[2] == "| decoding | glassformer | 1,000 | 150% |  | 10 |"
    assert lines[3] == "| decoding | hf | 500 | 20% | 2.00× | 10 |"


def test_training_is_compared_with_the_limit_of_the_machine() -> None:
    limit = Row("machine", LIMITS, results=[{"fp32_gflops": 400.0}])
    loop = row("the loop", OURS, 980, share_of_bare_step=0.98)
    lines = results.table("train", [limit, row("tiny", OURS, 1000, useful_gflops=100.0), loop])
    assert lines[2].endswith("| 10 | 25% |")
    assert lines[-1] == "the loop: 980 tokens/s, 0.980 of the speed of the training step alone."
    assert not any("machine" in line for line in lines)


def test_trained_models_are_compared_in_sentences_per_second() -> None:
    speeds = {OURS: 500.0, "ctranslate2": 250.0}
    rows = [
        row("beam 4", name, 1, sentences_per_second=speed, tokens_per_sentence=12.25) for name, speed in speeds.items()
    ]
    lines = results.table("trained", rows)
    assert lines[0] == "| case | toolkit | sentences/s | ± | Glassformer is | peak MB | tokens |"
    assert lines[2] == "| beam 4 | glassformer | 500 | 0% |  | 10 | 12.2 |"
    assert lines[3] == "| beam 4 | ctranslate2 | 250 | 0% | 2.00× | 10 | 12.2 |"
    assert results.table("encode", rows)[3] == "| beam 4 | ctranslate2 | 250 | 0% | 2.00× | 10 |"


def test_a_shorter_start_is_better() -> None:
    lines = results.table("startup", [row("first", "hf", 0.2), row("first", OURS, 0.5)])
    assert lines[2].startswith("| first | glassformer | 2.0 |")
    assert "| 2.50× |" in lines[3]


def test_tricks_are_listed_with_their_gain() -> None:
    lines = results.table("tricks", [Row("tricks", "tricks", results=[{"a trick": 1.234, "peak_megabytes": 1.0}])])
    assert lines[2:] == ["| a trick | 1.23× |"]


def test_results_are_kept_and_the_page_is_written_from_all_of_them(tmp_path: Path) -> None:
    results.save("decode", [row("decoding", OURS, 1000)], "glassformer bench decode", tmp_path)
    page = results.save("startup", [row("first", OURS, 0.5)], "glassformer bench startup", tmp_path)
    text = page.read_text(encoding="utf-8")
    assert text.index("## Decoding") < text.index("| decoding | glassformer | 1,000") < text.index("## Start-up")
    assert "`glassformer bench startup`" in text


def test_growth_is_shown_as_a_table_and_a_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    rows = [row(case.name, OURS, 1000.0 + number) for number, case in enumerate(cost_curves.cases())]
    page = results.save("growth", rows, "glassformer bench growth", tmp_path)
    text = page.read_text(encoding="utf-8")
    for axis, (_, values, _) in cost_curves.AXES.items():
        assert all(f"| {axis} | {value:,} |" in text for value in values)
    picture = (tmp_path / "speed" / "growth.svg").read_text(encoding="utf-8")
    assert picture.count("<path") > len(rows)
    results.save("growth", rows, "glassformer bench growth", tmp_path)
    assert (tmp_path / "speed" / "growth.svg").read_text(encoding="utf-8") == picture


# Holds memory, shared with a child process, until it has been measured.
HOLD = """
import os, sys, time
from pathlib import Path
block, folder = b"x" * 200_000_000, Path(sys.argv[1])
child = os.fork()
(folder / "held").touch()
while not (folder / "measured").exists():
    time.sleep(0.01)
child or os._exit(0)
"""


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="needs the memory figures of Linux")
def test_memory_that_processes_share_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(pid: int) -> float:
        held, found = (tmp_path / "held").exists(), megabytes(pid)
        if held:
            (tmp_path / "measured").touch()
        return found

    monkeypatch.setattr(processes, "megabytes", measured)
    done = run_process([sys.executable, "-c", HOLD, str(tmp_path)], threads=1, timeout=3600)
    assert done.code == 0
    assert done.seconds > 0
    assert 190 < done.peak_megabytes < 290


def test_memory_of_a_process_that_is_gone_is_nothing() -> None:
    assert megabytes(2**22 + 1) == 0


@pytest.fixture(scope="module")
def measured(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three real rounds of a small case, as a kept result."""
    case = Case("decode", "decode", {"sentences": 8, "batch": 4, "length": 5, "threads": 1})
    rounds = [measure(case, CONTENDERS[OURS], sys.executable, data) for _ in range(history.MIN_ROUNDS)]
    found = Row(case.name, OURS, str(rounds[0]["version"]))
    found.results = [{name: value for name, value in one.items() if name != "version"} for one in rounds]
    return history.keep("decode", [found], "glassformer bench decode", tmp_path_factory.mktemp("history"))


def changed(result: Path, path: Path, *, factor: float = 1.0, **fields: Any) -> Path:
    """Write a copy of a result with every speed multiplied by a factor, and other fields replaced."""
    content = json.loads(result.read_text(encoding="utf-8")) | fields
    for one in (measures for row in content["rows"] for measures in row["results"]):
        one["tokens_per_second"] *= factor
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def test_a_kept_result_says_where_and_when_it_was_measured(measured: Path) -> None:
    content = json.loads(measured.read_text(encoding="utf-8"))
    assert content["cpu"] == cpu_name() and content["threads"] == cores() and content["torch"] == torch.__version__
    assert content["version"] == version("glassformer") and content["date"].endswith("+00:00")
    assert len(content["rows"][0]["results"]) == 3
    assert measured.name.startswith("decode-") and measured.parent.name.startswith(content["cpu"].split()[0])


def test_a_slower_result_is_a_regression(measured: Path, tmp_path: Path) -> None:
    assert {one.verdict for one in history.compare(measured, measured)} == {"within the noise"}
    slower = changed(measured, tmp_path / "slower.json", factor=1e-6)
    assert [one.measure for one in history.compare(measured, slower) if one.is_regression] == ["tokens_per_second"]
    better = [one for one in history.compare(slower, measured) if one.verdict == "better"]
    assert [one.measure for one in better] == ["tokens_per_second"]
    for new, code in ((measured, 0), (slower, 1)):
        found = CliRunner().invoke(command_line(("bench",)), ["bench", "compare", str(measured), str(new)])
        assert found.exit_code == code and ("REGRESSION" in found.stdout) == bool(code)


def speed_change(old: list[float], new: list[float], folder: Path) -> history.Change:
    before, after = (history.keep("decode", [row("a", OURS, *one)], "", folder / str(one)) for one in (old, new))
    return history.compare(before, after)[0]


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        ([100, 101, 99], [98, 97.5, 98.5], "within the noise"),  # less than 3 %
        ([100, 101, 99], [90, 91, 89], "REGRESSION"),
        ([100, 120, 80], [90, 70, 110], "within the noise"),  # the rounds differ by more
        ([100, 101, 99], [90, 91, 300], "REGRESSION"),  # one outlier does not hide it
        ([100, 101, 99, 102], [120, 121, 119], "better"),
    ],
)
def test_a_change_counts_beyond_the_noise(old: list[float], new: list[float], verdict: str, tmp_path: Path) -> None:
    assert speed_change(old, new, tmp_path).verdict == verdict


def test_the_noise_is_three_scaled_median_deviations(tmp_path: Path) -> None:
    found = speed_change([100, 110, 100 / 1.2], [50, 50 * 1.3, 50 / 1.2], tmp_path)  # factors: 1.1, 1.2, 1.2, 1.3
    assert (found.old, found.new, found.gain) == (100, 50, pytest.approx(-math.log(2)))
    assert found.limit == pytest.approx(3 * 1.4826 * math.log(1.2))


def test_results_that_cannot_be_compared_are_refused(measured: Path, tmp_path: Path) -> None:
    other = changed(measured, tmp_path / "other.json", cpu="Another CPU")
    with pytest.raises(UserError, match=r"cpu is .* and 'Another CPU'"):
        history.compare(measured, other)
    once = history.keep("decode", [row("a", OURS, 100)], "", tmp_path)
    with pytest.raises(UserError, match="at least 3 rounds"):
        history.compare(once, once)
    (tmp_path / "page.json").write_text('{"rows": []}', encoding="utf-8")
    with pytest.raises(UserError, match="not a kept result"):
        history.compare(tmp_path / "page.json", measured)
    with pytest.raises(UserError, match="no such result"):
        history.compare(tmp_path / "missing.json", measured)


@pytest.mark.parametrize("rows", [3, [1], [{"contender": OURS}], [{"case": ["a"], "contender": OURS}]])
def test_a_damaged_result_is_refused(rows: Any, measured: Path, tmp_path: Path) -> None:
    content = json.loads(measured.read_text(encoding="utf-8")) | {"rows": rows}
    (tmp_path / "damaged.json").write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(UserError, match="damaged"):
        history.compare(measured, tmp_path / "damaged.json")


def test_a_measure_that_is_not_a_number_is_refused(measured: Path, tmp_path: Path) -> None:
    content = json.loads(measured.read_text(encoding="utf-8"))
    for value in ("fast", None, 10**400):
        content["rows"][0]["results"][1]["tokens_per_second"] = value
        (tmp_path / "damaged.json").write_text(json.dumps(content), encoding="utf-8")
        with pytest.raises(UserError, match=r"rows\.0\.results\.1\.tokens_per_second"):
            history.compare(measured, tmp_path / "damaged.json")


def test_a_case_that_is_missing_is_not_overlooked(tmp_path: Path) -> None:
    both, one, other = (
        history.keep("decode", [row(case, OURS, 100, 101, 99) for case in cases], "", tmp_path / cases)
        for cases in ("ab", "a", "c")
    )
    for old, new, code in ((one, both, 0), (both, one, 1)):
        found = CliRunner().invoke(command_line(("bench",)), ["bench", "compare", str(old), str(new)])
        assert found.exit_code == code and ("lacks the case 'b'" in found.stderr) == bool(code)
    with pytest.raises(UserError, match="no case in common"):
        history.compare(both, other)
