"""Sampling draws from the right distribution."""

from __future__ import annotations

import math
from collections import Counter

import pytest
import torch

from glassformer.decoding import sampling
from glassformer.decoding.constraints import min_length
from glassformer.decoding.greedy import greedy
from glassformer.decoding.sampling import Sampling, sample, truncate

SOS, EOS = 0, 1
DRAWS = 20_000
P = [0.02, 0.05, 0.31, 0.17, 0.08, 0.37]  # of the first token; not in order, so that a sort has to be undone


def source(*sentences: int) -> torch.Tensor:
    return torch.tensor(sentences)[:, None]


def first_tokens(chain, *, constraint=None, **how) -> Counter[int]:
    """Return the first tokens of 20,000 sentences, each with its own seed; <eos> is token 1."""
    found = sample(
        chain([P] * 6),
        source(*[0] * DRAWS),
        Sampling(**how),
        seeds=list(range(DRAWS)),
        limits=[1] * DRAWS,
        sos=SOS,
        eos=EOS,
        constraint=constraint,
    )
    return Counter(h.tokens[0] if h.tokens else EOS for h in found)


def assert_drawn_from(counts: Counter[int], weights: dict[int, float]) -> None:
    """Pearson's chi-square, below a value that chance exceeds once in 10,000 (at most 5 degrees of freedom)."""
    assert set(counts) == set(weights)
    mass = sum(weights.values())
    expected = {token: DRAWS * weight / mass for token, weight in weights.items()}
    assert sum((counts[t] - e) ** 2 / e for t, e in expected.items()) < 25.7


def test_the_whole_distribution(chain) -> None:
    assert_drawn_from(first_tokens(chain), dict(enumerate(P)))


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_temperature(chain, temperature: float) -> None:
    assert_drawn_from(
        first_tokens(chain, temperature=temperature), {t: p ** (1 / temperature) for t, p in enumerate(P)}
    )


def test_top_k(chain) -> None:
    assert_drawn_from(first_tokens(chain, top_k=3), {5: 0.37, 2: 0.31, 3: 0.17})


@pytest.mark.parametrize(("top_p", "kept"), [(0.3, [5]), (0.5, [5, 2]), (0.8, [5, 2, 3]), (0.9, [5, 2, 3, 4])])
def test_top_p_is_the_smallest_set_with_that_mass(chain, top_p: float, kept: list[int]) -> None:
    assert_drawn_from(first_tokens(chain, top_p=top_p), {t: P[t] for t in kept})


def test_top_k_then_top_p(chain) -> None:
    # Of the four likeliest (0.93), 5 and 2 make up 0.73: top_p = 0.75 needs the third. Of all, 0.68 would too;
    # at 0.72 only the share within the four lets it go.
    assert_drawn_from(first_tokens(chain, top_k=4, top_p=0.75), {5: 0.37, 2: 0.31, 3: 0.17})
    assert_drawn_from(first_tokens(chain, top_k=4, top_p=0.72), {5: 0.37, 2: 0.31})


def test_temperature_comes_before_top_p(chain) -> None:
    # Squared and normalised, 5 alone has 0.50: more than 0.49. As it was, it has 0.37.
    assert_drawn_from(first_tokens(chain, temperature=0.5, top_p=0.49), {5: 1.0})


def test_truncate_gives_probabilities_likeliest_first_with_their_tokens() -> None:
    logits = torch.tensor([[0.1, 0.6, 0.3], [0.5, 0.2, 0.3]]).log()
    probability, tokens = truncate(logits, top_k=0, top_p=1.0)
    assert tokens.tolist() == [[1, 2, 0], [0, 2, 1]]
    torch.testing.assert_close(probability, torch.tensor([[0.6, 0.3, 0.1], [0.5, 0.3, 0.2]]))
    probability, _ = truncate(logits, top_k=0, top_p=0.55)
    torch.testing.assert_close(probability, torch.tensor([[0.6, 0.0, 0.0], [0.5, 0.3, 0.0]]))
    probability, tokens = truncate(logits, top_k=2, top_p=1.0)
    assert tokens.tolist() == [[1, 2], [0, 2]]
    torch.testing.assert_close(probability, torch.tensor([[2 / 3, 1 / 3], [5 / 8, 3 / 8]]))


def test_top_k_beyond_the_vocabulary_is_all(chain) -> None:
    assert_drawn_from(first_tokens(chain, top_k=99), dict(enumerate(P)))


@pytest.mark.parametrize("how", [{"top_k": 1}, {"top_p": 1e-6}, {"temperature": 0.001}])
def test_a_very_low_temperature_is_greedy(tree, how: dict[str, float]) -> None:
    model, limits = tree(vocab=11, seed=1, sharpness=3.0), [6, 3, 7]
    drawn = sample(model, source(0, 1, 2), Sampling(**how), seeds=[5, 7, 11], limits=limits, sos=SOS, eos=EOS)
    assert drawn == greedy(model, source(0, 1, 2), limits=limits, sos=SOS, eos=EOS)


def test_the_sample_of_a_sentence_depends_on_its_seed_alone(tree) -> None:
    model, limits = tree(vocab=5, seed=1), [7, 2, 6, 7, 4, 5, 7]
    seeds = [13, 5, 5, 2, 3, 17, 19]
    together = sample(model, source(*range(7)), Sampling(), seeds=seeds, limits=limits, sos=SOS, eos=EOS)
    for i in range(7):
        (alone,) = sample(model, source(i), Sampling(), seeds=[seeds[i]], limits=[limits[i]], sos=SOS, eos=EOS)
        assert alone.tokens == together[i].tokens
        assert alone.log_probability == pytest.approx(together[i].log_probability, rel=1e-6)


def test_different_seeds_differ_and_equal_seeds_agree(tree) -> None:
    model = tree(vocab=11, seed=1)
    found = sample(model, source(*[3] * 13), Sampling(), seeds=[*range(12), 0], limits=[7] * 13, sos=SOS, eos=EOS)
    assert found[12] == found[0]
    assert len({tuple(h.tokens) for h in found}) > 6


def test_the_log_probability_is_that_of_the_model_not_of_the_temperature(chain) -> None:
    model, hot = chain([P] * 6), Sampling(temperature=3.0)
    for h in sample(model, source(*[0] * 31), hot, seeds=list(range(31)), limits=[4] * 31, sos=SOS, eos=EOS):
        written = [*h.tokens, EOS] if h.finished else h.tokens
        expected = sum(math.log(P[token]) for token in written)
        assert h.log_probability == pytest.approx(expected, rel=1e-5)
        assert h.score == pytest.approx(expected / len(written), rel=1e-5)


def test_forbidden_tokens_are_never_sampled(chain) -> None:
    assert_drawn_from(first_tokens(chain, constraint=min_length(1, EOS)), {t: p for t, p in enumerate(P) if t != EOS})


@pytest.mark.parametrize("how", [{"top_p": 0.5}, {"constraint": min_length(1, EOS)}, {}])
def test_the_highest_random_number_gives_a_possible_token(chain, monkeypatch, how) -> None:
    class Highest:
        def __init__(self, seed: int) -> None: ...

        def random(self) -> float:
            return 1 - 2**-53  # what random.random() can give; 1.0 in single precision

    monkeypatch.setattr(sampling.random, "Random", Highest)
    # Token 0 is impossible. With top_p = 0.5, so are all but 5 and 2; the last that is possible has to come.
    how = dict(how)
    constraint, settings = how.pop("constraint", None), Sampling(**how)
    model = chain([[0.0, *P[1:]]] * 6)
    (h,) = sample(model, source(0), settings, seeds=[0], limits=[1], sos=SOS, eos=EOS, constraint=constraint)
    assert math.isfinite(h.log_probability)
    assert h.tokens == ([2] if "top_p" in how else [4] if constraint else [])
