"""Run by a test in a child process: damaged packed files are refused, or run without a memory error.

A file with a valid checksum may contain any settings and any weights: an attacker may have written it.
"""

from __future__ import annotations

import ctypes
import json
import random
import struct
import sys
from collections import Counter
from contextlib import suppress
from ctypes import byref, c_size_t, c_void_p
from functools import lru_cache
from pathlib import Path

from glassformer.engine.library import INT8, Shape
from glassformer.engine.model import NativeModel, Worker
from tests.unit.engine.random_models import BERT, GPT, TRANSFORMER, options, random_model, use

HEADER = struct.Struct("<8sIIQQ")  # magic, version, bytes of the header, bytes of the file, checksum
SETTINGS = HEADER.size
UNUSED = SETTINGS + ctypes.sizeof(Shape)  # from here to DATA
DATA = 128  # the header, rounded up to cache lines
WORD = (1 << 64) - 1
FIELDS = [name for name, _ in Shape._fields_]

native = use(sys.argv[1])
native.gf_model_from_memory.argtypes = [c_void_p, c_size_t, ctypes.POINTER(c_void_p)]
system = ctypes.CDLL(None)
system.posix_memalign.argtypes = [ctypes.POINTER(c_void_p), c_size_t, c_size_t]
system.free.argtypes = [c_void_p]


@lru_cache(64)  # most edits leave the weights alone
def checksum(data: bytes) -> int:
    """`checksum` of csrc/model.c."""
    lanes = [0x9E3779B97F4A7C15 * (i + 1) & WORD for i in range(8)]
    whole = len(data) // 64 * 64
    words = struct.unpack(f"<{whole // 8}Q", data[:whole])
    for i, word in enumerate(words):
        mixed = (lanes[i % 8] ^ word) * 0xFF51AFD7ED558CCD & WORD
        lanes[i % 8] = (mixed << 31 | mixed >> 33) & WORD
    value = len(data)
    for lane in lanes:
        value = (value ^ lane) * 0xC4CEB9FE1A85EC53 & WORD
        value ^= value >> 29
    for byte in data[whole:]:
        value = (value ^ byte) * 0x100000001B3 & WORD
    return value


def signed(file: bytearray) -> bytearray:
    """A file with the checksum that belongs to its content."""
    magic, version, header, _, _ = HEADER.unpack_from(file)
    settings = bytes(file[SETTINGS:UNUSED])
    HEADER.pack_into(file, 0, magic, version, header, len(file), checksum(settings) ^ checksum(bytes(file[DATA:])))
    return file


def flipped(file: bytearray, dice: random.Random) -> bytearray:
    within = len(file) if dice.random() < 0.5 else DATA  # the weights, or the header alone
    for _ in range(dice.choice((1, 1, 2, 17))):
        file[dice.randrange(within)] ^= 1 << dice.randrange(8)
    return file


def cut(file: bytearray, dice: random.Random) -> bytearray:
    return file[: dice.choice((0, 1, SETTINGS, DATA - 1, DATA, dice.randrange(len(file)), len(file) - 1))]


def lengthened(file: bytearray, dice: random.Random) -> bytearray:
    file += bytes(dice.choice((1, 64, 4096)))
    return signed(file) if dice.random() < 0.5 else file


def header_edited(file: bytearray, dice: random.Random) -> bytearray:
    file[dice.randrange(UNUSED)] = dice.randrange(256)
    return signed(file)


def hostile(file: bytearray, dice: random.Random) -> bytearray:
    """Return hostile settings: close to the true ones, so that the size may fit, or absurd."""
    shape = Shape.from_buffer_copy(file, SETTINGS)
    for name in dice.sample(FIELDS, dice.choice((1, 1, 2, 3))):
        if name == "norm_epsilon":
            shape.norm_epsilon = dice.choice((0.0, 0.5, -1.0, 1e30, float("nan"), 1e-45))
        elif dice.random() < 0.9:
            setattr(shape, name, max(0, getattr(shape, name) + dice.choice((-2, -1, 1, 2, 3, 5))))
        else:
            setattr(shape, name, dice.choice((-1, 0, 1, 16, 64, 1 << 12, 1 << 20, 1 << 24, (1 << 31) - 1, -(1 << 31))))
    file[SETTINGS:UNUSED] = bytes(shape)
    return signed(file)


def any_weights(file: bytearray, dice: random.Random) -> bytearray:
    """Weights that gf_model_set would refuse: NaN, infinity, scales and int8 values that packing never writes."""
    at = dice.randrange(DATA, len(file) - 256)
    file[at : at + 256] = dice.choice(
        (b"\x80" * 256, b"\x00\x00\xc0\x7f" * 64, b"\xff\xff\x7f\x7f" * 64, dice.randbytes(256))
    )
    return signed(file)


DAMAGE = (flipped, cut, flipped, hostile, lengthened, flipped, hostile, header_edited, hostile, any_weights)


def intact(file: bytes, files: list[bytes]) -> bool:
    """Return whether every used part of a file is unchanged."""
    return any(file[:UNUSED] == true[:UNUSED] and file[DATA:] == true[DATA:] for true in files)


def run(model: NativeModel) -> None:
    """Use a model in every way that its shape allows. Errors are fine."""
    shape, worker = model.shape, Worker(model)
    tokens = [min(t, shape.vocab - 1) for t in (3, 4, 2)]
    search = {"sos": min(1, shape.vocab - 1), "eos": min(2, shape.vocab - 1)}
    for call in (
        lambda: worker.translate([tokens, tokens[:1]], options(beam=2, **search), [3, 2]),
        lambda: worker.translate([tokens], options(**search), [3], rolls=[[0.1, 0.5, 0.9]]),
        lambda: worker.encode([tokens], [[0, max(shape.segments - 1, 0), 0]] if shape.segments else None),
        lambda: (worker.start(4), worker.read(tokens), worker.read(tokens[:1])),
    ):
        with suppress(ValueError, FloatingPointError):  # not for this shape, or nothing finite to draw from
            call()


def opened_from_memory(file: bytes) -> bool:
    """Open a copy whose end is the end of an allocation, so that reading beyond it is an error."""
    memory = c_void_p()
    assert system.posix_memalign(byref(memory), 64, max(len(file), 1)) == 0
    ctypes.memmove(memory, file, len(file))
    handle = c_void_p()
    code = native.gf_model_from_memory(memory, len(file), byref(handle))
    if code == 0:
        run(NativeModel(handle))  # freed before its memory
    system.free(memory)
    return code == 0


def opened_from_file(file: bytes, path: Path) -> bool:
    path.write_bytes(file)
    try:
        run(NativeModel.open(path))
    except ValueError:
        return False
    return True


def main(folder: Path, count: int) -> None:
    files = []
    for shape in (TRANSFORMER, GPT, BERT):
        for precision in (0, INT8):
            path = folder / f"{len(files)}.packed"
            random_model(shape | {"precision": precision}).save(path)
            files.append(path.read_bytes())
            assert signed(bytearray(files[-1])) == files[-1], "the checksum is computed in another way"
            assert opened_from_memory(files[-1])
    opened: Counter[str] = Counter()
    sets = [name for name in native.gf_instruction_sets().split() if name != b"amx_int8"]  # emulated, it is slow
    for i in range(count):
        dice = random.Random(i)
        native.gf_use_instruction_set(dice.choice(sets))
        damage = DAMAGE[i % len(DAMAGE)]
        damaged = bytes(damage(bytearray(dice.choice(files)), dice))
        if opened_from_file(damaged, folder / "damaged") if i % 7 == 0 else opened_from_memory(damaged):
            opened[damage.__name__] += not intact(damaged, files)
    print(json.dumps(+opened))  # changed files that run nevertheless


main(Path(sys.argv[2]), int(sys.argv[3]))
