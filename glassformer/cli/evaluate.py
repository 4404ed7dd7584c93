"""The command `glassformer evaluate`."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
from glassformer.errors import UserError

if TYPE_CHECKING:
    from glassformer.inference.translator import Translator


def evaluate(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="run folder written by train")],
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE", help="held-out files, for every task but translation", show_default=False),
    ] = None,
    source: Annotated[Path | None, typer.Option(help="file of source lines to translate")] = None,
    reference: Annotated[
        list[Path] | None, typer.Option(help="file of reference translations; repeat for several references")
    ] = None,
    beam: BeamOption = None,
    mbr: MBROption = False,
    lowercase: Annotated[bool, typer.Option("--lowercase", help="case-insensitive BLEU and chrF")] = False,
    tokenize: Annotated[str | None, typer.Option(help="tokenizer of sacreBLEU: 13a, ko-mecab, zh, char …")] = None,
    rouge: Annotated[bool, typer.Option("--rouge", help="add ROUGE-L, for summarization")] = False,
    output_file: Annotated[
        Path | None, typer.Option("-o", "--output", help="write the translations to this file")
    ] = None,
    precision: PrecisionOption = "fp32",
    engine: EngineOption = "auto",
    ensemble: EnsembleOption = None,
    shortlist: ShortlistOption = False,
    workers: WorkersOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="print one line of JSON")] = False,
) -> None:
    """Score a run on held-out data: BLEU and chrF with their signatures, and BLEU by sentence length.

    Example: glassformer evaluate runs/en-de --source test.en --reference test.de

    An ensemble: glassformer evaluate runs/a --ensemble runs/b --source test.en --reference test.de

    A run with train.metric=rouge_l is also scored by ROUGE-L.

    Other tasks: glassformer evaluate runs/sst2 test.tsv
    """
    from glassformer.files import require_file_path, write_text
    from glassformer.inference.run_folder import RunFolder, load_settings
    from glassformer.inference.translator import load_translator
    from glassformer.tasks import metrics, task_spec

    settings = load_settings(RunFolder(run))
    if not task_spec(settings.task).sequence_to_sequence:
        if ensemble:
            message = f"Only runs that translate form an ensemble; the task of this run is {settings.task}."
            raise UserError(message, where=str(run), hint="remove --ensemble")
        _evaluate_files(run, settings.task, files or [], given=[source, *(reference or [])], as_json=as_json)
        return
    if files or source is None or not reference:
        raise _missing_references(run)
    if output_file is not None:
        require_file_path(output_file)
        _refuse_overwriting(output_file, source, *reference)
    sources, *references = _aligned(source, *reference)
    _check_tokenizer(tokenize)
    rouge = rouge or settings.train.metric == "rouge_l"
    if rouge:
        metrics.rouge_l([""], [""])  # fails now if the library is not installed
    lowercase = lowercase or (settings.tokenizer is not None and settings.tokenizer.lowercase)

    use = partial(_translate_all, sources, beam=beam, mbr=mbr, workers=workers)
    load = partial(load_translator, run, engine=known_engine(engine), ensemble=ensemble or ())
    translator = load(precision=known_precision(precision), shortlist=shortlist)
    done = use(translator)
    if output_file is not None:
        write_text(output_file, "".join(f"{line}\n" for line in done.outputs))
    record = _scored(done, sources, references, lowercase=lowercase, tokenize=tokenize, rouge=rouge)
    if translator.engine.name == "native" and (precision != "fp32" or shortlist):
        exact = use(load())
        fp32 = metrics.bleu(exact.outputs, *references, lowercase=lowercase, tokenize=tokenize)
        record |= {"bleu_fp32": round(fp32.value, 4), "seconds_fp32": round(exact.seconds, 3)}
    print(json.dumps(record)) if as_json else _print_table(record)


def _missing_references(run: Path) -> UserError:
    return UserError(
        "Translations are scored against reference translations: --source and --reference are needed.",
        where="--source, --reference",
        hint=f"glassformer evaluate {run} --source FILE --reference FILE",
    )


def _evaluate_files(run: Path, task: str, files: list[str], *, given: list[Path | None], as_json: bool) -> None:
    from glassformer.inference.run import load_run
    from glassformer.tasks import score_files
    from glassformer.tasks.metrics import metric_name

    if any(given) or not files:
        raise UserError(
            f"A run of task={task} is scored on files in the format of its training data.",
            where=str(run),
            hint=f"glassformer evaluate {run} FILE",
        )
    scores, held_out = score_files(load_run(run), files)
    signature = held_out.task.signature
    if as_json:
        unread = {"unread": held_out.unread} if held_out.unread else {}
        print(json.dumps(scores | {"signature": signature, "examples": held_out.examples} | unread))
        return
    for name, value in scores.items():
        print(f"{metric_name(name)} {value:.4f}")
    print(f"{held_out.examples:,} examples{f'; {signature}' if signature else ''}")
    if held_out.unread:
        print(f"{held_out.unread:,} files could not be read and are left out")


def _refuse_overwriting(output_file: Path, *inputs: Path) -> None:
    """Refuse to replace the references or the source by the translations."""
    for path in inputs:
        if output_file.exists() and path.exists() and output_file.samefile(path):
            raise UserError(
                "The translations would overwrite a file that is evaluated.",
                where=f"-o {output_file}",
                hint="name another file with -o",
            )


def _aligned(source: Path, *references: Path) -> list[list[str]]:
    from glassformer.text.lines import read_lines

    sources, *every = (list(read_lines(file)) for file in (source, *references))
    for reference, right in zip(references, every, strict=True):
        if len(sources) != len(right):
            raise UserError(
                f"The files have different numbers of lines: {len(sources):,} and {len(right):,}.",
                where=f"{source} and {reference}",
                hint="line N of one file must be the translation of line N of the other",
            )
    return [sources, *every]


@dataclass(frozen=True)
class _Done:
    outputs: list[str]
    tokens: int
    seconds: float


def _translate_all(
    sources: list[str], translator: Translator, *, beam: int | None, mbr: bool, workers: int | None
) -> _Done:
    from glassformer.cli.console import counted
    from glassformer.inference.minimum_bayes_risk import choose_by_risk
    from glassformer.inference.workers import translate_stream
    from glassformer.machine import cores

    print_notice(translator.notice)
    began = time.perf_counter()
    beam = beam or default_beam(translator.settings, mbr=mbr)
    stream = translate_stream(translator, sources, workers=workers or cores(), beam=beam)
    results = list(counted(map(choose_by_risk, stream) if mbr else stream, total=len(sources), what="translating"))
    seconds = time.perf_counter() - began
    return _Done([result.text for result in results], sum(result.tokens for result in results), seconds)


def _scored(
    done: _Done, sources: list[str], references: list[list[str]], *, lowercase: bool, tokenize: str | None, rouge: bool
) -> dict[str, Any]:
    """Return the scores of all translations and by source length, and the speed."""
    from glassformer.tasks import metrics

    scores = metrics.score(done.outputs, *references, lowercase=lowercase, tokenize=tokenize)
    by_length = metrics.bleu_by_length(sources, done.outputs, *references, lowercase=lowercase, tokenize=tokenize)
    record: dict[str, Any] = {
        "bleu": round(scores.bleu.value, 4),
        "bleu_signature": scores.bleu.signature,
        "chrf": round(scores.chrf.value, 4),
        "chrf_signature": scores.chrf.signature,
        "exact_match": round(scores.exact_match, 4),
        "bleu_by_length": {
            name: {"bleu": round(bleu, 4), "sentences": count} for name, (bleu, count) in by_length.items()
        },
        "sentences": scores.sentences,
        "seconds": round(done.seconds, 3),
        "output_tokens_per_second": round(done.tokens / done.seconds, 1),
    }
    if rouge:
        score = metrics.rouge_l(done.outputs, *references)
        record |= {"rouge_l": round(score.value, 4), "rouge_l_signature": score.signature}
    return record


def _print_table(record: dict[str, Any]) -> None:
    print(f"BLEU {record['bleu']:.2f}  {record['bleu_signature']}")
    print(f"chrF {record['chrf']:.2f}  {record['chrf_signature']}")
    if "rouge_l" in record:
        print(f"ROUGE-L {record['rouge_l']:.2f}  {record['rouge_l_signature']}")
    if "bleu_fp32" in record:
        difference = record["bleu"] - record["bleu_fp32"]
        plain, seconds = record["bleu_fp32"], record["seconds_fp32"]
        print(f"fp32, all tokens: BLEU {plain:.2f} (above: {difference:+.2f}), {seconds:.1f} s")
    speed = f"{record['output_tokens_per_second']:,.0f} output tokens/s"
    print(f"{record['sentences']:,} sentences in {record['seconds']:.1f} s, {speed}")
    print("BLEU by number of source words:")
    for name, scored in record["bleu_by_length"].items():
        print(f"  {name:>6}  {scored['bleu']:6.2f}  ({scored['sentences']:,} sentences)")


def _check_tokenizer(name: str | None) -> None:
    from sacrebleu.metrics import BLEU

    if name is not None and name not in BLEU.TOKENIZERS:
        hint = "use one of " + ", ".join(sorted(BLEU.TOKENIZERS))
        raise UserError(f"sacreBLEU has no tokenizer '{name}'.", where="--tokenize", hint=hint)
    try:
        BLEU(tokenize=name)
    except Exception as error:  # a missing dictionary or download: each tokenizer raises its own exception
        raise UserError(
            f"sacreBLEU's tokenizer '{name}' is not available: {' '.join(str(error).split())}",
            where="--tokenize",
            hint="install what it needs, or use another, such as --tokenize char",
        ) from None
