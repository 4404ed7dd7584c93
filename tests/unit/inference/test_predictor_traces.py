"""A trace is the pass that gave the answer: the model is given the same input for both, for every predictor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from glassformer.data.images.format import ImageFormat
from glassformer.decoding.sampling import Sampling
from glassformer.errors import UserError
from glassformer.glass.question_trace import NO_ANSWER, question_view
from glassformer.inference.classifier import ImageClassifier, TextClassifier, TextTagger
from glassformer.inference.embeddings import SentenceEmbedder
from glassformer.inference.fill_mask import MaskFiller
from glassformer.inference.generator import MusicGenerator, TextGenerator
from glassformer.inference.question_answering import QuestionAnswerer
from glassformer.inference.translator import Translator
from glassformer.models.bert import BERT
from glassformer.models.gpt import GPT
from glassformer.models.heads import (
    Classifier,
    FirstTokenClassifier,
    MaskedLanguageModel,
    MatchingSpanFinder,
    PoolerClassifier,
    SentenceEmbedding,
    SpanFinder,
    Tagger,
)
from glassformer.models.recurrent_encoder import RecurrentEncoder
from glassformer.models.transformer import Transformer
from glassformer.models.vit import ViT
from glassformer.settings import (
    BertSettings,
    DataSettings,
    DecodeSettings,
    GPTSettings,
    RecurrentEncoderSettings,
    ViTSettings,
)
from glassformer.text.tokenizer import PAD, Tokenizer
from glassformer.text.words import split_words

LINES = ["the cat doesn't sleep, it's hungry.", "(a dog) sat on the mat!", "Ana likes red and Ben likes blue ."] * 3
TOKENIZER = Tokenizer.train_bpe(LINES, vocab=340, mask=True)
LABELS = list("abcde")
SIZES: dict[str, Any] = {"d_model": 21, "heads": 3, "d_ff": 37, "dropout": 0.0}
TEXT = "The cat doesn't sleep, (it's hungry)!"
QUESTION, STORY = "what likes Ben ?", "Ana likes red and Ben likes blue . the cat sat on the mat ."


def bert(max_positions: int = 61) -> BERT:
    return BERT(BertSettings(**SIZES, layers=2, max_positions=max_positions), len(TOKENIZER), pad=PAD)


def reader() -> RecurrentEncoder:
    settings = RecurrentEncoderSettings(cell="gru", layers=1, d_model=22, dropout=0.0)
    return RecurrentEncoder(settings, len(TOKENIZER), pad=PAD)


def answerer(model: Any, *, no_answer: bool = False, window: int = 31) -> QuestionAnswerer:
    data = DataSettings(train=["a"], no_answer=no_answer, window=window, overlap=3)
    return QuestionAnswerer(model.eval(), TOKENIZER, data)


@contextmanager
def inputs_of(model: Any) -> Iterator[list[Tensor]]:
    """Collect what the model is given."""
    given: list[Tensor] = []
    hook = model.register_forward_pre_hook(lambda _, arguments: given.append(arguments[0].clone()))
    yield given
    hook.remove()


PREDICTORS: dict[str, Callable[[], Any]] = {
    "labels": lambda: TextClassifier(PoolerClassifier(bert(), len(LABELS)).eval(), TOKENIZER, LABELS),
    "labels, of a text that is cut": lambda: TextClassifier(
        PoolerClassifier(bert(max_positions=7), len(LABELS)).eval(), TOKENIZER, LABELS
    ),
    "labels, recurrent": lambda: TextClassifier(Classifier(reader(), len(LABELS)).eval(), TOKENIZER, LABELS),
    "tags": lambda: TextTagger(Tagger(bert(), len(LABELS)).eval(), TOKENIZER, LABELS),
    "tags, recurrent": lambda: TextTagger(Tagger(reader(), len(LABELS)).eval(), TOKENIZER, LABELS),
    "vectors": lambda: SentenceEmbedder(SentenceEmbedding(bert()).eval(), TOKENIZER),
    "vectors, of a text that is cut": lambda: SentenceEmbedder(
        SentenceEmbedding(bert(max_positions=7)).eval(), TOKENIZER
    ),
}


@pytest.mark.parametrize("kind", PREDICTORS)
def test_the_model_reads_the_same_for_an_answer_and_its_trace(kind: str) -> None:
    predictor = PREDICTORS[kind]()
    with inputs_of(predictor.model) as given:
        predictor.predict([TEXT])
        found = predictor.trace(TEXT)
    assert torch.equal(*given)
    assert found["encoder.tokens"].tolist() == given[0][0].tolist()


def test_the_blanks_of_a_trace_are_those_that_are_filled() -> None:
    predictor = MaskFiller(MaskedLanguageModel(bert(), len(TOKENIZER)).eval(), TOKENIZER)
    with inputs_of(predictor.model) as given:
        predictor.predict(["the cat sat on the ___, it's ___."])
        predictor.trace("the cat sat on the ___, it's ___.")
    assert torch.equal(*given)


def test_the_label_of_a_trace_is_the_one_that_is_predicted() -> None:
    predictor = PREDICTORS["labels, of a text that is cut"]()
    (answer,) = predictor.predict([TEXT])
    found = predictor.trace(TEXT)
    assert found.predicted == [answer.label]
    probabilities = found["logits"].softmax(-1).tolist()
    assert answer.probabilities == pytest.approx(dict(zip(LABELS, probabilities, strict=True)), abs=1e-5)


@pytest.mark.parametrize("kind", ["tags", "tags, recurrent"])
def test_the_tags_of_a_trace_are_those_that_are_predicted(kind: str) -> None:
    predictor = PREDICTORS[kind]()
    found, tagged = predictor.trace(TEXT), predictor(TEXT)
    assert [word for word, _ in tagged] == split_words(TEXT) and len(tagged) == 12
    # A word's tag is read at its last subword, in the order of the sentence.
    at = int(found.source[0] == "<sos>") - 1
    for word, tag in tagged:
        at += len(TOKENIZER.encode(word))
        assert found.predicted[at] == tag, (word, at)
    assert found.source[at + 1 :] == ["<eos>"]


def test_an_image_is_preprocessed_the_same_way(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    about = {"height": 8, "width": 12, "channels": 3, "mean": [0.3] * 3, "deviation": [0.2] * 3, "patch": 4}
    model = FirstTokenClassifier(ViT(ViTSettings(**(SIZES | about | {"layers": 2}))), len(LABELS)).eval()
    image.effect_noise((31, 17), 90).save(tmp_path / "noise.png")
    predictor = ImageClassifier(model, ImageFormat(8, 12, 3), LABELS)
    with inputs_of(model) as given:
        (answer,) = predictor.predict([tmp_path / "noise.png"])
        assert predictor.trace(tmp_path / "noise.png").label == answer.label
    assert torch.equal(*given)


# Questions


FINDERS: dict[str, Callable[[], Any]] = {
    "bert": lambda: SpanFinder(bert()),
    "matching": lambda: MatchingSpanFinder(reader()),
}


def towards_no_answer(model: Any, amount: float) -> Any:
    """Make a model prefer the first position, which means "no answer", to all others (or the reverse)."""
    plain = model.forward

    def forward(tokens_BS: Tensor, *rest: Any) -> Tensor:
        logits_BS2: Tensor = plain(tokens_BS, *rest)
        logits_BS2[:, 0] += amount
        return logits_BS2

    model.forward = forward
    return model


@pytest.mark.parametrize("finder", FINDERS)
@pytest.mark.parametrize("window", [31, 11])
@pytest.mark.parametrize(("amount", "no_answer"), [(50.0, True), (50.0, False), (-50.0, True)])
def test_a_trace_has_an_answer_where_one_is_predicted(finder: str, window: int, amount: float, no_answer: bool) -> None:
    predictor = answerer(towards_no_answer(FINDERS[finder](), amount), no_answer=no_answer, window=window)
    (answer,) = predictor.predict([(QUESTION, STORY)])
    found = predictor.trace(QUESTION, STORY)
    assert found.answer == answer.answer
    assert (answer.answer is None) == (no_answer and amount > 0)
    shown = question_view(found)
    if answer.answer is None:
        assert (found.first, found.last, found.predicted) == (0, 0, [NO_ANSWER])
        assert shown[-1] == f"answer: {NO_ANSWER}"
        assert [line for line in shown if ">" in line.split("<sos>")[0]]
        return
    ids = found["encoder.tokens"][found.first : found.last + 1].tolist()
    assert TOKENIZER.decode(ids) == answer.answer.replace("\n", " ")
    assert shown[-1] == f"answer: {answer.answer}"


@pytest.mark.parametrize("window", [31, 11])
def test_a_trace_is_of_a_window_that_was_read(window: int) -> None:
    predictor = answerer(SpanFinder(bert()), no_answer=True, window=window)
    with inputs_of(predictor.model) as given:
        predictor.predict([(QUESTION, STORY)])
        found = predictor.trace(QUESTION, STORY)
    read = [[token for token in row if token != PAD] for row in given[0].tolist()]
    assert found["encoder.tokens"].tolist() in read


def test_an_empty_question_is_refused_by_both() -> None:
    predictor = answerer(SpanFinder(bert()))
    for ask in (lambda: predictor.predict([(" ", STORY)]), lambda: predictor.trace(" ", STORY)):
        with pytest.raises(UserError, match="question is empty"):
            ask()


# Language models


def gpt(tokenizer: Tokenizer) -> GPT:
    return GPT(GPTSettings(**SIZES, layers=2, max_positions=47), len(tokenizer), pad=PAD).eval()


@pytest.mark.parametrize("kind", ["bpe", "characters"])
def test_a_prompt_is_traced_as_it_is_read(kind: str) -> None:
    tokenizer = Tokenizer.train(LINES, vocab=340, kind=kind)
    model = TextGenerator(gpt(tokenizer), tokenizer)
    with inputs_of(model.model.embedding) as given:
        list(model.stream("the cat", length=1))
        model.trace("the cat")
    assert torch.equal(*given)


def test_notes_are_traced_as_they_are_read() -> None:
    tokenizer = Tokenizer.from_pitches(range(40, 70))
    composer = MusicGenerator(gpt(tokenizer), tokenizer)
    logits = composer.trace("67 62 59 43")["logits"][-1].clone()
    logits[[0, 1, 2, int(tokenizer.unk_id or 0)]] = float("-inf")
    steps = composer([67, 62, 59, 43], steps=2, sampling=Sampling(top_k=1))
    assert steps[1][0] == int(tokenizer.pieces([int(logits.argmax())])[0])
    for ask in (lambda: composer.trace("67 62 99 43"), lambda: composer([67, 62, 99, 43])):
        with pytest.raises(UserError, match="The pitch 99 is not in the vocabulary"):
            ask()


# Translation


def test_a_sentence_is_traced_as_it_is_translated(tiny_settings: Any) -> None:
    settings = tiny_settings(positions="learned", max_positions=11, tie_embeddings=False)
    decode = DecodeSettings(beam=1, guard=False)  # which would translate a failure a second time
    translator = Translator(Transformer(settings, len(TOKENIZER), pad=PAD).eval(), TOKENIZER, decode)
    with inputs_of(translator.model.source_embedding) as given:
        translator.translate(["the cat"])
        translator.trace("the cat")
    assert torch.equal(*given)
    # A line that is translated in several parts has no single pass to trace.
    with pytest.raises(UserError, match=r"cannot be traced(.|\n)*1 to 10 tokens"):
        translator.trace(LINES[0] * 3)
