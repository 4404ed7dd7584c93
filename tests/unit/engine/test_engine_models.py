"""Whole models of the native engine against the same models in PyTorch."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from glassformer.decoding import Sampling
from glassformer.decoding.beam import beam_search
from glassformer.decoding.constraints import combine, min_length, no_repeated_ngram
from glassformer.decoding.greedy import greedy
from glassformer.decoding.sampling import draw_tokens, sample
from glassformer.engine.library import MAX_TOKENS, Unavailable, Unsupported, check
from glassformer.engine.model import NativeModel, Worker, unsupported
from glassformer.errors import UserError
from glassformer.inference import search_engine
from glassformer.inference.search_engine import NativeEngine, Search
from glassformer.models.bert import Segments
from glassformer.models.heads import Classifier
from glassformer.reference import embeddings as embedding_ops
from glassformer.settings import BertSettings, GPTSettings, RecurrentSettings
from tests.families import EOS, LANGUAGE_MODELS, SIZES, SOS, VOCAB, bert, of_family, perturb
from tests.unit.engine.random_models import TRANSFORMER, random_model
from tests.unit.engine.torch_models import (
    SUPPORTED,
    native_transformer,
    padded,
    save,
    search,
    sentences,
    settings_of,
    torch_transformer,
)

pytestmark = pytest.mark.usefixtures("native")

LIMITS = [11, 1, 17, 7, 23]
SOURCES = sentences(7, 3, 13, 1, 5)


def assert_same(found: Sequence[Any], expected: Sequence[Any], where: str = "") -> None:
    """Equal tokens in equal order; log-probabilities and scores up to rounding."""
    assert [(h.tokens, h.finished) for h in found] == [(h.tokens, h.finished) for h in expected], where
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.log_probability == pytest.approx(theirs.log_probability, abs=1e-4), where
        assert ours.score == pytest.approx(theirs.score, abs=1e-4), where


def torch_searches(model: Any) -> list[tuple[dict[str, int], list[Any], list[list[Any]]]]:
    """Greedy decoding and beam search in PyTorch, free and without repetition, each with its options.

    A model with random weights repeats a few tokens for ever. Without repetition its outputs are long and differ, and
    end at a token that it writes at some time.
    """
    source_BS = padded(SOURCES)
    unrepeated = greedy(model, source_BS, limits=LIMITS, sos=SOS, eos=-1, constraint=no_repeated_ngram(1))
    found = []
    for eos, n in ((EOS, 0), (unrepeated[-1].tokens[13], 1)):
        both = {"limits": LIMITS, "sos": SOS, "eos": eos, "constraint": no_repeated_ngram(n) if n else None}
        best = beam_search(model, source_BS, beam=4, alpha=0.6, **both)
        found.append(({"eos": eos, "no_repeat_ngram": n}, greedy(model, source_BS, **both), best))
    return found


def assert_same_searches(expected: list[Any], worker: Worker, where: str = "") -> list[Any]:
    """Compare the engine with `torch_searches`; return its hypotheses without repetition."""
    for options, one, best in expected:
        found = worker.translate(SOURCES, search(**options), LIMITS)
        assert all(len(hypotheses) == 1 for hypotheses in found), where
        assert_same([hypotheses[0] for hypotheses in found], one, where)
        n_best = worker.translate(SOURCES, search(beam=4, **options), LIMITS)
        for ours, theirs in zip(n_best, best, strict=True):
            assert_same(ours, theirs, where)
    return [h for hypotheses in (*found, *n_best) for h in hypotheses]


@pytest.mark.parametrize("case", SUPPORTED)
def test_searches_find_what_pytorch_finds(tmp_path: Path, case: str) -> None:
    model = torch_transformer(**SUPPORTED[case])
    worker = Worker(native_transformer(model, tmp_path / "w", **SUPPORTED[case]))
    found = assert_same_searches(torch_searches(model), worker)
    assert {h.finished for h in found} == {True, False}  # both kinds of end
    assert len({token for h in found for token in h.tokens}) > 10


def test_searches_with_every_instruction_set(tmp_path: Path, instruction_sets: Iterable[str]) -> None:
    cases = []
    for case in ("swish", "heads of 16"):
        model = torch_transformer(**SUPPORTED[case])
        cases.append((torch_searches(model), Worker(native_transformer(model, tmp_path / case, **SUPPORTED[case]))))
    for name in instruction_sets:
        for expected, worker in cases:
            assert_same_searches(expected, worker, name)


@pytest.mark.parametrize("beam", [1, 2, 7])
@pytest.mark.parametrize("least, ngram", [(5, 0), (0, 1), (0, 2), (9, 3)])
def test_constraints_forbid_what_they_forbid_in_pytorch(tmp_path: Path, beam: int, least: int, ngram: int) -> None:
    model = torch_transformer(output_bias=True)
    model.output.bias_V[EOS if least else 7] += 5  # so that it would end at once, or write one token for ever
    worker = Worker(native_transformer(model, tmp_path / "w", output_bias=True))
    rules = [min_length(least, EOS)] + ([no_repeated_ngram(ngram)] if ngram else [])
    both = {"limits": LIMITS, "sos": SOS, "eos": EOS, "constraint": combine(*rules)}
    options = search(beam=beam, min_length=least, no_repeat_ngram=ngram)
    found = worker.translate(SOURCES, options, LIMITS)
    if beam == 1:
        assert_same([h[0] for h in found], greedy(model, padded(SOURCES), **both))
    else:
        for ours, theirs in zip(found, beam_search(model, padded(SOURCES), beam=beam, alpha=0.6, **both), strict=True):
            assert_same(ours, theirs)
    free = worker.translate(SOURCES, search(beam=beam), LIMITS)
    assert [[h.tokens for h in row] for row in found] != [[h.tokens for h in row] for row in free]


def test_everything_forbidden_leaves_no_hypothesis(tmp_path: Path) -> None:
    """No token twice, from a list of two, and no end: after two tokens nothing may follow."""
    worker = Worker(native_transformer(torch_transformer(), tmp_path / "w"))
    options = {"no_repeat_ngram": 1, "min_length": 23}
    [best] = worker.translate(SOURCES[:1], search(beam=3, **options), [23], shortlist=[EOS, 5, 11])
    assert [(h.tokens, h.finished, h.log_probability) for h in best] == [([], False, float("-inf"))]
    [[one]] = worker.translate(SOURCES[:1], search(**options), [23], shortlist=[EOS, 5, 11])
    assert sorted(one.tokens) == [5, 11] and not one.finished and one.log_probability == float("-inf")


@pytest.mark.parametrize("alpha", [0.0, 2.0])
def test_length_penalty(tmp_path: Path, alpha: float) -> None:
    model = torch_transformer()
    worker = Worker(native_transformer(model, tmp_path / "w"))
    found = worker.translate(SOURCES, search(beam=3, length_penalty=alpha), LIMITS)
    expected = beam_search(model, padded(SOURCES), beam=3, alpha=alpha, limits=LIMITS, sos=SOS, eos=EOS)
    for ours, theirs in zip(found, expected, strict=True):
        assert_same(ours, theirs)


@pytest.mark.parametrize("temperature, top_k, top_p", [(1.0, 0, 1.0), (0.75, 5, 1.0), (1.5, 0, 0.875), (2.0, 11, 0.5)])
def test_sampled_tokens_are_those_of_pytorch(native: ctypes.CDLL, temperature: float, top_k: int, top_p: float) -> None:
    dice, token = np.random.default_rng(1), ctypes.c_int32()
    for vocab in (1, 7, 211):
        logits_V = 2 * dice.standard_normal(vocab).astype(np.float32)
        rolls = [i / 512 for i in range(512)]
        logits_NV = torch.tensor(logits_V).double().expand(len(rolls), -1)
        expected = draw_tokens(logits_NV, rolls, Sampling(temperature, top_k, top_p)).tolist()
        found = []
        for roll in rolls:
            check(native.gf_sample(logits_V.ctypes.data, vocab, temperature, top_k, top_p, roll, ctypes.byref(token)))
            found.append(token.value)
        assert found == expected


def test_sampling_refuses_logits_without_a_distribution(native: ctypes.CDLL) -> None:
    token = ctypes.c_int32()
    for logits in ([-np.inf, -np.inf], [np.inf, 0], [np.nan, np.nan]):
        logits_V = np.array(logits, np.float32)
        assert native.gf_sample(logits_V.ctypes.data, 2, 1.0, 0, 1.0, 0.5, ctypes.byref(token)) < 0
    logits_V = np.array([-np.inf, 3, np.nan], np.float32)
    check(native.gf_sample(logits_V.ctypes.data, 3, 1.0, 0, 1.0, 0.999, ctypes.byref(token)))
    assert token.value == 1


def test_sampled_translations_are_those_of_pytorch(tmp_path: Path) -> None:
    model = torch_transformer()
    worker = Worker(native_transformer(model, tmp_path / "w"))
    seeds = [3, 5, 7, 11, 13]
    chance = {"temperature": 0.75, "top_k": 7, "top_p": 0.875}
    dice = [random.Random(seed) for seed in seeds]
    rolls = [[one.random() for _ in range(max(LIMITS))] for one in dice]
    found = worker.translate(SOURCES, search(**chance), LIMITS, rolls=rolls)
    expected = sample(model, padded(SOURCES), Sampling(**chance), seeds=seeds, limits=LIMITS, sos=SOS, eos=EOS)
    assert_same([h[0] for h in found], expected)


@pytest.mark.parametrize("precision", ["fp32", "int8"])
@pytest.mark.parametrize("case", ["swish", "gelu_tanh", "heads of 16", "pre-norm, learned, untied, gelu, bias"])
def test_batch_mates_change_nothing(tmp_path: Path, instruction_sets: Iterable[str], precision: str, case: str) -> None:
    """To the bit: greedy decoding, sampling, beam search and the hidden states of the encoder."""
    native = native_transformer(torch_transformer(**SUPPORTED[case]), tmp_path / "w", precision, **SUPPORTED[case])
    worker, fresh = Worker(native), Worker(native)
    rolls = np.random.default_rng(1).random((len(SOURCES), max(LIMITS))).tolist()
    for name in instruction_sets:
        hidden = np.array(worker.encode(SOURCES)).reshape(-1, native.shape.d_model)
        parts = np.split(hidden, np.cumsum([len(source) for source in SOURCES])[:-1])
        together = [worker.translate(SOURCES, search(beam=beam), LIMITS) for beam in (1, 4)]
        drawn = worker.translate(SOURCES, search(), LIMITS, rolls=rolls)
        for i, (source, limit) in enumerate(zip(SOURCES, LIMITS, strict=True)):
            assert np.array_equal(np.array(fresh.encode([source])).reshape(-1, native.shape.d_model), parts[i]), name
            for beam, results in zip((1, 4), together, strict=True):
                assert fresh.translate([source], search(beam=beam), [limit]) == [results[i]], name
            assert fresh.translate([source], search(), [limit], rolls=[rolls[i][:limit]]) == [drawn[i]], name


@pytest.mark.parametrize("precision", ["fp32", "int8"])
@pytest.mark.parametrize("case", ["post-norm", "untied with output bias, no positions"])
def test_shortlist(tmp_path: Path, precision: str, case: str) -> None:
    model = torch_transformer(**SUPPORTED[case])
    worker = Worker(native_transformer(model, tmp_path / "w", precision, **SUPPORTED[case]))
    chosen = [EOS, 5, 11, 17, 31, 47, 52]
    for beam in (1, 4):
        every = worker.translate(SOURCES, search(beam=beam), LIMITS, shortlist=range(VOCAB))
        assert every == worker.translate(SOURCES, search(beam=beam), LIMITS)
        few = worker.translate(SOURCES, search(beam=beam), LIMITS, shortlist=chosen)
        assert {token for row in few for h in row for token in h.tokens} <= set(chosen)
        assert worker.translate(SOURCES, search(beam=beam), LIMITS) == every  # it holds for one call only
    if precision == "fp32":  # probabilities are those among the tokens of the list

        def only_chosen(_: torch.Tensor, logits_NV: torch.Tensor) -> None:
            logits_NV[:, [token for token in range(VOCAB) if token not in chosen]] = float("-inf")

        both = {"limits": LIMITS, "sos": SOS, "eos": EOS, "constraint": only_chosen}
        for ours, theirs in zip(few, beam_search(model, padded(SOURCES), beam=4, alpha=0.6, **both), strict=True):
            assert_same(ours, theirs)


GPT_CASES = {name: over for name, over in LANGUAGE_MODELS.items() if over["family"] == "gpt"}


@pytest.mark.parametrize("case", GPT_CASES)
def test_language_model_gives_the_logits_of_pytorch(tmp_path: Path, instruction_sets: Iterable[str], case: str) -> None:
    model = perturb(of_family(**GPT_CASES[case])).eval()
    with torch.no_grad():  # GPT's initial weights are so small that attention would be uniform
        for parameter in model.parameters():
            parameter *= 5 if parameter.dim() == 2 else 1
    tokens = torch.randint(0, VOCAB, (1, 43))
    expected = model(tokens)[0].detach().numpy()
    settings = GPTSettings.model_validate(GPT_CASES[case])
    worker = Worker(NativeModel.load(save(model, tmp_path / "w"), settings, VOCAB, "fp32"))
    for name in instruction_sets:
        for pieces in ([43], [1] * 43, [7, 1, 13, 22]):  # prefill in one piece, token by token, both
            worker.start(43)
            read = 0
            for piece in pieces:
                logits = worker.read(tokens[0, read : read + piece].tolist())
                read += piece
                np.testing.assert_allclose(np.array(logits), expected[read - 1], rtol=1e-4, atol=1e-4, err_msg=name)
    with pytest.raises(ValueError, match="invalid argument"):
        worker.read([3])  # all positions are used
    worker.start(3)
    np.testing.assert_allclose(np.array(worker.read(tokens[0, :2].tolist())), expected[1], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_language_model_reads_in_pieces_to_the_bit(tmp_path: Path, precision: str) -> None:
    case = GPT_CASES["gpt"]
    model = perturb(of_family(**case)).eval()
    settings = GPTSettings.model_validate(case)
    worker = Worker(NativeModel.load(save(model, tmp_path / "w"), settings, VOCAB, precision))
    tokens = [3 + i for i in range(37)]
    worker.start(37)
    whole = list(worker.read(tokens))
    worker.start(43)
    for token in tokens:
        last = list(worker.read([token]))
    assert last == whole


@pytest.mark.parametrize(
    "case",
    [
        {},
        {"segments": 1},
        {"activation": "gelu_tanh", "d_model": 32, "heads": 2},
        {"positions": "rotary", "d_model": 32, "heads": 2},
    ],
)
def test_encoder_gives_the_hidden_states_of_pytorch(
    tmp_path: Path, instruction_sets: Iterable[str], case: dict[str, Any]
) -> None:
    model = perturb(Classifier(bert(**case), 5)).eval()
    settings = BertSettings(**(SIZES | {"layers": 2, "max_positions": 13, "norm_epsilon": 1e-3} | case))
    weights = save(model, tmp_path / "w")
    worker = Worker(NativeModel.load(weights, settings, VOCAB, "fp32"))
    coarse = Worker(NativeModel.load(weights, settings, VOCAB, "int8"))
    sources = sentences(5, 13, 1, 7)
    segments = [[i % settings.segments for i in range(len(source))] for source in sources]
    segments_BS = torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in segments], batch_first=True)
    for given, in_torch in (
        (segments, Segments(segments_BS, embedding_ops.model_input)),
        (None, None),
    ):
        hidden_BSD = model.encoder(padded(sources), segments=in_torch)
        expected = torch.cat([hidden_BSD[i, : len(source)] for i, source in enumerate(sources)]).detach().numpy()
        for name in instruction_sets:
            found = np.array(worker.encode(sources, given)).reshape(expected.shape)
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=2e-5, err_msg=name)
        found = np.array(coarse.encode(sources, given)).reshape(expected.shape)
        assert np.abs(found - expected).max() < 0.1 * np.abs(expected).max()


def test_int8_translates_nearly_as_fp32(tmp_path: Path) -> None:
    """Log-probabilities of the same tokens differ by little, so no scale or offset is wrong."""
    model = torch_transformer(d_model=64, heads=4, d_ff=131)
    over = {"d_model": 64, "heads": 4, "d_ff": 131}
    exact, coarse = (Worker(native_transformer(model, tmp_path / p, p, **over)) for p in ("fp32", "int8"))
    assert coarse.model.nbytes < 0.5 * exact.model.nbytes
    difference = np.array(exact.encode(SOURCES)) - np.array(coarse.encode(SOURCES))
    assert 0 < np.abs(difference).max() < 0.15
    for source in SOURCES:
        [[ours]], [[theirs]] = (worker.translate([source], search(), [1]) for worker in (exact, coarse))
        assert ours.log_probability == pytest.approx(theirs.log_probability, abs=0.15)


def test_output_beyond_the_learned_positions_is_refused(tmp_path: Path) -> None:
    over = {"positions": "learned", "max_positions": 13}
    worker = Worker(native_transformer(torch_transformer(**over), tmp_path / "w", **over))
    for source, limit in ((sentences(14)[0], 5), (sentences(5)[0], 14)):
        with pytest.raises(ValueError, match="invalid argument"):
            worker.translate([source], search(min_length=14), [limit])
    worker.translate(sentences(13), search(min_length=13), [13])


def test_settings_that_the_engine_does_not_run() -> None:
    recurrent = RecurrentSettings(encoder_layers=1, decoder_layers=1, d_model=8, dropout=0.0)
    assert unsupported(recurrent) == "model.family=recurrent runs in PyTorch"
    assert unsupported(settings_of(ablations=["no_norm"])) == "model.ablations runs in PyTorch"
    concatenated = settings_of(combine_positions="concatenate")
    assert unsupported(concatenated) == "model.combine_positions=concatenate runs in PyTorch"
    assert unsupported(settings_of(combine_positions="concatenate", positions="none")) is None
    with pytest.raises(Unavailable, match="combine_positions=concatenate"):
        NativeModel.load(Path("absent"), concatenated, VOCAB, "fp32")


def test_outputs_longer_than_the_first_block_of_the_cache() -> None:
    """The cache grows at 128 and at 256 positions. Sentences that end earlier leave it."""
    model = torch_transformer()
    limits = [131, 301, 5, 300]
    both = {"sos": SOS, "eos": EOS, "constraint": combine(min_length(400, EOS), no_repeated_ngram(6))}
    worker = Worker(NativeModel.from_tensors(dict(model.named_parameters()), settings_of(), VOCAB, "fp32"))
    options = {"min_length": 400, "no_repeat_ngram": 6}
    for beam in (1, 3):
        expected = [
            beam_search(model, padded([source]), beam=beam, alpha=0.6, limits=[limit], **both)[0]
            for source, limit in zip(SOURCES, limits, strict=False)
        ]
        found = worker.translate(SOURCES[:4], search(beam=beam, **options), limits)
        assert [hypotheses[0].tokens for hypotheses in found] == [hypotheses[0].tokens for hypotheses in expected]
        assert [len(hypotheses[0].tokens) for hypotheses in found] == limits


def test_logits_of_zero_while_denormals_are_flushed(instruction_sets: Iterable[str]) -> None:
    """The float below 0 is a denormal, which then compares equal to 0."""
    worker = Worker(random_model(TRANSFORMER, scale=0))
    expected = worker.translate([[3, EOS]], search(), [5])
    assert expected[0][0].tokens == [0] * 5
    if not torch.set_flush_denormal(True):
        pytest.skip("this CPU does not flush denormals")
    try:
        for name in instruction_sets:
            assert worker.translate([[3, EOS]], search(), [5]) == expected, name
    finally:
        torch.set_flush_denormal(False)


@pytest.mark.parametrize(
    "settings",
    [
        settings_of(d_ff=2**17 + 1),
        settings_of(positions="learned", max_positions=2**24 + 1),
        GPTSettings(d_model=6, heads=2, d_ff=11, layers=1, max_positions=13, dropout=0, norm_epsilon=1.0),
    ],
)
def test_sizes_beyond_the_limits_of_the_engine_run_in_pytorch(settings: Any) -> None:
    with pytest.raises(Unsupported, match="beyond the limits of the native engine"):
        NativeModel.from_tensors({}, settings, VOCAB, "fp32")


def test_limits_of_outputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = native_transformer(torch_transformer(), tmp_path / "w")
    for limit in (0, MAX_TOKENS + 1, 2**32 + 5):
        with pytest.raises(ValueError, match=f"from 1 to {MAX_TOKENS} tokens"):
            Worker(model).translate(SOURCES[:1], search(), [limit])
    with pytest.raises(ValueError, match="exceeds 32 bits"):
        Worker(model).translate([[2**32 + 3, EOS]], search(), [5])
    monkeypatch.setattr(search_engine, "MAX_TOKENS", 7)  # 2²⁴ tokens would take minutes
    ((found,),) = NativeEngine(model).search(SOURCES[:1], [2**40], Search(min_length=2**32))
    assert len(found.tokens) == 7 and not found.finished


def test_weights_that_do_not_fit_or_are_not_finite_are_refused(tmp_path: Path) -> None:
    model = torch_transformer()
    weights = save(model, tmp_path / "w")
    for wrong in ({"d_ff": 41}, {"encoder_layers": 3}, {"norm": "pre"}, {"output_bias": True}):
        with pytest.raises((UserError, Unavailable), match="do not fit"):
            NativeModel.load(weights, settings_of(**wrong), VOCAB, "fp32")
    with pytest.raises((UserError, Unavailable), match="do not fit"):
        NativeModel.load(weights, settings_of(), VOCAB + 1, "fp32")
    with torch.no_grad():
        model.decoder[2].feed_forward.contract.weight[3, 5] = float("nan")
    with pytest.raises(UserError, match=r"decoder\.2\.feed_forward\.contract\.weight contains NaN"):
        NativeModel.load(save(model, weights), settings_of(), VOCAB, "fp32")
