"""Music: a language model of the notes of pieces for four voices."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np

from glassformer.data import music
from glassformer.data.filtering import split_off_validation
from glassformer.data.midi import midi_file
from glassformer.data.parallel_text import expand_paths
from glassformer.data.preparation import ProgressCallback, no_progress
from glassformer.data.question_answering import is_question_file
from glassformer.data.report import DroppedExample
from glassformer.errors import Message, UserError
from glassformer.files import atomic_write, require_file_path
from glassformer.inference.generator import STEPS_PER_BAR, MusicGenerator
from glassformer.inference.run import Run
from glassformer.planning.choices import Choice
from glassformer.planning.sizes import TaskSizes
from glassformer.settings import Paths, Raw, Settings
from glassformer.tasks.language_model import FAMILIES, TABLES, LanguageModelData, LanguageModelTask, Line, LossShard
from glassformer.tasks.spec import TEST, TRAIN, VALID, HeldOut, PredictRequest, Task, TaskSpec, common_suffix
from glassformer.text.tokenizer import Tokenizer

NOTES_PER_SEQUENCE = 256  # four bars of four voices


class MusicData(LanguageModelData):
    """Pieces for four voices; each piece is a document."""

    name, examples = "music", "pieces"
    sizes = TaskSizes("notes", TABLES, fixed_length=frozenset({"gpt"}))

    def read(self, paths: Paths, split: str = TRAIN) -> tuple[list[Line], list[DroppedExample]]:
        return read_music(paths)

    @staticmethod
    def facts(lines: list[Line]) -> dict[str, int]:
        notes = [len(line.text.split()) for line in lines]
        pitches = {pitch for line in lines for pitch in line.text.split()}
        return {"notes": sum(notes), "steps": sum(notes) // len(music.VOICES), "different pitches": len(pitches)}

    def hold_out(self, examples: list[Line], where: str) -> tuple[list[Line], list[Line]]:
        return split_off_validation(examples, [line.text for line in examples], where)

    def augment(self, examples: list[Line]) -> list[Line]:
        """Transpose every piece by up to `data.transpose` semitones in both directions."""
        pieces = [(music.text_to_steps(line.text), line.place) for line in examples]
        keys = range(-self.settings.transpose, self.settings.transpose + 1)
        moved = [(music.transpose(steps, key), place) for steps, place in pieces for key in keys]
        return [Line(music.steps_to_text(steps), place) for steps, place in moved if music.pitches_in_range(steps)]

    def choose_tokenizer(self, raw: Raw) -> list[Choice]:
        kind = raw.get("tokenizer", {}).get("kind", "notes")
        if kind != "notes":
            what = f"tokenizer.kind={kind} is not valid for music."
            raise UserError(what, where="tokenizer.kind", hint="leave it out, or set tokenizer.kind=notes")
        return [
            Choice("tokenizer.kind", "notes", "one token per pitch"),
            Choice("tokenizer.vocab", 300, "more than the number of pitches"),
            Choice("data.sequence", NOTES_PER_SEQUENCE, Message("four bars of {n} voices", n=len(music.VOICES))),
        ]

    def train_tokenizer(self, settings: Raw) -> Tokenizer:
        return Tokenizer.from_pitches(int(pitch) for line in self.splits[TRAIN] for pitch in line.text.split())

    def task(self, tokenizer: Tokenizer, settings: Settings, progress: ProgressCallback = no_progress) -> Task:
        return MusicTask(self.splits, tokenizer, settings)


def read_music(paths: Paths) -> tuple[list[Line], list[DroppedExample]]:
    """Return the pieces as lines of pitches, and the empty pieces."""
    pieces = music.read_pieces(expand_paths(paths))
    lines = [Line(music.steps_to_text(piece.steps), piece.place) for piece in pieces if piece.steps]
    if not lines:
        raise UserError("No piece has any notes.", where=str(paths), hint=music.MUSIC_FORMAT)
    return lines, [
        DroppedExample("pieces without a step", piece.place, "(empty)") for piece in pieces if not piece.steps
    ]


class MusicTask(LanguageModelTask):
    """Cross-entropy of each note given the notes before it in its piece."""

    copy_distance = len(music.VOICES)  # a voice often holds its note

    def __init__(self, splits: dict[str, list[Line]], tokenizer: Tokenizer, settings: Settings) -> None:
        if settings.data.sequence % len(music.VOICES):
            raise UserError(
                f"data.sequence={settings.data.sequence} is not a multiple of the number of voices.",
                where="data.sequence",
                hint=f"set a multiple of {len(music.VOICES)}",
            )
        super().__init__(splits, tokenizer, settings)

    def documents(self, lines: list[np.ndarray]) -> list[np.ndarray]:
        return lines

    @property
    def signature(self) -> str:
        return self.signature_per("note, including the end of a piece")

    def scores(self, shards: list[LossShard], *, split: str = VALID) -> dict[str, float]:
        scores = super().scores(shards, split=split)
        return scores | {"nats_per_note": scores["loss"]}


def held_out(run: Run, paths: Paths) -> HeldOut:
    lines, _ = read_music(paths)
    return HeldOut(MusicTask({TEST: lines}, run.tokenizer, run.settings), len(lines))


def recognize(files: list[str]) -> str:
    if common_suffix(files) != "json" or all(is_question_file(file) for file in expand_paths(list(files))):
        return ""
    return "a .json file that begins with a bracket holds pieces of music"


def predict(generator: MusicGenerator, request: PredictRequest) -> Iterator[str]:
    """Compose a piece, write it as MIDI, and yield its steps as JSON if asked for."""
    if request.output_file is None and not request.as_json:
        raise UserError(
            "There is no output file for the music.", where="-o", hint="add -o piece.mid, or --json for the notes"
        )
    if request.output_file is not None:
        require_file_path(request.output_file)
    first = music.parse_chord(" ".join(request.texts)) if request.texts else None
    steps = generator(first, steps=request.length and request.length * STEPS_PER_BAR, sampling=request.sampling)
    if request.output_file is not None:
        with atomic_write(request.output_file) as temporary:
            temporary.write_bytes(midi_file(steps))
        request.notice(f"{request.output_file}: {len(steps):,} steps, {len(steps) / STEPS_PER_BAR:.1f} bars")
    if request.as_json:
        yield json.dumps({"steps": steps}) + "\n"


SPEC = TaskSpec(
    name="music",
    families=FAMILIES,
    output="tokens",
    consistency=True,
    predictor=lambda run: MusicGenerator(run.model, run.tokenizer),
    data=MusicData,
    unit="notes",
    recognize=recognize,
    held_out=held_out,
    predict=predict,
    predict_uses=frozenset({"sampling", "output"}),
    needs_text=False,
    usage="glassformer predict {run} -o piece.mid",
)
