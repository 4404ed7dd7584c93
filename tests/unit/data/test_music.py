"""Music: from JSON to notes, and from notes to a MIDI file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.data.midi import TICKS_PER_QUARTER, TICKS_PER_STEP, midi_file, voice_notes
from glassformer.data.music import parse_chord, pitches_in_range, read_pieces, steps_to_text, text_to_steps, transpose
from glassformer.errors import UserError

PIECES = [[[74, 70, 65, 58], [74, 70, 65, -1]], [[60, 55, 52, 48]]]


def test_pieces_are_read_and_written_as_text(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(PIECES), encoding="utf-8")
    pieces = read_pieces([path])
    assert [piece.steps for piece in pieces] == PIECES
    assert pieces[1].place == f"{path}, piece 2"
    assert steps_to_text(PIECES[0]) == "74 70 65 58 74 70 65 -1"
    assert text_to_steps(steps_to_text(PIECES[0]) + " 60 55") == PIECES[0]


@pytest.mark.parametrize(
    ("content", "says", "where"),
    [
        ("[[[60, 55, 52]]]", "step is not a list", "piece 1, step 1"),
        ("[[[60, 55, 52, 48], [60, 55, 52, 128]]]", "step is not a list", "piece 1, step 2"),
        ("[[[60, 55, 52, true]]]", "step is not a list", "piece 1, step 1"),
        ('[{"notes": 1}]', "piece is not a list", "piece 1"),
        ("[]", "no pieces", "a.json"),
        ("{", "not valid JSON", "a.json"),
    ],
)
def test_malformed_music_files_are_refused(content: str, says: str, where: str, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match=says) as caught:
        read_pieces([path])
    assert caught.value.where.endswith(where)


def test_transposing_keeps_intervals_and_silence() -> None:
    assert transpose(PIECES[0], 3) == [[77, 73, 68, 61], [77, 73, 68, -1]]
    assert transpose(transpose(PIECES[0], 3), -3) == PIECES[0]
    assert pitches_in_range(transpose([[125, 3, 60, -1]], 2))
    assert not pitches_in_range(transpose([[125, 3, 60, -1]], 3))
    assert not pitches_in_range(transpose([[125, 3, 60, -1]], -5))


def test_parse_chord() -> None:
    assert parse_chord("67 62 59 43") == parse_chord("67,62, 59,43") == [67, 62, 59, 43]
    assert parse_chord("67 62 59 -1")[3] == -1
    for wrong in ("67 62 59", "C E G C", "67 62 59 200", ""):
        with pytest.raises(UserError, match="chord is not valid"):
            parse_chord(wrong)


# An independent MIDI reader -------------------------------------------


def parsed(content: bytes) -> tuple[list[int], list[list[tuple[int, int, int]]]]:
    """Return the fields of the header, and the notes of every track: start and end in ticks, and pitch."""
    chunks, at = [], 0
    while at < len(content):
        name, size = content[at : at + 4], int.from_bytes(content[at + 4 : at + 8], "big")
        chunks.append((name, content[at + 8 : at + 8 + size]))
        at += 8 + size
    assert at == len(content)
    (kind, header), *tracks = chunks
    assert kind == b"MThd" and all(name == b"MTrk" for name, _ in tracks)
    return [int.from_bytes(header[i : i + 2], "big") for i in (0, 2, 4)], [notes_of(track) for _, track in tracks]


def notes_of(track: bytes) -> list[tuple[int, int, int]]:
    at, now, sounding, notes, ended = 0, 0, dict[int, int](), [], False
    while at < len(track):
        delay = 0
        while track[at] & 0x80:
            delay, at = delay << 7 | track[at] & 0x7F, at + 1
        now, at = now + (delay << 7 | track[at]), at + 1
        status = track[at]
        if status == 0xFF:
            ended = track[at + 1] == 0x2F
            at += 3 + track[at + 2]
        elif status & 0xF0 == 0xC0:
            at += 2
        else:
            pitch = track[at + 1]
            if status & 0xF0 == 0x90:
                sounding[pitch] = now
            else:
                notes.append((sounding.pop(pitch), now, pitch))
            at += 3
    assert ended and not sounding
    return notes


def test_held_notes_are_one_note() -> None:
    steps = [[74, 70, 65, 58], [74, 69, 65, -1], [-1, 69, 65, 57]]
    numbers, (tempo, soprano, alto, tenor, bass) = parsed(midi_file(steps))
    assert numbers == [1, 5, TICKS_PER_QUARTER]
    assert tempo == []
    assert soprano == [(0, 2 * TICKS_PER_STEP, 74)]
    assert alto == [(0, TICKS_PER_STEP, 70), (TICKS_PER_STEP, 3 * TICKS_PER_STEP, 69)]
    assert tenor == [(0, 3 * TICKS_PER_STEP, 65)]
    assert bass == [(0, TICKS_PER_STEP, 58), (2 * TICKS_PER_STEP, 3 * TICKS_PER_STEP, 57)]


@given(st.lists(st.lists(st.integers(-1, 127), min_size=4, max_size=4), max_size=40))
def test_any_piece_survives_the_midi_round_trip(steps: list[list[int]]) -> None:
    _, tracks = parsed(midi_file(steps))
    voices = list(zip(*steps, strict=True)) if steps else []
    for voice, notes in zip(voices, tracks[1:], strict=True):
        again = [-1] * len(voice)
        for begin, end, pitch in notes:
            again[begin // TICKS_PER_STEP : end // TICKS_PER_STEP] = [pitch] * ((end - begin) // TICKS_PER_STEP)
        assert again == list(voice)
        assert sum(length for _, length in voice_notes(voice)) == len(voice)
