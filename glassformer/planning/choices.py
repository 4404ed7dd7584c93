"""Settings that nobody gave, chosen from the corpus and the machine, each with its reason."""

from __future__ import annotations

import bisect
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from glassformer.data.images.format import Form
from glassformer.data.question_answering import BESIDE_TEXT
from glassformer.errors import Message, as_message
from glassformer.inference.run import NothingDrawn
from glassformer.machine import device
from glassformer.models import FAMILIES
from glassformer.planning.sizes import IMAGE_SIZES, RecurrentSize, Size, size_for, text_size
from glassformer.settings import MODELS, DataSettings, Raw, Settings, family_of, merge, nest


class Choice(NamedTuple):
    """The value chosen for a setting, and the reason."""

    path: str
    value: Any
    reason: str

    @property
    def message(self) -> Message:
        """The choice as one line."""
        return Message(
            "{name} = {value}  ({reason})", name=self.path, value=str(self.value), reason=as_message(self.reason)
        )


LONG_TEXT = 256  # tokens
# What learns for as long as was planned, and gains most at the end. The others stop when they get no better.
PLANNED = {("gpt", "language_model"), ("gpt", "music"), ("bert", "masked_words"), ("vit", "images")}
READ_AT_ONCE = ("sequence", "window")  # settings of data that say how many tokens


PATCHES = 36  # of an image at most, where the patch is chosen: more cost much, and taught no faster


def choose_image_sizes(
    raw: Raw, *, images: int, form: Form, mean: list[float], deviation: list[float], precision: tuple[str, str]
) -> list[Choice]:
    """Model and training settings for so many images of a form, with their statistics."""
    size = next(size for size in IMAGE_SIZES if images < size.up_to)
    said, measured = (
        Message("{size} data set of {n} images", size=Message(size.name), n=f"{images:,}"),
        "of the training images",
    )
    patch = _said(raw, "model.patch") or choose_patch(form)
    tokens = 1 + (form.height // patch) * (form.width // patch)
    return [
        *(Choice(f"model.{name}", value, measured) for name, value in form._asdict().items()),
        Choice("model.mean", mean, measured),
        Choice("model.deviation", deviation, measured),
        Choice("model.patch", patch, Message("{n} patches per image", n=tokens - 1)),
        *(Choice(f"model.{name}", getattr(size, name), said) for name in ("layers", "d_model", "heads", "d_ff")),
        Choice("data.shift", max(form.height, form.width) // 14, "augmentation: a shifted image has the same label"),
        *_choose_training(raw, size, tokens=images * tokens, precision=precision, metric="accuracy", fewest=200),
    ]


def choose_patch(form: Form) -> int:
    """The smallest that leaves few patches; as large as the image can be cut into, if there is none."""
    whole = [side for side in range(1, form.width + 1) if not (form.height % side or form.width % side)]
    few = (side for side in whole if (form.height // side) * (form.width // side) <= PATCHES)
    return next(few, whole[-1])


def choose_text_vocabulary(raw: Raw, task: str, amount: int) -> list[Choice]:
    size, said = text_size(family_of(raw["model"]), task, amount)
    return _choose_entries(raw, size.vocab, said)


def choose_text_sizes(
    raw: Raw, task: str, *, amount: int, tokens: int, precision: tuple[str, str], metric: str
) -> list[Choice]:
    """Model and training settings for every task but translation. `tokens` are those of an epoch."""
    family = family_of(raw["model"])
    size, said = text_size(family, task, amount)
    if isinstance(size, Size):
        sizes = _choose_attention(raw, size, said)
    elif family == "window":
        sizes = [
            Choice("model.d_model", size.d_model // 4, said),
            Choice("model.d_hidden", 2 * size.d_model, "wide: the hidden layer holds all the context"),
        ]
    else:
        sizes = [
            Choice("model.layers", size.layers, "more recurrent layers are slower and rarely better"),
            Choice("model.d_model", size.d_model, said),
        ]
    measured, sure = (0.0, "the metric is the likelihood itself"), (0.1, "regularization: prevents overconfidence")
    smoothing = measured if metric == "likelihood" else sure
    return [
        *sizes,
        Choice("train.label_smoothing", *smoothing),
        *_choose_training(raw, size, tokens=tokens, precision=precision, metric=metric, fewest=200),
    ]


def _choose_attention(raw: Raw, size: Size, said: str) -> list[Choice]:
    """The sizes of layers without a source. Learned positions reach as far as training does."""
    width = _said(raw, "model.d_model") or size.d_model
    heads = next((heads for heads in range(size.heads, 0, -1) if isinstance(width, int) and width % heads == 0), 1)
    sequence, window = (_said(raw, f"data.{name}") or DataSettings.model_fields[name].default for name in READ_AT_ONCE)
    longest = (sequence, "length of a training sequence")
    if raw.get("task") == "answers":
        longest = (window + BESIDE_TEXT, "room for a window of text and a question")
    elif family_of(raw["model"]) == "bert":
        longest = (max(sequence, LONG_TEXT), "room for a long text")
    return [
        Choice("model.layers", size.layers, said),
        Choice("model.d_model", size.d_model, said),
        Choice("model.heads", heads, Message("{n} dimensions per head", n=width // heads)),
        Choice("model.d_ff", 4 * width, "four times the width"),
        Choice("model.max_positions", *longest),
    ]


def choose_window(raw: Raw) -> list[Choice]:
    """How much of a text is looked at with a question, where the model sees so many tokens and no more."""
    longest = _said(raw, "model.max_positions")
    window = DataSettings.model_fields["window"].default
    if not isinstance(longest, int) or not BESIDE_TEXT < longest < window + BESIDE_TEXT:
        return []
    window = longest - BESIDE_TEXT
    return [
        Choice(
            "data.window",
            window,
            Message("together with a question it fills the {n} positions of the model", n=longest),
        ),
        Choice("data.overlap", window // 4, "a quarter of a window"),
    ]


def choose_vocabulary(raw: Raw, pairs: int) -> list[Choice]:
    size = size_for(pairs)
    return _choose_entries(
        raw, size.vocab, Message("{size} corpus of {n} pairs", size=Message(size.name), n=f"{pairs:,}")
    )


def _choose_entries(raw: Raw, subwords: int, said: str) -> list[Choice]:
    if _said(raw, "tokenizer.kind") == "characters":
        return [Choice("tokenizer.vocab", 8_000, "covers all but very rare characters")]
    return [Choice("tokenizer.vocab", subwords, said)]


def choose_sizes(raw: Raw, *, pairs: int, tokens: int, precision: tuple[str, str]) -> list[Choice]:
    """Model and training settings for a corpus of so many pairs and (longer-side) tokens, on this machine."""
    size = size_for(pairs)
    return [
        *_choose_model(raw, size),
        *_choose_training(raw, size, tokens=tokens, precision=precision, metric=_score(raw), fewest=600),
    ]


def _choose_training(
    raw: Raw,
    size: Size | RecurrentSize,
    *,
    tokens: int,
    precision: tuple[str, str],
    metric: str,
    fewest: int,
) -> list[Choice]:
    """How long and how fast to learn; `fewest` steps at least."""
    planned = (family_of(raw.get("model", {})), raw.get("task")) in PLANNED and not _said(raw, "train.minutes")
    to_zero = Choice("train.schedule", "cosine", "the number of steps is fixed, so the learning rate can decay to 0")
    batch_tokens = _said(raw, "train.batch_tokens") or size.batch_tokens
    steps_per_epoch = max(1, round(tokens / batch_tokens / (_said(raw, "train.accumulate") or 1)))
    steps = _said(raw, "train.steps") or max(fewest, size.epochs * steps_per_epoch)
    validate_every = _said(raw, "train.validate_every") or min(steps, 2_000, max(100, steps_per_epoch))
    return [
        Choice("model.dropout", size.dropout, "the smaller the corpus, the larger"),
        Choice("train.batch_tokens", size.batch_tokens, Message("about {n} steps per epoch", n=f"{steps_per_epoch:,}")),
        Choice("train.steps", steps, Message("about {n} epochs", n=f"{steps / steps_per_epoch:.0f}")),
        Choice("train.warmup", min(size.warmup, max(1, steps // 4)), "§5.3, shorter for a short run"),
        Choice("train.lr", size.lr, "peak learning rate, at the end of the warmup"),
        *([to_zero] if planned else []),
        Choice("train.validate_every", validate_every, Message("{n} validations", n=-(-steps // validate_every))),
        Choice("train.checkpoint_every", validate_every, "at every validation"),
        Choice("train.patience", 10, Message("validations without a better {metric}", metric=metric)),
        Choice("train.precision", *precision),
    ]


def apply(raw: Raw, choices: list[Choice]) -> tuple[Raw, list[Choice]]:
    """The settings with what was chosen for those that nobody gave, and the choices that took effect."""
    free = [choice for choice in choices if not _is_said(raw, choice.path)]
    chosen = nest({choice.path: choice.value for choice in free})
    settings = merge(chosen, raw)
    if _said(settings, "train.precision") == "auto":
        precision = next(choice for choice in choices if choice.path == "train.precision")
        settings, free = merge(settings, nest({precision.path: precision.value})), [*free, precision]
    return settings, free


def _choose_model(raw: Raw, size: Size) -> list[Choice]:
    """The sizes of a model of the family that was asked for."""
    sizes = {"layers": size.layers, "d_model": size.d_model, "heads": size.heads, "d_ff": size.d_ff}
    if family_of(raw.get("model", {})) != "transformer":
        return _choose_like(sizes, raw, size)
    small = Message("{size} corpus: a larger model would overfit", size=Message(size.name))
    why = small if size.up_to <= 2_000_000 else "the paper's base model"
    return [Choice(f"model.{name}", value, why) for name, value in sizes.items()]


def _choose_like(transformer: Raw, raw: Raw, size: Size) -> list[Choice]:
    """Sizes that give a model of another family about as many weights as the Transformer for this corpus."""
    said = raw["model"]
    family, vocab = family_of(said), _said(raw, "tokenizer.vocab") or size.vocab
    like = count_weights("transformer", transformer | {"dropout": 0.0}, vocab)
    layers = {} if family == "window" else {"layers": min(size.layers, 2)}

    def weights(width: int) -> int:
        hidden = {"d_hidden": 2 * width} if family == "window" else {}
        return count_weights(family, {"dropout": 0.0, "d_model": width} | layers | hidden | said, vocab)

    width = said.get("d_model") or nearest_width(weights, like)
    why = Message(
        "about as many parameters as the Transformer for a {size} corpus, {n} million",
        size=Message(size.name),
        n=f"{like / 1e6:.1f}",
    )
    choices = [Choice("model.layers", n, "more recurrent layers are slower and rarely better") for n in layers.values()]
    choices.append(Choice("model.d_model", width, why))
    if family == "window":
        choices.append(Choice("model.d_hidden", 2 * width, "twice the width of the embeddings"))
    return choices


def nearest_width(weights: Callable[[int], int], like: int, *, step: int = 32) -> int:
    """The width, a multiple of `step`, whose number of weights is nearest; the wider, the more."""
    widths = range(step, 2049, step)
    above = bisect.bisect(widths, like, 1, len(widths) - 1, key=weights)
    return min(widths[above - 1], widths[above], key=lambda width: abs(weights(width) - like))


def count_weights(family: str, model: Raw, vocab: int) -> int:
    """How many a model has. It is made without its numbers, so this takes no time."""
    with torch.device("meta"), NothingDrawn():
        made = FAMILIES[family](MODELS[family].model_validate(model | {"family": family}), vocab, pad=0)
    return sum(parameter.numel() for parameter in made.parameters())


def _score(raw: Raw) -> str:
    """What translations are chosen by, as people call it."""
    return {"chrf": "chrF", "rouge_l": "ROUGE-L"}.get(_said(raw, "train.metric"), "BLEU")


def _said(raw: Raw, path: str) -> Any:
    section, name = path.split(".")
    inner = raw.get(section)
    return inner.get(name) if isinstance(inner, dict) else None


def _is_said(raw: Raw, path: str) -> bool:
    if path == "model.layers":
        return any(_said(raw, f"model.{name}") is not None for name in ("layers", "encoder_layers", "decoder_layers"))
    return _said(raw, path) is not None


@dataclass(frozen=True)
class Estimate:
    """What a run will take, roughly; the progress bar knows better after a minute."""

    minutes: float
    megabytes: float
    parameters: int

    @property
    def message(self) -> Message:
        """The estimate as one line."""
        return Message(
            "estimate: {millions} million parameters, at most about {minutes} minutes, about {megabytes} MB of memory",
            millions=f"{self.parameters / 1e6:.1f}",
            minutes=_round(self.minutes),
            megabytes=_round(self.megabytes),
        )


def estimate(settings: Settings, *, vocab: int, parameters: int) -> Estimate:
    m, t = settings.model, settings.train
    family = FAMILIES[m.family]
    per_token = sum(family.work(m, vocab))
    tokens = t.steps * t.batch_tokens * t.accumulate
    flops = 6 * per_token * tokens  # a multiplication and an addition, forward and twice that backward
    activations = t.batch_tokens * family.kept(m) * 4
    megabytes = (16 * parameters + activations + 4 * 512 * vocab) / 1e6 + 300
    return Estimate(flops / (0.6 * _matmul_speed()) / 60, megabytes, parameters)


def _matmul_speed() -> float:
    """Floating-point operations a second of a matmul of a Transformer's shape, tried for a tenth of a second."""
    a, b = torch.ones(1024, 256, device=device()), torch.ones(256, 1024, device=device())
    for _ in range(10):
        torch.mm(a, b)
    rounds, began = 0, time.perf_counter()
    while (seconds := time.perf_counter() - began) < 0.1:
        float(torch.mm(a, b)[0, 0])  # reading a number waits for a GPU
        rounds += 1
    return rounds * 2 * 1024 * 256 * 1024 / seconds


def _round(number: float) -> str:
    """Two digits: an estimate should look like one."""
    return f"{number:.1f}" if number < 10 else f"{float(f'{number:.2g}'):,.0f}"
