"""The report: every number in it, every text escaped, from the folder alone."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from glassformer.inference.run_folder import RunFolder
from glassformer.lab.ladder.charts import Axis, bars
from glassformer.lab.ladder.report import page, write_report
from glassformer.lab.ladder.results import collect, table

NASTY = "<script>alert('1')</script> & \"quotes\""


class Strict(HTMLParser):
    """Fails on a tag that is not closed, or closed twice; keeps the text of the page, and of its hidden titles."""

    def __init__(self) -> None:
        super().__init__()
        self.open, self.text, self.tags = list[str](), list[str](), set[str]()

    def handle_starttag(self, tag: str, attributes: Any) -> None:
        self.tags.add(tag)
        assert not [name for name, _ in attributes if name.startswith("on")]
        if tag not in {"meta", "br"}:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: Any) -> None:
        self.tags.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "pre" not in self.open and "style" not in self.open:
            self.text.append(data)


def parsed(html: str) -> Strict:
    parser = Strict()
    parser.feed(html)
    parser.close()
    assert not parser.open
    return parser


def measures(number: int, attention: bool) -> dict[str, Any]:
    weights = [[0.137 + number / 100, 0.503, 0.36 - number / 100], [0.1, 0.2, 0.7], [0.301, 0.299, 0.4]]
    looked = {"source": [f"▁{NASTY}", "b", "<eos>"], "target": ["▁x", "y", "<eos>"], "weights": weights}
    return {
        "held_out": "test",
        "sentences": 1013,
        "beam": 4,
        "made_with": f"Glassformer 7, {1 + number % 2} threads",
        "bleu": 31.47 + number,
        "bleu_signature": "nrefs:1|case:mixed|version:<2>",
        "chrf": 51.23 + number,
        "chrf_signature": "nrefs:1|chars",
        "exact_match": 11.71 + number,
        "bleu_by_length": {
            "1–5": {"bleu": 41.03 + number, "sentences": 509},
            "6–11": {"bleu": 21.09 + number, "sentences": 504},
        },
        "source_gain": 0.613 + number,
        "decoding_seconds": 3.21,
        "decoding_cpu_seconds": 3.19,
        "decoding_tokens_per_second": 7919 + number,
        "gradient": [0.7121, 0.0563, 0.00417] if number else [0.5, 0.0, 0.0],
        "gradient_sentences": 61,
        "example": {"source": NASTY, "reference": "juste", "translation": f"{NASTY} {number}"},
        "attention": looked if attention else None,
    }


SETTINGS = """
task = "translation"
[data]
train = ["train.en", "train.fr"]
[tokenizer]
vocab = 400
[model]
family = "recurrent"
encoder_layers = 1
decoder_layers = 1
d_model = 38
dropout = 0.1
[train]
steps = 97
batch_tokens = 100
lr = 0.001
warmup = 1
validate_every = 10
checkpoint_every = 10
patience = 0
"""
LOG = [
    {"event": "started", "parameters": 104_729},
    {"event": "progress", "step": 10, "epoch": 0, "loss": 5.4321, "tokens_per_second": 1987.0},
    {"event": "progress", "step": 20, "epoch": 2, "loss": 4.8765, "tokens_per_second": 2011.2},
    {"event": "started", "parameters": 104_729},
    {"event": "progress", "step": 20, "epoch": 2, "loss": 4.1234, "tokens_per_second": 2017.0},
    {"event": "validated", "step": 90, "scores": {"loss": 3.8}},
    {"event": "validated", "step": 97, "scores": {"loss": 3.3331}},
    {"event": "finished", "step": 97, "reason": "steps", "seconds": 61.24},
    {"event": "tested", "split": "test", "scores": {"loss": 3.9}},  # of weights that may be older
]


def plan(systems: list[str], *, kind: str = "ladder", minutes: float | None = None) -> dict[str, Any]:
    return {"kind": kind, "systems": systems, "minutes": minutes, "chosen": tomllib.loads(SETTINGS)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A comparison in which one system is done with attention, one without, one failed and one has not begun."""
    names = ["rnn", "gru", "gru-dot", "transformer"]
    (tmp_path / "plan.json").write_text(json.dumps(plan(names, minutes=1.75)))
    for number, name in enumerate(names[:3]):
        run = RunFolder(tmp_path / name)
        run.path.mkdir()
        run.settings.write_text(SETTINGS)
        run.log.write_text("".join(json.dumps(event) + "\n" for event in LOG) + '{"event": "prog')
        if name != "gru":
            (run.path / "measures.json").write_text(json.dumps(measures(number, name == "gru-dot")))
    (tmp_path / "gru/failed.json").write_text(json.dumps({"reason": f"It ran away: {NASTY}", "traceback": "secret"}))
    return tmp_path


def test_the_report_is_collected_from_the_folder(folder: Path) -> None:
    report = collect(folder)
    assert [system["state"] for system in report["systems"]] == ["done", "failed", "done", "waiting"]
    dot = report["systems"][2]
    assert (dot["parameters"], dot["steps"], dot["seconds"], dot["ended_by"]) == (104_729, 97, 61.2, "steps")
    assert (dot["training_tokens_per_second"], dot["held_out_loss"]) == (2011, 3.3331)
    assert dot["curve"] == [[10, 5.4321], [20, 4.1234]]  # a step that was done again counts once
    assert dot["model"] == "1+1 gru layers, width 38, bidirectional, attention: additive"
    assert "secret" not in json.dumps(report)


def test_too_little_training_is_a_caveat(folder: Path) -> None:
    assert "not complete one epoch" not in page(collect(folder))
    log = folder / "rnn/log.jsonl"
    log.write_text(log.read_text().replace('"epoch": 2', '"epoch": 0'))
    assert "1 of 2 systems did not complete one epoch" in page(collect(folder))


def test_a_busy_machine_is_a_caveat(folder: Path) -> None:
    assert "busy" not in page(collect(folder))
    file = folder / "gru-dot/measures.json"
    file.write_text(file.read_text().replace("3.19", "1.6"))
    assert "busy with other work while 1 of 2 systems were measured" in page(collect(folder))


def numbers_of(value: Any, name: str = "") -> list[tuple[str, float]]:
    if isinstance(value, dict):
        return [found for key, inner in value.items() for found in numbers_of(inner, key)]
    if isinstance(value, list):
        return [found for inner in value for found in numbers_of(inner, name)]
    return [(name, value)] if isinstance(value, int | float) and not isinstance(value, bool) else []


def test_the_page_has_every_number(folder: Path) -> None:
    report, written, missing = write_report(folder)
    html = (folder / "report.html").read_text(encoding="utf-8")
    text = " ".join(parsed(html).text)
    kept = re.search(r'<pre class="all">(.*?)</pre>', html, flags=re.DOTALL)
    assert kept is not None
    unescaped = kept[1].replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", '"').replace("&#x27;", "'")
    assert json.loads(unescaped.replace("&amp;", "&")) == report == json.loads((folder / "report.json").read_text())
    drawn = {
        "curve",
        "decoding_seconds",
        "decoding_cpu_seconds",
    }  # a line that has no labels; and what a speed was computed from
    shown = [(name, value) for name, value in numbers_of(report | {"settings": {}}) if name not in drawn]
    assert len(shown) > 40 and "Seed 1, at most 97 steps of 100 tokens, 400 subwords" in text
    for name, value in shown:
        digits = {"training_loss": 2, "held_out_loss": 2, "seconds": 0}.get(name, 2)
        forms = {f"{value:,.{digits}f}", f"{value:g}", f"{value:.4g}", f"{value:,}", f"{value:.3g}"}
        assert any(form in text for form in forms), (name, value)
    assert not missing
    assert {path.name for path in written} == {
        "report.json",
        "report.html",
        "report.md",
        "bleu-by-length.png",
        "training.png",
        "gradient.png",
        "speed.png",
        "attention.png",
    }
    assert all(path.stat().st_size > 1000 for path in written)


def test_text_is_escaped(folder: Path) -> None:
    html = page(collect(folder))
    parser = parsed(html)
    assert "script" not in parser.tags
    assert "img" not in parser.tags and "http" not in html.replace("http-equiv", "")
    text = "".join(parser.text)
    assert f"It ran away: {NASTY}" in text and f"{NASTY} 2" in text and f"x → {NASTY}: 0.157" in text
    assert '<span lang="ko">' in html and "쿼리" in text


def test_without_matplotlib_the_page_is_written_with_a_notice(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    _, written, missing = write_report(folder)
    assert [path.name for path in written] == ["report.json", "report.html", "report.md"]
    assert 'pip install "glassformer[pictures]"' in missing


def test_markdown_has_the_same_numbers(folder: Path) -> None:
    write_report(folder, plots=False)
    text = (folder / "report.md").read_text(encoding="utf-8")
    assert "Seed 1, at most 97 steps of 100 tokens, 400 subwords." in text
    assert "Glassformer 7, 1 threads." in text and "for 1.75 minutes per system" in text
    assert re.search(r"^\| RNN encoder–decoder \| 104,729 \| 31\.5 \| 51\.2 \|", text, flags=re.MULTILINE)
    assert re.search(r"^\| GRU \+ dot attention \| 43\.0 \| 23\.1 \|$", text, flags=re.MULTILINE)
    assert "`nrefs:1|chars`" in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {line.count("|") for line in rows[:6]} == {rows[0].count("|")}


@pytest.mark.parametrize("kind", ["ladder", "ablate"])
def test_a_page_without_results_says_so(kind: str, tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(json.dumps(plan(["transformer"], kind=kind)))
    report = collect(tmp_path)
    assert "waiting" in "".join(parsed(page(report)).text)
    assert table(report)[1].endswith("waiting")


def test_ticks_are_round_numbers_within_the_axis() -> None:
    assert Axis(0, 43, 0, 1).ticks() == [0, 10, 20, 30, 40]
    assert Axis(1e-4, 10, 0, 1, log=True).ticks() == pytest.approx([1e-4, 1e-3, 1e-2, 0.1, 1, 10])
    assert Axis(0, 50, 100, 0).at(25) == 50
    assert Axis(0.01, 100, 0, 80, log=True).at(1) == pytest.approx(40)


def test_bars_are_as_long_as_their_numbers() -> None:
    html = bars([(0, "a", 50.0), (1, "b", 200.0), (2, "c", None)], "tokens/s")
    assert re.findall(r"width:([\d.]+)%", html) == ["25.0", "100.0", "0.0"]
    assert "–" in html
