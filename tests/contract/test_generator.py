"""What every generator promises, whatever it is made of. A new family adds a row to GENERATORS."""

from __future__ import annotations

import math
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
from glassformer.models import FAMILIES
from glassformer.models.recurrent import Recurrent
from glassformer.models.transformer import Transformer
from glassformer.models.window import Window
from glassformer.nn.masks import look_ahead_mask, padding_mask
from glassformer.nn.probe import NO_PROBE, Probe, Recorder
from glassformer.settings import GPTSettings, RecurrentLMSettings, RecurrentSettings, WindowSettings

PAD, SOS, EOS, VOCAB = 0, 1, 2, 53
CLOSE = {"atol": 1e-5, "rtol": 1e-5}

SubLayer = Callable[[Tensor], Tensor]

# Without the look-ahead mask a Transformer keeps no such promise; tests/unit/models/test_transformer.py shows it.
TRANSFORMERS = {
    "post": {},
    "pre": {"norm": "pre"},
    "learned": {"positions": "learned", "longest": 43},
    "concatenated": {"combine_positions": "concatenate"},
    "learned, concatenated": {"positions": "learned", "longest": 43, "combine_positions": "concatenate"},
    "no positions": {"positions": "none"},
    "untied": {"tie_embeddings": False},
    "deep encoder": {"encoder_layers": 5, "decoder_layers": 1},
    "one head": {"heads": 1},
    "scores not scaled": {"scale_scores": False},
    "no residual": {"residual": False},
    "no residual, pre": {"residual": False, "norm": "pre"},
    "batch normalised": {"normalize": "batch"},
    "batch normalised, pre": {"normalize": "batch", "norm": "pre"},
    "not normalised": {"normalize": "none"},
    "not normalised, pre": {"normalize": "none", "norm": "pre"},
}

RECURRENT = {
    "rnn": {"cell": "rnn", "attention": "none", "bidirectional": False},
    "lstm": {"cell": "lstm", "attention": "none", "bidirectional": False},
    "gru": {"cell": "gru", "attention": "none", "bidirectional": False},
    "rnn, both ways": {"cell": "rnn", "attention": "none"},
    "lstm, both ways": {"cell": "lstm", "attention": "none"},
    "rnn, additive": {"cell": "rnn", "attention": "additive"},
    "lstm, additive": {"cell": "lstm", "attention": "additive"},
    "gru, additive": {},
    "gru, additive, one layer": {"decoder_layers": 1},
    "gru, additive, untied": {"tie_embeddings": False, "bidirectional": False, "encoder_layers": 3},
    "lstm, dot": {"cell": "lstm", "attention": "dot"},
    "gru, dot, one way": {"attention": "dot", "bidirectional": False},
    "rnn, general": {"cell": "rnn", "attention": "general"},
    "lstm, general": {"cell": "lstm", "attention": "general"},
}

LANGUAGE_MODELS = {
    "window": WindowSettings(window=3, d_model=13, d_hidden=19, dropout=0.0),
    "window of one": WindowSettings(window=1, d_model=13, d_hidden=19, dropout=0.0),
    "recurrent_lm, rnn": RecurrentLMSettings(cell="rnn", layers=2, d_model=19, dropout=0.0),
    "recurrent_lm, lstm": RecurrentLMSettings(cell="lstm", layers=1, d_model=19, dropout=0.0),
    "recurrent_lm, gru": RecurrentLMSettings(cell="gru", layers=2, d_model=19, dropout=0.0, tie_embeddings=False),
    "gpt": GPTSettings(layers=3, d_model=21, heads=3, d_ff=37, longest=43, dropout=0.0),
    "gpt, untied, relu": GPTSettings(
        layers=1, d_model=22, heads=2, d_ff=37, longest=43, dropout=0.0, tie_embeddings=False, activation="relu"
    ),
}


class WithoutSource(nn.Module):
    """A language model with a source that it does not read, so that it can be asked what the others are."""

    def __init__(self, s: Any, dropout: float) -> None:
        super().__init__()
        self.model = FAMILIES[s.family](s.model_copy(update={"dropout": dropout}), VOCAB, pad=PAD)

    def encode(self, source_BS: Tensor, probe: Probe = NO_PROBE) -> None:
        return None

    def start(self, memory: None, copies: int = 1) -> Any:
        return self.model.start(memory, copies)

    def step(self, tokens_N: Tensor, state: Any, probe: Probe = NO_PROBE) -> Any:
        return self.model.step(tokens_N, state, probe)

    def forward(self, source_BS: Tensor, target_BT: Tensor, probe: Probe = NO_PROBE) -> Tensor:
        return self.model(target_BT, probe)


def recurrent(dropout: float, **over: Any) -> Recurrent:
    sizes = {"encoder_layers": 2, "decoder_layers": 3, "d_model": 22, "dropout": dropout}
    return Recurrent(RecurrentSettings(**(sizes | over)), VOCAB, pad=PAD)


# Each row: a builder, given the tiny settings of conftest and a rate of dropout.
Build = Callable[[Any, float], nn.Module]
GENERATORS: dict[str, Build] = {
    **{
        f"transformer, {name}": lambda settings, dropout, over=over: Transformer(
            settings(dropout=dropout, **over), VOCAB, pad=PAD
        )
        for name, over in TRANSFORMERS.items()
    },
    **{
        f"recurrent, {name}": lambda settings, dropout, over=over: recurrent(dropout, **over)
        for name, over in RECURRENT.items()
    },
    **{
        name: lambda settings, dropout, given=given: WithoutSource(given, dropout)
        for name, given in LANGUAGE_MODELS.items()
    },
}


@pytest.fixture(params=GENERATORS)
def build(request: pytest.FixtureRequest, tiny_settings: Any, enliven: Any, padded: Any) -> Callable[..., nn.Module]:
    def make(*, seed: int = 1, dropout: float = 0.0) -> nn.Module:
        torch.manual_seed(seed)
        return settled(enliven(GENERATORS[request.param](tiny_settings, dropout)), padded)

    return make


def settled(model: nn.Module, padded: Any) -> nn.Module:
    """A model whose numbers stay in bounds, so that rounding does: where layers do not see to that, weights must."""
    kinds = {type(part).__name__ for part in model.modules()}
    if "NoNorm" in kinds:
        with torch.no_grad():
            for parameter in model.parameters():
                parameter *= 0.6
    if "BatchNorm" in kinds:  # running statistics are those of data, as after training
        for seed in range(30):
            model(padded([11, 4, 7, 1, 11], seed=seed), padded([13, 13, 13, 13, 13], seed=seed + 1))
    return model


def rows_that_hear(model: Any, source_BS: Tensor) -> Tensor:
    """Where the tokens of the target reach the output.

    A decoder layer without residual connections hears of them only by where it looks in the source: not at all, if
    that has one token.
    """
    deaf = any(getattr(part, "residual", True) is False for part in model.modules())
    return (source_BS != PAD).sum(1) > 1 if deaf else torch.ones(len(source_BS), dtype=torch.bool)


def window_of(model: Any) -> int:
    """How many tokens it sees."""
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

    def __call__(self, name: str, tensor: Tensor) -> Tensor:
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


def test_looking_changes_nothing_in_training(build: Any, source_BS: Tensor, target_BT: Tensor) -> None:
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


def test_looking_changes_nothing_in_a_step(model: Any, source_BS: Tensor, target_BT: Tensor) -> None:
    with torch.no_grad():
        blind, looking = model.start(model.encode(source_BS)), model.start(model.encode(source_BS, Recorder()))
        for t in range(3):
            seen = Recorder()
            blind_BV, blind = model.step(target_BT[:, t], blind)
            looking_BV, looking = model.step(target_BT[:, t], looking, seen)
            torch.testing.assert_close(looking_BV, blind_BV, **CLOSE)
            torch.testing.assert_close(seen.tensors["logits"], looking_BV)


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
    """From one state, two continuations: neither notices the other, and the first comes out the same a second time."""
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
        assert state.mask().shape == (5, 1, 3, 9)  # two past steps and the new one, of three hypotheses each
        assert torch.equal(state.mask(), state.mask())


def alone(source_BS: Tensor, row: int) -> Tensor:
    return source_BS[row : row + 1, : int((source_BS[row] != PAD).sum())]


def test_greedy_output_is_the_same_in_any_batch(model: Any, source_BS: Tensor) -> None:
    limits = [17, 5, 17, 17, 11]

    def search(rows: list[int], eos: int) -> list[Hypothesis]:
        # Random weights like to repeat themselves; without repetition, rows differ from each other.
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


# The glass. These two know what a Transformer is made of.


class Recomputed:
    """Computes every named tensor of a Transformer from its parents in the trace, and checks it off."""

    def __init__(self, model: Transformer, tensors: dict[str, Tensor]) -> None:
        self.model, self.tensors, self.left = model, tensors, set(tensors)

    def check(self, name: str, expected: Tensor) -> Tensor:
        torch.testing.assert_close(self.tensors[name], expected, atol=2e-5, rtol=1e-5, msg=lambda m: f"{name}: {m}")
        self.left.remove(name)
        return self.tensors[name]

    def heads(self, x_BTD: Tensor, weight: Tensor, bias: Tensor, width: int) -> Tensor:
        parts = zip(weight.split(width), bias.split(width), strict=True)
        return torch.stack([x_BTD @ w.T + b for w, b in parts], dim=1)

    def attention(self, at: str, attention: Any, x: Tensor, memory: Tensor, mask: Tensor | None) -> Tensor:
        width = 21 // attention.heads
        if hasattr(attention, "query_key_value"):
            weight, bias = attention.query_key_value.weight, attention.query_key_value.bias
        else:
            weight = torch.cat([attention.query.weight, attention.key_value.weight])
            bias = torch.cat([attention.query.bias, attention.key_value.bias])
        (w_q, w_k, w_v), (b_q, b_k, b_v) = weight.split(21), bias.split(21)
        query = self.check(f"{at}.query", self.heads(x, w_q, b_q, width))
        key = self.check(f"{at}.key", self.heads(memory, w_k, b_k, width))
        value = self.check(f"{at}.value", self.heads(memory, w_v, b_v, width))
        scores = self.check(f"{at}.scores", torch.einsum("bhqe,bhke->bhqk", query, key))
        if attention.scale is None:
            scores = self.check(f"{at}.scaled_scores", scores / math.sqrt(width))
        if mask is not None:
            scores = self.check(f"{at}.masked_scores", scores + self.check(f"{at}.mask", mask))
        weights = self.check(f"{at}.weights", scores.exp() / scores.exp().sum(-1, keepdim=True))
        context = self.check(f"{at}.context", torch.einsum("bhqk,bhke->bhqe", weights, value))
        beside = torch.cat(list(context.unbind(1)), dim=-1)
        return self.check(f"{at}.output", beside @ attention.output.weight.T + attention.output.bias)

    def feed_forward(self, at: str, ff: Any, x: Tensor) -> Tensor:
        active = self.check(f"{at}.activations", (x @ ff.expand.weight.T + ff.expand.bias).clamp_min(0))
        return self.check(f"{at}.output", active @ ff.contract.weight.T + ff.contract.bias)

    def normed(self, at: str, norm: Any, x: Tensor, called: str = "norm") -> Tensor:
        kind = type(norm).__name__
        if kind in ("NoNorm", "NoneType"):
            return self.check(f"{at}.{called}", x)
        over_tokens = kind == "BatchNorm"  # with the statistics of training
        mean = self.check(f"{at}.mean", norm.mean_D if over_tokens else x.mean(-1, keepdim=True))
        variance = norm.variance_D if over_tokens else ((x - mean) ** 2).mean(-1, keepdim=True)
        deviation = self.check(f"{at}.deviation", (variance + 1e-5).sqrt())
        return self.check(f"{at}.{called}", (x - mean) / deviation * norm.weight + norm.bias)

    def residual(self, at: str, around: Any, x: Tensor, sub_layer: SubLayer) -> Tensor:
        def summed(x: Tensor, y: Tensor) -> Tensor:
            return self.check(f"{at}.residual", x + y) if around.residual else y

        if type(around).__name__ == "PreNorm":
            return summed(x, sub_layer(self.normed(at, around.norm, x)))
        return self.normed(at, around.norm, summed(x, sub_layer(x)))

    def input(self, at: str, embedding: Any, positions: Any, tokens: Tensor) -> Tensor:
        vectors = self.check(f"{at}.vectors", embedding.weight_VD[self.check(f"{at}.tokens", tokens)])
        x = self.check(f"{at}.embedding", vectors * math.sqrt(21))
        if not hasattr(positions, "positions"):
            return self.check(f"{at}.input", x)
        T = tokens.shape[1]
        if hasattr(positions.positions, "weight_TD"):
            table = positions.positions.weight_TD[:T]
        else:
            angle = [[t / 10000 ** ((d - d % 2) / 21) for d in range(21)] for t in range(T)]
            table = torch.tensor([[(math.sin, math.cos)[d % 2](a) for d, a in enumerate(row)] for row in angle])
        table = self.check(f"{at}.positions", table)
        if not hasattr(positions, "project"):
            return self.check(f"{at}.input", x + table)
        weight, bias = positions.project.weight, positions.project.bias
        return self.check(f"{at}.input", x @ weight[:, :21].T + table @ weight[:, 21:].T + bias)

    def looks(self, at: str, attention: Any, mask: Tensor | None, memory: Tensor | None = None) -> SubLayer:
        return lambda x: self.attention(at, attention, x, x if memory is None else memory, mask)

    def thinks(self, at: str, ff: Any) -> SubLayer:
        return lambda x: self.feed_forward(at, ff, x)

    def all(self, source_BS: Tensor, target_BT: Tensor) -> None:
        model, hidden = self.model, padding_mask(source_BS, PAD)
        x = self.input("encoder", model.source_embedding, model.source_positions, source_BS)
        for i, layer in enumerate(model.encoder):
            look, think = f"encoder.{i}.self", f"encoder.{i}.ff"
            x = self.residual(look, layer.self_residual, x, self.looks(look, layer.self_attention, hidden))
            x = self.residual(think, layer.feed_forward_residual, x, self.thinks(think, layer.feed_forward))
        memory = self.normed("encoder", model.encoder_norm, x, "memory")
        future = look_ahead_mask(target_BT.shape[1])
        x = self.input("decoder", model.target_embedding, model.target_positions, target_BT)
        for i, layer in enumerate(model.decoder):
            look, cross, think = f"decoder.{i}.self", f"decoder.{i}.cross", f"decoder.{i}.ff"
            x = self.residual(look, layer.self_residual, x, self.looks(look, layer.self_attention, future))
            x = self.residual(cross, layer.cross_residual, x, self.looks(cross, layer.cross_attention, hidden, memory))
            x = self.residual(think, layer.feed_forward_residual, x, self.thinks(think, layer.feed_forward))
        x = self.normed("decoder", model.decoder_norm, x, "hidden")
        self.check("logits", x @ model.output.weight_VD.T)


@pytest.mark.parametrize("variant", TRANSFORMERS)
def test_every_named_tensor_recomputes_from_its_parents(
    tiny_model: Any, source_BS: Tensor, target_BT: Tensor, padded: Any, variant: str
) -> None:
    model, seen = settled(tiny_model(**TRANSFORMERS[variant]).train(), padded).eval(), Recorder()
    with torch.no_grad():
        logits_BTV = model(source_BS, target_BT, seen)
        recomputed = Recomputed(model, seen.tensors)
        recomputed.all(source_BS, target_BT)
    assert recomputed.left == set()  # nothing in the trace is unexplained
    assert torch.equal(seen.tensors["logits"], logits_BTV)


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
