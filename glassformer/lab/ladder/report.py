"""The report of a comparison, from its folder alone: report.json, report.md, one self-contained page, and plots.

The page works offline, without scripts, on a phone and on paper. Whatever it shows of a person's text is escaped.
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
from glassformer.lab.ladder.results import COLUMNS, Report, cautions, circumstances, collect, markdown, number
from glassformer.lab.ladder.style import STYLE

LOWEST = 1e-6  # of g(k)/g(0): what is less is nothing


def write_report(folder: Path, *, plots: bool = True) -> tuple[Report, list[Path], str]:
    """Gives the report, what was written, and why something was not."""
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
    """The whole page, as HTML."""
    kind = report["kind"]
    sections = [
        _systems(report),
        _scores(report),
        _by_length(report),
        _training(report),
        _source(report),
        _speed(report),
        _gradient(report),
        _attention(report),
        _words(),
        _numbers(report),
    ]
    title = TITLES[kind]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{escape(title[0])}</title><style>{STYLE}</style></head><body><main>"
        f"<h1>{escape(title[0])} {_ko(title[1])}</h1><p class=lead>{escape(INTRODUCTIONS[kind])}</p>"
        f"<p>{escape(circumstances(report))}</p>{_caution(report)}{''.join(sections)}</main></body></html>\n"
    )


def _caution(report: Report) -> str:
    return "".join(f'<p class="caution">{escape(said)}</p>' for said in cautions(report))


def _systems(report: Report) -> str:
    """One row a system: what it is, and all its numbers."""
    head = "".join(f"<th>{escape(heading)}</th>" for heading, _, _ in COLUMNS)
    rows = []
    for system in report["systems"]:
        cells = "".join(f"<td>{number(system.get(name), digits)}</td>" for _, name, digits in COLUMNS)
        state = "" if system["state"] == "done" else f'<br><em class="{system["state"]}">{escape(_state(system))}</em>'
        rows.append(f"<tr><th>{escape(system['title'])}<br>{_ko(system['korean'])}{state}</th>{cells}</tr>")
    told = "".join(
        f"<dt>{escape(system['title'])}</dt><dd>{escape(system['change'])}"
        f'<br><small class="model">{escape(system.get("model", ""))}</small></dd>'
        for system in report["systems"]
    )
    note = (
        "loss: mean of the last steps of training, a target token, label smoothing included; held out: that of the "
        "last validation, without smoothing; all other scores are of the weights that were kept, the best by BLEU. "
        "source: what the source is worth (below). epochs: how often the whole text was read. tok/s: target tokens "
        "a second."
    )
    table = f"<table><thead><tr><th></th>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    return _section(
        "The systems",
        "비교 대상",
        f'<div class="wide">{table}</div><p class="note">{escape(note)}</p><dl class="systems">{told}</dl>',
    )


def _state(system: Report) -> str:
    return f"{system['state']}: {system['reason']}" if "reason" in system else str(system["state"])


def _done(report: Report) -> list[tuple[int, Report]]:
    """Those that are measured, each with the number that gives its colour."""
    return [(i, system) for i, system in enumerate(report["systems"]) if system["state"] == "done"]


def _scores(report: Report) -> str:
    done = _done(report)
    drawn = "".join(
        bars([(i, system["title"], system[name]) for i, system in done], called, digits=2)
        for name, called in (("bleu", "BLEU"), ("chrf", "chrF"), ("exact_match", "right to the letter, %"))
    )
    signatures = "".join(
        f"<br><code>{escape(report[name])}</code>" for name in ("bleu_signature", "chrf_signature") if report[name]
    )
    note = f'<p class="note">By sacreBLEU, whose signatures make the scores comparable:{signatures}</p>'
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
    chart = line_chart(series, across="words of the source", up="BLEU", names=names)
    text = (
        "A fixed vector (고정 길이 벡터) has the same few numbers for a long sentence as for a short one. Where a line "
        "falls to the right, the sentence did not fit. Longer sentences may also be easier in a text: compare the "
        "lines with each other. The ranges hold about as many sentences each."
    )
    return _section("BLEU by sentence length", "문장 길이별 BLEU", _figure(text, chart, series, _table(heads, rows)))


def _training(report: Report) -> str:
    series = [
        Series(i, system["title"], [(step, loss) for step, loss in system["curve"]])
        for i, system in enumerate(report["systems"])
        if system.get("curve")
    ]
    text = "Teacher forcing (교사 강요): the decoder reads the right words so far and is judged by the next one."
    if report["kind"] == "ablate":
        text += (
            " A loss that falls far below all others, with no translation to show for it, is that of a decoder that "
            "sees the answer: the look-ahead mask (룩어헤드 마스크) is there to hide it."
        )
    chart = line_chart(series, across="steps", up="training loss")
    return _section("Training loss", "학습 손실", _figure(text, chart, series))


def _source(report: Report) -> str:
    drawn = bars([(i, system["title"], system["source_gain"]) for i, system in _done(report)], "nats a token", digits=3)
    text = (
        "By how much the held-out loss grows when each sentence is given the source of another one. A low loss alone "
        "may be that of a language model (언어 모델), which writes well and says something else: its source is worth "
        "nothing to it. What a model needs its source for is translation."
    )
    return _section("What the source is worth", "원문의 기여", f"<p>{escape(text)}</p>{drawn}")


def _speed(report: Report) -> str:
    done = _done(report)
    drawn = "".join(
        bars([(i, system["title"], system.get(name)) for i, system in done], called)
        for name, called in (
            ("training_tokens_per_second", "training, target tokens/s"),
            ("decoding_tokens_per_second", "decoding, target tokens/s"),
            ("seconds", "seconds of training"),
        )
    )
    text = (
        "A recurrent network computes one step after the other (순차 계산): each waits for the state before it. A "
        "Transformer trains on all positions at once (병렬 계산), which a machine that does much at a time rewards. "
        "In decoding all of them write one token after the other. Training: the median of the log; decoding: all "
        "held-out sentences, as `glassformer translate` does it."
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
        "The vanishing gradient (기울기 소실). h is the state from which the first target word is predicted, x the "
        "embedding (임베딩) of the source token k steps before the end (k = 0: <eos>). g(k) is the mean over the "
        f"{report['gradient_sentences'] or 0} longest sentences of ‖uᵀ·∂h/∂x‖, u being random directions of unit "
        "length (root mean square over 8 of them): how much of that word still reaches h. The lines show g(k)/g(0) by "
        "factors of ten, since only their course can be compared. The first target word mostly stands for the first "
        "source words, which are farthest back. Where a line falls to the right, they hardly count any more at this "
        "step: without attention a model has no other chance to see them, with attention it can look back at every "
        "later one. Where a line rises, the model looks there already."
    )
    chart = line_chart(series, across="k, steps before the end of the source", up="g(k)/g(0)", log=True, floor=LOWEST)
    table = _table([f"g({k})" for k in range(0, reach, every)], rows)
    return _section("How far back a gradient reaches", "기울기 소실", _figure(text, chart, series, table))


def _attention(report: Report) -> str:
    done = _done(report)
    looking = [(i, system) for i, system in done if system["attention"]]
    if not done:
        return ""
    example = done[0][1]["example"]
    drawn = "".join(
        f"<figure><figcaption>{escape(system['title'])}</figcaption>"
        f"{heatmap_svg(Heatmap(*_labels(system['attention']), system['attention']['weights']))}</figure>"
        for _, system in looking
    )
    text = (
        "The same sentence in each system that has attention (어텐션). A row is the decoder's query (쿼리) while it "
        "writes that piece; its blocks show how the weights (어텐션 가중치) are shared among the keys (키) of the "
        "source, the darker the more. All read the reference translation. A Transformer: its last layer, the mean of "
        "the heads (멀티헤드)."
    )
    said = "".join(
        f"<dt>{escape(system['title'])}</dt><dd>{escape(system['example']['translation'])}</dd>" for _, system in done
    )
    translations = (
        f'<dl class="systems"><dt>source</dt><dd>{escape(example["source"])}</dd>'
        f"<dt>reference</dt><dd>{escape(example['reference'])}</dd>{said}</dl>"
    )
    grids = f'<div class="grids">{drawn}</div>' if looking else "<p>None of these systems has attention.</p>"
    return _section("Where they look", "교차 어텐션", f"<p>{escape(text)}</p>{translations}{grids}")


def _labels(attention: dict[str, Any]) -> tuple[list[str], list[str]]:
    target, source = ([piece.replace("▁", "") or "▁" for piece in attention[side]] for side in ("target", "source"))
    return target, source


def _words() -> str:
    told = "".join(f"<dt>{escape(english)}</dt><dd>{_ko(korean)}</dd>" for english, korean in WORDS)
    return _section("Words", "용어", f'<dl class="words">{told}</dl>')


def _numbers(report: Report) -> str:
    text = escape(json.dumps(report, ensure_ascii=False))
    return f'<details><summary>All numbers of this page (report.json)</summary><pre class="all">{text}</pre></details>'


def _section(title: str, korean: str, content: str) -> str:
    return f"<section><h2>{escape(title)} {_ko(korean)}</h2>{content}</section>"


def _figure(text: str, chart: str, series: list[Series], table: str = "") -> str:
    folded = f"<details><summary>the numbers</summary>{table}</details>" if table else ""
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
    "ladder": ("The ladder to the Transformer", "트랜스포머로 가는 사다리"),
    "ablate": ("The Transformer, one thing changed at a time", "절제 실험"),
}
INTRODUCTIONS = {
    "ladder": "Each system mends what the one before could not do. They have about as many weights as the Transformer, "
    "so what differs is how they are wired.",
    "ablate": "Each twin begins with the same seed and differs from the Transformer in one thing. What it loses is "
    "what that thing is for.",
}
WORDS = (
    ("attention", "어텐션"),
    ("query, key, value", "쿼리, 키, 밸류"),
    ("attention score, weight", "어텐션 스코어, 가중치"),
    ("scaling by √d_k", "√d_k 스케일링"),
    ("multi-head attention", "멀티헤드 어텐션"),
    ("encoder, decoder", "인코더, 디코더"),
    ("hidden state", "은닉 상태"),
    ("context vector", "컨텍스트 벡터"),
    ("gate", "게이트"),
    ("vanishing gradient", "기울기 소실"),
    ("residual connection", "잔차 연결"),
    ("layer, batch normalisation", "층 정규화, 배치 정규화"),
    ("positional encoding", "위치 인코딩"),
    ("look-ahead mask", "룩어헤드 마스크"),
    ("teacher forcing", "교사 강요"),
    ("beam search", "빔 서치"),
    ("weights (parameters)", "매개변수"),
)
