"""A trace as a self-contained HTML page, and as a fragment for a notebook."""

from __future__ import annotations

import base64
import json
from html import escape
from importlib.resources import files
from typing import Any

from torch import Tensor

from glassformer.glass.heatmap import attention_heatmap, display_token, display_tokens
from glassformer.glass.svg import standalone_svg
from glassformer.glass.trace import AttentionLayer, Trace
from glassformer.glass.view_texts import ENGLISH, view_text

MAX_MEGABYTES = 16  # of numbers in a page; beyond, it contains the attention weights only
NEXT_TOKENS = 5


def page(trace: Trace) -> str:
    """Return a page with all tensors of a trace and how each is computed from others."""
    complete = sum(tensor.numel() * 4 for tensor in trace.tensors.values()) <= MAX_MEGABYTES * 2**20
    weights = {layer.name for layer in trace.attention_layers}
    tensors = {name: tensor for name, tensor in trace.tensors.items() if complete or name in weights}
    data = {
        "texts": ENGLISH,
        "layers": [_layer_data(trace, layer) for layer in trace.attention_layers],
        "tensors": _tensor_data(tensors, trace),
    }
    numbers = b"".join(tensor.float().contiguous().numpy().astype("<f4").tobytes() for tensor in tensors.values())
    static = files("glassformer.glass") / "static"
    style, script = ((static / f"page.{kind}").read_text(encoding="utf-8") for kind in ("css", "js"))
    return _PAGE.format(
        title=escape(view_text("title")),
        style=style,
        read="".join(_lines(trace)),
        attention=_attention_section(trace) if trace.attention_layers else "",
        next=_next_section(trace) if trace.next_tokens(1) else "",
        tensors=_tensors_section("" if complete else view_text("left out", most=MAX_MEGABYTES)),
        data=json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("</", "<\\/"),
        numbers=base64.b64encode(numbers).decode(),
        script=script,
    )


def fragment(trace: Trace) -> str:
    """Return a fragment for a notebook, without script: one attention layer, and the most probable next tokens."""
    drawn = _figure(trace, trace.attention_layer(trace.main_kind)) if trace.attention_layers else ""
    return f"<div>{''.join(_lines(trace))}{drawn}{_next_tokens_table(trace) if trace.next_tokens(1) else ''}</div>"


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title><style>{style}</style></head>
<body><main><h1>{title}</h1>{read}{attention}{next}{tensors}</main>
<script type="application/json" id="trace">{data}</script>
<script type="application/octet-stream" id="numbers">{numbers}</script>
<script>{script}</script></body></html>
"""


def _lines(trace: Trace) -> list[str]:
    sequences = {"source": trace.source, "output": trace.written if trace.target else trace.predicted}
    lines = [
        f'<p class="line"><b>{escape(view_text(key))}</b> {escape(" ".join(display_tokens(tokens)))}</p>'
        for key, tokens in sequences.items()
        if tokens
    ]
    mode = "free-running" if trace.free_running else "teacher-forced"
    return [*lines, f'<p class="soft">{escape(view_text(mode))}</p>'] if trace.target else lines


def _attention_section(trace: Trace) -> str:
    controls = "".join(
        f'<label>{escape(view_text(key))} <select id="{key}"></select></label>' for key in ("kind", "layer", "head")
    )
    numbers = f'<label><input type="checkbox" id="exact"> {escape(view_text("numbers"))}</label>'
    return (
        f'<section><h2>{escape(view_text("title"))}</h2><div class="controls">{controls}{numbers}'
        f'<span class="soft" id="rows"></span></div><div id="grid">'
        f"<noscript>{_figure(trace, trace.attention_layer(trace.main_kind))}"
        f'<p class="soft">{escape(view_text("no script"))}</p></noscript></div>'
        f'<p class="readout" id="readout" aria-live="polite"></p></section>'
    )


def _next_section(trace: Trace) -> str:
    return f'<section><h2>{escape(view_text("next"))}</h2><div class="wide">{_next_tokens_table(trace)}</div></section>'


def _next_tokens_table(trace: Trace) -> str:
    rows = []
    read = trace.target or trace.source
    written = trace.written if trace.target else trace.predicted
    for place, candidates in enumerate(trace.next_tokens(NEXT_TOKENS)):
        probable = "".join(
            f'<span class="choice" title="{token.probability!r}">'
            f'<i style="width:{60 * token.probability:.1f}px"></i>'
            f"{escape(display_token(token.piece))} {token.probability:.4g}</span>"
            for token in candidates
        )
        tokens = [display_token(tokens[place]) if place < len(tokens) else "" for tokens in (read, written)]
        cells = "".join(f"<td>{escape(token)}</td>" for token in tokens)
        rows.append(f'<tr><td class="number">{place + 1}</td>{cells}<td>{probable}</td></tr>')
    keys = ("step", "read", "written", "probability")
    heads = "".join(f'<th scope="col">{escape(view_text(key))}</th>' for key in keys)
    return f'<table class="list"><thead><tr>{heads}</tr></thead><tbody>{"".join(rows)}</tbody></table>'


def _tensors_section(note: str) -> str:
    heads = "".join(f'<th scope="col">{escape(view_text(key))}</th>' for key in ("tensor", "shape", "formula"))
    return (
        f"<section><h2>{escape(view_text('tensors'))}</h2>{f'<p>{escape(note)}</p>' if note else ''}"
        f'<div class="controls"><input id="filter" placeholder="decoder.0.cross" '
        f'aria-label="{escape(view_text("tensor"))}"></div><div class="scroll">'
        f'<table class="list"><thead><tr>{heads}</tr></thead><tbody id="names"></tbody>'
        f'</table></div><div id="tensor"></div></section>'
    )


def _layer_data(trace: Trace, layer: AttentionLayer) -> dict[str, Any]:
    return {
        "kind": layer.kind,
        "layer": layer.layer,
        "name": layer.name,
        "heads": len(trace[layer.name]),
        "rows": display_tokens(layer.rows),
        "columns": display_tokens(layer.columns),
    }


def _tensor_data(tensors: dict[str, Tensor], trace: Trace) -> list[dict[str, Any]]:
    described: list[dict[str, Any]] = []
    offset = 0
    for name, tensor in tensors.items():
        entry: dict[str, Any] = {"name": name, "shape": list(tensor.shape), "offset": offset}
        offset += tensor.numel()
        if trace.is_input(name):
            entry["formula"] = view_text("put in")
        else:
            made = trace.provenance(name)
            entry["formula"] = made.operation.formula
            entry["parents"] = [*made.tensors.values(), *map(str, made.weights.values())]
            entry["numpy"] = trace.numpy_code(name)
        described.append(entry)
    return described


def _figure(trace: Trace, layer: AttentionLayer) -> str:
    heatmap = attention_heatmap(trace, layer)
    return f"<figure><figcaption>{escape(heatmap.title)}</figcaption>{standalone_svg(heatmap)}</figure>"
