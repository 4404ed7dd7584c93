"""Writes music that any player plays: a Standard MIDI File, a track a voice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from glassformer.data.music import SILENCE, Step

TICKS = 480  # of a quarter note
STEP = TICKS // 4  # a 16th note
LOUD = 80  # of 127
CHOIR = 52  # General MIDI: voices that sing "aah"
NOTE_ON, NOTE_OFF, PROGRAM = 0x90, 0x80, 0xC0


def midi_file(steps: Sequence[Step], *, beats_a_minute: int = 72) -> bytes:
    """A piece as the bytes of a .mid file, format 1. Equal pitches in a row of steps are one held note."""
    voices = list(zip(*steps, strict=True))
    tempo = _event(0, b"\xff\x51\x03" + (60_000_000 // beats_a_minute).to_bytes(3, "big"))
    tracks = [_track(tempo), *(_track(_voice(voice, channel)) for channel, voice in enumerate(voices))]
    header = b"".join(number.to_bytes(2, "big") for number in (1, len(tracks), TICKS))
    return _chunk(b"MThd", header) + b"".join(tracks)


def held(voice: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The notes of a voice: pitch and length in steps."""
    begin = 0
    for i in range(1, len(voice) + 1):
        if i == len(voice) or voice[i] != voice[begin]:
            yield voice[begin], i - begin
            begin = i


def _voice(voice: Sequence[int], channel: int) -> bytes:
    events, waiting = [_event(0, bytes([PROGRAM | channel, CHOIR]))], 0
    for pitch, length in held(voice):
        if pitch == SILENCE:
            waiting += length * STEP
            continue
        events.append(_event(waiting, bytes([NOTE_ON | channel, pitch, LOUD])))
        events.append(_event(length * STEP, bytes([NOTE_OFF | channel, pitch, 0])))
        waiting = 0
    return b"".join(events)


def _track(events: bytes) -> bytes:
    return _chunk(b"MTrk", events + _event(0, b"\xff\x2f\x00"))


def _chunk(name: bytes, content: bytes) -> bytes:
    return name + len(content).to_bytes(4, "big") + content


def _event(delay: int, event: bytes) -> bytes:
    return _variable(delay) + event


def _variable(number: int) -> bytes:
    """Seven bits a byte, the highest first; all but the last have the eighth bit set."""
    digits = [number & 0x7F]
    while number := number >> 7:
        digits.append(number & 0x7F | 0x80)
    return bytes(reversed(digits))
