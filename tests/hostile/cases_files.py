"""Files that are not what they should be, given to every command that reads files of that kind."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from typing import Any

import making
from harness import Case, Prepare
from make_template import TINY
from making import both, folder, linked, unreadable, write, write_json, zip_archive

AS_ROOT = "root may read every file" if os.geteuid() == 0 else ""
TRAIN = f"-o new {TINY}"

# Each of these replaces a text file.
BAD_FILES: dict[str, Callable[[str], Prepare]] = {
    "missing": lambda name: write("elsewhere", ""),
    "empty": lambda name: write(name, ""),
    "a folder": folder,
    "unreadable": unreadable,
    "random bytes": lambda name: write(name, bytes(range(256)) * 40),
    "UTF-16": lambda name: write(name, "héllo\tthere\n".encode("utf-16")),
    "UTF-32": lambda name: write(name, "héllo\tthere\n".encode("utf-32-le")),
    "Latin-1": lambda name: write(name, "caf\xe9\tth\xe9\n".encode("latin-1")),
    "a pickle": lambda name: write(name, making.PICKLE),
    "a ZIP archive": zip_archive,
    "half a gzip file": lambda name: write(name, making.HALF_GZ),
    "a gzip bomb": lambda name: write(name, making.BOMB),
    "a gzip bomb of letters": lambda name: write(name, making.LETTERS_BOMB),
    "NUL bytes": lambda name: write(name, "a\tb\n\0\n"),
    "/dev/zero": lambda name: linked(name, "/dev/zero"),
    "a broken link": lambda name: linked(name, "nowhere"),
    "a link to itself": lambda name: linked(name, name),
}

# Every command that reads such a file, which is called FILE; the ending tells the form.
READERS = {
    "train source": ("train FILE train.fr {TRAIN}", "x.en"),
    "train target": ("train train.en FILE {TRAIN}", "x.fr"),
    "train valid": ("train train.en train.fr --valid FILE valid.fr {TRAIN}", "x.en"),
    "train tsv": ("train FILE {TRAIN}", "x.tsv"),
    "train jsonl": ("train FILE {TRAIN}", "x.jsonl"),
    "train text": ("train FILE -o new", "x.txt"),
    "train conllu": ("train FILE -o new", "x.conllu"),
    "train json": ("train FILE -o new", "x.json"),
    "train recipe": ("train FILE", "x.toml"),
    "data check": ("data check FILE train.fr", "x.en"),
    "ladder": ("ladder FILE train.fr --only gru", "x.en"),
    "ablate": ("ablate train.en FILE", "x.fr"),
    "translate": ("translate run -i FILE", "x.en"),
    "predict labels": ("predict runs/labels -i FILE", "x.txt"),
    "predict answers": ("predict runs/answers -i FILE", "x.json"),
    "predict image": ("predict runs/vit FILE", "x.png"),
    "explain image": ("explain runs/vit FILE", "x.png"),
    "evaluate source": ("evaluate run --source FILE --reference test.fr", "x.en"),
    "evaluate reference": ("evaluate run --source test.en --reference FILE", "x.fr"),
    "evaluate labels": ("evaluate runs/labels FILE", "x.tsv"),
    "evaluate tags": ("evaluate runs/tags FILE", "x.conllu"),
    "evaluate answers": ("evaluate runs/answers FILE", "x.json"),
    "evaluate text": ("evaluate runs/gpt FILE", "x.txt"),
}


# A folder in place of these is read as a folder of images, and the message is about the other arguments.
FOLDERS_OF_IMAGES = {"train valid": "valid.fr", "train tsv": "tokenizer", "train jsonl": "tokenizer"}


# One reader per function that opens and decodes files gets every kind of bad file. The other readers call the same
# functions, so they get only the kinds that are refused in different places.
EVERY_KIND = {
    "train source",
    "train jsonl",
    "train conllu",
    "train json",
    "train recipe",
    "translate",
    "predict image",
}
DISTINCT_KINDS = {"missing", "empty", "a folder", "random bytes", "/dev/zero"}


def _matrix() -> list[Case]:
    cases = []
    for reader, (command, name) in READERS.items():
        for kind, prepare in BAD_FILES.items():
            if reader not in EVERY_KIND and kind not in DISTINCT_KINDS:
                continue
            argv = command.replace("FILE", name).replace("{TRAIN}", TRAIN)
            skip = AS_ROOT if kind == "unreadable" else ""
            says = FOLDERS_OF_IMAGES.get(reader, name) if kind == "a folder" else name
            says = "data.train" if (reader, kind) == ("train recipe", "empty") else says  # the message names no setting
            cases.append(Case(f"{reader}: {kind}", argv, (says,), prepare(name), skip=skip))
    return cases


def _questions(*entries: Any) -> str:
    return json.dumps({"data": [{"paragraphs": [{"context": "it is so", "qas": list(entries)}]}]})


ANSWER = {"text": "so", "answer_start": 6}
JSON_DATA = {
    "a number": ("3", "x.json"),
    "a text": ('"music"', "x.json"),
    "nothing": ("null", "x.json"),
    "an empty list": ("[]", "x.json"),
    "an empty object": ("{}", "x.json"),
    "deep nesting": (making.DEEP, "x.json"),
    "deep objects": ('{"data":' * 100_000, "x.json"),
    "cut off": ('{"data": [', "x.json"),
    "two values": ("[] []", "x.json"),
    "pieces that are numbers": ("[1, 2]", "piece 1"),
    "steps that are numbers": ("[[1, 2]]", "piece 1, step 1"),
    "three voices": ("[[[60, 60, 60]]]", "piece 1, step 1"),
    "a pitch too high": ("[[[60, 60, 60, 128]]]", "piece 1, step 1"),
    "a pitch that is a fraction": ("[[[60, 60, 60, 1.5]]]", "piece 1, step 1"),
    "a pitch that is true": ("[[[60, 60, 60, true]]]", "piece 1, step 1"),
    "a pitch of many digits": (f"[[[60, 60, 60, {'9' * 4000}]]]", "piece 1, step 1"),
    "a pitch of too many digits": (f"[[[60, 60, 60, {'9' * 9999}]]]", "x.json"),
    "a pitch that is no number": ("[[[60, 60, 60, NaN]]]", "piece 1, step 1"),
    "data that is a number": ('{"data": 3}', "x.json"),
    "paragraphs missing": ('{"data": [{}]}', "x.json"),
    "questions that are text": ('{"data": [{"paragraphs": [{"context": "a", "qas": ["b"]}]}]}', "x.json"),
    "a question without text": (_questions({"answers": [ANSWER]}), "question 1"),
    "an answer that is text": (_questions({"question": "q", "answers": ["so"]}), "question 1"),
    "an answer at no place": (_questions({"question": "q", "answers": [{"text": "so"}]}), "question 1"),
    "an answer at infinity": (
        _questions({"question": "q", "answers": [{"text": "so", "answer_start": float("inf")}]}),
        "question 1",
    ),
    "a lone surrogate": (_questions({"question": "\ud800", "answers": [ANSWER]}), "x.json"),
    "a lone surrogate in an answer": (
        _questions({"question": "q", "answers": [ANSWER | {"text": "\udfff"}]}),
        "x.json",
    ),
}
LABELLED = {
    "no tab": ("a b\n" * 30, "x.tsv"),
    "one label": ("yes\ta\n" * 30, "x.tsv"),
    "labels only": ("yes\t\nno\t\n" * 30, "x.tsv"),
    "every text its own label": ("".join(f"{i}\t{i} a\n" for i in range(60)), "x.tsv"),
}
CONLLU = {
    "too few columns": ("1\ta\n\n" * 9, "x.conllu"),
    "no sentence": ("# a comment\n\n", "x.conllu"),
    "blank lines only": ("\n\n\n", "x.conllu"),
    "no tags": ("1\ta\t_\t_\n\n" * 9, "x.conllu"),
}


def _data() -> list[Case]:
    cases = [
        Case(f"train json: {n}", "train x.json -o new", (w,), write("x.json", c)) for n, (c, w) in JSON_DATA.items()
    ]
    cases += [
        Case(f"train labels: {n}", "train x.tsv task=classification -o new", (w,), write("x.tsv", c))
        for n, (c, w) in LABELLED.items()
    ]
    cases += [
        Case(f"train tags: {n}", "train x.conllu -o new", (w,), write("x.conllu", c)) for n, (c, w) in CONLLU.items()
    ]
    return cases


def _jsonl(line: str, *says: str) -> tuple[Prepare, tuple[str, ...]]:
    return write("x.jsonl", '{"source": "a", "target": "b"}\n' * 3 + line + "\n"), ("x.jsonl:4", *says)


PAIRS = {
    "a lone surrogate": _jsonl('{"source": "\\ud800", "target": "b"}'),
    "a number": _jsonl('{"source": 1, "target": "b"}', "in quotes"),
    "deep nesting": _jsonl(making.DEEP),
    "a list": _jsonl('["a", "b"]'),
    "a key missing": _jsonl('{"source": "a"}', "same two keys"),
}
IMAGE_FILES = {
    "20,000 by 20,000 pixels": making.png(20_000, 20_000, colour=0),
    "9,000 by 9,000 pixels": making.png(9_000, 9_000, colour=6),
    "no pixels": b"\x89PNG\r\n\x1a\n",
    "pixels cut off": making.png(64, 64)[:60],
    "width 0": making.png(8, 8).replace((8).to_bytes(4) * 2, (0).to_bytes(4) + (8).to_bytes(4)),
    "a GIF header": b"GIF89a" + b"\xff" * 40,
    "a BMP header": b"BM" + b"\xff" * 60,
    "a TIFF header": b"II*\0" + b"\xff" * 60,
    "a JPEG header": b"\xff\xd8\xff\xe0" + b"\0" * 60,
    "a WebP header": b"RIFF\xff\xff\xff\xffWEBPVP8 " + b"\0" * 40,
    "a PPM of a huge size": b"P6 99999999 99999999 255\n",
}


def _images() -> list[Case]:
    cases = [
        Case(f"predict image: {name}", "predict runs/vit x.png", ("x.png",), write("x.png", content))
        for name, content in IMAGE_FILES.items()
    ]
    idx = making.idx
    arrays = {
        "sizes of four gigabytes": (idx((65535, 255, 255), b""), idx((65535,), b"\0" * 65535)),
        "sizes that overflow": (idx((2**32 - 1, 2**32 - 1, 2**32 - 1), b""), idx((3,), b"abc")),
        "fewer pixels than promised": (idx((3, 4, 4), b"\0" * 47), idx((3,), b"abc")),
        "more pixels than promised": (idx((3, 4, 4), b"\0" * 49), idx((3,), b"abc")),
        "no images": (idx((0, 4, 4), b""), idx((0,), b"")),
        "other counts": (idx((3, 4, 4), b"\0" * 48), idx((2,), b"ab")),
        "a gzip bomb": (
            gzip.compress(idx((2000, 1000, 500), b"\0" * 2**26), compresslevel=1),
            idx((2000,), b"\0" * 2000),
        ),
    }
    for name, (images, labels) in arrays.items():
        prepare = both(write("x.idx", images), write("y.idx", labels))
        cases.append(Case(f"train idx: {name}", "train x.idx y.idx -o new", (".idx",), prepare))
    return cases


# Individual cases ---------------------------

IMPORTS: dict[str, tuple[str, Prepare, tuple[str, ...]]] = {
    "config that nests": ("hf/gpt", write("hf/gpt/config.json", making.DEEP), ("nested", "config.json")),
    "config that is empty": ("hf/gpt", write("hf/gpt/config.json", ""), ("config.json",)),
    "config that is binary": ("hf/gpt", write("hf/gpt/config.json", b"\xff\xfe\0"), ("config.json",)),
    "config that is endless": ("hf/gpt", linked("hf/gpt/config.json", "/dev/zero"), ("limit", "config.json")),
    "config that is a list": ("hf/gpt", write_json("hf/gpt/config.json", [1]), ("config.json",)),
    "tokenizer that nests": ("hf/gpt", write("hf/gpt/tokenizer.json", making.DEEP), ("nested", "tokenizer.json")),
    "tokenizer that is a list": ("hf/gpt", write_json("hf/gpt/tokenizer.json", [1]), ("tokenizer.json",)),
    "tokenizer that is empty": ("hf/gpt", write_json("hf/gpt/tokenizer.json", {}), ("tokenizer.json",)),
    "weights missing": ("hf/gpt", making.remove("hf/gpt/model.safetensors"), ("hf/gpt",)),
    "weights cut off": ("hf/gpt", making.halved("hf/gpt/model.safetensors"), ("model.safetensors",)),
    "weights that are integers": (
        "hf/gpt",
        making.tensors("hf/gpt/model.safetensors", lambda old: {name: tensor.long() for name, tensor in old.items()}),
        ("floating-point", "hf/gpt"),
    ),
    "processor missing": ("hf/vit", making.remove("hf/vit/preprocessor_config.json"), ("preprocessor_config.json",)),
    "processor that is a list": (
        "hf/vit",
        write("hf/vit/preprocessor_config.json", "[]"),
        ("preprocessor_config.json",),
    ),
    "processor that nests": ("hf/vit", write("hf/vit/preprocessor_config.json", making.DEEP), ("nested",)),
}
CONFIGS: dict[str, tuple[str, dict[str, Any]]] = {
    "no layers": ("gpt", {"n_layer": 0}),
    "a billion layers": ("gpt", {"n_layer": 10**9}),
    "layers that are text": ("gpt", {"n_layer": "two"}),
    "a width that is text": ("gpt", {"n_embd": "wide"}),
    "a width that is a list": ("gpt", {"n_embd": [16]}),
    "a width that is huge": ("gpt", {"n_embd": 10**12}),
    "heads that do not divide": ("gpt", {"n_head": 7}),
    "a vocabulary that is huge": ("gpt", {"vocab_size": 10**11}),
    "a vocabulary that is text": ("gpt", {"vocab_size": "many"}),
    "a vocabulary that is negative": ("gpt", {"vocab_size": -1}),
    "dropout that is text": ("gpt", {"resid_pdrop": "none"}),
    "dropout that is nothing": ("gpt", {"resid_pdrop": None}),
    "positions that are huge": ("gpt", {"n_positions": 10**12}),
    "an activation that is a list": ("gpt", {"activation_function": ["relu"]}),
    "an end that is far away": ("gpt", {"eos_token_id": 10**9}),
    "an end that is text": ("gpt", {"eos_token_id": "</s>"}),
    "an end that is a list": ("gpt", {"eos_token_id": [2, 3]}),
    "a patch that does not divide": ("vit", {"patch_size": 3}),
    "an image without size": ("vit", {"image_size": 0}),
    "an image of a huge size": ("vit", {"image_size": 10**9}),
    "a mean that is text": ("vit", {"image_mean": "grey"}),
    "labels that are a list": ("vit", {"id2label": ["cat", "dog"]}),
    "labels with odd numbers": ("vit", {"id2label": {"a": "cat"}}),
    "unequal feed-forward widths": ("run", {"encoder_ffn_dim": 8}),
    "a width of 1": ("run", {"d_model": 1}),
    "a start that is missing": ("run", {"decoder_start_token_id": None}),
}


def _imports() -> list[Case]:
    from make_template import TRANSFORMERS

    skip = "" if TRANSFORMERS else "transformers is not installed"
    cases = [
        Case(f"import: {name}", f"import {source} -o new", says, prepare, skip=skip)
        for name, (source, prepare, says) in IMPORTS.items()
    ]
    for name, (source, over) in CONFIGS.items():
        prepare = making.changed_json(f"hf/{source}/config.json", lambda old, over=over: old | over)
        says = {"a start that is missing": "tokenizer", "unequal feed-forward widths": "config.json"}.get(name, "hf/")
        cases.append(Case(f"import: {name}", f"import hf/{source} -o new", (says,), prepare, skip=skip))
    return cases


SINGLE = [
    Case(
        "a gzip bomb of lines",
        f"train x.en.gz x.fr.gz {TRAIN}",
        ("limit", "x.en.gz", "GLASSFORMER_MAX_GZIP_RATIO"),
        both(write("x.en.gz", making.LINES_BOMB), write("x.fr.gz", making.LINES_BOMB)),
    ),
    Case(
        "a long line beyond a lowered limit",
        "translate run -i x.en",
        ("limit of 1,000,000", "x.en", "GLASSFORMER_MAX_LINE"),
        write("x.en", "a" * 2_000_000),
        env={"GLASSFORMER_MAX_LINE": "1000000"},
    ),
    Case(
        "a long line on standard input",
        "translate run",
        ("limit of 1,000,000", "standard input"),
        stdin=b"a" * 2_000_000,
        env={"GLASSFORMER_MAX_LINE": "1000000"},
    ),
    Case(
        "a limit that is no number",
        "translate run -i test.en",
        ("GLASSFORMER_MAX_LINE", "many"),
        env={"GLASSFORMER_MAX_LINE": "many"},
    ),
    Case(
        "a JSON file beyond a lowered limit",
        "train qa.json -o new",
        ("limit of 1,000 ", "qa.json", "GLASSFORMER_MAX_JSON"),
        env={"GLASSFORMER_MAX_JSON": "1000"},
    ),
    Case(
        "an image beyond a lowered limit",
        "predict runs/vit images/cat/1.png",
        ("limit of 10 ", "images/cat/1.png"),
        env={"GLASSFORMER_MAX_PIXELS": "10"},
    ),
    Case("a recipe that nests", "train x.toml", ("nested", "x.toml"), write("x.toml", "a = " + making.DEEP)),
    Case("a recipe beyond the limit", "train x.toml", ("limit", "x.toml"), linked("x.toml", "/dev/zero")),
    Case("a recipe whose data is a number", "train x.toml", ("data.train",), write("x.toml", "[data]\ntrain = 3\n")),
    Case("a recipe whose section is a list", "train x.toml", ("train",), write("x.toml", "train = [1]\n")),
    Case(
        "a recipe whose extra corpora are text",
        "train x.toml",
        ("also",),
        write("x.toml", "[data]\ntrain = ['train.en', 'train.fr']\nalso = 'x'\n"),
    ),
    Case(
        "a recipe whose extra corpora are a list of text",
        "train x.toml",
        ("also",),
        write("x.toml", "[data]\ntrain = ['train.en', 'train.fr']\nalso = ['x']\n"),
    ),
    Case("a cache that is a file", f"train train.en train.fr data.cache=test.en {TRAIN}", ("test.en",)),
    Case(
        "a name that is not UTF-8",
        ["train", "x\udcff.en", "train.fr"],
        ("not UTF-8", "xff.en".replace("xff", "x\\udcff")),
    ),
    Case(
        "a pattern that matches such a name",
        ["train", "x*.en", "train.fr", "-o", "new"],
        ("name of this file is not UTF-8",),
        lambda workdir: (workdir / "x\udcff.en").write_text("hello\n") and None,
    ),
    Case(
        "a label that is not UTF-8",
        "train images -o new",
        ("not UTF-8",),
        lambda workdir: (workdir / "images/dog").rename(workdir / "images/d\udcffg") and None,
    ),
]


def _jsonl_cases() -> list[Case]:
    return [Case(f"train jsonl: {n}", f"train x.jsonl {TRAIN}", says, prepare) for n, (prepare, says) in PAIRS.items()]


FILES = [*_matrix(), *_data(), *_jsonl_cases(), *_images(), *_imports(), *SINGLE]
