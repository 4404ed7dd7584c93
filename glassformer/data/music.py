"""Four-part music as text for a language model: one token per voice and step, the highest voice first.

A file is a JSON list of pieces. A piece is a list of steps, each a 16th note long. A step is the list of MIDI pitches
of soprano, alto, tenor and bass, with −1 for silence.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from glassformer.errors import UserError
from glassformer.text.lines import read_json

VOICES = ("soprano", "alto", "tenor", "bass")
SILENCE, MAX_PITCH = -1, 127

Step = Sequence[int]
MUSIC_FORMAT = (
    "a .json file of music must be a list of pieces, each a list of steps, each four pitches from 0 to 127, "
    "or −1 for silence"
)


class Piece(NamedTuple):
    """A piece of music."""

    steps: list[list[int]]
    place: str


def read_pieces(files: Iterable[Path]) -> list[Piece]:
    """Return all pieces in order. Raises UserError with piece and step if a file has the wrong format."""
    pieces = []
    for file in files:
        read = read_json(file, hint=MUSIC_FORMAT)
        if not isinstance(read, list) or not read:
            raise UserError("The file contains no pieces.", where=str(file), hint=MUSIC_FORMAT)
        for number, steps in enumerate(read, 1):
            where = f"{file}, piece {number}"
            pieces.append(Piece(_check_steps(steps, where), where))
    return pieces


def _check_steps(steps: Any, where: str) -> list[list[int]]:
    if not isinstance(steps, list):
        raise UserError("The piece is not a list of steps.", where=where, hint=MUSIC_FORMAT)
    for number, step in enumerate(steps, 1):
        if not isinstance(step, list) or len(step) != len(VOICES) or not all(map(_is_pitch, step)):
            raise UserError(
                f"The step is not a list of {len(VOICES)} pitches: {str(step)[:80]}",
                where=f"{where}, step {number}",
                hint=MUSIC_FORMAT,
            )
    return steps


def _is_pitch(pitch: Any) -> bool:
    return isinstance(pitch, int) and not isinstance(pitch, bool) and SILENCE <= pitch <= MAX_PITCH


def steps_to_text(steps: Iterable[Step]) -> str:
    """Return steps as text: `74 70 65 58 74 70 65 58 …`"""
    return " ".join(str(pitch) for step in steps for pitch in step)


def transpose(steps: Iterable[Step], semitones: int) -> list[list[int]]:
    """Return the steps transposed. Silence stays silence."""
    return [[pitch if pitch == SILENCE else pitch + semitones for pitch in step] for step in steps]


def pitches_in_range(steps: Iterable[Step]) -> bool:
    """Return whether all pitches are valid MIDI pitches."""
    return all(map(_is_pitch, (pitch for step in steps for pitch in step)))


def text_to_steps(text: str) -> list[list[int]]:
    """Return the steps of a text of pitches, without an incomplete last step."""
    pitches = [int(pitch) for pitch in text.split()]
    return [pitches[i : i + len(VOICES)] for i in range(0, len(pitches) - len(VOICES) + 1, len(VOICES))]


def parse_chord(text: str) -> list[int]:
    """Parse four pitches separated by spaces or commas: `67 62 59 43`."""
    parts = text.replace(",", " ").split()
    pitches = [int(part) for part in parts if re.fullmatch(r"-?[0-9]{1,3}", part)]
    if len(parts) != len(pitches) or len(pitches) != len(VOICES) or not all(map(_is_pitch, pitches)):
        hint = 'give the MIDI pitches of soprano, alto, tenor and bass, for example "67 62 59 43"; −1 is silence'
        raise UserError(f"The chord is not valid: {text!r}", hint=hint)
    return pitches
