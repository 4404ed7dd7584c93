"""The benchmark: real contenders in processes of their own, and honest tables."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from glassformer.errors import UserError
from glassformer.lab.bench import cost_curves, processes, results
from glassformer.lab.bench import runner as bench
from glassformer.lab.bench.processes import megabytes
from glassformer.lab.bench.processes import run as run_process
from glassformer.lab.bench.runner import CONTENDERS, LIMITS, OURS, Case, Row, measure, prepare, prepare_trained, run
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
