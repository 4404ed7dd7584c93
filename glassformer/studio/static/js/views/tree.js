// The beam search as a tree: every candidate under the one that it goes on from, step after step to the right.

import { note } from "../address.js";
import * as api from "../api.js";
import { h, s, select } from "../dom.js";
import { exports } from "../export.js";
import { say } from "../i18n.js";
import { exact, plain } from "../numbers.js";
import { tableOf, twin } from "../table.js";

const ACROSS = 92, DOWN = 26;
const BEAMS = [1, 2, 3, 4, 6, 8];

export function treePanel(trace, beam) {
  const place = h("div", {});
  const draw = async (size, open) => {
    if (!open) return;
    note({ beam: size });
    place.replaceChildren(h("p", { class: "empty waiting" }, say("computing")));
    try {
      place.replaceChildren(...shown(await api.tree(trace.id, size)));
    } catch (error) {
      place.replaceChildren(h("p", { class: "problem", role: "alert" }, error.what ?? error.message));
    }
  };
  const sizes = select(BEAMS.map(n => [n, String(n)]), beam, value => draw(Number(value), true), { "aria-label": say("beam") });
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
    exports("beam", { drawing: () => svg, rows: () => [heads, ...rows.map(row => row.map(cell => cell.replace("−", "-")))] })];
}

/** Leaves stand one below the other; a parent stands beside the first of its children. */
function placed(nodes) {
  const children = new Map();
  for (const node of nodes.slice(1)) children.set(node.parent, [...(children.get(node.parent) ?? []), node]);
  let rows = 0;
  const places = new Map();
  const visit = node => {
    const below = children.get(node.number) ?? [];
    const mine = { x: (node.step + 1) * ACROSS + 12, y: 0 };
    places.set(node.number, mine);
    if (!below.length) mine.y = DOWN * rows++ + 20;
    else {
      below.forEach(visit);
      mine.y = places.get(below[0].number).y;
    }
  };
  visit(nodes[0]);
  return { places, rows };
}

function drawing(tree, onchoose) {
  const kept = tree.nodes.filter(node => node.fate !== "dropped" || tree.nodes[node.parent].fate === "kept");
  const { places, rows } = placed(kept.map(node => node));
  const steps = Math.max(...kept.map(node => node.step)) + 2;
  const act = node => event => {
    if (event.type === "keydown" && !["Enter", " "].includes(event.key)) return;
    event.preventDefault();
    onchoose(node);
  };
  return s("svg", { class: "drawing tree", viewBox: `0 0 ${steps * ACROSS + 30} ${rows * DOWN + 20}`,
    width: steps * ACROSS + 30, height: rows * DOWN + 20, role: "group", "aria-label": say("tree title") },
    kept.slice(1).map(node => {
      const [a, b] = [places.get(node.parent), places.get(node.number)];
      return s("path", { class: `branch ${node.fate}`, d: `M${a.x + 58} ${a.y - 5}C${a.x + 76} ${a.y - 5} ${b.x - 20} ${b.y - 5} ${b.x - 6} ${b.y - 5}` });
    }),
    kept.map(node => {
      const { x, y } = places.get(node.number);
      return s("g", { class: `node ${node.fate}`, role: "button", tabindex: node.fate === "dropped" ? "-1" : "0",
        "aria-label": `${plain(node.piece)}, ${say(`fate ${node.fate}`)}`, onclick: act(node), onkeydown: act(node) },
        s("text", { x, y }, plain(node.piece)));
    }));
}
