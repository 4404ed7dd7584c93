"""Export a run as one HTML file that runs the model in a browser, without network: int8 weights, the native engine as
WebAssembly (engine/engine.wasm), and the JavaScript of page/.

    page/main.js  the page; heatmap.js, messages.js (both languages), style.css, page.html
    page/model.js  text → answer; tokenizer.js, engine.js (WebAssembly), payload.js
    page/check.mjs  runs the script of a written page in Node.js

The scripts are joined into one, since a page opened from a file cannot import modules.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import tempfile
from dataclasses import dataclass
from html import escape
from itertools import islice
from pathlib import Path, PurePath
from string import Template
from typing import Any

import numpy as np

from glassformer.data.parallel_text import parallel_files, read_pairs
from glassformer.engine.library import Unavailable
from glassformer.engine.model import NativeModel
from glassformer.engine.wasm import PACKAGED
from glassformer.errors import UserError
from glassformer.files import atomic_write
from glassformer.inference.run import Run, load_run, weights_of
from glassformer.interop.page_payload import write_payload
from glassformer.models.heads import Classifier, PoolerClassifier
from glassformer.settings import BertSettings, GPTSettings, TransformerSettings, task_traits
from glassformer.text.languages import languages_of_files
from glassformer.text.tokenizer import Tokenizer

PAGE = Path(__file__).parent / "page"
EXAMPLES = 3  # short sentences of the validation set that the page offers
MAX_EXAMPLE = 60  # characters

_IMPORT = re.compile(r'^import \{[^}]*\} from "([^"]+)";\n', flags=re.MULTILINE)
_EXPORT = re.compile(r"^export (?=const|function|async|class)", flags=re.MULTILINE)


@dataclass(frozen=True)
class PageRun:
    """A run that a page can show.

    Attributes:
        task: what the page does: "translate" (any sequence-to-sequence task), "continue" a text, or "classify" it.
        native: its weights in int8.
    """

    run: Run
    task: str
    native: NativeModel

    @property
    def max_positions(self) -> int | None:
        """The maximum length of a model input; None if unlimited."""
        return self.native.shape.max_positions or None


def export_page(run: Path, out: Path) -> str:
    """Write a run as an HTML page; return a description of the comparison with the native engine in int8."""
    from glassformer.interop.page_check import check_page

    if out.exists():
        raise UserError("The output exists already.", where=str(out), hint="choose a new name with -o")
    loaded = load_page_run(run)
    examples = _examples(loaded.run) if loaded.task == "translate" else []
    html = page_html(loaded, run.resolve().name, examples)
    with atomic_write(out) as temporary:  # a page with different outputs is not written
        temporary.write_text(html, encoding="utf-8", newline="\n")
        checked = check_page(loaded, temporary)
    size = f"{len(html.encode()) / 1e6:.2f} MB"
    return f"{size}; {checked}" + (f"; contains {len(examples)} sentences of the validation set" if examples else "")


def load_page_run(path: Path) -> PageRun:
    """Load a run for a page; refuse one that the page cannot show."""
    run = load_run(path)
    settings = run.settings
    match settings.model:
        case TransformerSettings() if task_traits(settings.task).sequence_to_sequence:
            task = "translate"
        case GPTSettings() if run.tokenizer.kind != "notes":
            task = "continue"
        case BertSettings() if isinstance(run.model, Classifier | PoolerClassifier):
            task = "classify"
        case _:
            raise _refused(path, f"its task is {settings.task} and model.family is {settings.model.family}")
    tokenizer = run.tokenizer
    if tokenizer.kind not in ("bpe", "characters") or (tokenizer.kind == "bpe" and not tokenizer.splits_at_spaces()):
        raise _refused(path, "its tokenizer was not trained by Glassformer")
    try:
        native = NativeModel.from_tensors(weights_of(run.model), settings.model, len(tokenizer), "int8")
    except Unavailable as reason:
        raise _refused(path, f"the native engine cannot run it ({reason})") from None
    return PageRun(run, task, native)


def _refused(path: Path, reason: str) -> UserError:
    return UserError(
        f"This run cannot be exported to a page: {reason}.",
        where=str(path),
        hint="export a Transformer that translates, a GPT of text or a BERT that classifies texts",
    )


def page_html(loaded: PageRun, name: str, examples: list[str]) -> str:
    """Return the page of a run."""
    script, style = bundle("main.js"), (PAGE / "style.css").read_text(encoding="utf-8")
    assert "</script" not in script.lower()
    with tempfile.TemporaryDirectory() as folder:
        loaded.native.save(Path(folder) / "weights")
        weights = (Path(folder) / "weights").read_bytes()
    sections = {"engine": PACKAGED.read_bytes(), "weights": weights, "head": _head(loaded)}
    payload = write_payload(_info(loaded, name, examples), sections)
    template = Template((PAGE / "page.html").read_text(encoding="utf-8"))
    hashes = {"script_hash": _hash(script), "style_hash": _hash(style)}
    return template.substitute(hashes, title=escape(name), style=style, script=script, payload=payload)


def bundle(entry: str) -> str:
    """Return a module and the modules that it imports as one script: each once, before its first use.

    Raises:
        ValueError: if an import or export has a form that is not replaced.
    """
    parts: dict[Path, str] = {}

    def add(path: Path) -> None:
        if path in parts:
            return
        source = path.read_text(encoding="utf-8")
        for imported in _IMPORT.findall(source):
            add((path.parent / imported).resolve())
        parts[path] = _EXPORT.sub("", _IMPORT.sub("", source))
        if left := re.search(r"^(import|export)\b.*", parts[path], flags=re.MULTILINE):
            raise ValueError(f"{path.name}: {left[0]}")

    add((PAGE / entry).resolve())
    return "\n".join(parts.values())


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _info(loaded: PageRun, name: str, examples: list[str]) -> dict[str, Any]:
    """Return the description of the run; its type is `PageInfo` of page/types.d.ts."""
    run, shape, decode = loaded.run, loaded.native.shape, loaded.run.settings.decode
    tokenizer, train = run.tokenizer, run.settings.data.train
    return {
        "name": name,
        "task": loaded.task,
        "languages": languages_of_files(train) if loaded.task == "translate" else None,
        "parameters": sum(weight.numel() for weight in weights_of(run.model).values()),
        # File names without folders: a path may contain private information.
        "data": [PurePath(file).name for side in train for file in ([side] if isinstance(side, str) else side)],
        "examples": examples,
        "labels": run.labels,
        "pooler": isinstance(run.model, PoolerClassifier),
        "tokenizer": {
            "kind": tokenizer.kind,
            "lowercase": tokenizer.lowercase,
            "newline": tokenizer.newline_id,
            "tokens": tokenizer.pieces(range(len(tokenizer))),
            "merges": _merges(tokenizer),
        },
        "shape": {
            "vocab": shape.vocab,
            "width": shape.d_model,
            "heads": shape.heads,
            "encoderLayers": shape.encoder_layers,
            "decoderLayers": shape.decoder_layers,
        },
        "maxPositions": loaded.max_positions,
        "decode": {
            "beam": decode.beam,
            "lengthPenalty": decode.length_penalty,
            "maxLength": decode.max_length,
            "minLength": decode.min_length,
            "maxSource": decode.max_source,
        },
    }


def _merges(tokenizer: Tokenizer) -> list[int]:
    """Return the ids of the two tokens of each merge, in the order of the merges."""
    model = json.loads(tokenizer.to_json())["model"]
    return [model["vocab"][piece] for pair in model["merges"] for piece in pair]


def _head(loaded: PageRun) -> bytes:
    """Return the head of a classifier in fp32: weight and bias of the pooler, if there is one, and of the output."""
    if loaded.task != "classify":
        return b""
    weights = weights_of(loaded.run.model)
    names = [f"{layer}.{part}" for layer in ("summary", "output") for part in ("weight", "bias")]
    names = names if isinstance(loaded.run.model, PoolerClassifier) else names[2:]
    return b"".join(weights[name].float().contiguous().numpy().astype(np.dtype("<f4")).tobytes() for name in names)


def _examples(run: Run) -> list[str]:
    try:
        pairs = read_pairs(parallel_files(run.settings.data.valid or run.settings.data.train))
        short = (pair.source for pair in pairs if 0 < len(pair.source) <= MAX_EXAMPLE)
        return list(islice(short, EXAMPLES))
    except UserError:  # the training files are not on this machine
        return []
