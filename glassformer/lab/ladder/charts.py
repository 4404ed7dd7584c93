"""Charts as SVG and HTML without scripts, coloured by the stylesheet of the page. All text is escaped."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 440, 290
LEFT, RIGHT, TOP, BOTTOM = 52, 18, 12, 44
DASHES = ("", "8 3", "3 2", "10 3 2 3", "14 4", "5 2 2 2", "", "12 3 3 3", "6 5", "4 2")
# Colours of the ten lines in light and dark mode.
LIGHT = ("3567b0", "c1521f", "2b8a57", "8453b3", "a87c0c", "c03a79", "157f8d", "666666", "7a4a21", "557717")
DARK = ("86b4f2", "f2a07c", "73d29e", "c7a6ec", "e2c062", "f294c0", "66cedb", "bdbdbd", "cfa274", "aed061")


@dataclass(frozen=True)
class Series:
    """A line of a chart. Its number determines colour and dashes, so that a system looks the same in all charts."""

    number: int
    title: str
    points: list[tuple[float, float]]


@dataclass(frozen=True)
class Axis:
    """A linear or logarithmic scale from values to coordinates between `start` and `end`, with its ticks."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def at(self, value: float) -> float:
        low, high, value = (math.log10(x) if self.log else x for x in (self.low, self.high, value))
        return self.start + (value - low) / ((high - low) or 1) * (self.end - self.start)

    def ticks(self, count: int = 5) -> list[float]:
        if self.log:
            powers = range(math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9) + 1)
            every = max(1, math.ceil(len(powers) / (count + 1)))
            return [10.0**power for power in powers][::every]
        size = (self.high - self.low or 1) / count
        power = 10 ** math.floor(math.log10(size))
        step = next(multiple * power for multiple in (1, 2, 2.5, 5, 10) if multiple * power >= size * 0.999)
        first = math.ceil(self.low / step - 1e-9)
        return [i * step for i in range(first, math.floor(self.high / step + 1e-9) + 1)]


def line_chart(
    series: Sequence[Series],
    *,
    across: str,
    up: str,
    names: Sequence[str] | None = None,
    log: bool = False,
    floor: float | None = None,
) -> str:
    """Return a line chart over numbers or over `names`, where x is the index of the name.

    log    logarithmic vertical axis; values that are not positive are omitted
    floor  lower limit; smaller values are drawn there
    """
    drawn = [Series(s.number, s.title, [p for p in s.points if not log or p[1] > 0]) for s in series]
    points = [point for one in drawn for point in one.points]
    if not points:
        return "<p>No data yet.</p>"
    if floor is not None:
        drawn = [Series(s.number, s.title, [(x, max(y, floor)) for x, y in s.points]) for s in drawn]
        points = [(x, max(y, floor)) for x, y in points]
    xs, ys = [x for x, _ in points], [y for _, y in points]
    pad = 0.4 if names else 0.0
    x_axis = Axis(min(xs) - pad, max(xs) + pad, LEFT, WIDTH - RIGHT)
    low, high = (min(ys), max(ys)) if log else (min(0.0, *ys), max(ys) * 1.04 or 1.0)
    if log:
        low, high = 10 ** math.floor(math.log10(low)), 10 ** math.ceil(math.log10(high))
        high = high if high > low else low * 10
    y_axis = Axis(low, high, HEIGHT - BOTTOM, TOP, log)
    parts = [f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(f"{up}, {across}")}">']
    for tick in y_axis.ticks():
        y = y_axis.at(tick)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{_number(tick, log)}</text>')
    marks = enumerate(names) if names else ((tick, _number(tick)) for tick in x_axis.ticks())
    for value, name in marks:
        x = x_axis.at(value)
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 17}" text-anchor="middle">{escape(str(name))}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text class="axis" x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">{escape(across)}</text>')
    for one in drawn:
        path = " ".join(f"{x_axis.at(x):.1f},{y_axis.at(y):.1f}" for x, y in one.points)
        how = f'class="line s{one.number % 10}" stroke-dasharray="{DASHES[one.number % 10]}"'
        parts.append(f'<polyline {how} points="{path}"><title>{escape(one.title)}</title></polyline>')
        if names or len(one.points) == 1:
            for x, y in one.points:
                dot = f'<circle class="dot s{one.number % 10}" cx="{x_axis.at(x):.1f}" cy="{y_axis.at(y):.1f}" r="3">'
                parts.append(f"{dot}<title>{escape(f'{one.title}: {y:g}')}</title></circle>")
    return "".join([*parts, "</svg>"])


def legend(series: Sequence[Series]) -> str:
    """Return the legend."""
    items = "".join(
        f'<li><svg viewBox="0 0 34 8" width="34" height="8" aria-hidden="true"><line class="line s{s.number % 10}" '
        f'stroke-dasharray="{DASHES[s.number % 10]}" x1="0" y1="4" x2="34" y2="4"/></svg>{escape(s.title)}</li>'
        for s in series
    )
    return f'<ul class="legend">{items}</ul>'


def bars(rows: Sequence[tuple[int, str, float | None]], unit: str, digits: int = 0) -> str:
    """Return a bar chart of rows (number, title, value)."""
    most = max((value for _, _, value in rows if value), default=1.0)
    lines = []
    for number, title, value in rows:
        share = 0.0 if value is None else 100 * max(0.0, value) / most
        text = "–" if value is None else f"{value:,.{digits}f}"
        lines.append(
            f'<div class="row"><span class="name">{escape(title)}</span><span class="track">'
            f'<span class="bar b{number % 10}" style="width:{share:.1f}%"></span></span>'
            f'<span class="value">{text}</span></div>'
        )
    return f'<div class="bars"><p class="unit">{escape(unit)}</p>{"".join(lines)}</div>'


def _number(value: float, log: bool = False) -> str:
    if log:
        power = round(math.log10(value))
        return f"{value:g}" if -3 <= power <= 3 else f"1e{power}"
    return f"{value:,.0f}" if value == round(value) else f"{value:g}"
