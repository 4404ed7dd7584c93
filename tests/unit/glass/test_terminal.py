"""Pictures in characters."""

from __future__ import annotations

import torch

from glassformer.glass.terminal import attention_grid, cross_attention_view, readable, shade, width
from glassformer.glass.trace import Trace


def test_grid_shows_each_weight_under_its_column() -> None:
    lines = attention_grid(torch.tensor([[1.0, 0.0], [0.4, 0.6]]), ["▁Je", "suis"], ["▁I", "▁am"])
    assert lines == ["      I   am ", "  Je  ███", "suis  ▒▒▒ ▓▓▓"]


def test_korean_takes_two_columns() -> None:
    assert width("학생") == 4
    lines = attention_grid(torch.tensor([[0.9, 0.1]]), ["▁학생"], ["▁student", "<eos>"])
    assert lines[1] == "학생  ███████ ·····"


def test_shades_grow_with_the_weight() -> None:
    assert [shade(w) for w in (0.0, 0.05, 0.2, 0.4, 0.7, 1.0)] == [" ", "·", "░", "▒", "▓", "█"]


def test_a_bare_word_mark_stays_visible() -> None:
    assert readable("▁") == "▁"


def test_rows_are_named_after_what_the_decoder_wrote() -> None:
    weights_HQK = torch.tensor([[[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [1.0, 0.0]]])
    trace = Trace(["▁I", "<eos>"], ["<sos>", "▁Je"], ["▁Je", "<eos>"], {"decoder.0.cross.weights": weights_HQK})
    lines = cross_attention_view(trace)
    assert lines[1].startswith("   Je  ███")
    assert lines[2] == "<eos>  ▒▒▒ ▒▒▒▒▒"
