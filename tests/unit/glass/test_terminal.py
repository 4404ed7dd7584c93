"""Views for the terminal."""

from __future__ import annotations

import torch

from glassformer.glass.heatmap import Heatmap, display_token, display_tokens, text_width
from glassformer.glass.terminal import attention_view, heatmap_view, shade
from glassformer.glass.trace import Trace
from glassformer.nn.probe import Provenance
from glassformer.reference.attention import attention_weights


def test_grid_shows_each_weight_under_its_column() -> None:
    lines = heatmap_view(Heatmap(["Je", "suis"], ["I", "am"], [[1.0, 0.0], [0.4, 0.6]]))
    assert lines == ["      I   am ", "  Je  ███", "suis  ▒▒▒ ▓▓▓"]


def test_korean_takes_two_columns() -> None:
    assert text_width("학생") == 4
    lines = heatmap_view(Heatmap(display_tokens(["▁학생"]), display_tokens(["▁student", "<eos>"]), [[0.9, 0.1]]))
    assert lines[1] == "학생  ███████ ·····"


def test_shades_grow_with_the_weight() -> None:
    assert [shade(w) for w in (0.0, 0.05, 0.2, 0.4, 0.7, 1.0)] == [" ", "·", "░", "▒", "▓", "█"]


def test_a_bare_word_mark_stays_visible() -> None:
    assert display_token("▁") == "▁"


def test_rows_are_named_after_what_the_decoder_wrote() -> None:
    weights_HQK = torch.tensor([[[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [1.0, 0.0]]])
    name, made = "decoder.0.cross.weights", Provenance(("decoder", 0, "cross"), "weights", attention_weights)
    trace = Trace(["▁I", "<eos>"], ["<sos>", "▁Je"], ["▁Je", "<eos>"], tensors={name: weights_HQK}, graph={name: made})
    lines = attention_view(trace)
    assert lines[1].startswith("   Je  ███")
    assert lines[2] == "<eos>  ▒▒▒ ▒▒▒▒▒"
