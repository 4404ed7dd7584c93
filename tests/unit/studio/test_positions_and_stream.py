"""Positions, masks and the residual stream: what the two views ask for, recomputed from the model's own tensors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fastapi.testclient import TestClient

import glassformer as gf
from glassformer.errors import UserError
from glassformer.glass.mask_removal import MASKS, removable_masks, trace_with_masks
from glassformer.glass.residual_stream import lens_next_tokens, lens_tensors, logit_lens, stream_tensors, streams_of
from glassformer.glass.trace import Trace, trace_sequence, trace_teacher_forced
from glassformer.nn.positional_encoding import sinusoids
from glassformer.studio.app import studio
from tests.families import (
    EOS,
    PAD,
    SOS,
    SOURCE,
    TARGET,
    VOCAB,
    build,
    pieces,
    teacher_forced,
    traced,
    transformer,
)
from tests.unit.studio.conftest import HERE
from tests.untrained_runs import untrained_run

SENTENCE = "I am a student"


def case(name: str) -> tuple[Any, Trace]:
    """A model of the table that all tests share, and a trace of it."""
    model = build(name)
    return model, traced(name, model)


def short(name: str, last: int) -> tuple[Any, Trace]:
    """The same with a trace of four tokens."""
    model = build(name)
    return model, trace_sequence(model, pieces, [SOS, 7, 11, last])


def asked(client: TestClient) -> dict[str, Any]:
    found: dict[str, Any] = client.post("/api/traces", json={"run": "phrasebook", "text": SENTENCE}).json()
    return found


# ------------------------------------------------------------------------------------------ positions


def test_the_table_of_positions_is_longer_than_the_sentence(visitor: TestClient, run: Path) -> None:
    found = asked(visitor)
    answer = visitor.get(f"/api/traces/{found['id']}/positions", params={"side": "decoder", "length": 97})
    table = np.frombuffer(answer.content, "<f4").reshape([int(n) for n in answer.headers["x-shape"].split(",")])
    assert np.allclose(table, sinusoids(97, 48).numpy(), atol=1e-6)
    of_sentence = gf.load(run).trace(SENTENCE, found["output"])["decoder.positions"].numpy()
    assert np.allclose(table[: len(of_sentence)], of_sentence, atol=1e-6)


def test_the_table_of_rotary_positions_is_as_wide_as_a_head(tmp_path: Path) -> None:
    sizes = {"layers": 1, "d_model": 24, "heads": 3, "d_ff": 37, "dropout": 0.0, "positions": "rotary"}
    rotary = untrained_run(tmp_path / "phrasebook", {"data": {"train": ["a", "b"]}, "model": sizes})
    with TestClient(studio([rotary]), base_url=HERE) as client:
        answer = client.get(f"/api/traces/{asked(client)['id']}/positions", params={"side": "encoder", "length": 97})
        table = np.frombuffer(answer.content, "<f4").reshape([int(n) for n in answer.headers["x-shape"].split(",")])
    assert np.allclose(table, sinusoids(97, 8).numpy(), atol=1e-6)


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ({"side": "decoder", "length": 0}, "cannot be 0"),
        ({"side": "decoder", "length": 9999}, "cannot be 9999"),
        ({"side": "roof"}, "no positional encoding"),
    ],
)
def test_a_table_that_cannot_be_drawn(visitor: TestClient, question: dict[str, Any], said: str) -> None:
    answer = visitor.get(f"/api/traces/{asked(visitor)['id']}/positions", params=question)
    assert answer.status_code == 400 and said in answer.json()["what"]


# ------------------------------------------------------------------------------------------ masks


@pytest.mark.parametrize("norm", ["post-norm", "pre-norm"])
def test_under_every_mask_padding_changes_nothing(norm: str) -> None:
    model, found = case(norm)
    made = trace_with_masks(model, found, MASKS, padding=3, eos=EOS)
    assert made.apart < 1e-5
    assert made.after == pytest.approx(made.before, abs=1e-6)
    alone = found.log_probabilities()[range(5), [*TARGET[1:], EOS]].tolist()
    assert made.before == pytest.approx(alone, abs=1e-5)
    assert made.written == pieces([*TARGET[1:], EOS])
    assert made.trace.source == pieces([*SOURCE, PAD, PAD, PAD])


def behind(made: Any, name: str, rows: int, columns: int) -> float:
    """What the real rows of an attention give to padding."""
    return float(made.trace[name][:, :rows, columns:].sum())


def test_each_mask_hides_what_it_says() -> None:
    model, found = case("post-norm")
    S, T = len(SOURCE), len(TARGET)
    for kept in (("padding", "look_ahead"), ("look_ahead", "cross"), ("padding", "cross"), ()):
        made = trace_with_masks(model, found, kept, padding=3, eos=EOS)
        future = float(made.trace["decoder.0.self.weights"][:, :T, :T].triu(1).sum())
        assert (behind(made, "encoder.1.self.weights", S, S) == 0) == ("padding" in kept)
        assert (behind(made, "decoder.2.cross.weights", T, S) == 0) == ("cross" in kept)
        assert (future == 0) == ("look_ahead" in kept)
        hidden = {"padding", "look_ahead"} & set(kept)  # either of them hides the padding behind the output
        assert (behind(made, "decoder.0.self.weights", T, T) == 0) == bool(hidden)
        assert made.after != made.before


def test_masks_that_are_taken_away_act_on_the_whole_pass() -> None:
    """Without its look-ahead mask, the pass is that of the same model trained without one."""
    model, found = case("post-norm")
    made = trace_with_masks(model, found, ("padding", "cross"), padding=2, eos=EOS)
    model.target_mask = lambda target_BT: None
    expected = trace_teacher_forced(model, pieces, SOURCE, TARGET).log_probabilities()[range(5), [*TARGET[1:], EOS]]
    assert made.after == pytest.approx(expected.tolist(), abs=1e-5)


def test_masks_of_a_language_model() -> None:
    model, found = short("gpt", 5)
    assert removable_masks(found) == ("padding", "look_ahead")
    whole = trace_with_masks(model, found, removable_masks(found), padding=3, eos=EOS)
    written = [7, 11, 5, int(found["logits"][-1].argmax())]
    assert whole.apart < 1e-5 and whole.after == pytest.approx(whole.before, abs=1e-6)
    assert whole.before == pytest.approx(found.log_probabilities()[range(4), written].tolist(), abs=1e-5)
    assert whole.written == pieces(written) and whole.trace.target == [*found.target, "<pad>", "<pad>", "<pad>"]
    without = trace_with_masks(model, found, ["padding"], padding=3, eos=EOS)
    assert float(without.trace["decoder.1.self.weights"][:, :4, :4].triu(1).sum()) > 0
    assert behind(without, "decoder.1.self.weights", 4, 4) == 0
    assert without.after != pytest.approx(without.before, abs=1e-4)


def test_masks_of_an_encoder() -> None:
    for model, rows in ((build("bert"), 4), (build("bert classifier, first"), 1)):
        found = trace_sequence(model, pieces, [SOS, 7, 11, EOS], to_labels=lambda chosen: [f"l{i}" for i in chosen])
        assert removable_masks(found) == ("padding",)
        whole, without = (trace_with_masks(model, found, masks, padding=3, eos=EOS) for masks in (["padding"], []))
        assert whole.apart < 1e-5 and len(whole.before) == rows
        assert whole.before == pytest.approx(found.log_probabilities().amax(dim=-1).tolist(), abs=1e-5)
        assert whole.written == found.predicted and whole.trace.source == [*found.source, "<pad>", "<pad>", "<pad>"]
        assert behind(whole, "encoder.1.self.weights", 4, 4) == 0 < behind(without, "encoder.1.self.weights", 4, 4)
        assert without.after != pytest.approx(without.before, abs=1e-6)
    with pytest.raises(UserError, match="named cross"):
        trace_with_masks(model, found, MASKS, padding=3, eos=EOS)


def test_masks_over_http(visitor: TestClient, run: Path) -> None:
    found = asked(visitor)
    chosen = {"padding": 2, "masks": ["padding", "cross"]}
    made = visitor.post(f"/api/traces/{found['id']}/masked", json=chosen).json()
    translator = gf.load(run)
    expected = trace_with_masks(
        translator.model, translator.trace(SENTENCE, found["output"]), chosen["masks"], padding=2, eos=EOS
    )
    assert made["after"] == pytest.approx(expected.after) and made["before"] == pytest.approx(expected.before)
    assert made["target"][-2:] == ["<pad>", "<pad>"] and made["written"][-1] == "<eos>"
    where = {"name": "decoder.0.self.weights", "at": "1"}
    weights = visitor.get(f"/api/traces/{made['id']}/values", params=where)
    assert np.array_equal(
        np.frombuffer(weights.content, "<f4"), expected.trace["decoder.0.self.weights"][1].numpy().ravel()
    )


@pytest.mark.parametrize(
    ("chosen", "said"),
    [({"padding": 0}, "cannot be 0"), ({"padding": 99}, "cannot be 99"), ({"masks": ["face"]}, "named face")],
)
def test_masks_that_there_are_not(visitor: TestClient, chosen: dict[str, Any], said: str) -> None:
    answer = visitor.post(f"/api/traces/{asked(visitor)['id']}/masked", json=chosen)
    assert answer.status_code == 400 and said in answer.json()["what"]


def test_a_model_without_such_masks_says_so() -> None:
    model, found = case("gru, additive, bidirectional")
    with pytest.raises(UserError, match="no masks to remove"):
        trace_with_masks(model, found, MASKS, padding=3, eos=EOS)
    model = transformer(positions="learned", max_positions=7).eval()
    found = teacher_forced(model)
    with pytest.raises(UserError, match="at most 7"):
        trace_with_masks(model, found, MASKS, padding=3, eos=EOS)


# ------------------------------------------------------------------------------------------ the stream


@pytest.mark.parametrize("name", ["post-norm", "pre-norm", "batch norm", "batch norm, pre-norm", "gpt", "bert", "vit"])
def test_lengths_and_what_is_normalized(name: str) -> None:
    _, found = case(name)
    for side in streams_of(found):
        places = stream_tensors(found, side)
        assert places[0].name == f"{side}.input"
        for place in places:
            assert np.allclose(place.norms, np.sqrt((found[place.name].numpy().astype(float) ** 2).sum(-1)))
        normalised = [place for place in places if place.normalizes]
        assert len(normalised) >= len(
            [name for name in found.tensors if name.startswith(side) and name.endswith("mean")]
        )
        for place in normalised:  # mean and deviation of the trace are those of what it says
            at = place.name.rpartition(".")[0]
            mean = found[place.normalizes].mean(-1, keepdim=True) if place.normalizes else None
            if found[f"{at}.mean"].dim() == 2:
                assert torch.allclose(found[f"{at}.mean"], mean, atol=1e-6)


def test_a_recurrent_model_has_no_residual_stream() -> None:
    _, found = case("gru, additive, bidirectional")
    assert streams_of(found) == []
    with pytest.raises(UserError, match="The decoder of this model has no residual stream"):
        stream_tensors(found, "decoder")
    with pytest.raises(UserError, match="no decoder layers"):
        lens_tensors(found)
    with pytest.raises(UserError, match="no decoder layers"):
        logit_lens(*case("bert"))


@pytest.mark.parametrize("name", ["post-norm", "pre-norm", "output bias", "gpt", "gpt, output bias"])
def test_the_last_of_the_lens_is_what_the_model_says(name: str) -> None:
    model, found = case(name)
    said = logit_lens(model, found)
    assert len(said) == 1 + len(model.decoder)
    log_probabilities = found.log_probabilities()
    assert said[-1].pieces == found.predicted
    assert said[-1].probabilities == pytest.approx(log_probabilities.max(-1).values.exp().tolist(), rel=1e-4)
    written = [*found["decoder.tokens"].tolist()[1:], int(found["logits"][-1].argmax())]
    of_written = log_probabilities[range(len(written)), written].tolist()
    assert said[-1].log_probabilities == pytest.approx(of_written, abs=1e-4)
    assert said[-1].ranks[-1] == 1 and all(1 <= rank <= VOCAB for one in said for rank in one.ranks)


def test_the_lens_reads_the_stream_through_the_last_norm() -> None:
    model, found = case("pre-norm")
    stream = found["decoder.0.ff.residual"].numpy()
    assert lens_tensors(found)[1] == "decoder.0.ff.residual"
    deviation = np.sqrt(stream.var(-1, keepdims=True) + 1e-5)
    norm, table = model.decoder_norm, model.output.weight_VD.detach().numpy()
    normed = (stream - stream.mean(-1, keepdims=True)) / deviation * norm.weight.detach().numpy()
    logits = (normed + norm.bias.detach().numpy()) @ table.T
    chances = np.exp(logits - logits.max(-1, keepdims=True))
    chances /= chances.sum(-1, keepdims=True)
    choices = lens_next_tokens(model, found, "decoder.0.ff.residual", 2, count=5)
    assert [choice.token for choice in choices] == np.argsort(-chances[2])[:5].tolist()
    assert choices[0].probability == pytest.approx(chances[2].max(), rel=1e-4)


def test_stream_and_lens_over_http(visitor: TestClient, run: Path) -> None:
    found = asked(visitor)
    path = f"/api/traces/{found['id']}"
    own = gf.load(run).trace(SENTENCE, found["output"])
    places = visitor.get(f"{path}/stream", params={"side": "encoder"}).json()
    last = places[-1]
    assert last["name"] == "encoder.memory"
    assert last["norms"] == pytest.approx(own["encoder.memory"].norm(dim=-1).tolist(), rel=1e-5)
    said = visitor.get(f"{path}/lens").json()
    assert [one["name"] for one in said] == ["decoder.input", "decoder.0.ff.norm", "decoder.1.ff.norm"]
    choices = visitor.get(f"{path}/lens/choices", params={"name": said[1]["name"], "row": 1}).json()
    assert len(choices) == 10 and choices[0]["piece"] == said[1]["pieces"][1]
    assert choices[0]["probability"] == pytest.approx(said[1]["probabilities"][1], rel=1e-4)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("stream?side=roof", "no residual stream"),
        ("lens/choices?name=logits&row=0", "not an input of the output layer"),
        ("lens/choices?name=decoder.input&row=99", "no row 99"),
    ],
)
def test_a_wrong_question_about_the_stream(visitor: TestClient, path: str, said: str) -> None:
    answer = visitor.get(f"/api/traces/{asked(visitor)['id']}/{path}")
    assert answer.status_code == 400 and said in answer.json()["what"]
