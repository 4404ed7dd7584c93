"""Common mistakes, one per row: each is answered by one message that says what is wrong, where, and how to fix it."""

from __future__ import annotations

import gzip
import os
import pickle
import re
import stat
import struct
import zipfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import torch
from harness import Case, Prepare, Result, nothing
from make_template import TINY
from making import Malice, both, changed, folder, lines, remove, write
from safetensors.torch import load_file, save_file

TRAIN = f"train train.en train.fr {TINY}"


# Preparation of the rows ---------------------------------------------


def full_device(workdir: Path) -> None:
    (workdir / "full").symlink_to("/dev/full")  # a link: replacing it would not replace the device itself


def zip_archive(workdir: Path) -> None:
    with zipfile.ZipFile(workdir / "archive.en", "w") as archive:
        archive.write(workdir / "train.en", "train.en")


def truncated_gz(workdir: Path) -> None:
    packed = gzip.compress((workdir / "train.en").read_bytes())
    (workdir / "train.en.gz").write_bytes(packed[: len(packed) // 2])


def pickled_weights(workdir: Path) -> None:
    (workdir / "run/model.safetensors").write_bytes(pickle.dumps(Malice()))


def torch_pickled_weights(workdir: Path) -> None:
    torch.save({"weights": Malice()}, workdir / "run/model.safetensors")


def foreign_shapes(workdir: Path) -> None:
    path = workdir / "run/model.safetensors"
    weights = {name: tensor.repeat(*([2] * tensor.dim())) for name, tensor in load_file(path).items()}
    save_file(weights, path)


def foreign_names(workdir: Path) -> None:
    save_file({"bert.embeddings.weight": torch.ones(2, 3)}, workdir / "run/model.safetensors")


def foreign_tokenizer(workdir: Path) -> None:
    from tokenizers import Tokenizer, models

    (workdir / "run/tokenizer.json").write_text(Tokenizer(models.WordLevel({"a": 0, "b": 1}, unk_token="a")).to_str())


def newer_format(workdir: Path) -> None:
    path = workdir / "run/run.toml"
    path.write_text(path.read_text().replace("format = 1", "format = 99"))


def unknown_key(workdir: Path) -> None:
    path = workdir / "run/run.toml"
    path.write_text(path.read_text().replace("d_model", "d_modle"))


def swapped_header(content: bytes) -> bytes:
    """The length of the header, which comes first, with one high bit flipped."""
    (length,) = struct.unpack("<Q", content[:8])
    return struct.pack("<Q", length ^ (1 << 40)) + content[8:]


# The table ---------------------------------------------------


def Bad(
    name: str,
    argv: str | list[str],
    says: tuple[str, ...],
    prepare: Prepare = nothing,
    stdin: bytes = b"",
    no_mistake: bool = False,
) -> Case:
    """A mistake. `no_mistake`: on this machine it would work."""
    return Case(name, argv, says, prepare, stdin, skip="on this machine it would work" if no_mistake else "")


BAD = [
    # files to train on
    Bad("missing file", "train trian.en train.fr", ("no file trian.en", "trian.en", "did you mean train.en?")),
    Bad("missing folder", "train no/train.en train.fr", ("no file no/train.en", "no folder no")),
    Bad("missing valid file", f"{TRAIN} --valid vaild.en valid.fr", ("no file vaild.en", "did you mean valid.en?")),
    Bad("folder as file", "train somewhere train.fr", ("is a folder", "somewhere", "name files"), folder("somewhere")),
    Bad(
        "empty file", "train empty.en train.fr", ("empty.en is empty", "empty.en", "give a file"), write("empty.en", "")
    ),
    Bad(
        "only blank lines",
        "train b.en b.fr",
        ("too few usable pairs", "9 empty", "b.en, b.fr", "b.en:1"),
        both(write("b.en", "\n" * 9), write("b.fr", "\n" * 9)),
    ),
    Bad(
        "unequal lines",
        "train train.en train.fr",
        ("different numbers of lines", "train.en has 183", "train.fr:184", "line n of one file"),
        lines("train.en", lambda old: old[:-3]),
    ),
    Bad(
        "blank lines too many",
        "train train.en train.fr",
        ("different numbers of lines", "train.fr:187", "delete the last 2 of train.fr"),
        lines("train.fr", lambda old: [*old, "", ""]),
    ),
    Bad(
        "zip", "train archive.en train.fr", ("not look like text", "ZIP archive", "archive.en:1", "UTF-8"), zip_archive
    ),
    Bad(
        "pickle", "train p.en train.fr", ("Python pickle", "p.en:1", "UTF-8"), write("p.en", pickle.dumps(list("abc")))
    ),
    Bad(
        "PNG",
        "train image.en train.fr",
        ("not look like text", "image.en:1", "UTF-8"),
        write("image.en", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"),
    ),
    Bad(
        "Latin-1",
        "train train.en train.fr",
        ("train.fr is not UTF-8: byte 0xE9 in line 2", "train.fr:2", "iconv -f ISO-8859-1"),
        write("train.fr", "oui\nun café\n".encode("latin-1")),
    ),
    Bad(
        "UTF-16",
        "train train.en train.fr",
        ("train.fr is UTF-16", "train.fr:1", "iconv -f UTF-16"),
        write("train.fr", "un café\n".encode("utf-16")),
    ),
    Bad(
        "UTF-16 without a mark",
        "train train.en train.fr",
        ("NUL byte", "train.fr:1", "iconv -f UTF-16"),
        write("train.fr", "un café\n".encode("utf-16-le")),
    ),
    Bad(
        "one pair only",
        "train one.en one.fr",
        ("too few usable pairs (1 read", "one.en, one.fr", "add more pairs"),
        both(write("one.en", "hello\n"), write("one.fr", "bonjour\n")),
    ),
    Bad(
        "one-word corpus",
        "train same.en same.fr",
        ("1,000 read, 1 usable", "999 duplicate", "same.en", "add more pairs"),
        both(write("same.en", "yes\n" * 1000), write("same.fr", "oui\n" * 1000)),
    ),
    Bad("one file alone", "train train.en", ("only one side", "train.en", "two aligned files")),
    Bad("three files", "train train.en train.fr train.ko", ("two sides", "train.ko", "two aligned files")),
    Bad(
        "two forms",
        "train a.tsv train.fr",
        ("different formats", "a.tsv, train.fr", "two aligned"),
        write("a.tsv", "a\tb\n"),
    ),
    Bad("same file twice", "train train.en ./train.en", ("same file", "train.en", "other language second")),
    Bad("no match of a pattern", ["train", "shard*.en", "shard*.fr"], ("No file matches", "shard*.en", "check")),
    Bad("TSV without tab", "train a.tsv", ("no tab", "a.tsv:2", "source<TAB>target"), write("a.tsv", "a\tb\nc d\n")),
    Bad(
        "broken JSONL",
        "train a.jsonl",
        ("not JSON", "a.jsonl:2", "one object"),
        write("a.jsonl", '{"source": "a", "target": "b"}\n{"source": "a", \n'),
    ),
    Bad(
        "JSONL without keys",
        "train a.jsonl",
        ('"a", "b", "c"', "a.jsonl:1", "name the two"),
        write("a.jsonl", '{"a": 1, "b": 2, "c": 3}\n'),
    ),
    Bad("damaged gz", "train train.en.gz train.fr", ("damaged .gz", "train.en.gz", "gzip -t"), truncated_gz),
    Bad(
        "named gz", "train a.en.gz train.fr", ("is not gzip data", "a.en.gz", "rename it"), write("a.en.gz", "hello\n")
    ),
    # settings
    Bad("misspelt setting", f"{TRAIN} train.stpes=9", ("no setting 'train.stpes'", "did you mean 'train.steps'?")),
    Bad("setting without section", f"{TRAIN} lr=1", ("no setting 'lr'", "did you mean 'train.lr'?")),
    Bad("unknown section", f"{TRAIN} xyzzy.plugh=1", ("no setting 'xyzzy'", "available:", "train.lr")),
    Bad("wrong type", f"{TRAIN} train.steps=many", ("train.steps = 'many'", "whole number")),
    Bad("a fraction of a step", f"{TRAIN} train.steps=1.5", ("train.steps = 1.5", "whole number")),
    Bad("negative", f"{TRAIN} train.batch_tokens=-1", ("train.batch_tokens = -1", "greater than 0")),
    Bad("out of range", f"{TRAIN} model.dropout=1.5", ("model.dropout = 1.5", "less than 1")),
    Bad("infinite", f"{TRAIN} train.lr=inf", ("train.lr = inf", "finite")),
    Bad("not a number", f"{TRAIN} train.lr=nan", ("train.lr = nan", "finite number")),
    Bad("heads do not divide", f"{TRAIN} model.heads=3", ("heads = 3", "d_model = 16", "1, 2, 4, 8, 16")),
    Bad(
        "positions too short",
        f"{TRAIN} model.positions=learned model.max_positions=4",
        ("learned positional embeddings have 4", "model.max_positions", "set model.max_positions="),
    ),
    Bad("unknown family", f"{TRAIN} model.family=lstn", ("model.family = 'lstn'", "should be one of 'transformer'")),
    Bad("a section as a value", f"{TRAIN} model=big", ("model = 'big'", "model.layers")),
    Bad(
        "bf16 on CPU",
        f"{TRAIN} train.precision=bf16",
        ("bf16", "train.precision", "fp32"),
        no_mistake=torch.cuda.is_available(),
    ),
    Bad("setting without a value", f"{TRAIN} train.lr=", ("'train.lr' has no value", "write train.lr=VALUE")),
    Bad(
        "setting without equals",
        "train train.en train.fr train.lr 3e-4",
        ("'train.lr' has no value", "write train.lr=VALUE"),
    ),
    Bad("value without a setting", f"{TRAIN} =5", ("'=5' is not a setting", "section.name=value")),
    Bad(
        "two mistakes at once",
        f"{TRAIN} train.lr=-1 model.dropout=2",
        ("2 settings", "model.dropout = 2", "train.lr = -1"),
    ),
    Bad(
        "quotes that the shell removed",
        [*TRAIN.split(), "model.ablations=[no_residual,no_norm]"],
        ("model.ablations = [no_residual,no_norm]", """'model.ablations=["no_residual", "no_norm"]'"""),
    ),
    Bad(
        "outputs both longer and shorter",
        f"{TRAIN} decode.min_length=21",
        ("decode", "min_length = 21", "max_length = 20"),
    ),
    Bad("far too large", f"{TRAIN} model.d_ff=1000000000000", ("not enough memory", "smaller")),
    # recipes
    Bad(
        "recipe is not TOML",
        "train r.toml",
        ("not TOML", "line 2", "r.toml", "correct that line"),
        write("r.toml", "task = 'translation'\n[data\n"),
    ),
    Bad("recipe is not text", "train r.toml", ("not TOML", "r.toml"), write("r.toml", b"\xff\xfe\0")),
    Bad(
        "recipe missing",
        "train recipe.toml",
        ("no file recipe.toml", "did you mean recipes.toml?"),
        write("recipes.toml", ""),
    ),
    Bad("recipe is a folder", "train r.toml", ("Is a directory", "r.toml", "TOML file"), folder("r.toml")),
    Bad(
        "recipe without data",
        "train r.toml",
        ("no training data", "data.train", "two aligned"),
        write("r.toml", "[train]\nsteps=5\n"),
    ),
    Bad(
        "recipe misspelt",
        "train r.toml",
        ("'train.stesp'", "did you mean 'train.steps'?"),
        write("r.toml", "[data]\ntrain=['train.en','train.fr']\n[train]\nstesp=5\n"),
    ),
    Bad(
        "recipe data missing",
        "train r.toml",
        ("no file tarin.en", "did you mean train.en?"),
        write("r.toml", "[data]\ntrain=['tarin.en','train.fr']\n"),
    ),
    Bad(
        "recipe and files",
        "train r.toml train.en train.fr",
        ("recipe cannot be combined with other files", "r.toml", "in the recipe"),
        write("r.toml", "[train]\nsteps=5\n"),
    ),
    Bad("nothing at all", "train", ("no training data", "data.train", "two aligned files")),
    # where to write
    Bad("folder under a file", f"{TRAIN} -o train.en/run", ("cannot be written", "train.en/run", "is a file")),
    Bad("folder under proc", f"{TRAIN} -o /proc/run", ("cannot be written", "/proc/run", "another")),
    Bad("folder is a file", f"{TRAIN} -o train.en", ("is a file", "train.en", "choose a folder with -o")),
    Bad("folder has a run", f"{TRAIN} -o run", ("already contains a run", "run", "--resume")),
    Bad("from no run", f"{TRAIN} -o new --from nowhere", ("no run folder nowhere", "check the name")),
    # resuming
    Bad("resume what", "train train.en train.fr --resume", ("needs a run folder", "-o RUN --resume")),
    Bad(
        "resume an empty folder",
        "train -o void --resume",
        ("no run.toml", "void", "the folder that train wrote"),
        folder("void"),
    ),
    Bad("resume nothing", "train -o rnu --resume", ("no run folder rnu", "rnu", "did you mean run?")),
    Bad(
        "resume with other data",
        "train -o run --resume train.steps=9",
        ("has changed since this run started", "train.en", "--from"),
        lines("train.en", lambda old: [*old[:-1], "Something else ."]),
    ),
    Bad(
        "resume without data",
        "train -o run --resume",
        ("no file train.fr", "train.fr", "did you mean"),
        remove("train.fr"),
    ),
    Bad(
        "resume another model",
        "train -o run --resume model.d_ff=32",
        ("model and the tokenizer of a run cannot change", "model.*", "--from"),
    ),
    Bad(
        "resume with another seed",
        "train -o run --resume train.seed=2",
        ("The seed", "train.seed = 2 (it was 1)", "--from"),
    ),
    Bad(
        "resume with another optimizer",
        "train -o run --resume train.optimizer=muon train.steps=9",
        ("The optimizer", "train.optimizer = muon (it was adam)", "--from"),
    ),
    Bad(
        "resume with other validation data",
        "train -o run --resume --valid test.en test.fr",
        ("has changed", "data.valid", "leave those settings out"),
    ),
    Bad("resume from another", "train -o run --resume --from run", ("--resume and --from", "to start a new one")),
    Bad(
        "resume a damaged state",
        "train -o run --resume",
        ("Every checkpoint", "run/checkpoints/step-5: state.json is not what was written", "--from run"),
        write("run/checkpoints/step-5/state.json", '{"step": 5'),
    ),
    Bad(
        "resume damaged moments",
        "train -o run --resume",
        ("Every checkpoint", "run/checkpoints/step-5: optimizer.safetensors", "delete run/checkpoints"),
        changed("run/checkpoints/step-5/optimizer.safetensors", lambda old: old[:-9]),
    ),
    # a run to translate with
    Bad("no such run", "translate rnu hello", ("no run folder rnu", "rnu", "did you mean run?")),
    Bad("run is a file", "translate train.en hello", ("is a file", "train.en", "the folder that train wrote")),
    Bad(
        "folder is no run",
        "translate void hello",
        ("no run.toml", "void", "the folder that train wrote"),
        folder("void"),
    ),
    Bad(
        "run.toml damaged",
        "translate run hello",
        ("settings are damaged", "line 1", "run/run.toml", "copy"),
        write("run/run.toml", "format = = 1\n"),
    ),
    Bad(
        "run.toml misspelt",
        "translate run hello",
        ("no setting 'model.d_modle'", "run/run.toml", "did you mean 'model.d_model'?", "copy"),
        unknown_key,
    ),
    Bad(
        "run.toml incomplete",
        "translate run hello",
        ("missing", "run/run.toml", "copy"),
        write("run/run.toml", "format = 1\n"),
    ),
    Bad("newer format", "translate run hello", ("newer Glassformer", "format 99", "run", "update"), newer_format),
    Bad(
        "no tokenizer",
        "translate run hello",
        ("no tokenizer", "run/tokenizer.json", "copy"),
        remove("run/tokenizer.json"),
    ),
    Bad(
        "damaged tokenizer",
        "translate run hello",
        ("tokenizer file is damaged", "run/tokenizer.json", "copy"),
        changed("run/tokenizer.json", lambda old: old[: len(old) // 2]),
    ),
    Bad(
        "foreign tokenizer",
        "translate run hello",
        ("not made by Glassformer", "run/tokenizer.json", "glassformer import"),
        foreign_tokenizer,
    ),
    Bad(
        "no weights",
        "translate run hello",
        ("weights are missing", "run/model.safetensors", "--resume"),
        remove("run/model.safetensors"),
    ),
    Bad(
        "truncated weights",
        "translate run hello",
        ("damaged", "run/model.safetensors", "copy"),
        changed("run/model.safetensors", lambda old: old[: len(old) // 2]),
    ),
    Bad(
        "empty weights",
        "translate run hello",
        ("damaged", "run/model.safetensors", "copy"),
        write("run/model.safetensors", b""),
    ),
    Bad(
        "bit-flipped header",
        "translate run hello",
        ("damaged", "run/model.safetensors", "copy"),
        changed("run/model.safetensors", swapped_header),
    ),
    Bad(
        "foreign shapes",
        "translate run hello",
        ("do not fit the model", "run/model.safetensors", "one run together"),
        foreign_shapes,
    ),
    Bad(
        "foreign names",
        "translate run hello",
        ("do not fit the model", "run/model.safetensors", "one run together"),
        foreign_names,
    ),
    Bad(
        "pickled weights",
        "translate run hello",
        ("not in safetensors format", "run/model.safetensors", "can run code"),
        pickled_weights,
    ),
    Bad(
        "weights of torch.save",
        "translate run hello",
        ("not in safetensors format", "run/model.safetensors", "can run code"),
        torch_pickled_weights,
    ),
    # how to translate
    Bad("beam 0", "translate run hello --beam 0", ("--beam", "1")),
    Bad("beam 1000", "translate run hello --beam 1000", ("--beam", "64")),
    Bad("n-best above beam", "translate run hello --beam 2 --n-best 3", ("beam size 2", "--beam 3 or more")),
    Bad("n-best 1000", "translate run hello --n-best 1000", ("--n-best", "64")),
    Bad("unknown precision", "translate run --precision fp7 Hello", ("'fp7'", "--precision", "fp32 or int8")),
    Bad(
        "temperature 0", "translate run hello --sample --temperature 0", ("temperature 0.0 is out of range", "above 0")
    ),
    Bad("top-p 2", "translate run hello --sample --top-p 2", ("top-p=2.0 is out of range", "at most 1")),
    Bad("top-k below 0", "translate run hello --sample --top-k -1", ("top-k=-1 is out of range", "0 (all tokens)")),
    Bad("temperature of a search", "translate run hello --temperature 0.5", ("--temperature", "--sample")),
    Bad(
        "n-best of chance",
        "translate run hello --sample --n-best 3",
        ("--sample cannot be combined", "--n-best", "remove one"),
    ),
    Bad("text and -i", "translate run hello -i test.en", ("cannot be combined", "one of them")),
    Bad("-i is a dash", "translate run -i -", ("no file -", "/dev/stdin")),
    Bad("-i missing", "translate run -i tset.en", ("no file tset.en", "did you mean test.en?")),
    Bad(
        "-i is Latin-1", "translate run -i l.en -o l.fr", ("not UTF-8", "l.en:2", "iconv"), write("l.en", b"a\n\xe9\n")
    ),
    Bad("nothing on stdin", "translate run", ("standard input is empty", "one sentence per line")),
    Bad(
        "Latin-1 on stdin",
        "translate run",
        ("standard input is not UTF-8", "standard input:1", "iconv"),
        stdin=b"caf\xe9\n",
    ),
    Bad("text is not UTF-8", ["translate", "run", "caf\udce9"], ("text is not UTF-8", "caf", "-i")),
    Bad(
        "-o is a folder",
        "translate run hello -o void",
        ("is a folder", "void", "-o"),
        both(folder("void"), write("void/dear.txt", "!")),
    ),
    Bad("-o under a file", "translate run hello -o train.en/x", ("cannot be written", "train.en/x", "-o")),
    Bad("-o on a full disk", "translate run hello -o full", ("No space left", "full", "free space"), full_device),
    # scores and views
    Bad(
        "evaluate unequal",
        "evaluate run --source test.en --reference valid.fr",
        ("numbers of lines: 10 and 4", "test.en and valid.fr", "line N"),
    ),
    Bad(
        "evaluate missing",
        "evaluate run --source tset.en --reference test.fr",
        ("no file tset.en", "did you mean test.en?"),
    ),
    Bad(
        "evaluate without reference",
        "evaluate run --source test.en",
        ("scored against reference translations", "--reference"),
    ),
    Bad(
        "evaluate unknown tokenizer",
        "evaluate run --source test.en --reference test.fr --tokenize moses",
        ("no tokenizer 'moses'", "--tokenize", "13a"),
    ),
    Bad(
        "evaluate tokenizer not installed",
        "evaluate run --source test.en --reference test.fr --tokenize ko-mecab",
        ("ko-mecab", "pip install", "--tokenize", "such as --tokenize char"),
        no_mistake=find_spec("mecab_ko") is not None,
    ),
    Bad(
        "evaluate -o is a folder",
        "evaluate run --source test.en --reference test.fr -o run",
        ("is a folder", "run", "-o"),
    ),
    Bad(
        "evaluate -o is the reference",
        "evaluate run --source test.en --reference test.fr -o ./test.fr",
        ("overwrite", "-o test.fr", "another file"),
    ),
    Bad("data check one file", "data check train.en", ("only one side", "train.en", "two aligned files")),
    Bad("data check unequal", "data check train.en valid.fr", ("different numbers of lines", "train.en:5", "line n")),
    Bad("explain layer", "explain run hello --layer 7", ("no decoder layer 7", "--layer", "0")),
    Bad("explain nothing", ["explain", "run", "  "], ("text is empty", "enter a sentence")),
    Bad("info on no run", "info void", ("no run.toml", "void", "the folder that train wrote"), folder("void")),
    Bad("data get unknown", "data get wmt14", ("no data set 'wmt14'", "use phrasebook")),
    Bad("data get too few", "data get phrasebook --size 3", ("3 sentences", "50 to")),
    Bad(
        "data get over other files",
        "data get phrasebook -o . --size 60",
        ("exists with other content", "train.en", "-o"),
    ),
    Bad("studio on no run", "studio void", ("no run.toml", "void", "the folder that train wrote"), folder("void")),
    Bad("demo in Klingon", "demo --language tlh", ("'tlh'", "--language", "fr or ko")),
    Bad("unknown command", "trian a b", ("No such command 'trian'", "'train'")),
    Bad("unknown option", "translate run hello --baem 4", ("No such option", "--baem", "--beam")),
    Bad("option without value", "translate run hello --beam", ("--beam", "requires an argument")),
    Bad("option of wrong type", "translate run hello --beam wide", ("--beam", "integer")),
    Bad("--valid with one file", "train train.en train.fr --valid valid.en", ("only one side", "valid.en", ".tsv")),
]


def Works(
    name: str,
    argv: str | list[str],
    holds: Callable[[Path, Result], bool],
    prepare: Prepare = nothing,
    stdin: bytes = b"",
) -> Case:
    """Unusual but valid input."""
    return Case(name, argv, (), prepare, stdin, code=0, holds=holds)


def windows(workdir: Path) -> None:
    for path in workdir.glob("*.??"):
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))


def marked(workdir: Path) -> None:
    for path in workdir.glob("*.??"):
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())


def same_tokenizer(workdir: Path, result: Result) -> bool:
    """The text was read as the plain text that `run` was trained on."""
    return (workdir / "new/tokenizer.json").read_bytes() == (workdir / "run/tokenizer.json").read_bytes()


def one_line(workdir: Path, result: Result) -> bool:
    return result.out.count("\n") == 1 and bool(result.out.strip())


def empty_line(workdir: Path, result: Result) -> bool:
    return (result.out, result.err) == ("\n", "")


def in_parts(workdir: Path, result: Result) -> bool:
    counted = re.search(r"warning: line 2: too long for one pass, translated in (\d+) parts", result.err)
    return counted is not None and int(counted[1]) > 10 and result.out.count("\n") == 3


def pipe(workdir: Path) -> None:
    os.mkfifo(workdir / "pipe")
    os.open(workdir / "pipe", os.O_RDWR)  # a reader, so that the writer does not block


def still_a_pipe(workdir: Path, result: Result) -> bool:
    return stat.S_ISFIFO(os.stat(workdir / "pipe").st_mode)


NEW = f"{TRAIN} --valid valid.en valid.fr -o new"

WORKS = [
    Works("CRLF", NEW, same_tokenizer, windows),
    Works("byte-order marks", NEW, same_tokenizer, marked),
    Works(
        "blank lines at the same place",
        NEW,
        same_tokenizer,
        both(lines("train.en", lambda old: [*old, ""]), lines("train.fr", lambda old: [*old, ""])),
    ),
    Works(
        "a setting of a recipe mended",
        "train r.toml train.steps=2",
        lambda workdir, r: (workdir / "runs/en-fr/README.md").exists(),
        write(
            "r.toml",
            "[data]\ntrain=['train.en','train.fr']\n[train]\nsteps=999999\n[model]\nlayers=1\nd_model=16\nheads=2\nd_ff=8\n",
        ),
    ),
    Works(
        "one word, a thousand times",
        f"train same.en same.fr --valid valid.en valid.fr -o new data.drop_duplicates=false {TINY}",
        lambda workdir, r: "1,000 kept" in r.err and (workdir / "new/model.safetensors").exists(),
        both(write("same.en", "yes\n" * 1000), write("same.fr", "oui\n" * 1000)),
    ),
    Works(
        "equal sides are a copy task",
        f"train train.en same.en -o new {TINY}",
        lambda workdir, r: "the task appears to be copying" in r.err and (workdir / "new/model.safetensors").exists(),
        lambda workdir: write("same.en", (workdir / "train.en").read_bytes())(workdir),
    ),
    Works(
        "10,000 words in a line of training",
        NEW,
        lambda workdir, r: (
            "1  dropped: a side has more" in r.err and "train.en:187" in r.err and same_tokenizer(workdir, r)
        ),
        both(lines("train.en", lambda old: [*old, "word " * 10_000]), lines("train.fr", lambda old: [*old, "mot"])),
    ),
    Works(
        "10,000 words in a line to translate",
        "translate run --beam 1 -i long.en",
        in_parts,
        write("long.en", "A cat .\n" + "word " * 10_000 + "\nA dog .\n"),
    ),
    Works("empty text", ["translate", "run", ""], empty_line),
    Works("only spaces", ["translate", "run", " \t  "], empty_line),
    Works("emoji", ["translate", "run", "🙂 👩‍👩‍👧 I am 🇰🇷"], one_line),
    Works("unknown scripts", ["translate", "run", "ᚠᚢᚦ 𒀀𒀁 ⵣ ꙮ 漢字 한국어 עברית"], one_line),
    Works("the tokens' own names", ["translate", "run", "<eos> <pad> <0x41> ▁"], one_line),
    Works("an option's look", ["translate", "run", "--", "--beam"], one_line),
    Works(
        "-i and -o the same file",
        "translate run -i test.en -o test.en",
        lambda workdir, r: len((workdir / "test.en").read_text().splitlines()) == 10,
    ),
    Works("-o is a pipe", "translate run hello -o pipe", still_a_pipe, pipe),
    Works(
        "-o in a new folder",
        "translate run hello -o a/b/c.fr",
        lambda workdir, r: (workdir / "a/b/c.fr").read_text().count("\n") == 1,
    ),
    Works("beam 64", "translate run hello --beam 64", one_line),
    Works(
        "a log cut off in the middle",
        "info run",
        lambda workdir, r: "finished" in r.out,
        changed("run/log.jsonl", lambda old: old[:-40]),
    ),
    Works("data get twice", "data get phrasebook --size 200 -o .", lambda workdir, r: "186 train" in r.out),
    Works(
        "resume with fewer steps than were made",
        "train -o run --resume train.steps=2",
        lambda workdir, r: "to step 2" not in r.err and "step 5: all steps done" in r.err,
    ),
    Works("a warmup that does not end", f"{NEW} train.warmup=6", lambda workdir, r: "not reach train.lr" in r.err),
    Works(
        "--n-best of empty and of long lines",
        ["translate", "run", "--n-best", "3", "", "A cat . " * 400, "A cat ."],
        lambda workdir, r: (
            [bool(line) for line in r.out.split("\n")] == [*[False] * 3, True, *[False] * 2, *[True] * 3, False]
        ),
    ),
    Works(
        "an unknown word of 20,000 letters",
        ["translate", "run", "--beam", "1", "q" * 20_000],
        lambda workdir, r: "notice: not in the model's vocabulary: qqq" in r.err and len(r.err) < 2_000,
    ),
    Works(
        "a shortlist that the engine does not have",
        "translate run hello --shortlist --engine torch",
        lambda workdir, r: "note: PyTorch is used in fp32, without a shortlist" in r.err,
    ),
    Works("resume what is finished", "train -o run --resume", lambda workdir, r: "step 5: all steps done" in r.err),
]

MISTAKES = [*BAD, *WORKS]
