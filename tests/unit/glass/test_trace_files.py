"""Files and views of a trace contain its exact numbers."""

from __future__ import annotations

import base64
import csv
import io
import json
import re
from importlib.resources import files
from typing import Any

import numpy as np
import pytest
import torch

from glassformer.errors import UserError
from glassformer.glass.effects import HeadAblation, InterventionEffect
from glassformer.glass.heatmap import Heatmap
from glassformer.glass.html import fragment, page
from glassformer.glass.svg import heatmap_svg, standalone_svg
from glassformer.glass.teacher_forcing import TeacherForcingComparison
from glassformer.glass.terminal import (
    attention_view,
    effect_view,
    head_ablation_view,
    next_tokens_view,
    teacher_forcing_view,
)
from glassformer.glass.trace import KINDS, Trace, trace_free_running, trace_teacher_forced
from glassformer.glass.trace_files import as_arrays, as_csv, as_json
from glassformer.glass.view_texts import ENGLISH
from tests.families import traced

SOS, EOS = 1, 2
SOURCE, TARGET = [7, 11, 5, EOS], [SOS, 13, 17, 19, 23]


def pieces(ids: Any) -> list[str]:
    return [{SOS: "<sos>", EOS: "<eos>", 7: "</script>"}.get(i, f"▁w{i}") for i in ids]


@pytest.fixture
def model(tiny_model: Any) -> Any:
    return tiny_model()


@pytest.fixture
def found(model: Any) -> Trace:
    return trace_teacher_forced(model, pieces, SOURCE, TARGET)


def test_csv_has_every_weight(found: Trace) -> None:
    rows = list(csv.DictReader(io.StringIO(as_csv(found, found.attention_layers))))
    assert len(rows) == 3 * (2 * 4 * 4 + 3 * 5 * 5 + 3 * 5 * 4)
    for row in rows[:: len(rows) // 50]:
        look = found.attention_layer(row["attention"], int(row["layer"]))
        head, q, k = int(row["head"]), int(row["row"]), int(row["column"])
        assert np.float32(row["weight"]) == found[look.name][head, q, k].item()
        assert (row["row_piece"], row["column_piece"]) == (look.rows[q], look.columns[k])
    one = list(csv.DictReader(io.StringIO(as_csv(found, [found.attention_layer("encoder", 1)], head=2))))
    assert {(row["layer"], row["head"]) for row in one} == {("1", "2")}


def test_json_is_read_back_as_the_same_numbers(found: Trace) -> None:
    told = json.loads(json.dumps(as_json(found, [found.attention_layer()], tensors="decoder.*.self.*scores")))
    weights_HQK = np.array(list(told["attention"][0]["weights"].values()), dtype=np.float32)
    assert (weights_HQK == found.attention().numpy()).all()
    assert set(told["tensors"]) == {
        f"decoder.{layer}.self.{name}" for layer in range(3) for name in ("scores", "scaled_scores", "masked_scores")
    }
    masked = told["tensors"]["decoder.1.self.masked_scores"]
    assert (np.array(masked["values"], dtype=np.float32) == found["decoder.1.self.masked_scores"].numpy()).all()
    assert masked["values"][0][0][1] == "-inf"
    assert told["written"] == [*pieces(TARGET[1:]), found.predicted[-1]]
    chances = [chance for _, chance in told["next"][2]]
    assert chances == sorted(chances, reverse=True)
    best = int(found["logits"][2].argmax())
    assert told["next"][2][0] == [pieces([best])[0], pytest.approx(float(found["logits"][2].softmax(-1)[best]))]


def test_numpy_gets_every_tensor(found: Trace) -> None:
    arrays = as_arrays(found)
    assert list(arrays) == list(found.tensors)
    assert all((arrays[name] == tensor.numpy()).all() for name, tensor in found.tensors.items())


def embedded(html: str) -> tuple[dict[str, Any], np.ndarray]:
    data = re.search(r'id="trace">(.*?)</script>', html, flags=re.DOTALL)
    numbers = re.search(r'id="numbers">(.*?)</script>', html, flags=re.DOTALL)
    assert data is not None and numbers is not None
    return json.loads(data[1]), np.frombuffer(base64.b64decode(numbers[1]), dtype="<f4")


def test_a_page_has_every_tensor_with_its_formula(found: Trace) -> None:
    html = page(found)
    told, numbers = embedded(html)
    assert [entry["name"] for entry in told["tensors"]] == list(found.tensors)
    for entry in told["tensors"]:
        tensor = found[entry["name"]].float().numpy()
        size = int(np.prod(entry["shape"]))
        assert (numbers[entry["offset"] :][:size].reshape(entry["shape"]) == tensor).all(), entry["name"]
        if not entry["name"].endswith(".tokens"):
            assert entry["formula"] and entry["numpy"]
    scores = next(entry for entry in told["tensors"] if entry["name"] == "encoder.0.self.scores")
    assert (scores["formula"], scores["parents"]) == ("Q·Kᵀ", ["encoder.0.self.query", "encoder.0.self.key"])


def test_the_page_uses_only_the_texts_of_view_texts() -> None:
    script = (files("glassformer.glass") / "static" / "page.js").read_text(encoding="utf-8")
    said = {dotted or quoted for dotted, quoted in re.findall(r'\btexts(?:\.(\w+)|\["([^"]+)"\])', script)}
    assert len(said) > 3
    assert said | {*KINDS} | {f"rows {kind}" for kind in KINDS} <= set(ENGLISH)


def test_a_page_needs_no_other_file(found: Trace) -> None:
    html = page(found)
    assert re.findall(r'(?:src|href)="[^"]*"|url\(|@import|https?://(?!www\.w3\.org/2000/svg)', html) == []
    assert html.count("</script>") == 3  # a token with this text does not end the script
    assert "prefers-color-scheme: dark" in html
    assert 'lang="en"' in html and "<noscript>" in html


def test_a_page_that_would_be_too_large_has_attention_alone(found: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glassformer.glass.html.MAX_MEGABYTES", 0)
    html = page(found)
    assert {entry["name"] for entry in embedded(html)[0]["tensors"]} == {look.name for look in found.attention_layers}
    assert "This file contains the attention weights only" in html


def test_a_notebook_gets_a_drawing_without_a_script(found: Trace) -> None:
    html = found._repr_html_()
    assert html == fragment(found)
    assert "<svg" in html and "<script" not in html and "&lt;/script&gt;" in html


def test_a_grid_has_a_block_for_every_weight() -> None:
    heatmap = Heatmap(["le", "chat"], ["the", "cat", "<eos>"], [[0.9, 0.1, 0.0], [0.2, 0.5, 0.3]])
    svg = heatmap_svg(heatmap)
    assert re.findall(r'fill-opacity="([\d.]+)"', svg) == ["0.9", "0.1", "0", "0.2", "0.5", "0.3"]
    assert "chat → &lt;eos&gt;: 0.3" in svg
    alone = standalone_svg(heatmap)
    assert alone.startswith("<svg ") and "<style>" in alone and alone.endswith("</svg>")


def test_one_head_on_the_terminal(found: Trace) -> None:
    lines = attention_view(found, "encoder", 0, 2)
    assert len(lines) == 1 + 4 + 2
    with pytest.raises(UserError, match="There is no head 3"):
        attention_view(found, "encoder", 0, 3)
    with pytest.raises(UserError, match="There is no encoder layer 2"):
        attention_view(found, "encoder", 2)


def test_next_tokens_on_the_terminal(found: Trace) -> None:
    lines = next_tokens_view(found, count=3)
    best = found.next_tokens(3)[1]
    assert lines[1].split() == [
        "w13",
        *(word for choice in best for word in (choice.piece[1:], f"{choice.probability:.3f}")),
    ]


def test_teacher_forcing_compared_with_free_running(model: Any) -> None:
    unfinished = trace_free_running(model, pieces, SOURCE, sos=SOS, eos=EOS, limit=7)
    free = trace_free_running(model, pieces, SOURCE, sos=SOS, eos=EOS, limit=7, forced={6: EOS})
    own = free["decoder.tokens"].tolist()
    same = TeacherForcingComparison(trace_teacher_forced(model, pieces, SOURCE, own), free)
    assert same.divergence is None
    assert TeacherForcingComparison(same.forced, unfinished).divergence == 6  # the target ends there
    assert teacher_forcing_view(same) == ["the free-running output equals the target"]
    other = [*own[:3], 3 + (own[3] - 2) % 50, *own[4:]]
    parted = TeacherForcingComparison(trace_teacher_forced(model, pieces, SOURCE, other), free)
    assert parted.divergence == 2
    assert parted.at_divergence(1)[0].token == own[3]
    torch.testing.assert_close(parted.forced["logits"][:3], free["logits"][:3], atol=2e-5, rtol=1e-5)
    assert "step 2" in teacher_forcing_view(parted)[2]


def test_effects_on_the_terminal() -> None:
    lines = effect_view(InterventionEffect(["▁a", "<eos>"], [-1.0, -2.0], [-1.5, -1.0], [5], [7]), "a", "b")
    assert lines[1].split() == ["a", "-1.0000", "-1.5000", "-0.5000"]
    assert lines[3].split() == ["-3.0000", "-2.5000", "+0.5000"]
    assert lines[-2:] == ["before: a", "after: b"]
    grid = head_ablation_view(HeadAblation("encoder", ["▁a"], -3.0, [[0.25, -1.5], [0.0, 2.0]]))
    assert [line.split() for line in grid[:3]] == [
        ["layer", "0", "1"],
        ["0", "+0.250", "-1.500"],
        ["1", "+0.000", "+2.000"],
    ]


def test_a_model_without_attention_still_has_a_page() -> None:
    html = page(traced("window"))
    assert embedded(html)[0]["layers"] == [] and 'id="grid"' not in html
