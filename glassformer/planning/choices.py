"""Choose the settings that are not given from the data and the machine, each with a reason."""

from __future__ import annotations

import bisect
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import torch

from glassformer.data.images.format import ImageFormat
from glassformer.data.question_answering import RESERVED_TOKENS
from glassformer.errors import Message, as_message
from glassformer.inference.run import SkipInit
from glassformer.models import FAMILIES
from glassformer.planning.sizes import (
    IMAGE_SIZES,
    MUON_ON_IMAGES,
    MUON_ON_TOKENS,
    MuonRates,
    RecurrentSize,
    Size,
    TaskSizes,
    size_for,
)
from glassformer.settings import MODELS, DataSettings, Raw, family_of, merge, nest


class Choice(NamedTuple):
    """A chosen setting and the reason that is shown to the user."""

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
MUON_WEIGHT_DECAY = 0.3
MAX_PATCHES = 36  # per image, if model.patch is chosen: more patches cost more and did not learn faster


def choose_image_sizes(
    raw: Raw, *, images: int, form: ImageFormat, mean: list[float], deviation: list[float], precision: tuple[str, str]
) -> list[Choice]:
    """Choose model and training settings for images of one format, from their number and statistics."""
    size = next(size for size in IMAGE_SIZES if images < size.up_to)
    data = Message("{size} data set of {n} images", size=Message(size.name), n=f"{images:,}")
    measured = "measured in the training images"
    patch = _given(raw, "model.patch") or choose_patch(form)
    tokens = 1 + (form.height // patch) * (form.width // patch)
    fine_tune = _is_given(raw, "model.mean")  # a run to start from always gives it
    decay = Choice("train.weight_decay", MUON_WEIGHT_DECAY, "avoids overfitting")
    return [
        *(Choice(f"model.{name}", value, measured) for name, value in form._asdict().items()),
        Choice("model.mean", mean, measured),
        Choice("model.deviation", deviation, measured),
        Choice("model.patch", patch, Message("{n} patches per image", n=tokens - 1)),
        *(Choice(f"model.{name}", getattr(size, name), data) for name in ("layers", "d_model", "heads", "d_ff")),
        Choice("data.shift", max(form.height, form.width) // 14, "a slightly shifted image shows the same object"),
        *([decay] if _has_muon(raw, size, fine_tune) else []),
        *_choose_training(
            raw,
            size,
            tokens=images * tokens,
            precision=precision,
            metric="accuracy",
            min_steps=200,
            fixed_length=True,
            fine_tune=fine_tune,
            muon=MUON_ON_IMAGES,
        ),
    ]


def choose_patch(form: ImageFormat) -> int:
    """Return the smallest patch side with at most `MAX_PATCHES` patches, or else the largest possible one."""
    sides = [side for side in range(1, form.width + 1) if not (form.height % side or form.width % side)]
    few = (side for side in sides if (form.height // side) * (form.width // side) <= MAX_PATCHES)
    return next(few, sides[-1])


def choose_text_vocabulary(raw: Raw, sizes: TaskSizes, amount: int) -> list[Choice]:
    size, reason = sizes.size_for(family_of(raw["model"]), amount)
    return _choose_vocab_size(raw, size.vocab, reason)


def choose_text_sizes(
    raw: Raw,
    task: TaskSizes,
    *,
    amount: int,
    tokens: int,
    precision: tuple[str, str],
    metric: str,
    max_positions: tuple[int, str] | None = None,
    fine_tune: bool = False,
) -> list[Choice]:
    """Choose model and training settings for every task on text but translation.

    amount         units of training data
    tokens         tokens per epoch
    max_positions  the maximum length and its reason, where the task needs another than the family's default
    fine_tune      the run starts from trained weights
    """
    family = family_of(raw["model"])
    size, reason = task.size_for(family, amount)
    if isinstance(size, Size):
        sizes = _choose_attention(raw, size, reason, max_positions)
    elif family == "window":
        sizes = [
            Choice("model.d_model", size.d_model // 4, reason),
            Choice("model.d_hidden", 2 * size.d_model, "wide: the only hidden layer"),
        ]
    else:
        sizes = [
            Choice("model.layers", size.layers, "more recurrent layers are slower and seldom better"),
            Choice("model.d_model", size.d_model, reason),
        ]
    smoothing = (0.0, "the metric is the likelihood") if metric == "likelihood" else (0.1, "avoids overconfidence")
    return [
        *sizes,
        Choice("train.label_smoothing", *smoothing),
        *_choose_training(
            raw,
            size,
            tokens=tokens,
            precision=precision,
            metric=metric,
            min_steps=200,
            fixed_length=family in task.fixed_length,
            fine_tune=fine_tune,
        ),
    ]


def _choose_attention(raw: Raw, size: Size, reason: str, max_positions: tuple[int, str] | None) -> list[Choice]:
    """Choose the sizes of GPT and BERT; their maximum length is that of the longest training sequence."""
    width = _given(raw, "model.d_model") or size.d_model
    heads = next((heads for heads in range(size.heads, 0, -1) if isinstance(width, int) and width % heads == 0), 1)
    sequence = _given(raw, "data.sequence") or DataSettings.model_fields["sequence"].default
    if max_positions is None:
        is_bert = family_of(raw["model"]) == "bert"
        max_positions = (
            (max(sequence, LONG_TEXT), "a long text") if is_bert else (sequence, "length of a training sequence")
        )
    return [
        Choice("model.layers", size.layers, reason),
        Choice("model.d_model", size.d_model, reason),
        Choice("model.heads", heads, Message("width {n} per head", n=width // heads)),
        Choice("model.d_ff", 4 * width, "4 × d_model"),
        Choice("model.max_positions", *max_positions),
        *_choose_rotary(raw, width, heads, "learns faster than a learned vector per position"),
    ]


def _choose_rotary(raw: Raw, width: int, heads: int, reason: str) -> list[Choice]:
    """Choose rotary positions, which need heads of an even width, for these sizes unless others are given."""
    if _given(raw, "model.combine_positions") == "concatenate":
        return []  # rotary positions have no vectors to concatenate
    width, heads = _given(raw, "model.d_model") or width, _given(raw, "model.heads") or heads
    is_even = isinstance(width, int) and isinstance(heads, int) and width // heads % 2 == 0
    return [Choice("model.positions", "rotary", reason)] if is_even else []


def choose_window(raw: Raw) -> list[Choice]:
    """Choose a smaller window for question answering if the model has few positions."""
    positions = _given(raw, "model.max_positions")
    window = DataSettings.model_fields["window"].default
    if not isinstance(positions, int) or not RESERVED_TOKENS < positions < window + RESERVED_TOKENS:
        return []
    window = positions - RESERVED_TOKENS
    return [
        Choice("data.window", window, Message("with a question, the {n} positions of the model", n=positions)),
        Choice("data.overlap", window // 4, "a quarter of a window"),
    ]


def choose_vocabulary(raw: Raw, pairs: int) -> list[Choice]:
    """Choose the vocabulary size for translation."""
    size = size_for(pairs)
    reason = Message("{size} corpus of {n} pairs", size=Message(size.name), n=f"{pairs:,}")
    return _choose_vocab_size(raw, size.vocab, reason)


def _choose_vocab_size(raw: Raw, subwords: int, reason: str) -> list[Choice]:
    if _given(raw, "tokenizer.kind") == "characters":
        return [Choice("tokenizer.vocab", 8_000, "enough for all characters but very rare ones")]
    return [Choice("tokenizer.vocab", subwords, reason)]


def choose_sizes(
    raw: Raw, *, pairs: int, tokens: int, precision: tuple[str, str], fine_tune: bool = False
) -> list[Choice]:
    """Choose model and training settings for translation.

    tokens     of the longer side of each pair, per epoch
    fine_tune  the run starts from trained weights
    """
    size = size_for(pairs)
    training = _choose_training(
        raw,
        size,
        tokens=tokens,
        precision=precision,
        metric=_score(raw),
        min_steps=600,
        decay="linear",
        fine_tune=fine_tune,
    )
    for_muon = _choose_for_muon(raw, size) if _has_muon(raw, size, fine_tune) else []
    return [*_choose_model(raw, size), *for_muon, *training, *_choose_tuning(raw)]


def _has_muon(raw: Raw, size: Size | RecurrentSize, fine_tune: bool) -> bool:
    """Return whether to plan for Muon: if it is given, or else if `size` names it and no trained weights are given.

    A given `train.lr` without an optimizer is one for Adam. A recurrent model is planned for Adam.
    """
    if isinstance(size, RecurrentSize) or family_of(raw.get("model", {})) == "recurrent":
        return False
    if given := _given(raw, "train.optimizer"):
        return bool(given == "muon")
    needs_adam = fine_tune or _given(raw, "train.shard_model") or _given(raw, "train.lr")
    return size.optimizer == "muon" and not needs_adam


def _choose_optimizer(raw: Raw, size: Size | RecurrentSize, fine_tune: bool) -> list[Choice]:
    if _has_muon(raw, size, fine_tune):
        return [Choice("train.optimizer", "muon", "learns faster than Adam on a data set of this size")]
    without_lr = merge(raw, nest({"train.lr": None}))
    if _has_muon(without_lr, size, fine_tune):
        return [
            Choice("train.optimizer", "adam", "train.lr is given; without it, Muon is chosen, which learns faster here")
        ]
    return []


def _choose_for_muon(raw: Raw, size: Size) -> list[Choice]:
    has_residual = "no_residual" not in (_given(raw, "model.ablations") or [])
    return [
        Choice("model.norm", "pre", "learns faster than post-norm with Muon"),
        *([Choice("model.zero_init", True, "learns faster than random output projections")] if has_residual else []),
        Choice(
            "train.weight_decay", MUON_WEIGHT_DECAY, "avoids overfitting, and gives a lower loss even in a short run"
        ),
        *_choose_rotary(
            raw, size.d_model, size.heads, "learns faster than sinusoids, and translates long sentences better"
        ),
    ]


def _choose_tuning(raw: Raw) -> list[Choice]:
    """Choose to tune the length penalty of a beam search after training."""
    if _is_given(raw, "decode.length_penalty") or _given(raw, "decode.beam") == 1:
        return []
    return [Choice("train.tune_length_penalty", True, "beam search often gives outputs that are too short")]


def _choose_training(
    raw: Raw,
    size: Size | RecurrentSize,
    *,
    tokens: int,
    precision: tuple[str, str],
    metric: str,
    min_steps: int,
    fixed_length: bool = False,
    fine_tune: bool = False,
    decay: str = "cosine",
    muon: MuonRates = MUON_ON_TOKENS,
) -> list[Choice]:
    """Choose the training settings, with at least `min_steps` steps.

    fixed_length  the learning rate ends at 0 with the steps or the minutes; it always does with Muon
    fine_tune     the run starts from trained weights
    decay         the schedule of a learning rate that ends at 0
    muon          the learning rates if Muon is chosen
    """
    optimizer = _choose_optimizer(raw, size, fine_tune)
    if has_muon := _has_muon(raw, size, fine_tune):
        size = replace(size, lr=muon.lr, warmup=muon.warmup)
        optimizer.append(Choice("train.matrix_lr", muon.matrix_lr, "peak learning rate of the matrices"))
    schedule = Choice("train.schedule", decay, "the length of the training is known")
    batch_tokens = _given(raw, "train.batch_tokens") or size.batch_tokens
    steps_per_epoch = max(1, round(tokens / batch_tokens / (_given(raw, "train.accumulate") or 1)))
    steps = _given(raw, "train.steps") or max(min_steps, size.epochs * steps_per_epoch)
    validate_every = _given(raw, "train.validate_every") or min(steps, 2_000, max(100, steps_per_epoch))
    return [
        Choice("model.dropout", size.dropout, "chosen with the size of the model"),
        *optimizer,
        Choice("train.batch_tokens", size.batch_tokens, Message("about {n} steps per epoch", n=f"{steps_per_epoch:,}")),
        Choice("train.steps", steps, Message("about {n} epochs", n=f"{steps / steps_per_epoch:.0f}")),
        Choice("train.warmup", min(size.warmup, max(1, steps // 4)), "§5.3, shorter for a short run"),
        Choice("train.lr", size.lr, "peak learning rate of all other weights" if has_muon else "peak learning rate"),
        *([schedule] if fixed_length or has_muon else []),
        Choice("train.validate_every", validate_every, Message("{n} validations", n=-(-steps // validate_every))),
        Choice("train.checkpoint_every", validate_every, "with every validation"),
        Choice("train.patience", 10, Message("validations without a higher {metric}", metric=metric)),
        Choice("train.precision", *precision),
    ]


def apply(raw: Raw, choices: list[Choice]) -> tuple[Raw, list[Choice]]:
    """Return the settings completed by the choices, and the choices for settings that were not given."""
    free = [choice for choice in choices if not _is_given(raw, choice.path)]
    if _given(raw, "train.precision") == "auto":
        free += [choice for choice in choices if choice.path == "train.precision"]
    return merge(raw, nest({choice.path: choice.value for choice in free})), free


def _choose_model(raw: Raw, size: Size) -> list[Choice]:
    """Choose the sizes of a translation model of the given family."""
    sizes = {"layers": size.layers, "d_model": size.d_model, "heads": size.heads, "d_ff": size.d_ff}
    if family_of(raw.get("model", {})) != "transformer":
        return _choose_same_size(sizes, raw, size)
    overfits = Message("{size} corpus: a larger model overfits", size=Message(size.name))
    reason = overfits if size.up_to <= 2_000_000 else "base model of the paper"
    return [Choice(f"model.{name}", value, reason) for name, value in sizes.items()]


def _choose_same_size(transformer: Raw, raw: Raw, size: Size) -> list[Choice]:
    """Choose sizes with about as many parameters as the Transformer for this corpus."""
    given = raw["model"]
    family, vocab = family_of(given), _given(raw, "tokenizer.vocab") or size.vocab
    target = count_parameters("transformer", transformer | {"dropout": 0.0}, vocab)
    layers = {} if family == "window" else {"layers": min(size.layers, 2)}

    def parameters(width: int) -> int:
        hidden = {"d_hidden": 2 * width} if family == "window" else {}
        return count_parameters(family, {"dropout": 0.0, "d_model": width} | layers | hidden | given, vocab)

    width = given.get("d_model") or nearest_width(parameters, target)
    reason = Message(
        "about as many parameters as the Transformer for a {size} corpus, {n} million",
        size=Message(size.name),
        n=f"{target / 1e6:.1f}",
    )
    choices = [Choice("model.layers", n, "more recurrent layers are slower and seldom better") for n in layers.values()]
    choices.append(Choice("model.d_model", width, reason))
    if family == "window":
        choices.append(Choice("model.d_hidden", 2 * width, "2 × d_model"))
    return choices


def nearest_width(parameters: Callable[[int], int], target: int, *, step: int = 32) -> int:
    """Return the multiple of `step` whose number of parameters is nearest to the target."""
    widths = range(step, 2049, step)
    above = bisect.bisect(widths, target, 1, len(widths) - 1, key=parameters)
    return min(widths[above - 1], widths[above], key=lambda width: abs(parameters(width) - target))


def count_parameters(family: str, model: Raw, vocab: int) -> int:
    """Return the number of parameters of a model, built on the meta device without memory."""
    with torch.device("meta"), SkipInit():
        built = FAMILIES[family](MODELS[family].model_validate(model | {"family": family}), vocab, pad=0)
    return sum(parameter.numel() for parameter in built.parameters())


def _score(raw: Raw) -> str:
    """Return the name of the metric that selects the best weights."""
    return {"chrf": "chrF", "rouge_l": "ROUGE-L"}.get(_given(raw, "train.metric"), "BLEU")


def _given(raw: Raw, path: str) -> Any:
    section, name = path.split(".")
    inner = raw.get(section)
    return inner.get(name) if isinstance(inner, dict) else None


def _is_given(raw: Raw, path: str) -> bool:
    if path == "model.layers":
        return any(_given(raw, f"model.{name}") is not None for name in ("layers", "encoder_layers", "decoder_layers"))
    return _given(raw, path) is not None
