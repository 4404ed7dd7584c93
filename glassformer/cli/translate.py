"""The command `glassformer translate`."""

from __future__ import annotations

import json
import math
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.arguments import (
    BeamOption,
    EngineOption,
    EnsembleOption,
    MBROption,
    PrecisionOption,
    ShortlistOption,
    WorkersOption,
    default_beam,
    known_engine,
    known_precision,
    print_notice,
)
from glassformer.cli.unknown import UnknownWords
from glassformer.errors import UserError

if TYPE_CHECKING:
    from glassformer.decoding import Sampling
    from glassformer.files import ResumableFile
    from glassformer.inference.shards import Shard
    from glassformer.inference.translator import Translation, Translator


def translate(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="run folder")],
    text: Annotated[
        list[str] | None, typer.Argument(metavar="TEXT", help="lines to translate", show_default=False)
    ] = None,
    input_file: Annotated[
        Path | None, typer.Option("-i", "--input", help="input file, one sentence per line (may be .gz)")
    ] = None,
    output_file: Annotated[
        Path | None, typer.Option("-o", "--output", help="output file (default: standard output)")
    ] = None,
    beam: BeamOption = None,
    n_best: Annotated[int, typer.Option(min=1, max=64, help="number of translations per line")] = 1,
    mbr: MBROption = False,
    scores: Annotated[bool, typer.Option("--scores", help="print the score of each translation")] = False,
    sample: Annotated[bool, typer.Option("--sample", help="sample instead of beam search")] = False,
    temperature: Annotated[float, typer.Option(help="with --sample: softmax temperature")] = 1.0,
    top_k: Annotated[int, typer.Option(help="with --sample: only the k most probable tokens; 0 for all")] = 0,
    top_p: Annotated[float, typer.Option(help="with --sample: nucleus sampling with this probability mass")] = 1.0,
    seed: Annotated[int, typer.Option(help="with --sample: random seed")] = 1,
    precision: PrecisionOption = "fp32",
    engine: EngineOption = "auto",
    ensemble: EnsembleOption = None,
    shortlist: ShortlistOption = False,
    workers: WorkersOption = None,
    shard: Annotated[
        str | None, typer.Option(help="translate only part K/N of the input, such as 1/4; auto with torchrun or Slurm")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object per line")] = False,
) -> None:
    """Translate text from the command line, a file, or standard input.

    Example: glassformer translate runs/en-de "I am a student"

    Translate a file: glassformer translate runs/en-de -i news.en -o news.de

    Translate with an ensemble: glassformer translate runs/a --ensemble runs/b --ensemble runs/c -i news.en

    If the translation of a file is interrupted, the same command resumes it.
    """
    if text and input_file:
        raise UserError("TEXT and -i cannot be combined.", hint="remove one of them")
    if not text and not input_file and (sys.stdin is None or sys.stdin.isatty()):
        raise UserError("No input was given.", hint="give TEXT, -i FILE, or lines on standard input")
    from glassformer.decoding import Sampling
    from glassformer.files import require_file_path
    from glassformer.inference.run_folder import RunFolder
    from glassformer.inference.translator import load_translator
    from glassformer.text.lines import read_lines

    if output_file is not None:
        require_file_path(output_file)
    _check_options(sample, beam, n_best, mbr, drawing=(temperature, top_k, top_p, seed))
    translator = load_translator(
        run,
        precision=known_precision(precision),
        engine=known_engine(engine),
        shortlist=shortlist,
        ensemble=ensemble or (),
    )
    print_notice(translator.notice)
    beam = beam or max(n_best, default_beam(translator.settings, mbr=mbr))
    sampling = Sampling(temperature, top_k, top_p, seed) if sample else None
    part = _share(shard, input_file, output_file)
    lines: Iterable[str] = text or read_lines(input_file or sys.stdin)
    options = _Options(part, beam, n_best, mbr, scores, sampling, as_json, precision, shortlist)
    output_path = output_file and part.output_path(output_file)
    weights = [RunFolder(path).weights for path in (run, *(ensemble or ()))]
    with _output(output_path, input_file, weights, options) as out:
        _translate_lines(translator, lines, out, options, workers)


@dataclass(frozen=True)
class _Options:
    """The options that the output depends on; an interrupted translation is resumed only with the same ones."""

    part: Shard
    beam: int
    n_best: int
    mbr: bool
    scores: bool
    sampling: Sampling | None
    as_json: bool
    precision: str
    shortlist: bool


def _translate_lines(
    translator: Translator, lines: Iterable[str], out: ResumableFile | _Direct, options: _Options, workers: int | None
) -> None:
    """Translate the lines that the output does not have yet, with warnings and unknown words on standard error."""
    from glassformer.inference.minimum_bayes_risk import choose_by_risk
    from glassformer.inference.translator import STREAM_LINES

    part, n_best = options.part, options.n_best
    if out.lines:
        print(f"resuming after line {part.start + out.lines:,}", file=sys.stderr)
    first = part.start + out.lines
    rest = islice(lines, first, part.end)
    unknown = UnknownWords(translator.tokenizer)
    results = _translated(translator, rest, options.beam, options.sampling, workers, first)
    for done, (line, found) in enumerate(results, out.lines + 1):
        result = choose_by_risk(found) if options.mbr else found
        for warning in result.warnings:
            print(f"warning: line {part.start + done}: {warning}", file=sys.stderr)
        if options.as_json:
            out.write(_record(line, result, n_best, translator))
        else:
            unknown.check(line)
            out.write(_shown(result, n_best, options.scores))
        if done % STREAM_LINES == 0:
            out.commit(done)
    unknown.print_notice()


def _check_options(
    sample: bool, beam: int | None, n_best: int, mbr: bool, *, drawing: tuple[float, int, float, int]
) -> None:
    """Refuse options that cannot be combined."""
    if sample and (beam is not None or n_best > 1 or mbr):
        raise UserError("--sample cannot be combined with --beam, --n-best or --mbr.", hint="remove one of them")
    if not sample and drawing != (1.0, 0, 1.0, 1):
        raise UserError("--temperature, --top-k, --top-p and --seed need --sample.", hint="add --sample")
    if beam is not None and n_best > beam:
        raise UserError(f"--n-best {n_best} is larger than the beam size {beam}.", hint=f"use --beam {n_best} or more")


def _share(shard: str | None, input_file: Path | None, output_file: Path | None) -> Shard:
    from glassformer.inference.shards import Shard, parse_shard, shard_of
    from glassformer.inference.translator import STREAM_LINES
    from glassformer.text.lines import read_lines

    if shard is None:
        return Shard()
    if input_file is None or output_file is None:
        raise UserError("--shard needs an input file and an output file.", where="--shard", hint="add -i FILE -o FILE")
    number, of = parse_shard(shard)
    return shard_of(sum(1 for _ in read_lines(input_file)), number, of, STREAM_LINES)


def _translated(
    translator: Translator, lines: Iterable[str], beam: int, sampling: Sampling | None, workers: int | None, first: int
) -> Iterator[tuple[str, Translation]]:
    """Yield each line with its translation; lines are read only as far as the translator needs."""
    from glassformer.inference.workers import translate_stream
    from glassformer.machine import cores

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
    """Output that cannot be resumed."""

    lines = 0

    def __init__(self, write: Callable[[str], object]) -> None:
        self.write = write

    def commit(self, lines: int) -> None:
        """Do nothing."""


@contextmanager
def _output(
    path: Path | None, input_file: Path | None, weights: list[Path], options: _Options
) -> Iterator[ResumableFile | _Direct]:
    """Open standard output, or a file that appears when complete; with an input file the output can be resumed."""
    from glassformer.files import ResumableFile, atomic_write, exclusive_lock

    if path is None:
        yield _Direct(sys.stdout.write)
    elif input_file is None or (path.exists() and not path.is_file()):
        with atomic_write(path) as temporary, temporary.open("w", encoding="utf-8") as file:
            yield _Direct(file.write)
    else:
        files = [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in (input_file, *weights)]
        lock = path.with_name(f".{path.name}.lock")
        with exclusive_lock(lock, "writing this file"), ResumableFile(path, [files, repr(options)]) as out:
            yield out


def _record(line: str, result: Translation, n_best: int, translator: Translator) -> str:
    """Return a line of `--json` output."""
    record: dict[str, object] = {"source": line, "translation": result.text, "score": result.score}
    if n_best > 1:
        record["n_best"] = [{"translation": c.text, "score": c.score} for c in result.candidates[:n_best]]
    if result.warnings:
        record["warnings"] = result.warnings
    if unknown := list(translator.tokenizer.unknown_words(line)):
        record["unknown_words"] = unknown
    return json.dumps(record, ensure_ascii=False) + "\n"


def _shown(result: Translation, n_best: int, scores: bool) -> str:
    shown = [(c.text, c.score) for c in result.candidates[:n_best]] or [(result.text, result.score)]
    shown += [("", -math.inf)] * (n_best - len(shown))  # every input line has the same number of output lines
    return "".join(f"{score:.4f}\t{text}\n" if scores else f"{text}\n" for text, score in shown)
