"""A trace as one HTML file that needs nothing else, and as a drawing for a notebook."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from typing import Any

from torch import Tensor

from glassformer.glass.parents import INPUTS, Parents
from glassformer.glass.recipes import NoFormula
from glassformer.glass.svg import attention_grid, labels, standing_alone
from glassformer.glass.trace import Look, Trace
from glassformer.glass.views import readable
from glassformer.glass.words import ENGLISH, say

MOST = 16  # megabytes of numbers in a page; beyond, it has attention alone
SHOWN = 5  # likeliest tokens after each
FIRST = ("cross", "question", "encoder", "decoder")  # the attention that says most, if there is one


def page(trace: Trace, model: Any = None) -> str:
    """A page of the whole trace. With the model it also says how every tensor comes from others."""
    every = sum(tensor.numel() * 4 for tensor in trace.tensors.values()) <= MOST * 2**20
    weights = {look.name for look in trace.looks}
    tensors = {name: tensor for name, tensor in trace.tensors.items() if every or name in weights}
    data = {
        "words": ENGLISH,
        "looks": [_look(trace, look) for look in trace.looks],
        "tensors": _described(tensors, trace, model),
    }
    numbers = b"".join(tensor.float().contiguous().numpy().astype("<f4").tobytes() for tensor in tensors.values())
    static = files("glassformer.glass") / "static"
    style, script = ((static / f"page.{kind}").read_text(encoding="utf-8") for kind in ("css", "js"))
    return _PAGE.format(
        title=escape(say("title")),
        style=style,
        read="".join(_lines(trace)),
        attention=_attention_section(trace) if trace.looks else "",
        next=_next_section(trace) if trace.choices(1) else "",
        tensors=_tensors_section("" if every else say("left out", most=MOST)),
        data=json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("</", "<\\/"),
        numbers=base64.b64encode(numbers).decode(),
        script=script,
    )


def fragment(trace: Trace) -> str:
    """For a notebook: the last layer of the attention that says most, and what could have come next. No script."""
    drawn = [_static_grid(trace, trace.look(kind)) for kind in FIRST if _has(trace, kind)][:1]
    return f"<div>{''.join(_lines(trace))}{''.join(drawn)}{_choices(trace) if trace.choices(1) else ''}</div>"


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title><style>{style}</style></head>
<body><main><h1>{title}</h1>{read}{attention}{next}{tensors}</main>
<script type="application/json" id="trace">{data}</script>
<script type="application/octet-stream" id="numbers">{numbers}</script>
<script>{script}</script></body></html>
"""


def _lines(trace: Trace) -> list[str]:
    told = {
        "source": trace.source,
        "output" if trace.target else "written": trace.written if trace.target else trace.predicted,
    }
    shown = [
        f'<p class="line"><b>{escape(say(key))}</b> {escape(" ".join(labels(pieces)))}</p>'
        for key, pieces in told.items()
        if pieces
    ]
    way = "free-running" if trace.free_running else "teacher-forced"
    return [*shown, f'<p class="soft">{escape(say(way))}</p>'] if trace.target else shown


def _attention_section(trace: Trace) -> str:
    controls = "".join(
        f'<label>{escape(say(key))} <select id="{key}"></select></label>' for key in ("kind", "layer", "head")
    )
    numbers = f'<label><input type="checkbox" id="exact"> {escape(say("numbers"))}</label>'
    first = next(look for kind in FIRST for look in reversed(trace.looks) if look.kind == kind)
    return (
        f'<section><h2>{escape(say("title"))}</h2><div class="controls">{controls}{numbers}'
        f'<span class="soft" id="rows"></span></div><div id="grid">'
        f'<noscript>{_static_grid(trace, first)}<p class="soft">{escape(say("no script"))}</p></noscript></div>'
        f'<p class="told" id="told" aria-live="polite"></p></section>'
    )


def _next_section(trace: Trace) -> str:
    return f'<section><h2>{escape(say("next"))}</h2><div class="wide">{_choices(trace)}</div></section>'


def _choices(trace: Trace) -> str:
    rows = []
    read = trace.target or trace.source
    written = trace.written if trace.target else trace.predicted
    for place, choices in enumerate(trace.choices(SHOWN)):
        likely = "".join(
            f'<span class="choice" title="{choice.probability!r}">'
            f'<i style="width:{60 * choice.probability:.1f}px"></i>'
            f"{escape(readable(choice.piece))} {choice.probability:.4g}</span>"
            for choice in choices
        )
        pieces = [readable(pieces[place]) if place < len(pieces) else "" for pieces in (read, written)]
        cells = "".join(f"<td>{escape(piece)}</td>" for piece in pieces)
        rows.append(f'<tr><td class="number">{place}</td>{cells}<td>{likely}</td></tr>')
    heads = "".join(f'<th scope="col">{escape(say(key))}</th>' for key in ("step", "read", "written", "probability"))
    return f'<table class="list"><thead><tr>{heads}</tr></thead><tbody>{"".join(rows)}</tbody></table>'


def _tensors_section(note: str) -> str:
    heads = "".join(f'<th scope="col">{escape(say(key))}</th>' for key in ("tensor", "shape", "formula"))
    return (
        f"<section><h2>{escape(say('tensors'))}</h2>{f'<p>{escape(note)}</p>' if note else ''}"
        f'<div class="controls"><input id="filter" placeholder="decoder.0.cross" aria-label="{escape(say("tensor"))}">'
        f'</div><div class="scroll"><table class="list"><thead><tr>{heads}</tr></thead><tbody id="names"></tbody>'
        f'</table></div><div id="tensor"></div></section>'
    )


def _look(trace: Trace, look: Look) -> dict[str, Any]:
    return {
        "kind": look.kind,
        "layer": look.layer,
        "name": look.name,
        "heads": len(trace[look.name]),
        "rows": labels(look.rows),
        "columns": labels(look.columns),
    }


def _described(tensors: dict[str, Tensor], trace: Trace, model: Any) -> list[dict[str, Any]]:
    described: list[dict[str, Any]] = []
    offset, parents = 0, None if model is None else trace.parents(model)
    for name, tensor in tensors.items():
        entry: dict[str, Any] = {"name": name, "shape": list(tensor.shape), "offset": offset}
        offset += tensor.numel()
        if name.rpartition(".")[2] in INPUTS:
            entry["formula"] = say("put in")
        if parents is not None:
            entry |= _made_of(name, parents)
        described.append(entry)
    return described


def _made_of(name: str, parents: Parents) -> dict[str, Any]:
    """Return how a tensor is computed from others; nothing for an input."""
    try:
        recipe = parents.of(name)
    except NoFormula:  # the page says so
        return {"formula": say("no formula")}
    if recipe is None:
        return {}
    return {
        "formula": recipe.formula.says,
        "parents": [*recipe.tensors.values(), *map(str, recipe.weights.values())],
        "numpy": recipe.as_numpy(),
    }


def _has(trace: Trace, kind: str) -> bool:
    return any(look.kind == kind for look in trace.looks)


def _static_grid(trace: Trace, look: Look) -> str:
    weights: Sequence[Sequence[float]] = trace[look.name].mean(dim=0).tolist()
    about = f"{say(look.kind)}, {say('layer')} {look.layer}, {say('mean')}"
    grid = attention_grid(labels(look.rows), labels(look.columns), weights, label=about)
    return f"<figure><figcaption>{escape(about)}</figcaption>{standing_alone(grid)}</figure>"
