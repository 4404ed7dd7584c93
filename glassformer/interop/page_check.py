"""Run the script of an exported page in Node.js and compare it with the native engine in int8."""

from __future__ import annotations

import json
import shutil
import subprocess
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from glassformer.decoding import Sampling
from glassformer.decoding.generate import generate
from glassformer.engine.model import Worker
from glassformer.errors import UserError
from glassformer.inference.batch_decoder import output_limit
from glassformer.inference.classifier import TextClassifier
from glassformer.inference.native_modules import NativeGPT, native_copy
from glassformer.inference.search_engine import Search, search_options
from glassformer.interop.page_export import PAGE, PageRun
from glassformer.interop.translation_export import AGREEMENT, BEAM, Sample
from glassformer.models.gpt import GPT
from glassformer.text.special_tokens import EOS, PAD, SOS

NEW_TOKENS = 50  # of a continued text
OTHER_TEXTS = 20  # inputs of a language model or classifier
ODD_LINES = (
    "", " ", "a", "Hello, world! 3.14 %", "  two  spaces\tand\na line\u3000end\u200b", "\ufeffmark \x1c x\x85y",
    "안녕하세요, 세계! 한국어 문장입니다.", "\u1112\u1161\u11ab 자모", "e\u0301tude nai\u0308ve", "😀👩‍👩‍👧 emoji",
    "<eos> <mask> <0x41>", "▁mark _under", "ΑΣ İstanbul ẞ", "1٣५", "日本語、中文。", "€5+3=8^2 `x` ~|",
    "\u00ad\u2060\ue000",
)  # fmt: skip


def check_page(loaded: PageRun, page: Path) -> str:
    """Compare the outputs of a written page with those of the native engine; return the result as text.

    Raises:
        UserError: if they disagree.
    """
    texts = sample_texts(loaded)
    lines = [*ODD_LINES, *texts]
    beams = [1, BEAM] if loaded.task == "translate" else [1]
    found = run_page(page, lines, texts, [{"beam": beam, "length": NEW_TOKENS, "temperature": 0} for beam in beams])
    if found is None:
        return "not compared, because Node.js 20 or newer is not installed"
    tokenizer = loaded.run.tokenizer
    ids = [tokenizer.encode(line) for line in lines]
    decoded = [tokenizer.decode(line) for line in ids]
    same_ids = sum(a == b for a, b in zip(ids, found["ids"], strict=True))
    same_text = sum(a == b for a, b in zip(decoded, found["decoded"], strict=True))
    report, right = [f"tokenizer {min(same_ids, same_text)} of {len(lines)}"], same_ids == same_text == len(lines)
    for beam, answers in zip(beams, found["answers"], strict=True):
        expected = native_answers(loaded, texts, beam)
        given = [answer["text"] if loaded.task == "classify" else answer["tokens"] for answer in answers]
        same = sum(a == b for a, b in zip(expected, given, strict=True))
        right = right and same >= AGREEMENT * len(texts)
        report.append(f"{'greedy' if beam == 1 else f'beam {beam}'} {same} of {len(texts)}")
    text = "identical to the native engine in int8: " + ", ".join(report)
    if not right:
        raise UserError(
            f"The page disagrees with the run ({text}).", where=str(loaded.run.folder.path), hint="report this as a bug"
        )
    return text


def run_page(page: Path, lines: list[str], texts: list[str], options: list[dict[str, int]]) -> dict[str, Any] | None:
    """Run the script of a page in Node.js; return None if Node.js is missing or too old."""
    node = shutil.which("node")
    if node is None:
        return None
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    if int(version.strip().lstrip("v").partition(".")[0] or 0) < 20:
        return None
    job = json.dumps({"lines": lines, "texts": texts, "options": options})
    command = [node, str(PAGE / "check.mjs"), str(page)]
    done = subprocess.run(command, input=job.encode(), capture_output=True, check=False)
    if done.returncode != 0:
        reason = done.stderr.decode(errors="replace").strip()[-500:]
        raise UserError(f"The page does not run in Node.js: {reason}", where=str(page), hint="report this as a bug")
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def sample_texts(loaded: PageRun) -> list[str]:
    """Return inputs for the comparison: sentences of the validation set if it is on this machine, or random tokens."""
    tokenizer = loaded.run.tokenizer
    if loaded.task == "translate":
        return [tokenizer.decode(source) for source in Sample.of(loaded.run).sources]
    random = torch.Generator().manual_seed(1)
    lengths = torch.randint(1, 20, (OTHER_TEXTS,), generator=random).tolist()
    rows = [torch.randint(EOS + 1, len(tokenizer), (length,), generator=random).tolist() for length in lengths]
    return [tokenizer.decode(row) or "a" for row in rows]


def native_answers(loaded: PageRun, texts: list[str], beam: int) -> list[Any]:
    """Return the output of the native engine for each text: tokens, or the label for a classifier."""
    match loaded.task:
        case "translate":
            return [_translate(loaded, Worker(loaded.native), text, beam) for text in texts]
        case "continue":
            return [_continue(loaded, text) for text in texts]
        case _:
            return _labels(loaded, texts)


def _translate(loaded: PageRun, worker: Worker, text: str, beam: int) -> list[int]:
    settings, longest = loaded.run.settings.decode, loaded.max_positions
    most = min(settings.max_source, (longest or settings.max_source + 1) - 1)
    source = [*loaded.run.tokenizer.encode(text)[:most], EOS]
    search = Search(beam=beam, alpha=settings.length_penalty, min_length=settings.min_length)
    limit = output_limit(longest, settings, len(source) - 1)
    ((best, *_),) = worker.translate([source], search_options(search, loaded.native.shape.vocab), [limit])
    return best.tokens


def _continue(loaded: PageRun, text: str) -> list[int]:
    tokenizer, gpt = loaded.run.tokenizer, loaded.run.model
    assert isinstance(gpt, GPT)
    prompt_T = torch.tensor([tokenizer.newline_id, *tokenizer.encode(text)])
    model: Any = NativeGPT(gpt, loaded.native)
    return list(islice(generate(model, prompt_T, Sampling(top_k=1), forbidden=[PAD, SOS]), NEW_TOKENS))


def _labels(loaded: PageRun, texts: list[str]) -> list[str]:
    classifier = TextClassifier(loaded.run.model, loaded.run.tokenizer, loaded.run.labels)
    classifier.fast_model = native_copy(loaded.run, "int8")
    return [answer.label for answer in classifier.predict(texts)]
