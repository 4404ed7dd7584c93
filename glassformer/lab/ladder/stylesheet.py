"""The stylesheet of the report: light and dark mode, small screens and print."""

from __future__ import annotations

from glassformer.lab.ladder.charts import DARK, LIGHT

COLOURS = "".join(
    f".line.s{i}{{stroke:var(--s{i})}}.dot.s{i}{{fill:var(--s{i})}}.bar.b{i}{{background:var(--s{i})}}"
    for i in range(10)
)
STYLE = (
    ":root{--back:#fdfdfb;--ink:#1c1e21;--soft:#5d636b;--edge:#dcdfe3;--bad:#b3261e;--look:#3567b0;"
    + "".join(f"--s{i}:#{colour};" for i, colour in enumerate(LIGHT))
    + "}@media (prefers-color-scheme:dark){:root{--back:#15171a;--ink:#e8e9ea;--soft:#a2a8b0;--edge:#383d44;"
    "--bad:#ff8a80;--look:#86b4f2;"
    + "".join(f"--s{i}:#{colour};" for i, colour in enumerate(DARK))
    + "}}"
    + """
*{box-sizing:border-box}
body{margin:0;background:var(--back);color:var(--ink);
font:16px/1.55 system-ui,"Noto Sans","Noto Sans CJK KR",sans-serif}
main{max-width:960px;margin:0 auto;padding:1.2rem 1rem 4rem}
h1{font-size:1.7rem;line-height:1.25;margin:.6rem 0}
h2{font-size:1.25rem;margin:2.6rem 0 .6rem;border-top:1px solid var(--edge);padding-top:1.1rem}
[lang=ko]{color:var(--soft);font-weight:400;font-size:.85em;word-break:keep-all}
.lead{font-size:1.1rem}
p{max-width:46rem}
.caution{border-left:4px solid var(--bad);padding:.2rem .8rem}
.note,.unit,small{color:var(--soft);font-size:.85rem}
code,pre{font:12px/1.5 ui-monospace,monospace;overflow-wrap:anywhere}
.wide{overflow-x:auto}
table{border-collapse:collapse;font-size:.85rem;font-variant-numeric:tabular-nums;margin:.8rem 0;min-width:100%}
th,td{padding:.35rem .6rem;text-align:right;border-bottom:1px solid var(--edge);white-space:nowrap;vertical-align:top}
tbody th{text-align:left;font-weight:600;white-space:normal;min-width:9.5rem;position:sticky;left:0;
background:var(--back)}
thead th{color:var(--soft);font-weight:500}
em.failed{color:var(--bad);font-weight:400;white-space:pre-wrap;overflow-wrap:anywhere}
dl.systems{display:grid;grid-template-columns:minmax(8rem,max-content) 1fr;gap:.45rem 1rem;margin:1rem 0}
dl.systems dt{font-weight:600}dl.systems dd{margin:0}
dl.words{columns:17rem}dl.words dt{float:left;margin-right:.6rem}dl.words dd{margin:0 0 .3rem}
.drawn{display:flex;flex-wrap:wrap;gap:.6rem 1.4rem;align-items:center}
svg.chart{width:100%;max-width:600px;height:auto;flex:1 1 20rem}
svg text{font:12.5px system-ui,"Noto Sans","Noto Sans CJK KR",sans-serif;fill:var(--soft)}
svg .axis{fill:var(--ink)}
.grid{stroke:var(--edge);stroke-width:1}
.line{fill:none;stroke-width:2;stroke-linejoin:round}
.legend{list-style:none;padding:0;margin:0;font-size:.9rem;display:flex;flex-wrap:wrap;gap:.25rem 1.1rem;flex:0 1 17rem}
.legend li{display:flex;align-items:center;gap:.5rem}
.legend svg{flex:none}
.panels{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,22rem),1fr));gap:.4rem 2.2rem}
.unit{margin:.6rem 0 .2rem}
.row{display:grid;grid-template-columns:10.5rem 1fr auto;gap:.6rem;align-items:center;margin:.22rem 0;
font-size:.85rem;line-height:1.25}
.track{height:.8rem}
.bar{display:block;height:100%;min-width:1px;border-radius:2px}
.value{font-variant-numeric:tabular-nums;min-width:3.2rem;text-align:right}
.grids{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,18rem),1fr));gap:1.2rem}
figure{margin:0}
figcaption{font-weight:600;font-size:.9rem;margin-bottom:.2rem}
svg.attention{width:100%;height:auto;display:block}
.cell{fill:var(--look)}
.edge{fill:none;stroke:var(--edge);stroke-width:.6}
summary{cursor:pointer;color:var(--soft);margin:.6rem 0}
pre.all{white-space:pre-wrap}
@media (max-width:520px){main{padding:.8rem .8rem 3rem}dl.systems{grid-template-columns:1fr;gap:.1rem}
dl.systems dd{margin-bottom:.6rem}.legend{flex-basis:100%}.row{grid-template-columns:8rem 1fr auto}}
"""
    + COLOURS
)
