"""Probes record named tensors under their full names, selected by a pattern."""

from __future__ import annotations

import torch

from glassformer.nn.probe import NO_PROBE, Recorder


def test_no_probe_returns_the_same_tensor() -> None:
    x = torch.randn(3)
    assert NO_PROBE("x", x) is x
    assert NO_PROBE.at("encoder", 0)("x", x) is x
    assert not NO_PROBE.at("encoder").wants("x")


def test_names_are_paths_and_keep_their_order() -> None:
    recorder, x = Recorder(), torch.randn(3)
    layer = recorder.at("encoder", 0)
    layer.at("self")("weights", x)
    layer("output", x + 1)
    recorder("logits", x + 2)
    assert list(recorder.tensors) == ["encoder.0.self.weights", "encoder.0.output", "logits"]
    assert torch.equal(recorder.tensors["encoder.0.output"], x + 1)


def test_a_pattern_selects_tensors() -> None:
    recorder, x = Recorder("decoder.*.cross.weights"), torch.randn(3)
    for part in ("self", "cross"):
        look = recorder.at("decoder", 1).at(part)
        assert look.wants("weights") == (part == "cross")
        assert not look.wants("scores")
        look("weights", x)
        look("scores", x)
    recorder.at("encoder", 1, "cross")("weights", x)
    assert list(recorder.tensors) == ["decoder.1.cross.weights"]


def test_what_is_recorded_is_a_copy_without_gradient() -> None:
    recorder, x = Recorder(), torch.ones(3, requires_grad=True)
    y = x * 2
    assert recorder("y", y) is y
    with torch.no_grad():
        y.zero_()
    assert recorder.tensors["y"].tolist() == [2, 2, 2]
    assert not recorder.tensors["y"].requires_grad


def test_two_recorders_share_nothing() -> None:
    first, second = Recorder(), Recorder()
    first.at("a")("x", torch.ones(1))
    assert second.tensors == {}
