"""Odd text in arguments, files and on standard input, and streams that are closed."""

from __future__ import annotations

from pathlib import Path

from harness import Case, Result
from making import write

ODD = {
    "nothing": "",
    "spaces": " \t ",
    "control characters": "a\x01\x02\x07\x1b[31mb\x7f",
    "carriage returns": "a\rb\rc",
    "odd line breaks": "a\u2028b\u2029c\x85d\x0be",
    "right to left": "\u202eשלום עולם\u202c مرحبا",
    "emoji": "🙂👩‍👩‍👧🇰🇷" * 2,
    "combining marks": "e" + "\u0301" * 3000,
    "decomposed Hangul": "\u1112\u1161\u11ab\u1100\u116e\u11a8",
    "noncharacters": "\ufffe\uffff\U0010ffff",
    "private use": "\ue000\U000f0000",
    "a byte-order mark": "\ufeffhello",
    "zero-width spaces": "\u200b\u200c\u200d\u2060",
    "a word of 20,000 letters": "a" * 20_000,
    "8,000 words": "A cat . " * 4_000,
    "special tokens": "<pad> <sos> <eos> <mask> <0x00> ▁",
    "markup": "[bold red]x[/bold red] [/] \\[ {} %s",
    "quotes": "\"'`$(touch x)`;|&",
}
USERS = {
    "translate": ["translate", "run", "--beam", "1", "--"],
    "translate --json": ["translate", "run", "--json", "--beam", "1", "--"],
    "predict a label": ["predict", "runs/labels", "--"],
    "predict tags": ["predict", "runs/tags", "--json", "--"],
    "predict a text": ["predict", "runs/gpt", "--length", "3", "--"],
}
REFUSED = {  # there is nothing to label, or a sentence is longer than the model reads
    ("predict a label", "nothing"),
    ("predict a label", "spaces"),
    ("predict tags", "nothing"),
    ("predict tags", "spaces"),
    ("predict tags", "combining marks"),
    ("predict tags", "a word of 20,000 letters"),
    ("predict tags", "8,000 words"),
}


def _arguments() -> list[Case]:
    return [
        Case(f"{user}: {name}", [*argv, text], (), code=2 if (user, name) in REFUSED else 0)
        for user, argv in USERS.items()
        for name, text in ODD.items()
    ]


SURROGATE = "caf\udce9"
ARGUMENTS = {
    "translate": ["translate", "run", SURROGATE],
    "predict": ["predict", "runs/labels", SURROGATE],
    "explain": ["explain", "run", SURROGATE],
    "explain --target": ["explain", "run", "hello", "--target", SURROGATE],
    "evaluate": ["evaluate", "runs/labels", SURROGATE],
    "info": ["info", SURROGATE],
    "heads": ["heads", SURROGATE],
    "studio": ["studio", SURROGATE],
    "export": ["export", "run", "--to", "huggingface", "-o", SURROGATE],
    "import": ["import", SURROGATE, "-o", "new"],
    "train": ["train", "train.en", "train.fr", "-o", SURROGATE],
    "a setting": ["train", "train.en", "train.fr", f"data.cache={SURROGATE}"],
    "ladder": ["ladder", SURROGATE, "train.fr"],
    "ablate": ["ablate", SURROGATE, "train.fr"],
    "bench": ["bench", SURROGATE],
    "data check": ["data", "check", SURROGATE],
    "data get": ["data", "get", "phrasebook", "-o", SURROGATE],
    "demo": ["demo", "--language", SURROGATE],
    "no command": [SURROGATE],
}
BYTES = {
    "no UTF-8": (b"caf\xe9\n", "standard input:1"),
    "no UTF-8 in line 3": (b"a\nb\ncaf\xe9\n", "standard input:3"),
    "UTF-16": ("hello\n".encode("utf-16"), "standard input:1"),
    "a NUL byte": (b"a\0b\n", "standard input:1"),
    "a surrogate in UTF-8": (b"\xed\xa0\x80\n", "standard input:1"),
    "an overlong NUL": (b"\xc0\x80\n", "standard input:1"),
    "half a character": (b"\xf0\x9f\x99", "standard input:1"),
    "a pickle": (b"\x80\x04\x95", "standard input:1"),
    "gzip data": (b"\x1f\x8b\x08\0", "standard input:1"),
    "a byte-order mark alone": (b"\xef\xbb\xbf", "standard input"),
    "nothing": (b"", "standard input"),
    "8 MB of NUL bytes": (b"\0" * 2**23, "standard input:1"),
}


def _same_lines(count: int):  # type: ignore[no-untyped-def]
    def holds(workdir: Path, result: Result) -> bool:
        return result.out.count("\n") == count

    return holds


STREAMS = [
    Case("translate: standard output closed", "translate run hello", ("standard output",), closed=(1,)),
    Case("info: standard output closed", "info run", ("standard output",), closed=(1,)),
    Case("predict: standard output closed", "predict runs/gpt ba --length 2", ("standard output",), closed=(1,)),
    Case("evaluate: standard output closed", "evaluate runs/labels labels.tsv", ("standard output",), closed=(1,)),
    Case("--help: standard output closed", "--help", ("standard output",), closed=(1,)),
    Case("translate: standard error closed", "translate nowhere hello", (), closed=(2,)),
    Case("translate: standard input closed", "translate run", ("No input was given", "-i FILE"), closed=(0,)),
    Case(
        "predict: standard input closed",
        "predict runs/labels",
        (
            "There is no input",
            "-i FILE",
        ),
        closed=(0,),
    ),
    Case("translate: all streams closed", "translate run hello", (), closed=(0, 1, 2)),
    Case(
        "translate to a file: standard output closed",
        "translate run hello -o x.fr",
        closed=(1,),
        code=0,
        holds=lambda workdir, result: (workdir / "x.fr").read_text().count("\n") == 1,
    ),
    Case("translate: blank lines only", "translate run", stdin=b"\n\n\n", code=0, holds=_same_lines(3)),
    Case(
        "translate: a last line without an end",
        "translate run",
        stdin=b"A cat .\nA dog .",
        code=0,
        holds=_same_lines(2),
    ),
    Case("translate: CRLF", "translate run", stdin=b"A cat .\r\n\r\nA dog .\r\n", code=0, holds=_same_lines(3)),
    Case("predict: blank lines only", "predict runs/labels", stdin=b"\n\n\n", code=0, holds=_same_lines(3)),
    Case(
        "predict: a question without a tab", "predict runs/answers", ("no tab", "standard input:2"), stdin=b"a\tb\nc\n"
    ),
    Case(
        "predict: images named by nobody",
        "predict runs/vit",
        ("No image file is given", "name image files"),
        stdin=b"\n\n",
    ),
    Case(
        "predict: an image that is missing",
        "predict runs/vit",
        ("nowhere.png",),
        stdin=b"images/cat/1.png\nnowhere.png\n",
    ),
    Case("evaluate: unequal files", "evaluate run --source x.en --reference test.fr", ("x.en",), write("x.en", "a\n")),
    Case(
        "evaluate: blank lines only",
        "evaluate run --source x.en --reference x.fr",
        (),
        lambda workdir: [(workdir / f"x.{side}").write_text("\n\n\n") for side in ("en", "fr")] and None,
        code=0,
    ),
]

TEXTS = [
    *_arguments(),
    *(Case(f"{name}: an argument that is not UTF-8", argv, ("not UTF-8", "caf")) for name, argv in ARGUMENTS.items()),
    *(
        Case(f"translate standard input: {n}", "translate run", (says,), stdin=data)
        for n, (data, says) in BYTES.items()
    ),
    *STREAMS,
]
