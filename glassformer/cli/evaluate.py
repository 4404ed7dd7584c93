"""glassformer evaluate"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.errors import UserError

if TYPE_CHECKING:
    from glassformer.metrics import Scores

ByLength = dict[str, tuple[float, int]]


def evaluate(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="the folder that train wrote")],
    source: Annotated[Path, typer.Option(help="lines to translate")],
    reference: Annotated[Path, typer.Option(help="their right translations")],
    beam: Annotated[int | None, typer.Option(min=1, max=64, help="hypotheses; 1 is greedy")] = None,
    lowercase: Annotated[bool, typer.Option("--lowercase", help="sacreBLEU without regard to case")] = False,
    tokenize: Annotated[str | None, typer.Option(help="sacreBLEU's tokenizer: 13a, ko-mecab, zh, char …")] = None,
    output_file: Annotated[Path | None, typer.Option("-o", "--output", help="also write the translations")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="one line of JSON")] = False,
) -> None:
    """Score a run on held-out text: BLEU and chrF with their signatures, and BLEU by sentence length.

    Example: glassformer evaluate runs/en-de --source test.en --reference test.de
    """
    from glassformer.files import refuse_folder, write_text
    from glassformer.text.corpus import read_lines

    if output_file is not None:
        refuse_folder(output_file)
    sources, references = list(read_lines(source)), list(read_lines(reference))
    if len(sources) != len(references):
        raise UserError(
            f"The files do not pair up: {len(sources):,} lines and {len(references):,} lines.",
            where=f"{source} and {reference}",
            fix="line N of one must be the translation of line N of the other",
        )
    from glassformer import metrics
    from glassformer.cli.console import counted
    from glassformer.translator import Translation, load

    _check_tokenizer(tokenize)
    translator = load(run)
    began = time.perf_counter()
    stream = counted(translator.stream(sources, beam=beam), total=len(sources), what="translating")
    results = [result for result in stream if isinstance(result, Translation)]
    seconds = time.perf_counter() - began
    outputs = [result.text for result in results]
    scores = metrics.score(outputs, references, lowercase=lowercase, tokenize=tokenize)
    by_length = metrics.bleu_by_length(sources, outputs, references, lowercase=lowercase, tokenize=tokenize)
    tokens_per_second = sum(result.tokens for result in results) / seconds
    show = _print_json if as_json else _print_table
    show(scores, by_length, seconds, tokens_per_second)
    if output_file is not None:
        write_text(output_file, "".join(f"{line}\n" for line in outputs))


def _print_json(scores: Scores, by_length: ByLength, seconds: float, tokens_per_second: float) -> None:
    record = {
        "bleu": round(scores.bleu.value, 4),
        "bleu_signature": scores.bleu.signature,
        "chrf": round(scores.chrf.value, 4),
        "chrf_signature": scores.chrf.signature,
        "exact_match": round(scores.exact_match, 4),
        "bleu_by_length": {name: {"bleu": round(b, 4), "sentences": n} for name, (b, n) in by_length.items()},
        "sentences": scores.sentences,
        "seconds": round(seconds, 3),
        "output_tokens_per_second": round(tokens_per_second, 1),
    }
    print(json.dumps(record))


def _print_table(scores: Scores, by_length: ByLength, seconds: float, tokens_per_second: float) -> None:
    print(f"BLEU {scores.bleu.value:.2f}  {scores.bleu.signature}")
    print(f"chrF {scores.chrf.value:.2f}  {scores.chrf.signature}")
    print(f"{scores.sentences:,} sentences in {seconds:.1f} s, {tokens_per_second:,.0f} output tokens/s")
    print("BLEU by words of the source:")
    for name, (bleu, count) in by_length.items():
        print(f"  {name:>6}  {bleu:6.2f}  ({count:,} sentences)")


def _check_tokenizer(name: str | None) -> None:
    from sacrebleu.metrics import BLEU

    if name is not None and name not in BLEU.TOKENIZERS:
        raise UserError(
            f"sacreBLEU has no tokenizer '{name}'.",
            where="--tokenize",
            fix="take one of " + ", ".join(sorted(BLEU.TOKENIZERS)),
        )
    try:
        BLEU(tokenize=name)
    except Exception as error:  # a dictionary or a download is missing; each tokenizer raises something else
        raise UserError(
            f"sacreBLEU's tokenizer '{name}' does not work here: {' '.join(str(error).split())}",
            where="--tokenize",
            fix="install what it needs, or take another, such as char",
        ) from None
