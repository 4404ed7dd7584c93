"""Pieces for four voices as text that a language model reads: one token a voice a step, the highest voice first.

A file is JSON: a list of pieces; a piece is a list of steps, each a 16th note long; a step is the MIDI pitches of
soprano, alto, tenor and bass, −1 for silence.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from glassformer.errors import UserError
from glassformer.files import parse_json
from glassformer.text.lines import read_whole

VOICES = ("soprano", "alto", "tenor", "bass")
SILENCE, HIGHEST = -1, 127

Step = Sequence[int]
FORM = "a .json file is a list of pieces, each a list of steps, each four pitches from 0 to 127, or −1 for silence"


class Piece(NamedTuple):
    steps: list[list[int]]
    place: str


def read_pieces(files: Iterable[Path]) -> list[Piece]:
    """Every piece in order; one that is not what it should be is refused with its number and step."""
    pieces = []
    for file in files:
        try:
            read = parse_json(read_whole(file))
        except ValueError as error:
            raise UserError(f"This is not JSON: {error}.", where=str(file), hint=FORM) from None
        if not isinstance(read, list) or not read:
            raise UserError("This file has no pieces.", where=str(file), hint=FORM)
        for number, steps in enumerate(read, 1):
            where = f"{file}, piece {number}"
            pieces.append(Piece(_checked(steps, where), where))
    return pieces


def _checked(steps: Any, where: str) -> list[list[int]]:
    if not isinstance(steps, list):
        raise UserError("This is not a piece.", where=where, hint=FORM)
    for number, step in enumerate(steps, 1):
        if not isinstance(step, list) or len(step) != len(VOICES) or not all(map(_is_pitch, step)):
            raise UserError(f"This is not a step: {str(step)[:80]}", where=f"{where}, step {number}", hint=FORM)
    return steps


def _is_pitch(pitch: Any) -> bool:
    return isinstance(pitch, int) and not isinstance(pitch, bool) and SILENCE <= pitch <= HIGHEST


def as_text(steps: Iterable[Step]) -> str:
    """`74 70 65 58 74 70 65 58 …`"""
    return " ".join(str(pitch) for step in steps for pitch in step)


def transposed(steps: Iterable[Step], semitones: int) -> list[list[int]]:
    """The same piece in another key; a voice that is silent stays silent."""
    return [[pitch if pitch == SILENCE else pitch + semitones for pitch in step] for step in steps]


def in_range(steps: Iterable[Step]) -> bool:
    return all(map(_is_pitch, (pitch for step in steps for pitch in step)))


def as_steps(text: str) -> list[list[int]]:
    """The steps of a text of pitches; a last one that is not whole is left out."""
    pitches = [int(pitch) for pitch in text.split()]
    return [pitches[i : i + len(VOICES)] for i in range(0, len(pitches) - len(VOICES) + 1, len(VOICES))]


def chord(text: str) -> list[int]:
    """Four pitches as a person writes them: `67 62 59 43`, or with commas."""
    parts = text.replace(",", " ").split()
    pitches = [int(part) for part in parts if re.fullmatch(r"-?[0-9]{1,3}", part)]
    if len(parts) != len(pitches) or len(pitches) != len(VOICES) or not all(map(_is_pitch, pitches)):
        raise UserError(
            f"This is not a chord: {text!r}",
            hint='give the MIDI pitches of soprano, alto, tenor and bass, such as "67 62 59 43"; −1 is silence',
        )
    return pitches
