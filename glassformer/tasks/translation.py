"""Translation, and every other sequence-to-sequence task on lines of text, such as summarization and dialogue."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, zip_longest
from typing import Any, NamedTuple

import torch
from torch import Tensor

from glassformer.data import preparation
from glassformer.data.batching import Batch, CorpusWeight, PairBatches, Position
from glassformer.data.cache import Cache
from glassformer.data.lexicon import frequent_targets, learn_lexicon
from glassformer.data.parallel_text import SentencePair, parallel_files
from glassformer.data.preparation import ProgressCallback, Splits, no_progress
from glassformer.data.store import TrainingText
from glassformer.engine.model import unsupported
from glassformer.errors import Message, UserError
from glassformer.inference.run import Run
from glassformer.inference.run_folder import RunFolder
from glassformer.inference.search_engine import native_engine_of
from glassformer.inference.shortlist import CANDIDATES, FREQUENT, Shortlist
from glassformer.inference.translator import Translator, with_beam
from glassformer.inference.workers import translate_stream
from glassformer.nn.loss import without_padding
from glassformer.planning import choices as planning
from glassformer.settings import DataSettings, DecodeSettings, Raw, Settings, TransformerSettings
from glassformer.tasks import metrics
from glassformer.tasks.examples import refuse_notes
from glassformer.tasks.spec import TEST, VALID, Chosen, TaskSpec
from glassformer.text.tokenizer import PAD, Tokenizer

DEFAULT_LENGTH_PENALTY: float = DecodeSettings.model_fields["length_penalty"].default
LENGTH_PENALTY_STEP, MAX_LENGTH_PENALTY = 0.4, 3.0
TUNING_TOLERANCE = 0.015  # relative: about the standard error of the BLEU of 1,000 sentences
MIN_TUNED_SCORE = 5.0  # below, outputs have little to do with the references, and their length matters little


class TranslationData:
    """Sentence pairs: training pairs on disk, held-out pairs in memory."""

    def __init__(self, settings: DataSettings, progress: ProgressCallback = no_progress) -> None:
        self.settings = settings
        train = [parallel_files(settings.train), *(parallel_files(other.train) for other in settings.also or ())]
        valid, test = (parallel_files(paths) if paths else None for paths in (settings.valid, settings.test))
        cache = Cache(settings.cache)
        self.splits, self.report = preparation.prepare_corpus(
            train, valid, test, settings, cache=cache, progress=progress
        )
        self.fingerprint, self.labels = self.splits.train.fingerprint, list[str]()

    def choose(
        self, raw: Raw, known: Tokenizer | None, precision: tuple[str, str], progress: ProgressCallback
    ) -> Chosen:
        refuse_notes(raw)
        text = self.splits.train
        choices: list[planning.Choice] = []
        tokenizer = known
        if tokenizer is None:
            raw, choices = planning.apply(raw, planning.choose_vocabulary(raw, len(text)))
            tokenizer = preparation.train_tokenizer(text, progress=progress, **raw["tokenizer"])
        tokens = self._longer_side_tokens(tokenizer)
        sizes = planning.choose_sizes(
            raw, pairs=len(text), tokens=tokens, precision=precision, fine_tune=known is not None
        )
        raw, more = planning.apply(raw, sizes)
        return Chosen(raw, [*choices, *more], tokenizer)

    def task(
        self, tokenizer: Tokenizer, settings: Settings, progress: ProgressCallback = no_progress
    ) -> TranslationTask:
        return TranslationTask(self.splits, tokenizer, settings, progress)

    def _longer_side_tokens(self, tokenizer: Tokenizer, sample: int = 20_000) -> int:
        """Estimate the tokens per epoch of the longer side of each pair, `<eos>` included, from the first pairs."""
        text = self.splits.train
        some = encode_pairs(list(text.pairs(slice(sample))), tokenizer)
        total = sum(max(len(source), len(target)) + 1 for source, target in some)
        seen = sum(share.pairs * share.weight for share in shares(text, self.settings))
        return int(total * seen) // len(some)


class TranslationShard(NamedTuple):
    """The result of a shard of the held-out pairs."""

    outputs: list[str]
    loss: float
    tokens: int


class TranslationTask:
    """Cross-entropy of the target given the source; scored by `train.metric`, BLEU by default."""

    def __init__(
        self, splits: Splits, tokenizer: Tokenizer, settings: Settings, progress: ProgressCallback = no_progress
    ) -> None:
        self.settings, self.tokenizer, self.splits = settings, tokenizer, splits
        self.metric: str = settings.train.metric
        self.reference_scale = 1.0  # factor on the length of the references in the brevity penalty of BLEU
        self.signature = self._scored([""], [""]).signature  # fails now if the library is not installed
        ids = preparation.encode_corpus(splits.train, tokenizer, progress)
        self.train = PairBatches(ids, settings.train.batch_tokens, weights=shares(splits.train, settings.data))
        self.held_out = {
            split: PairBatches(encode_pairs(pairs, tokenizer), settings.train.batch_tokens)
            for split, pairs in ((VALID, splits.valid), (TEST, splits.test))
            if pairs
        }
        self._refuse_long_sentences()

    def batches(self, seed: int, position: Position) -> Iterator[Batch]:
        return self.train.forever(seed, position)

    def loss(self, model: Any, batch: Batch) -> tuple[Tensor, int]:
        return self._loss(model, batch, self.settings.train.label_smoothing, self.settings.train.consistency)

    def shard_batch(self, batch: Batch, index: int, count: int) -> Batch | None:
        rows = batch.rows[index::count]
        return self.train.batch(rows, batch.next) if rows else None

    def locations(self, batch: Batch) -> list[str]:
        return [f"{file}:{line}" for file, line in map(self.splits.train.place, batch.rows)]

    def evaluate_shard(
        self, model: Any, index: int, count: int, *, split: str = VALID, final: bool = False
    ) -> TranslationShard:
        """Compute the loss of all pairs, and translate as `translate` does: the first sentences greedily, or, if final,
        all sentences with the settings of `decode`.
        """
        decode = self.settings.decode if final else with_beam(self.settings.decode, 1)
        pairs = self._pairs(split, final)
        engine = native_engine_of(model, self.settings.model, len(self.tokenizer))
        translator = Translator(model, self.tokenizer, decode, engine=engine)
        lines = [pair.source for pair in pairs[index::count]]
        outputs = translate_stream(translator, lines, workers=1 if engine is None else torch.get_num_threads())
        return TranslationShard([output.text for output in outputs], *self._held_out_loss(model, split, index, count))

    def scores(self, shards: list[TranslationShard], *, split: str = VALID) -> dict[str, float]:
        outputs = interleave([shard.outputs for shard in shards])
        references = [pair.target for pair in getattr(self.splits, split)[: len(outputs)]]
        scores = metrics.score(outputs, references, lowercase=self.tokenizer.lowercase)
        return {
            "loss": sum(shard.loss for shard in shards) / sum(shard.tokens for shard in shards),
            "bleu": scores.bleu.value,
            "chrf": scores.chrf.value,
            "exact_match": scores.exact_match,
            self.metric: self._scored(outputs, references).value,
        }

    def _scored(self, outputs: list[str], references: list[str]) -> metrics.Score:
        """Return the score that selects the best weights."""
        lowercase = self.tokenizer.lowercase
        match self.metric:
            case "rouge_l":
                return metrics.rouge_l(outputs, references)
            case "chrf":
                return metrics.chrf(outputs, references, lowercase=lowercase)
            case _:
                scale = self.reference_scale
                return metrics.bleu(outputs, references, lowercase=lowercase, reference_scale=scale)

    def _pairs(self, split: str, final: bool) -> list[SentencePair]:
        pairs: list[SentencePair] = getattr(self.splits, split)
        return pairs if final else pairs[: self.settings.train.valid_sentences]

    def _refuse_long_sentences(self) -> None:
        """Raise `UserError` if a sentence is longer than the learned positional embeddings."""
        model, longest = self.settings.model, max(self.train.longest, self.held_out[VALID].longest)
        if isinstance(model, TransformerSettings) and model.positions == "learned" and longest > model.max_positions:
            raise UserError(
                f"A sentence has {longest:,} tokens; the learned positional embeddings have {model.max_positions:,}.",
                where="model.max_positions",
                hint=f"set model.max_positions={longest}, or drop long sentences with data.max_words",
            )

    @torch.inference_mode()
    def _held_out_loss(self, model: Any, split: str, index: int, count: int) -> tuple[float, int]:
        batches = self.held_out[split]
        losses = [self._loss(model, batches.batch(rows), 0.0) for rows in batches.in_order()[index::count]]
        return sum(float(loss) for loss, _ in losses), sum(count for _, count in losses)

    def _loss(self, model: Any, batch: Batch, smoothing: float, consistency: float = 0.0) -> tuple[Tensor, int]:
        device, passes = next(model.parameters()).device, 2 if consistency else 1
        source_BS, target_in_BT, target_out_BT = (
            tokens_BT.repeat(passes, 1) for tokens_BT in (batch.source_BS, batch.target_in_BT, batch.target_out_BT)
        )
        hidden_BTD = model.hidden(source_BS.to(device), target_in_BT.to(device))
        hidden_ND, target_N = without_padding(hidden_BTD, target_out_BT, PAD)
        return model.output.loss(hidden_ND, target_N, smoothing, consistency), len(target_N) // passes


def shares(text: TrainingText, data: DataSettings) -> list[CorpusWeight]:
    """Return the sampling weight of each corpus."""
    weights = [1.0, *(other.weight for other in data.also or ())]
    return [CorpusWeight(pairs, weight) for pairs, weight in zip(text.corpora, weights, strict=True)]


def encode_pairs(pairs: list[SentencePair], tokenizer: Tokenizer) -> list[tuple[list[int], list[int]]]:
    sources = tokenizer.encode_batch([pair.source for pair in pairs])
    targets = tokenizer.encode_batch([pair.target for pair in pairs])
    return list(zip(sources, targets, strict=True))


def interleave(shares: list[list[str]]) -> list[str]:
    """Return the lines of round-robin shards in their original order."""
    rounds = chain.from_iterable(zip_longest(*shares))
    return [line for line in rounds if line is not None]


def tune_length_penalty(task: TranslationTask, evaluate: Callable[[], dict[str, float]]) -> list[planning.Choice]:
    """Raise the length penalty of beam search as long as the metric on the validation set rises.

    §6.1 chose α = 0.6 for large models. The outputs of models that are trained on small corpora are then often too
    short, which BLEU penalizes. Of scores that hardly differ, the one with the smallest penalty is chosen, because the
    best length differs between validation and test set.
    """
    settings = task.settings
    if not settings.train.tune_length_penalty or settings.decode.beam == 1:
        return []
    task.reference_scale = expected_reference_scale(task.train, task.held_out[VALID])
    scores, penalty = dict[float, float](), DEFAULT_LENGTH_PENALTY  # that of the settings may be an earlier choice
    while penalty <= MAX_LENGTH_PENALTY:
        task.settings = with_length_penalty(settings, penalty)
        scores[penalty] = evaluate()[task.metric]
        if scores[penalty] < max(MIN_TUNED_SCORE, *scores.values()):
            break
        penalty = round(penalty + LENGTH_PENALTY_STEP, 1)
    chosen = min(penalty for penalty, score in scores.items() if score >= max(scores.values()) * (1 - TUNING_TOLERANCE))
    task.settings, task.reference_scale = with_length_penalty(settings, chosen), 1.0
    reason = Message("nearly the highest {metric} on the validation set", metric=metrics.metric_name(task.metric))
    return [planning.Choice("decode.length_penalty", chosen, reason)]


def expected_reference_scale(train: PairBatches, valid: PairBatches) -> float:
    """Return the factor from the length of the validation references to the length expected from the training pairs.

    By chance the translations of a small validation set are longer or shorter than others; those of the training set
    are a better estimate of what to expect. A difference of more than two standard errors is probably not chance, but
    another domain, and is kept.
    """
    ratio, most = valid.length_ratio, 2 * valid.length_ratio_error
    return min(max(train.length_ratio, ratio - most), ratio + most) / ratio


def with_length_penalty(settings: Settings, length_penalty: float) -> Settings:
    decode = settings.decode.model_copy(update={"length_penalty": length_penalty})
    return settings.model_copy(update={"decode": decode})


def write_shortlist(task: TranslationTask, folder: RunFolder) -> None:
    """Learn a lexical shortlist from the training pairs, for models that the native engine runs."""
    if unsupported(task.settings.model) is None:
        candidates = learn_lexicon(task.train.pairs, candidates=CANDIDATES)
        Shortlist(candidates, frequent_targets(task.train.pairs, most=FREQUENT)).save(folder.shortlist)


def make_translator(run: Run) -> Translator:
    return Translator(run.model, run.tokenizer, run.settings.decode)


SPEC = TaskSpec(
    name="translation",
    families=("transformer", "recurrent"),
    output="tokens",
    sequence_to_sequence=True,
    consistency=True,
    predictor=make_translator,
    data=TranslationData,
    unit="tokens",
    usage='glassformer translate {run} "…"',
    huggingface={"transformer": "MarianMTModel"},
    tune=tune_length_penalty,
    finish=write_shortlist,
)
