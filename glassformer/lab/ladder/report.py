"""Write the report of a comparison: report.json, report.md, report.html (self-contained) and plots.

The page works offline and without scripts. All text of the user is escaped.
"""

from __future__ import annotations

import json
from html import escape
from pathlib import Path
from typing import Any

from glassformer.errors import UserError
from glassformer.files import write_text
from glassformer.glass.heatmap import Heatmap
from glassformer.glass.svg import heatmap_svg
from glassformer.lab.ladder import plots as ladder_plots
from glassformer.lab.ladder.charts import Series, bars, legend, line_chart
from glassformer.lab.ladder.results import COLUMNS, Report, caveats, collect, conditions, markdown, number
from glassformer.lab.ladder.stylesheet import STYLE

LOWEST = 1e-6  # lower limit of g(k)/g(0) in the chart


def write_report(folder: Path, *, plots: bool = True) -> tuple[Report, list[Path], str]:
    """Return the report, the written files, and the reason if the plots could not be drawn."""
    report = collect(folder)
    written = [folder / "report.json", folder / "report.html", folder / "report.md"]
    write_text(written[0], json.dumps(report, ensure_ascii=False, indent=1) + "\n")
    write_text(written[1], page(report))
    write_text(written[2], markdown(report))
    try:
        written += ladder_plots.draw(report, folder / "plots") if plots else []
    except UserError as error:
        return report, written, str(error)
    return report, written, ""


def page(report: Report) -> str:
    """Return the page as HTML."""
    kind, title = report["kind"], TITLES[report["kind"]]
    parts = (_systems, _scores, _by_length, _training, _source, _speed, _gradient, _attention, _glossary, _numbers)
    sections = "".join(part(report) for part in parts)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{escape(title[0])}</title><style>{STYLE}</style></head><body><main>"
        f"<h1>{escape(title[0])} {_ko(title[1])}</h1><p class=lead>{escape(INTRODUCTIONS[kind])}</p>"
        f"<p>{escape(conditions(report))}</p>{_caveats(report)}{sections}</main></body></html>\n"
    )


def _caveats(report: Report) -> str:
    return "".join(f'<p class="caution">{escape(text)}</p>' for text in caveats(report))


def _systems(report: Report) -> str:
    """Return the table of all results, one row per system, and the descriptions of the systems."""
    head = "".join(f"<th>{escape(heading)}</th>" for heading, _, _ in COLUMNS)
    rows = []
    for system in report["systems"]:
        cells = "".join(f"<td>{number(system.get(name), digits)}</td>" for _, name, digits in COLUMNS)
        state = "" if system["state"] == "done" else f'<br><em class="{system["state"]}">{escape(_state(system))}</em>'
        rows.append(f"<tr><th>{escape(system['title'])}<br>{_ko(system['korean'])}{state}</th>{cells}</tr>")
    descriptions = "".join(
        f"<dt>{escape(system['title'])}</dt><dd>{escape(system['change'])}"
        f'<br><small class="model">{escape(system.get("model", ""))}</small></dd>'
        for system in report["systems"]
    )
    note = (
        "train loss: mean per target token over the last training steps, with label smoothing; valid loss: at the "
        "last validation, without label smoothing; all other scores use the saved weights, the best by BLEU. source "
        "gain: see below. epochs: completed passes over the training set. tok/s: target tokens per second."
    )
    table = f"<table><thead><tr><th></th>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    return _section(
        "The systems",
        "비교 대상",
        f'<div class="wide">{table}</div><p class="note">{escape(note)}</p><dl class="systems">{descriptions}</dl>',
    )


def _state(system: Report) -> str:
    return f"{system['state']}: {system['reason']}" if "reason" in system else str(system["state"])


def _done(report: Report) -> list[tuple[int, Report]]:
    """Return the finished systems, each with the number that determines its colour."""
    return [(i, system) for i, system in enumerate(report["systems"]) if system["state"] == "done"]


def _scores(report: Report) -> str:
    done = _done(report)
    drawn = "".join(
        bars([(i, system["title"], system[name]) for i, system in done], called, digits=2)
        for name, called in (("bleu", "BLEU"), ("chrf", "chrF"), ("exact_match", "exact match, %"))
    )
    signatures = "".join(
        f"<br><code>{escape(report[name])}</code>" for name in ("bleu_signature", "chrf_signature") if report[name]
    )
    note = f'<p class="note">Computed by sacreBLEU; signatures:{signatures}</p>'
    return _section("Translation quality", "번역 품질", f'<div class="panels">{drawn}</div>{note}')


def _by_length(report: Report) -> str:
    done = _done(report)
    names = [*dict.fromkeys(name for _, system in done for name in system["bleu_by_length"])]
    series = [
        Series(
            i,
            system["title"],
            [(names.index(name), scored["bleu"]) for name, scored in system["bleu_by_length"].items()],
        )
        for i, system in done
    ]
    counts: Report = next((system["bleu_by_length"] for _, system in done), {})
    heads = [f"{name} words" for name in names]
    rows = [
        [system["title"], *(f"{system['bleu_by_length'][name]['bleu']:.2f}" for name in names)] for _, system in done
    ]
    rows.append(["sentences", *(f"{counts[name]['sentences']:,}" for name in names)])
    chart = line_chart(series, across="source length in words", up="BLEU", names=names)
    text = (
        "Without attention the encoder compresses a sentence of any length into one vector of fixed size (고정 길이 "
        "벡터), an information bottleneck: BLEU drops for long sentences. Long sentences may be easier or harder "
        "than short ones in a given text, so compare the lines with each other. Each range has about equally many "
        "sentences."
    )
    return _section("BLEU by sentence length", "문장 길이별 BLEU", _figure(text, chart, series, _table(heads, rows)))


def _training(report: Report) -> str:
    series = [
        Series(i, system["title"], [(step, loss) for step, loss in system["curve"]])
        for i, system in enumerate(report["systems"])
        if system.get("curve")
    ]
    text = (
        "Training uses teacher forcing (교사 강요): the decoder reads the reference so far and predicts the next token."
    )
    if report["kind"] == "ablate":
        text += (
            " Without the look-ahead mask (룩어헤드 마스크) the decoder sees the token it should predict: the loss "
            "becomes very low, but the model cannot translate."
        )
    chart = line_chart(series, across="steps", up="training loss")
    return _section("Training loss", "학습 손실", _figure(text, chart, series))


def _source(report: Report) -> str:
    drawn = bars(
        [(i, system["title"], system["source_gain"]) for i, system in _done(report)], "nats per token", digits=3
    )
    text = (
        "The increase of the held-out loss when each source sentence is replaced by another one. A decoder that "
        "ignores the source, like a language model (언어 모델), has a gain of 0 even if its loss is low. The larger "
        "the gain, the more the model uses the source."
    )
    return _section("Source gain", "원문의 기여", f"<p>{escape(text)}</p>{drawn}")


def _speed(report: Report) -> str:
    done = _done(report)
    drawn = "".join(
        bars([(i, system["title"], system.get(name)) for i, system in done], called)
        for name, called in (
            ("training_tokens_per_second", "training, target tokens/s"),
            ("decoding_tokens_per_second", "decoding, target tokens/s"),
            ("seconds", "training time in seconds"),
        )
    )
    text = (
        "A recurrent network computes its steps sequentially (순차 계산), because each state depends on the previous "
        "one. A Transformer processes all positions in parallel (병렬 계산) during training. In decoding all systems "
        "generate one token at a time. Training: median over the log; decoding: all held-out sentences with "
        "`glassformer translate`."
    )
    return _section("Speed", "속도", f'<p>{escape(text)}</p><div class="panels">{drawn}</div>')


def _gradient(report: Report) -> str:
    done = [(i, system) for i, system in _done(report) if any(system["gradient"])]
    series = [
        Series(i, system["title"], [(k, norm / system["gradient"][0]) for k, norm in enumerate(system["gradient"])])
        for i, system in done
        if system["gradient"][0]
    ]
    reach = max((len(system["gradient"]) for _, system in done), default=0)
    every = max(1, -(-reach // 12))
    rows = [[system["title"], *(f"{norm:.4g}" for norm in system["gradient"][::every])] for _, system in done]
    text = (
        "h is the hidden state from which the first target token is predicted, x the embedding (임베딩) of the "
        "source token k steps before the end (k = 0: <eos>). g(k) is the mean of ‖uᵀ·∂h/∂x‖ over the "
        f"{report['gradient_sentences'] or 0} longest sentences (root mean square over 8 random directions u): the "
        "influence of that token on h. The chart shows g(k)/g(0) on a logarithmic axis. The first target words "
        "usually translate the first source words, which are farthest from h. Where a line falls to the right, the "
        "gradient vanishes (기울기 소실): the first source words have little influence. A model without attention "
        "cannot recover them; a model with attention can still attend to them at every later step."
    )
    chart = line_chart(series, across="k, steps before the end of the source", up="g(k)/g(0)", log=True, floor=LOWEST)
    table = _table([f"g({k})" for k in range(0, reach, every)], rows)
    return _section("Gradient norms over time", "기울기 소실", _figure(text, chart, series, table))


def _attention(report: Report) -> str:
    done = _done(report)
    attending = [(i, system) for i, system in done if system["attention"]]
    if not done:
        return ""
    example = done[0][1]["example"]
    drawn = "".join(
        f"<figure><figcaption>{escape(system['title'])}</figcaption>"
        f"{heatmap_svg(Heatmap(*_labels(system['attention']), system['attention']['weights']))}</figure>"
        for _, system in attending
    )
    text = (
        "Attention weights (어텐션 가중치) of the same sentence in each system with attention. A row is the query "
        "(쿼리) of the decoder when it predicts that token; the columns are the keys (키) of the source. Darker "
        "cells are larger weights. The decoder reads the reference (teacher forcing). Transformer: last layer, mean "
        "over the heads."
    )
    outputs = "".join(
        f"<dt>{escape(system['title'])}</dt><dd>{escape(system['example']['translation'])}</dd>" for _, system in done
    )
    translations = (
        f'<dl class="systems"><dt>source</dt><dd>{escape(example["source"])}</dd>'
        f"<dt>reference</dt><dd>{escape(example['reference'])}</dd>{outputs}</dl>"
    )
    grids = f'<div class="grids">{drawn}</div>' if attending else "<p>None of these systems has attention.</p>"
    return _section("Encoder–decoder attention", "인코더-디코더 어텐션", f"<p>{escape(text)}</p>{translations}{grids}")


def _labels(attention: dict[str, Any]) -> tuple[list[str], list[str]]:
    target, source = ([piece.replace("▁", "") or "▁" for piece in attention[side]] for side in ("target", "source"))
    return target, source


def _glossary(report: Report) -> str:
    terms = "".join(f"<dt>{escape(english)}</dt><dd>{_ko(korean)}</dd>" for english, korean in TERMS)
    return _section("Glossary", "용어", f'<dl class="words">{terms}</dl>')


def _numbers(report: Report) -> str:
    text = escape(json.dumps(report, ensure_ascii=False))
    return f'<details><summary>All results (report.json)</summary><pre class="all">{text}</pre></details>'


def _section(title: str, korean: str, content: str) -> str:
    return f"<section><h2>{escape(title)} {_ko(korean)}</h2>{content}</section>"


def _figure(text: str, chart: str, series: list[Series], table: str = "") -> str:
    folded = f"<details><summary>Show the values</summary>{table}</details>" if table else ""
    return f'<p>{escape(text)}</p><div class="drawn">{chart}{legend(series)}</div>{folded}'


def _table(heads: list[str], rows: list[list[str]]) -> str:
    head = "".join(f"<th>{escape(one)}</th>" for one in heads)
    body = "".join(
        f"<tr><th>{escape(first)}</th>{''.join(f'<td>{escape(cell)}</td>' for cell in rest)}</tr>"
        for first, *rest in rows
    )
    return f'<div class="wide"><table><thead><tr><th></th>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _ko(text: str) -> str:
    return f'<span lang="ko">{escape(text)}</span>'


TITLES = {
    "ladder": ("From the RNN to the Transformer", "RNN에서 트랜스포머까지"),
    "ablate": ("Ablation study of the Transformer", "절제 실험(ablation)"),
}
INTRODUCTIONS = {
    "ladder": "Each system addresses a weakness of the one before. All have about as many parameters as "
    "the Transformer, so the differences are due to the architecture.",
    "ablate": "Each variant starts from the same seed and differs from the Transformer in one component. The "
    "difference in the scores shows what this component contributes.",
}
TERMS = (
    ("attention", "어텐션"), ("query, key, value", "쿼리, 키, 밸류"),
    ("attention score, weight", "어텐션 스코어, 가중치"), ("scaling by √d_k", "√d_k 스케일링"),
    ("multi-head attention", "멀티 헤드 어텐션"), ("encoder, decoder", "인코더, 디코더"),
    ("hidden state", "은닉 상태"), ("context vector", "컨텍스트 벡터"), ("gate", "게이트"),
    ("vanishing gradient", "기울기 소실"), ("residual connection", "잔차 연결"),
    ("layer, batch normalization", "층 정규화, 배치 정규화"), ("positional encoding", "위치 인코딩"),
    ("look-ahead mask", "룩어헤드 마스크"), ("teacher forcing", "교사 강요"), ("beam search", "빔 서치"),
    ("parameters", "파라미터"),
)  # fmt: skip
