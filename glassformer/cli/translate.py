"""glassformer translate"""

from __future__ import annotations

import json
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.arguments import known_precision
from glassformer.cli.unknown import UnknownWords
from glassformer.errors import UserError

if TYPE_CHECKING:
    from glassformer.decoding.sampling import Sampling
    from glassformer.files import ResumableFile
    from glassformer.inference.shards import Shard
    from glassformer.inference.translator import Translation, Translator


def translate(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="the folder that train wrote")],
    text: Annotated[
        list[str] | None, typer.Argument(metavar="TEXT", help="lines to translate", show_default=False)
    ] = None,
    input_file: Annotated[
        Path | None, typer.Option("-i", "--input", help="file with one line each (.gz welcome)")
    ] = None,
    output_file: Annotated[Path | None, typer.Option("-o", "--output", help="where to write (default: screen)")] = None,
    beam: Annotated[int | None, typer.Option(min=1, max=64, help="hypotheses; 1 is greedy")] = None,
    n_best: Annotated[int, typer.Option(min=1, max=64, help="how many translations of each line")] = 1,
    scores: Annotated[bool, typer.Option("--scores", help="show each translation's score")] = False,
    sample: Annotated[bool, typer.Option("--sample", help="draw by chance instead of searching")] = False,
    temperature: Annotated[float, typer.Option(help="with --sample: below 1 safer, above 1 wilder")] = 1.0,
    top_k: Annotated[int, typer.Option(help="with --sample: only the k likeliest tokens; 0 for all")] = 0,
    top_p: Annotated[float, typer.Option(help="with --sample: only the likeliest that make up this share")] = 1.0,
    seed: Annotated[int, typer.Option(help="with --sample: another seed, another draw")] = 1,
    precision: Annotated[str, typer.Option(help="fp32, or int8: faster on a CPU, a little less exact")] = "fp32",
    workers: Annotated[int | None, typer.Option(min=1, help="processes for many lines (default: one a core)")] = None,
    shard: Annotated[
        str | None, typer.Option(help="only part K of N of the input, 1/4 to 4/4; auto under torchrun or Slurm")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object a line")] = False,
) -> None:
    """Translate lines: given here, from a file, or from standard input.

    Example: glassformer translate runs/en-de "I am a student"

    A file: glassformer translate runs/en-de -i news.en -o news.de

    If it is stopped or killed, the same command goes on where it was.
    """
    if text and input_file:
        raise UserError("Text and -i were both given.", hint="give one of them")
    if not text and not input_file and (sys.stdin is None or sys.stdin.isatty()):
        raise UserError("There is nothing to translate.", hint="give a text, -i FILE, or lines on standard input")
    from glassformer.decoding.sampling import Sampling
    from glassformer.files import require_file_path
    from glassformer.inference.translator import STREAM_LINES, load_translator
    from glassformer.text.lines import read_lines

    if output_file is not None:
        require_file_path(output_file)
    _refuse_clashes(sample, beam, n_best, drawing=(temperature, top_k, top_p, seed))
    translator = load_translator(run, precision=known_precision(precision))
    if beam is None:
        beam = max(n_best, translator.settings.beam)
    sampling = Sampling(temperature, top_k, top_p, seed) if sample else None
    part = _share(shard, input_file, output_file)
    lines: Iterable[str] = text or read_lines(input_file or sys.stdin)
    how = [part, beam, n_best, scores, sampling, as_json, precision]
    with _output(output_file and part.output_path(output_file), input_file, run / "model.safetensors", how) as out:
        if out.lines:
            print(f"going on after line {part.start + out.lines:,}", file=sys.stderr)
        first = part.start + out.lines
        results = _translated(translator, islice(lines, first, part.end), beam, sampling, workers, first)
        unknown = UnknownWords(translator.tokenizer)
        for number, (line, result) in enumerate(results, first + 1):
            for warning in result.warnings:
                print(f"warning: line {number}: {warning}", file=sys.stderr)
            if as_json:
                out.write(_record(line, result, n_best, list(translator.tokenizer.unknown_words(line))))
            else:
                unknown.check(line)
                out.write(_shown(result, n_best=n_best, scores=scores))
            if (number - part.start) % STREAM_LINES == 0:
                out.commit(number - part.start)
        unknown.tell()


def _refuse_clashes(sample: bool, beam: int | None, n_best: int, *, drawing: tuple[float, int, float, int]) -> None:
    """Options that cannot be had together."""
    if sample and (beam is not None or n_best > 1):
        raise UserError("--sample draws one translation; --beam and --n-best search.", hint="leave one of them out")
    if not sample and drawing != (1.0, 0, 1.0, 1):
        raise UserError("--temperature, --top-k, --top-p and --seed belong to drawing by chance.", hint="add --sample")
    if beam is not None and n_best > beam:
        raise UserError(f"A beam of {beam} has no {n_best} best.", hint=f"take --beam {n_best} or more")


def _share(shard: str | None, input_file: Path | None, output_file: Path | None) -> Shard:
    from glassformer.inference.shards import Shard, parse_shard, shard_of
    from glassformer.inference.translator import STREAM_LINES
    from glassformer.text.lines import read_lines

    if shard is None:
        return Shard()
    if input_file is None or output_file is None:
        raise UserError("A share is taken of a file, and written to one.", where="--shard", hint="add -i FILE -o FILE")
    number, of = parse_shard(shard)
    return shard_of(sum(1 for _ in read_lines(input_file)), number, of, STREAM_LINES)


def _translated(
    translator: Translator,
    lines: Iterable[str],
    beam: int,
    sampling: Sampling | None,
    workers: int | None,
    first: int,
) -> Iterator[tuple[str, Translation]]:
    """Each line with its translation, reading no further ahead than the translator does."""
    from glassformer.data.process_pool import cores
    from glassformer.inference.workers import translate_stream

    read: deque[str] = deque()

    def remembered() -> Iterator[str]:
        for line in lines:
            read.append(line)
            yield line

    workers = workers or cores()
    for result in translate_stream(
        translator, remembered(), workers=workers, beam=beam, sampling=sampling, first=first
    ):
        yield read.popleft(), result


class _Direct:
    """Output that cannot be gone on with."""

    lines = 0

    def __init__(self, write: Callable[[str], object]) -> None:
        self.write = write

    def commit(self, lines: int) -> None:
        """There is nothing to keep it in."""


@contextmanager
def _output(
    path: Path | None, input_file: Path | None, weights: Path, how: list[object]
) -> Iterator[ResumableFile | _Direct]:
    """Standard output, or a file that appears when it is complete; from file to file, it can be gone on with."""
    from glassformer.files import ResumableFile, atomic_write, exclusive_lock

    if path is None:
        yield _Direct(sys.stdout.write)
    elif input_file is None or (path.exists() and not path.is_file()):
        with atomic_write(path) as beside, beside.open("w", encoding="utf-8") as file:
            yield _Direct(file.write)
    else:
        files = [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in (input_file, weights)]
        lock = path.with_name(f".{path.name}.lock")
        with exclusive_lock(lock, "writing this file"), ResumableFile(path, [files, repr(how)]) as out:
            yield out


def _record(line: str, result: Translation, n_best: int, unknown: list[str]) -> str:
    """Return a line of `--json` output."""
    record: dict[str, object] = {"source": line, "translation": result.text, "score": result.score}
    if n_best > 1:
        record["n_best"] = [{"translation": c.text, "score": c.score} for c in result.candidates[:n_best]]
    if result.warnings:
        record["warnings"] = result.warnings
    if unknown:
        record["unknown_words"] = unknown
    return json.dumps(record, ensure_ascii=False) + "\n"


def _shown(result: Translation, *, n_best: int, scores: bool) -> str:
    shown = [(c.text, c.score) for c in result.candidates[:n_best]] or [(result.text, result.score)]
    return "".join(f"{score:.4f}\t{text}\n" if scores else f"{text}\n" for text, score in shown)
