"""glassformer evaluate"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.arguments import known_precision
from glassformer.errors import UserError

if TYPE_CHECKING:
    from glassformer.inference.translator import Precision


def evaluate(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="the folder that train wrote")],
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE", help="held-out examples, for a run that does not translate", show_default=False),
    ] = None,
    source: Annotated[Path | None, typer.Option(help="lines to translate")] = None,
    reference: Annotated[
        list[Path] | None, typer.Option(help="their right translations; again, for others that are right, too")
    ] = None,
    beam: Annotated[int | None, typer.Option(min=1, max=64, help="hypotheses; 1 is greedy")] = None,
    lowercase: Annotated[bool, typer.Option("--lowercase", help="sacreBLEU without regard to case")] = False,
    tokenize: Annotated[str | None, typer.Option(help="sacreBLEU's tokenizer: 13a, ko-mecab, zh, char …")] = None,
    rouge: Annotated[bool, typer.Option("--rouge", help="also ROUGE-L, for summaries")] = False,
    output_file: Annotated[Path | None, typer.Option("-o", "--output", help="also write the translations")] = None,
    precision: Annotated[str, typer.Option(help="fp32, or int8: faster on a CPU, a little less exact")] = "fp32",
    workers: Annotated[int | None, typer.Option(min=1, help="processes for many lines (default: one a core)")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="one line of JSON")] = False,
) -> None:
    """Score a run on held-out text: BLEU and chrF with their signatures, and BLEU by sentence length.

    Example: glassformer evaluate runs/en-de --source test.en --reference test.de

    A run whose train.metric is rouge_l is scored by ROUGE-L too. For other tasks, accuracy or likelihood:
    glassformer evaluate runs/sst2 test.tsv
    """
    from glassformer.files import refuse_folder, write_text
    from glassformer.inference.run import RunFolder, load_settings
    from glassformer.tasks import metrics

    settings = load_settings(RunFolder(run))
    if settings.task != "translation":
        _evaluate_files(run, settings.task, files or [], given=[source, *(reference or [])], as_json=as_json)
        return
    if files or source is None or not reference:
        raise UserError(
            "Translations are scored against references.",
            where="--source, --reference",
            hint=f"glassformer evaluate {run} --source FILE --reference FILE",
        )
    if output_file is not None:
        refuse_folder(output_file)
    sources, *references = _aligned(source, *reference)
    _check_tokenizer(tokenize)
    rouge = rouge or settings.train.metric == "rouge_l"
    if rouge:
        metrics.rouge_l([""], [""])  # complains now if it cannot be had
    lowercase = lowercase or (settings.tokenizer is not None and settings.tokenizer.lowercase)

    done = _translate_all(run, sources, known_precision(precision), beam, workers)
    if output_file is not None:
        write_text(output_file, "".join(f"{line}\n" for line in done.outputs))
    record = _scored(done, sources, references, lowercase=lowercase, tokenize=tokenize)
    if rouge:
        score = metrics.rouge_l(done.outputs, *references)
        record |= {"rouge_l": round(score.value, 4), "rouge_l_signature": score.signature}
    if precision != "fp32":
        exact = _translate_all(run, sources, "fp32", beam, workers)
        fp32 = metrics.bleu(exact.outputs, *references, lowercase=lowercase, tokenize=tokenize)
        record |= {"bleu_fp32": round(fp32.value, 4), "seconds_fp32": round(exact.seconds, 3)}
    print(json.dumps(record)) if as_json else _print_table(record)


def _evaluate_files(run: Path, task: str, files: list[str], *, given: list[Path | None], as_json: bool) -> None:
    from glassformer.inference.run import load_run
    from glassformer.tasks import score
    from glassformer.training.events import called

    if any(given) or not files:
        what = f"This run does not translate: its task is {task}. It is scored on a file like those it learnt from."
        raise UserError(what, where=str(run), hint=f"glassformer evaluate {run} FILE")
    scored = score(load_run(run), files)
    if as_json:
        unread = {"unread": scored.unread} if scored.unread else {}
        print(json.dumps(scored.scores | {"signature": scored.signature, "examples": scored.examples} | unread))
        return
    for name, value in scored.scores.items():
        print(f"{called(name)} {value:.4f}")
    print(f"{scored.examples:,} examples{f'; {scored.signature}' if scored.signature else ''}")
    if scored.unread:
        print(f"{scored.unread:,} files left out: they cannot be read")


def _aligned(source: Path, *references: Path) -> list[list[str]]:
    from glassformer.text.lines import read_lines

    sources, *every = (list(read_lines(file)) for file in (source, *references))
    for reference, right in zip(references, every, strict=True):
        if len(sources) != len(right):
            raise UserError(
                f"The files do not pair up: {len(sources):,} lines and {len(right):,} lines.",
                where=f"{source} and {reference}",
                hint="line N of one must be the translation of line N of the other",
            )
    return [sources, *every]


@dataclass(frozen=True)
class _Done:
    outputs: list[str]
    tokens: int
    seconds: float


def _translate_all(run: Path, sources: list[str], precision: Precision, beam: int | None, workers: int | None) -> _Done:
    from glassformer.cli.console import counted
    from glassformer.data.process_pool import cores
    from glassformer.inference.translator import load_translator
    from glassformer.inference.workers import translate_stream

    translator = load_translator(run, precision=precision)
    began = time.perf_counter()
    stream = translate_stream(translator, sources, workers=workers or cores(), beam=beam)
    results = list(counted(stream, total=len(sources), what="translating"))
    seconds = time.perf_counter() - began
    return _Done([result.text for result in results], sum(result.tokens for result in results), seconds)


def _scored(
    done: _Done, sources: list[str], references: list[list[str]], *, lowercase: bool, tokenize: str | None
) -> dict[str, Any]:
    """The scores of all translations and of those of each length, with how fast they were made."""
    from glassformer.tasks import metrics

    scores = metrics.score(done.outputs, *references, lowercase=lowercase, tokenize=tokenize)
    by_length = metrics.bleu_by_length(sources, done.outputs, *references, lowercase=lowercase, tokenize=tokenize)
    return {
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


def _print_table(record: dict[str, Any]) -> None:
    print(f"BLEU {record['bleu']:.2f}  {record['bleu_signature']}")
    print(f"chrF {record['chrf']:.2f}  {record['chrf_signature']}")
    if "rouge_l" in record:
        print(f"ROUGE-L {record['rouge_l']:.2f}  {record['rouge_l_signature']}")
    if "bleu_fp32" in record:
        difference = record["bleu"] - record["bleu_fp32"]
        print(f"in fp32: BLEU {record['bleu_fp32']:.2f} ({difference:+.2f} here), in {record['seconds_fp32']:.1f} s")
    speed = f"{record['output_tokens_per_second']:,.0f} output tokens/s"
    print(f"{record['sentences']:,} sentences in {record['seconds']:.1f} s, {speed}")
    print("BLEU by words of the source:")
    for name, scored in record["bleu_by_length"].items():
        print(f"  {name:>6}  {scored['bleu']:6.2f}  ({scored['sentences']:,} sentences)")


def _check_tokenizer(name: str | None) -> None:
    from sacrebleu.metrics import BLEU

    if name is not None and name not in BLEU.TOKENIZERS:
        raise UserError(
            f"sacreBLEU has no tokenizer '{name}'.",
            where="--tokenize",
            hint="take one of " + ", ".join(sorted(BLEU.TOKENIZERS)),
        )
    try:
        BLEU(tokenize=name)
    except Exception as error:  # a dictionary or a download is missing; each tokenizer raises something else
        raise UserError(
            f"sacreBLEU's tokenizer '{name}' does not work here: {' '.join(str(error).split())}",
            where="--tokenize",
            hint="install what it needs, or take another, such as char",
        ) from None
