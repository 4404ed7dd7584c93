"""Translation of lines: degenerate outputs are detected, and lines keep their order."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from glassformer.decoding import Hypothesis
from glassformer.decoding.sampling import Sampling
from glassformer.errors import UserError
from glassformer.inference.batch_decoder import is_degenerate, max_repetitions
from glassformer.inference.translator import Translator, split_sentences
from glassformer.settings import DecodeSettings
from glassformer.text.tokenizer import EOS, Tokenizer

TOKENIZER = Tokenizer.train_bpe(["a b c d e f g . !"] * 3, vocab=300)


class EchoState:
    def __init__(self, source_BS: Tensor, copies: int, place: int = 0) -> None:
        self.source_BS, self.copies, self.place = source_BS, copies, place

    def select(self, rows: Tensor) -> EchoState:
        return EchoState(self.source_BS[rows[:: self.copies] // self.copies], self.copies, self.place)


class Echo(torch.nn.Module):
    """A generator that copies its source; with `stuck`, it repeats the first token."""

    max_positions = None

    def __init__(self, stuck: bool = False, silent: bool = False) -> None:
        super().__init__()
        self.stuck, self.silent = stuck, silent
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def encode(self, source_BS: Tensor) -> Tensor:
        return source_BS

    def start(self, memory: Tensor, copies: int = 1) -> EchoState:
        return EchoState(memory, copies)

    def step(self, tokens_B: Tensor, state: EchoState) -> tuple[Tensor, EchoState]:
        place = 0 if self.stuck else min(state.place, state.source_BS.shape[1] - 1)
        wanted_B = state.source_BS[:, place].repeat_interleave(state.copies)
        logits_BV = torch.zeros(len(tokens_B), len(TOKENIZER))
        logits_BV[:, :EOS] = -30.0  # <pad> and <sos> are never written
        logits_BV.scatter_(1, wanted_B[:, None], 20.0)
        if self.silent:
            logits_BV[:, EOS] = 30.0
        state.place += 1
        return logits_BV, state


def translator(**how: bool) -> Translator:
    return Translator(Echo(**how), TOKENIZER, DecodeSettings(max_source=12))


@pytest.mark.parametrize("beam", [1, 3])
def test_lines_keep_their_order_and_empty_lines_stay_empty(beam: int) -> None:
    lines = ["a", "", "a b c d", "   ", "c d", "b"]
    assert [t.text for t in translator().translate(lines, beam=beam)] == ["a", "", "a b c d", "", "c d", "b"]


def test_a_stream_gives_what_translate_gives() -> None:
    lines = [f"{'a b c d e'[: 1 + 2 * (i % 5)]}" for i in range(50)]
    assert [t.text for t in translator().stream(iter(lines))] == [t.text for t in translator().translate(lines)]


def test_a_long_line_is_translated_in_parts_with_a_warning() -> None:
    line = "a b c d e . b c d e f ! " * 3
    (result,) = translator().translate([line.strip()])
    assert result.text == line.strip()
    assert "6 parts" in result.warnings[0]


def test_a_sentence_without_ends_is_cut_into_pieces() -> None:
    (result,) = translator().translate([" ".join("abcdefg" * 5)])
    assert result.text == " ".join("abcdefg" * 5)
    assert "parts" in result.warnings[0]


def test_a_repetitive_output_is_decoded_again() -> None:
    (result,) = translator(stuck=True).translate(["a b"], beam=1)
    tokens = TOKENIZER.encode(result.text)
    assert max_repetitions(tokens) <= 3


def test_without_guard_a_repetitive_output_is_kept() -> None:
    unguarded = translator(stuck=True)
    unguarded.settings = unguarded.settings.model_copy(update={"guard": False})
    (result,) = unguarded.translate(["a b"], beam=1)
    assert max_repetitions(TOKENIZER.encode(result.text)) > 10


def test_an_output_is_at_least_as_long_as_asked() -> None:
    patient = translator()
    patient.settings = patient.settings.model_copy(update={"min_length": 6, "max_length": 6})
    for beam in (1, 2):
        assert patient.translate(["a b"], beam=beam)[0].tokens == 6


def test_empty_output_is_decoded_again() -> None:
    (result,) = translator(silent=True).translate(["a b"], beam=1)
    assert result.text == "a"


@pytest.mark.parametrize(
    ("tokens", "times"),
    [([], 1), ([5], 1), ([5, 5], 2), ([5, 6, 5, 6, 5, 6], 3), ([1, 2, 3, 4], 1), ([9, 7, 7, 7, 7, 8], 4)],
)
def test_max_repetitions(tokens: list[int], times: int) -> None:
    assert max_repetitions(tokens) == times


def test_a_repetition_in_the_source_is_not_degenerate() -> None:
    output = Hypothesis([5] * 6, -1.0, -1.0, True)
    assert is_degenerate([4, 9, 8], output)
    assert not is_degenerate([4] * 6, output)


def test_split_sentences() -> None:
    assert split_sentences("One. Two! Three? 3.14 is pi; yes") == ["One.", "Two!", "Three?", "3.14 is pi;", "yes"]
    assert split_sentences("안녕. 我是学生。你好！") == ["안녕.", "我是学生。", "你好！"]


def test_sampling_with_one_seed_is_repeatable_and_free_of_batch_mates() -> None:
    how = Sampling(temperature=5.0, seed=7)
    together = translator().translate(["a b c", "d e f"], sampling=how)
    again = translator().translate(["a b c", "d e f"], sampling=how)
    alone = translator().translate(["d e f"], sampling=how, numbers=[1])
    assert [t.text for t in together] == [t.text for t in again]
    assert together[1].text == alone[0].text
    assert together[0].text != translator().translate(["a b c"], sampling=Sampling(5.0, seed=8))[0].text


@pytest.mark.parametrize("wrong", [{"temperature": 0}, {"top_p": 0}, {"top_p": 1.1}, {"top_k": -1}])
def test_invalid_sampling_options_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(UserError, match="out of range"):
        Sampling(**wrong)  # type: ignore[arg-type]


def test_invalid_beam_sizes_are_refused() -> None:
    with pytest.raises(UserError, match="beam size 0 is out of range"):
        translator().translate(["a"], beam=0)
