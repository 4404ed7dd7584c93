// The beam search as a tree: every candidate under the one that it goes on from, step after step to the right.

import { note } from "../address.js";
import * as api from "../api.js";
import { h, refill, s, select } from "../dom.js";
import { exports } from "../export.js";
import { say } from "../i18n.js";
import { exact, plain } from "../numbers.js";
import { problem } from "../problem.js";
import { tableOf, twin } from "../table.js";

const LETTER = 8, BETWEEN = 44, DOWN = 26;
const BEAMS = [1, 2, 3, 4, 6, 8];

export function treePanel(trace, beam) {
  const place = h("div", {});
  const draw = async (size, open) => {
    if (!open) return;
    note({ beam: size });
    refill(place, h("p", { class: "empty waiting" }, say("computing")));
    try {
      refill(place, ...shown(await api.tree(trace.id, size)));
    } catch (error) {
      refill(place);
      if (error.status === 404) throw error;  // the page asks for the sentence again
      place.append(problem(error));
    }
  };
  const sizes = select(BEAMS.map(n => [n, String(n)]), BEAMS.includes(beam) ? beam : 4, value => draw(Number(value), true), { "aria-label": say("beam") });
  const details = h("details", { class: "panel fold" }, h("summary", {}, h("h2", {}, say("tree title"))),
    h("p", { class: "soft" }, say("tree says")), h("div", { class: "controls" }, h("span", {}, say("beam")), sizes), place);
  details.addEventListener("toggle", () => draw(Number(sizes.value), details.open && !place.childElementCount));
  return details;
}

function shown(tree) {
  const told = h("p", { class: "readout", "aria-live": "polite" }, say("choose a node"));
  const svg = drawing(tree, node => {
    told.textContent = say("node says", { token: plain(node.piece), step: node.step, own: exact(node.log_probability),
      total: exact(node.total), score: exact(node.score), fate: say(`fate ${node.fate}`) });
  });
  const heads = ["number", "parent", "step", "piece", "log_probability", "total", "score", "fate"];
  const rows = tree.nodes.slice(1).map(node => heads.map(key => (typeof node[key] === "number" && !Number.isInteger(node[key])
    ? exact(node[key]) : String(node[key]))));
  return [h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": say("tree title") }, svg), told,
    h("h3", {}, say("outputs")), h("ol", { class: "outputs" }, tree.finished.map(one =>
      h("li", {}, one.text || "–", " ", h("span", { class: "soft" }, exact(one.score))))),
    twin(() => tableOf(say("tree title"), heads, rows)),
    exports("beam", { title: say("tree title"), drawing: () => svg, rows: () => [heads, ...rows.map(row => row.map(cell => cell.replace("−", "-")))] })];
}

/** A column a step, as wide as its longest piece; in it what went on first, in the order of the parents. */
function placed(nodes) {
  const places = new Map();
  const order = { kept: 0, ended: 0, dropped: 1 };
  let x = 12, rows = 0;
  for (let step = -1; ; step++) {
    const column = nodes.filter(node => node.step === step);
    if (!column.length) return { places, rows, width: x };
    column.sort((a, b) => order[a.fate] - order[b.fate] || (places.get(a.parent)?.row ?? 0) - (places.get(b.parent)?.row ?? 0));
    const wide = Math.max(...column.map(node => plain(node.piece).length)) * LETTER;
    column.forEach((node, row) => places.set(node.number, { row, x, y: DOWN * row + 20, end: x + wide + 4 }));
    rows = Math.max(rows, column.length);
    x += wide + BETWEEN;
  }
}

function drawing(tree, onchoose) {
  const { places, rows, width } = placed(tree.nodes);
  const act = node => event => {
    if (event.type === "keydown" && !["Enter", " "].includes(event.key)) return;
    event.preventDefault();
    onchoose(node);
  };
  const branch = node => {
    const [a, b] = [places.get(node.parent), places.get(node.number)], middle = (a.end + b.x) / 2;
    return s("path", { class: `branch ${node.fate}`,
      d: `M${a.end} ${a.y - 4}C${middle} ${a.y - 4} ${middle} ${b.y - 4} ${b.x - 4} ${b.y - 4}` });
  };
  const height = rows * DOWN + 12;
  return s("svg", { class: "drawing tree", viewBox: `0 0 ${width} ${height}`, width, height, role: "group",
    "aria-label": say("tree title") },
    [...tree.nodes.slice(1)].sort((a, b) => (a.fate === "dropped" ? 0 : 1) - (b.fate === "dropped" ? 0 : 1)).map(branch),
    tree.nodes.map(node => {
      const { x, y } = places.get(node.number);
      return s("g", { class: `node ${node.fate}`, role: "button", tabindex: "0",
        "aria-label": `${plain(node.piece)}, ${say(`fate ${node.fate}`)}`, onclick: act(node), onkeydown: act(node) },
        s("text", { x, y }, plain(node.piece)));
    }));
}
