"""What there is to learn. A task has data (`Data`), and with a tokenizer and settings becomes what the trainer knows
(`Task`). Each kind of task is one file; `read_data` is the only place where one is looked up by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from torch import Tensor

from glassformer.data.corpus import suffix_of, text_files
from glassformer.data.images.idx import is_idx
from glassformer.data.labelled import COLUMNS, label_column
from glassformer.data.preparation import Tell
from glassformer.data.question_answering import holds_questions
from glassformer.errors import Message, UserError
from glassformer.inference.run import Run
from glassformer.planning.choices import Choice
from glassformer.settings import DataSettings, Raw, Settings
from glassformer.text.tokenizer import Tokenizer

TRAIN, VALID, TEST = "train", "valid", "test"


class Task(Protocol):
    """Examples to learn from and to be judged by, as a model takes them."""

    metric: str  # the entry of `scores` that decides which weights are best; higher is better

    @property
    def signature(self) -> str:
        """How exactly the metric is computed, as papers quote it; empty where there is one way only."""

    def batches(self, seed: int, position: Any) -> Iterator[Any]:
        """Training batches without end, from a position on; each carries `.next`, the position after it."""

    def loss(self, model: Any, batch: Any) -> tuple[Tensor, int]:
        """The summed loss of a batch, and how many predictions it is the sum of."""

    def part(self, batch: Any, number: int, of: int) -> Any | None:
        """Every `of`-th row of a batch from `number` on, counted from 0; None where that is none."""

    def where(self, batch: Any) -> list[str]:
        """Where the data of a batch stands, for a person to look at it."""

    def judge(self, model: Any, number: int, of: int, *, split: str = VALID, final: bool = False) -> Any:
        """What a model makes of its share of a held-out set; several processes each take one.

        final  the model is finished: look as closely as a person who uses it would, however long it takes
        """

    def scores(self, shares: list[Any], *, split: str = VALID) -> dict[str, float]:
        """Scores from what was made of all shares, in their order; `loss` (mean) is among them."""


class Report(Protocol):
    """What was read, kept and dropped, and why."""

    @property
    def counts(self) -> dict[str, int]:
        """Examples of each split."""

    @property
    def held_out(self) -> str:
        """Says that valid was carved out of train, or is empty."""

    def lines(self) -> list[str]:
        """All of it, in words."""

    def to_json(self) -> dict[str, Any]:
        """All of it, in numbers."""


class Chosen(NamedTuple):
    settings: Raw  # with all that can be chosen
    choices: list[Choice]  # those that took effect, with their reasons
    tokenizer: Tokenizer | None  # None where there is no text


class Data(Protocol):
    """What a run learns from and is judged by: read and checked, before there is a model.

    fingerprint  changes when an example to learn from or to choose the best weights by does
    labels       what a model chooses from, where the task is to choose
    """

    @property
    def fingerprint(self) -> str: ...

    @property
    def labels(self) -> list[str]: ...

    @property
    def report(self) -> Report: ...

    def choose(self, raw: Raw, known: Tokenizer | None, precision: tuple[str, str], tell: Tell) -> Chosen:
        """Settings that follow from the data, and a tokenizer: the one that is known already, or a new one."""

    def task(self, tokenizer: Any, settings: Settings, tell: Tell) -> Task:
        """The same as a model takes it, in the spelling that was chosen."""


def read_data(task: str, settings: DataSettings, tell: Tell) -> Data:
    """The data of a kind of task."""
    from glassformer.tasks.answers import AnswersData
    from glassformer.tasks.classification import ClassificationData
    from glassformer.tasks.images import ImagesData
    from glassformer.tasks.language_model import LanguageModelData, MusicData
    from glassformer.tasks.masked_words import MaskedWordsData
    from glassformer.tasks.tagging import TaggingData
    from glassformer.tasks.translation import TranslationData
    from glassformer.tasks.word_vectors import WordVectorsData

    kinds: dict[str, Callable[[DataSettings, Tell], Data]] = {
        "translation": TranslationData,
        "language_model": LanguageModelData,
        "music": MusicData,
        "word_vectors": WordVectorsData,
        "classification": ClassificationData,
        "tagging": TaggingData,
        "masked_words": MaskedWordsData,
        "answers": AnswersData,
        "images": ImagesData,
    }
    if task == "vectors":
        hint = "pre-train with task=masked_words, or import a model that has them: glassformer import"
        raise UserError("Vectors of texts are not learnt here.", where="task = vectors", hint=hint)
    if task != "translation" and settings.also:
        hint = "join the files in data.train" if task in ("tagging", "classification", "answers") else "leave it out"
        raise UserError("More corpora with weights are for translation.", where="data.also", hint=hint)
    return kinds[task](settings, tell)


def task_for(paths: Sequence[Any]) -> tuple[str, str]:
    """The task that files are for, judging by their names and, where these do not tell, by what is in them; and why."""
    names = [path for path in paths if isinstance(path, str)]
    if names and all(Path(name).expanduser().is_dir() for name in names):
        return "images", "a folder holds images, one folder for each class"
    if len(names) == 2 and all(is_idx(Path(name).expanduser()) for name in names):
        return "images", "idx files hold images and their labels"
    suffixes = {suffix_of(name) for name in names}
    if len(names) != len(paths) or len(suffixes) != 1:
        return "translation", ""
    suffix = suffixes.pop()
    if suffix == "conllu":
        return "tagging", "a .conllu file has words with their tags"
    if suffix == "json" and all(holds_questions(file) for file in text_files(names)):
        return "answers", "a .json file that begins with a brace holds questions about texts"
    if suffix == "json":
        return "music", "a .json file that begins with a bracket holds pieces of music"
    if suffix == "txt" and len(names) == 1:
        return "language_model", "one .txt file is running text"
    if suffix == "tsv" and len(names) == 1 and (column := label_column(text_files(names), sure=False)) is not None:
        return "classification", Message(
            "the {column} column of the .tsv file has few different values", column=Message(COLUMNS[column])
        )
    return "translation", ""


def refuse_notes(raw: Raw) -> None:
    if raw.get("tokenizer", {}).get("kind") == "notes":
        raise UserError("A text has no notes.", where="tokenizer.kind", hint="take bpe or characters")


class Scored(NamedTuple):
    """A run on data that it has not seen."""

    scores: dict[str, float]
    signature: str
    examples: int
    unread: int = 0  # files that cannot be read, which no score counts


def score(run: Run, paths: Sequence[str]) -> Scored:
    """What a run makes of held-out files; for every task but translation, whose files come in pairs."""
    from glassformer.tasks.answers import AnswersTask
    from glassformer.tasks.classification import ClassificationTask
    from glassformer.tasks.images import ImagesTask
    from glassformer.tasks.language_model import LanguageModelData, LanguageModelTask, MusicData
    from glassformer.tasks.masked_words import MaskedWordsTask
    from glassformer.tasks.tagging import TaggingTask
    from glassformer.tasks.word_vectors import WordVectorsTask

    if run.settings.task == "vectors":
        raise UserError("Vectors of texts have no right or wrong.", where=str(run.folder.path), hint="use predict")
    files, unread = list[str | list[str]](paths), 0
    task: Any
    if run.settings.task in ("language_model", "music"):
        kind = MusicData if run.settings.task == "music" else LanguageModelData
        lines, _ = kind.read(files)
        task, examples = LanguageModelTask({TEST: lines}, run.tokenizer, run.settings), len(lines)
    elif run.settings.task == "word_vectors":
        lines, _ = LanguageModelData.read(files)
        task, examples = WordVectorsTask({TEST: lines}, run.tokenizer, run.settings), len(lines)
    elif run.settings.task == "classification":
        task = ClassificationTask.of_files(files, run.labels, run.tokenizer, run.settings)
        examples = len(task.splits[TEST])
    elif run.settings.task == "masked_words":
        task = MaskedWordsTask.of_files(files, run.tokenizer, run.settings)
        examples = len(task.splits[TEST])
    elif run.settings.task == "answers":
        task = AnswersTask.of_files(files, run.tokenizer, run.settings)
        examples = len(task.splits[TEST])
    elif run.settings.task == "images":
        task, bad = ImagesTask.of_files(files, run.labels, run.settings)
        examples, unread = len(task.splits[TEST]), len(bad)
    else:
        task = TaggingTask.of_files(files, run.labels, run.tokenizer, run.settings)
        examples = len(task.splits[TEST])
    judged = task.judge(run.model, 0, 1, split=TEST, final=True)
    return Scored(task.scores([judged], split=TEST), task.signature, examples, unread)
