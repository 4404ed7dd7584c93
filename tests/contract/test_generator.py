"""Properties of every generator. The families are those of tests/families.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from glassformer.decoding import Hypothesis
from glassformer.decoding.beam import beam_search
from glassformer.decoding.constraints import no_repeated_ngram
from glassformer.decoding.greedy import greedy
from glassformer.errors import UserError
from glassformer.glass.trace import trace_teacher_forced
from glassformer.inference.run import copy_weights, read_weights, save_weights, weights_of
from glassformer.models.ablations import NoResidual
from glassformer.models.window import Window
from glassformer.nn.probe import NO_PROBE, Probe, Recorder
from tests.families import (
    EOS,
    LANGUAGE_MODELS,
    PAD,
    RECURRENT,
    SOS,
    TRANSFORMERS,
    VOCAB,
    of_family,
    perturb,
    recurrent,
    transformer,
)

CLOSE = {"atol": 1e-5, "rtol": 1e-5}

# Without the look-ahead mask a Transformer does not have these properties: tests/unit/models/test_transformer.py.
CAUSAL = {name: over for name, over in TRANSFORMERS.items() if name != "no look-ahead mask"}


class WithoutSource(nn.Module):
    """A language model with a source that it ignores, so that it has the interface of the other models."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def encode(self, source_BS: Tensor, probe: Probe = NO_PROBE) -> None:
        return None

    def start(self, memory: None, copies: int = 1) -> Any:
        return self.model.start(memory, copies)

    def step(self, tokens_N: Tensor, state: Any, probe: Probe = NO_PROBE) -> Any:
        return self.model.step(tokens_N, state, probe)

    def forward(self, source_BS: Tensor, target_BT: Tensor, probe: Probe = NO_PROBE) -> Tensor:
        return self.model(target_BT, probe)


# Each row: a builder, given a rate of dropout.
GENERATORS: dict[str, Callable[[float], nn.Module]] = {
    **{
        f"transformer, {name}": lambda dropout, o=over: transformer(**o, dropout=dropout)
        for name, over in CAUSAL.items()
    },
    **{
        f"recurrent, {name}": lambda dropout, o=over: recurrent(**o, dropout=dropout)
        for name, over in RECURRENT.items()
    },
    "recurrent, one decoder layer": lambda dropout: recurrent(decoder_layers=1, dropout=dropout),
    "recurrent, untied": lambda dropout: recurrent(tie_embeddings=False, encoder_layers=3, dropout=dropout),
    **{
        name: lambda dropout, o=over: WithoutSource(of_family(**(o | {"dropout": dropout})))
        for name, over in LANGUAGE_MODELS.items()
    },
}


@pytest.fixture(params=GENERATORS)
def build(request: pytest.FixtureRequest) -> Callable[..., nn.Module]:
    def make(*, seed: int = 1, dropout: float = 0.0) -> nn.Module:
        torch.manual_seed(seed)
        return perturb(GENERATORS[request.param](dropout))

    return make


def rows_that_hear(model: Any, source_BS: Tensor) -> Tensor:
    """Return the rows whose output depends on the target tokens.

    Without residual connections a decoder layer depends on them only through its attention to the source, so not at all
    if the source has one token.
    """
    deaf = any(isinstance(part, NoResidual) for part in model.modules())
    return (source_BS != PAD).sum(1) > 1 if deaf else torch.ones(len(source_BS), dtype=torch.bool)


def window_of(model: Any) -> int:
    """Return the number of tokens that the model reads."""
    return model.model.window if isinstance(model, WithoutSource) and isinstance(model.model, Window) else 10**9


def needs_source(model: Any) -> None:
    if isinstance(model, WithoutSource):
        pytest.skip("a language model reads no source")


@pytest.fixture
def model(build: Callable[..., nn.Module]) -> nn.Module:
    return build().eval()


@pytest.fixture
def source_BS(padded: Any) -> Tensor:
    return padded([11, 4, 7, 1, 11], seed=1)


@pytest.fixture
def target_BT(padded: Any) -> Tensor:
    tokens_BT = padded([13, 13, 13, 13, 13], seed=2)
    tokens_BT[:, 0] = SOS
    return tokens_BT


def stepped(model: Any, tokens_NT: Tensor, state: Any) -> tuple[Tensor, Any]:
    """The logits after each of these tokens, N×T×V, one step at a time; and the state after them."""
    logits = []
    for tokens_N in tokens_NT.T:
        step_NV, state = model.step(tokens_N, state)
        logits.append(step_NV)
    return torch.stack(logits, dim=1), state


# Cached = uncached


def test_step_by_step_equals_all_at_once(model: Any, source_BS: Tensor, target_BT: Tensor) -> None:
    with torch.no_grad():
        at_once_BTV = model(source_BS, target_BT)
        one_by_one_BTV, _ = stepped(model, target_BT, model.start(model.encode(source_BS)))
    assert at_once_BTV.shape == (5, 13, VOCAB)
    torch.testing.assert_close(one_by_one_BTV, at_once_BTV, **CLOSE)


def test_step_by_step_stays_right_while_caches_grow(model: Any, padded: Any) -> None:
    source_BS, target_BT = padded([3, 2]), padded([41, 41])
    with torch.no_grad():
        one_by_one_BTV, _ = stepped(model, target_BT, model.start(model.encode(source_BS)))
        torch.testing.assert_close(one_by_one_BTV, model(source_BS, target_BT), **CLOSE)


# Padding and batch-mates


def test_padding_and_batch_mates_change_no_logits(model: Any, source_BS: Tensor, target_BT: Tensor) -> None:
    with torch.no_grad():
        together_BTV = model(source_BS, target_BT)
        for row in range(5):
            alone_1S = source_BS[row : row + 1, : int((source_BS[row] != PAD).sum())]
            alone_1TV = model(alone_1S, target_BT[row : row + 1])
            torch.testing.assert_close(together_BTV[row : row + 1], alone_1TV, **CLOSE)


def test_target_padding_changes_no_logits_before_it(model: Any, source_BS: Tensor, target_BT: Tensor) -> None:
    padded_BT = target_BT.clone()
    padded_BT[:, 6:] = PAD
    with torch.no_grad():
        torch.testing.assert_close(model(source_BS, padded_BT)[:, :6], model(source_BS, target_BT[:, :6]), **CLOSE)


def test_more_source_padding_changes_no_logits(model: Any, source_BS: Tensor, target_BT: Tensor) -> None:
    wider_BS = torch.cat([source_BS, torch.full((5, 6), PAD)], dim=1)
    with torch.no_grad():
        torch.testing.assert_close(model(wider_BS, target_BT), model(source_BS, target_BT), **CLOSE)


def test_the_source_matters(model: Any, source_BS: Tensor, target_BT: Tensor) -> None:
    needs_source(model)
    other_BS = source_BS.clone()
    other_BS[:, 0] += torch.where(source_BS[:, 0] == VOCAB - 1, -1, 1)
    with torch.no_grad():
        change_BTV = model(source_BS, target_BT) - model(other_BS, target_BT)
    assert (change_BTV.abs().amax((1, 2)) > 1e-3).all()


# Nothing from the future


def test_changing_the_future_changes_nothing_before_it(model: Any, source_BS: Tensor, target_BT: Tensor) -> None:
    hears_B = rows_that_hear(model, source_BS)
    least = 1e-3 if hears_B.all() else 1e-7
    with torch.no_grad():
        before_BTV = model(source_BS, target_BT)
        for t in (1, 7, 12):
            changed_BT = target_BT.clone()
            changed_BT[:, t:] = (target_BT[:, t:] + 5) % VOCAB
            after_BTV = model(source_BS, changed_BT)
            assert torch.equal(after_BTV[:, :t], before_BTV[:, :t])
            change_BV = (after_BTV[:, t] - before_BTV[:, t]).abs()
            assert (change_BV[hears_B].amax(dim=-1) > least).all()


class Leaf(Probe):
    """Puts a leaf of the graph in the place of one tensor, so that gradients arrive there."""

    def __init__(self, name: str) -> None:
        self.name, self._prefix, self.found = name, "", []

    def at(self, *path: str | int) -> Probe:
        inner = Leaf(self.name)
        inner._prefix, inner.found = self._prefix + "".join(f"{part}." for part in path), self.found
        return inner

    def __call__(self, name: str, tensor: Tensor, operation: Any = None, *operands: Any) -> Tensor:
        if self._prefix + name != self.name:
            return tensor
        self.found.append(tensor.detach().clone().requires_grad_())
        return self.found[-1]


def test_no_gradient_from_the_future(model: Any, source_BS: Tensor, target_BT: Tensor) -> None:
    leaf = Leaf("decoder.embedding")
    logits_BTV = model(source_BS, target_BT, leaf)
    (embedding_BTD,) = leaf.found
    for t in range(13):
        upstream_BV = torch.randn(5, VOCAB, generator=torch.Generator().manual_seed(t))
        (grad_BTD,) = torch.autograd.grad(logits_BTV[:, t], embedding_BTD, upstream_BV, retain_graph=True)
        assert (grad_BTD[:, t + 1 :] == 0).all()
        past = slice(max(0, t + 1 - window_of(model)), t + 1)
        assert (grad_BTD[:, : past.start] == 0).all()
        assert (grad_BTD[rows_that_hear(model, source_BS), past].abs().amax(-1) > 0).all()


# Fused = explicit


def test_a_recorder_changes_nothing_in_training(build: Any, source_BS: Tensor, target_BT: Tensor) -> None:
    model = build(dropout=0.3).train()
    upstream_BTV = torch.randn(5, 13, VOCAB)

    def run(probe: Probe) -> tuple[Tensor, dict[str, Tensor]]:
        model.zero_grad()
        torch.manual_seed(7)
        logits_BTV = model(source_BS, target_BT, probe)
        logits_BTV.backward(upstream_BTV)
        return logits_BTV.detach(), {name: p.grad.clone() for name, p in model.named_parameters()}

    seen = Recorder()
    fused_BTV, fused = run(NO_PROBE)
    explicit_BTV, explicit = run(seen)
    # The explicit path did run. A window has no other.
    assert any(name.endswith((".weights", ".sum", ".candidate", ".window")) for name in seen.tensors)
    torch.testing.assert_close(explicit_BTV, fused_BTV, atol=2e-5, rtol=1e-5)
    for name, grad in fused.items():
        scale = grad.abs().max().item()
        assert scale > 0, name
        torch.testing.assert_close(explicit[name], grad, atol=max(3e-5 * scale, 3e-5), rtol=1e-4, msg=name)
    with torch.no_grad():
        assert not torch.allclose(model(source_BS, target_BT), fused_BTV, atol=1e-2)  # dropout was on


@pytest.mark.parametrize("copies", [1, 3])
def test_a_recorder_changes_nothing_in_a_step(model: Any, source_BS: Tensor, padded: Any, copies: int) -> None:
    """The fused kernel and the explicit computation, with hypotheses that change places in between."""
    reversed_N = torch.arange(5 * copies).view(5, copies).flip(1).flatten()
    with torch.no_grad():
        fused = model.start(model.encode(source_BS), copies=copies)
        explicit = model.start(model.encode(source_BS, Recorder()), copies=copies)
        for t in range(3):
            seen, tokens_N = Recorder(), padded([1] * 5 * copies, seed=t)[:, 0]
            fused_NV, fused = model.step(tokens_N, fused)
            explicit_NV, explicit = model.step(tokens_N, explicit, seen)
            torch.testing.assert_close(explicit_NV, fused_NV, **CLOSE)
            torch.testing.assert_close(seen.tensors["logits"], explicit_NV)
            fused, explicit = fused.select(reversed_N), explicit.select(reversed_N)


# Save → load


def test_saved_and_loaded_is_identical(
    build: Any, model: Any, source_BS: Tensor, target_BT: Tensor, tmp_path: Path
) -> None:
    save_weights(tmp_path / "model.safetensors", weights_of(model))
    other = build(seed=2).eval()
    with torch.no_grad():
        expected_BTV = model(source_BS, target_BT)
        assert not torch.allclose(other(source_BS, target_BT), expected_BTV, atol=1e-2)
        copy_weights(other, read_weights(tmp_path / "model.safetensors"))
        assert torch.equal(other(source_BS, target_BT), expected_BTV)
    assert [p.name for p in tmp_path.iterdir()] == ["model.safetensors"]


def test_weights_of_another_model_are_refused_and_change_nothing(model: Any, tmp_path: Path) -> None:
    weights = weights_of(model)
    name = next(iter(weights))
    save_weights(tmp_path / "fewer.safetensors", {n: w for n, w in weights.items() if n != name})
    save_weights(tmp_path / "wider.safetensors", {n: w if n != name else w[:-1].clone() for n, w in weights.items()})
    before = {n: w.clone() for n, w in weights.items()}
    for file in ("fewer", "wider"):
        with pytest.raises(UserError, match=f"do not fit the model of run.toml: {name}"):
            copy_weights(model, read_weights(tmp_path / f"{file}.safetensors"))
    assert all(torch.equal(before[n], w) for n, w in weights_of(model).items())


# State.select


@pytest.mark.parametrize("copies", [1, 3])
def test_select_reorders_rows_and_lets_sentences_leave(model: Any, source_BS: Tensor, padded: Any, copies: int) -> None:
    """Three tokens, a choice of rows; two more, another choice; two more: all against the uncached model."""
    within = [[0], [0]] if copies == 1 else [[2, 0, 2], [1, 1, 0]]  # hypotheses die, split and change places
    sentences = torch.arange(5)
    history_NT = torch.empty(5 * copies, 0, dtype=torch.long)
    state = model.start(model.encode(source_BS), copies=copies)
    stays_at = [[0, 2, 3, 4], [0, 1, 2, 3], None] if copies == 1 else [[0, 2, 4], [0, 1, 2], None]
    with torch.no_grad():
        for round_, (stays, steps) in enumerate(zip(stays_at, [3, 2, 2], strict=True)):
            new_NT = padded([steps] * len(history_NT), seed=round_)
            logits_NTV, state = stepped(model, new_NT, state)
            history_NT = torch.cat([history_NT, new_NT], dim=1)
            of_row_N = sentences.repeat_interleave(copies)
            expected_NTV = model(source_BS[of_row_N], history_NT)
            torch.testing.assert_close(logits_NTV, expected_NTV[:, -steps:], **CLOSE)
            if stays is not None:
                rows = torch.tensor([s * copies + hypothesis for s in stays for hypothesis in within[round_]])
                state, history_NT, sentences = state.select(rows), history_NT[rows], sentences[stays]


@pytest.mark.parametrize("chosen", [[4, 1, 1, 3], [4, 1, 0, 3, 2]], ids=["some", "all"])
def test_select_with_sentences_in_another_order(model: Any, source_BS: Tensor, padded: Any, chosen: list[int]) -> None:
    rows, first_NT, more_NT = torch.tensor(chosen), padded([2] * 5, seed=3), padded([2] * len(chosen), seed=4)
    with torch.no_grad():
        _, state = stepped(model, first_NT, model.start(model.encode(source_BS)))
        logits_NTV, _ = stepped(model, more_NT, state.select(rows))
        expected_NTV = model(source_BS[rows], torch.cat([first_NT[rows], more_NT], dim=1))
    torch.testing.assert_close(logits_NTV, expected_NTV[:, 2:], **CLOSE)


# States are values


@pytest.mark.parametrize("copies", [1, 3])
def test_a_state_can_be_stepped_twice(model: Any, source_BS: Tensor, padded: Any, copies: int) -> None:
    """Two continuations of one state are independent, and the first one gives the same result a second time."""
    before_NT, one_NT, other_NT = (padded([3] * 5 * copies, seed=seed) for seed in (5, 6, 7))
    with torch.no_grad():
        _, state = stepped(model, before_NT, model.start(model.encode(source_BS), copies=copies))
        first_NV, after = model.step(one_NT[:, 0], state)
        other_NTV, _ = stepped(model, other_NT, state)
        again_NV, _ = model.step(one_NT[:, 0], state)
        rest_NTV, _ = stepped(model, one_NT[:, 1:], after)
        of_row_N = torch.arange(5).repeat_interleave(copies)
        expected, expected_other = (
            model(source_BS[of_row_N], torch.cat([before_NT, more_NT], dim=1))[:, 3:] for more_NT in (one_NT, other_NT)
        )
    assert torch.equal(again_NV, first_NV)
    torch.testing.assert_close(torch.cat([first_NV[:, None], rest_NTV], dim=1), expected, **CLOSE)
    torch.testing.assert_close(other_NTV, expected_other, **CLOSE)


def test_a_state_can_be_selected_from_twice(model: Any, source_BS: Tensor, padded: Any) -> None:
    before_NT, next_N, rows = padded([2] * 15, seed=8), padded([1] * 15, seed=9)[:, 0], torch.arange(15).flip(0)
    rows = rows.view(5, 3).flip(0).flatten()  # the sentences stay in order; their hypotheses are reversed
    with torch.no_grad():
        _, state = stepped(model, before_NT, model.start(model.encode(source_BS), copies=3))
        first_NV, _ = model.step(next_N, state.select(rows))
        plain_NV, _ = model.step(next_N, state)
        again_NV, _ = model.step(next_N, state.select(rows))
        all_NT = torch.cat([before_NT, next_N[:, None]], dim=1)
        expected_NV = model(source_BS.repeat_interleave(3, dim=0), all_NT)[:, -1]
    assert torch.equal(again_NV, first_NV)
    torch.testing.assert_close(plain_NV, expected_NV, **CLOSE)


def test_the_mask_of_a_beam_is_the_same_when_asked_for_twice(tiny_model: Any, source_BS: Tensor, padded: Any) -> None:
    model = tiny_model()
    with torch.no_grad():
        _, state = stepped(model, padded([2] * 15, seed=8), model.start(model.encode(source_BS), copies=3))
        first, second = state.next().self_mask, state.next().self_mask
    assert first is not None and second is not None
    assert first.values.shape == (5, 1, 3, 9)  # two past steps and the new one, of three hypotheses each
    assert torch.equal(first.values, second.values)


def alone(source_BS: Tensor, row: int) -> Tensor:
    return source_BS[row : row + 1, : int((source_BS[row] != PAD).sum())]


def test_greedy_output_is_the_same_in_any_batch(model: Any, source_BS: Tensor) -> None:
    limits = [17, 5, 17, 17, 11]

    def search(rows: list[int], eos: int) -> list[Hypothesis]:
        # Random weights give repetitive outputs; without repetition, rows differ from each other.
        sources = alone(source_BS, rows[0]) if len(rows) == 1 else source_BS[rows]
        most = [limits[row] for row in rows]
        return greedy(model, sources, limits=most, sos=SOS, eos=eos, constraint=no_repeated_ngram(1))

    endless = [search([row], -1)[0].tokens for row in range(5)]
    # The end is the token that makes the sentences end at the most different times.
    eos = max(range(VOCAB), key=lambda token: len({tokens.index(token) for tokens in endless if token in tokens}))
    single = [search([row], eos)[0] for row in range(5)]
    if not isinstance(model, WithoutSource):  # which says the same in every row
        assert len({len(h.tokens) for h in single if h.finished}) > 1
    for rows in ([0, 1, 2, 3, 4], [4, 2, 0], [3, 2]):
        found = search(rows, eos)
        assert [(h.tokens, h.finished) for h in found] == [(single[r].tokens, single[r].finished) for r in rows]
        assert [h.log_probability for h in found] == pytest.approx([single[r].log_probability for r in rows], abs=1e-4)


def test_the_score_of_a_search_is_that_of_the_model(model: Any, source_BS: Tensor) -> None:
    found = beam_search(model, source_BS, beam=3, alpha=0.6, limits=[9, 5, 9, 9, 7], sos=SOS, eos=EOS)
    for row, hypotheses in enumerate(found):
        assert len({tuple(h.tokens) for h in hypotheses}) == 3
        for h in hypotheses:
            written = torch.tensor([*h.tokens, EOS] if h.finished else h.tokens)
            read = torch.cat([torch.tensor([SOS]), written[:-1]])
            with torch.no_grad():
                log_probability_TV = model(alone(source_BS, row), read[None])[0].log_softmax(-1)
            total = log_probability_TV.gather(1, written[:, None]).sum().item()
            assert h.log_probability == pytest.approx(total, abs=1e-4)


@pytest.mark.parametrize("length", [5, 1])
def test_a_trace_is_of_one_sentence(tiny_model: Any, length: int) -> None:
    model, source = tiny_model(), [7, 11, EOS][-length:]
    target, seen = [SOS, 13, 17, 19, 23][:length], Recorder()
    found = trace_teacher_forced(model, lambda ids: [f"<{i}>" for i in ids], source, target)
    with torch.no_grad():
        logits_1TV = model(torch.tensor([source]), torch.tensor([target]), seen)
    assert found.source == [f"<{i}>" for i in source]
    assert found.target == [f"<{i}>" for i in target]
    assert found.predicted == [f"<{i}>" for i in logits_1TV[0].argmax(-1).tolist()]
    assert list(found.tensors) == list(seen.tensors)
    for name, tensor in seen.tensors.items():
        expected = tensor if name.endswith((".positions", ".mask")) else tensor[0]  # those have no batch
        torch.testing.assert_close(found[name], expected, msg=lambda m, name=name: f"{name}: {m}")
    assert torch.equal(found.attention("encoder", 0), found["encoder.0.self.weights"])
    assert torch.equal(found.attention("decoder", 1), found["decoder.1.self.weights"])
    assert torch.equal(found.attention(), found["decoder.2.cross.weights"])
