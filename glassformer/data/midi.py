"""Writing of Standard MIDI Files, with one track per voice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from glassformer.data.music import SILENCE, Step

TICKS_PER_QUARTER = 480
TICKS_PER_STEP = TICKS_PER_QUARTER // 4  # a step is a 16th note
VELOCITY = 80  # of 127
CHOIR = 52  # General MIDI program "Choir Aahs", counted from 0
NOTE_ON, NOTE_OFF, PROGRAM = 0x90, 0x80, 0xC0


def midi_file(steps: Sequence[Step], *, beats_per_minute: int = 72) -> bytes:
    """Return a piece as the bytes of a .mid file (format 1). Equal pitches in consecutive steps become one note."""
    voices = list(zip(*steps, strict=True))
    tempo = _event(0, b"\xff\x51\x03" + (60_000_000 // beats_per_minute).to_bytes(3, "big"))
    tracks = [_track(tempo), *(_track(_voice(voice, channel)) for channel, voice in enumerate(voices))]
    header = b"".join(number.to_bytes(2, "big") for number in (1, len(tracks), TICKS_PER_QUARTER))
    return _chunk(b"MThd", header) + b"".join(tracks)


def voice_notes(voice: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the notes of a voice: pitch and length in steps."""
    begin = 0
    for i in range(1, len(voice) + 1):
        if i == len(voice) or voice[i] != voice[begin]:
            yield voice[begin], i - begin
            begin = i


def _voice(voice: Sequence[int], channel: int) -> bytes:
    events, waiting = [_event(0, bytes([PROGRAM | channel, CHOIR]))], 0
    for pitch, length in voice_notes(voice):
        if pitch == SILENCE:
            waiting += length * TICKS_PER_STEP
            continue
        events.append(_event(waiting, bytes([NOTE_ON | channel, pitch, VELOCITY])))
        events.append(_event(length * TICKS_PER_STEP, bytes([NOTE_OFF | channel, pitch, 0])))
        waiting = 0
    return b"".join(events)


def _track(events: bytes) -> bytes:
    return _chunk(b"MTrk", events + _event(0, b"\xff\x2f\x00"))


def _chunk(name: bytes, content: bytes) -> bytes:
    return name + len(content).to_bytes(4, "big") + content


def _event(delay: int, event: bytes) -> bytes:
    return _variable(delay) + event


def _variable(number: int) -> bytes:
    """Return a variable-length quantity: seven bits per byte, most significant first, bit 8 set in all but the last."""
    digits = [number & 0x7F]
    while number := number >> 7:
        digits.append(number & 0x7F | 0x80)
    return bytes(reversed(digits))
