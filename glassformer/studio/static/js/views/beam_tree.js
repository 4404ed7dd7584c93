// Beam search as a tree: each candidate next to its parent, one column per step.

import { replaceAddress } from "../address.js";
import * as api from "../api.js";
import { controls, explanation, readout, scrollRegion } from "../components.js";
import { h, ifLatest, refill, s, select } from "../dom.js";
import { errorMessage } from "../error_message.js";
import { exportButtons } from "../export.js";
import { t } from "../i18n.js";
import { formatExact, withHyphens } from "../numbers.js";
import { dataTable, foldedTable } from "../table.js";
import { tokenText } from "../tokens.js";

/** @import { Fate, Option, SearchTree, Trace, TreeNode } from "../types.js" */
/** @typedef {{ row: number, x: number, y: number, end: number }} NodePosition  end: the right edge of its text */

const LETTER_WIDTH = 8;
const COLUMN_GAP = 44;
const ROW_HEIGHT = 26;
const BEAM_SIZES = [1, 2, 3, 4, 6, 8];
const DEFAULT_BEAM = 4;
/** @type {(keyof TreeNode)[]} */
const COLUMNS = ["number", "parent", "step", "piece", "log_probability", "total", "score", "fate"];
/** @type {Record<Fate, number>} dropped candidates come last in their column */
const ORDER = { kept: 0, ended: 0, dropped: 1 };

/**
 * @param {Trace} trace
 * @param {number} beam
 */
export function treePanel(trace, beam) {
  const place = h("div", {});
  const draw = async (/** @type {number} */ size) => {
    replaceAddress({ beam: size });
    refill(place, h("p", { class: "empty waiting" }, t("computing")));
    try {
      const tree = await ifLatest(place, api.searchTree(trace.id, size));
      if (tree) refill(place, drawTree(tree));
    } catch (error) {
      refill(place);
      if (api.isNotFound(error)) throw error; // the page requests the trace again
      place.append(errorMessage(error));
    }
  };
  const chosen = BEAM_SIZES.includes(beam) ? beam : DEFAULT_BEAM;
  /** @type {Option[]} */
  const sizes = BEAM_SIZES.map(n => [n, String(n)]);
  const sizeSelect = select(sizes, chosen, size => draw(Number(size)), { "aria-label": t("beam") });
  const details = h(
    "details",
    { class: "panel fold" },
    h("summary", {}, h("h2", {}, t("tree title"))),
    explanation(t("tree says")),
    controls(h("span", {}, t("beam")), sizeSelect),
    place,
  );
  details.addEventListener("toggle", () => {
    if (details.open && !place.childElementCount) draw(Number(sizeSelect.value));
  });
  return details;
}

/** @param {SearchTree} tree */
function drawTree(tree) {
  const chosen = readout(t("choose a node"));
  const svg = drawing(tree, node => {
    chosen.textContent = t("node says", {
      token: tokenText(node.piece),
      step: node.step,
      own: formatExact(node.log_probability),
      total: formatExact(node.total),
      score: formatExact(node.score),
      fate: t(`fate ${node.fate}`),
    });
  });
  const rows = tree.nodes.slice(1).map(node =>
    COLUMNS.map(column => {
      const value = node[column];
      return typeof value === "number" && !Number.isInteger(value) ? formatExact(value) : String(value);
    }),
  );
  const outputs = tree.finished.map(({ text, score }) =>
    h("li", {}, text || "–", " ", h("span", { class: "soft" }, formatExact(score))),
  );
  return [
    scrollRegion(t("tree title"), svg),
    chosen,
    h("h3", {}, t("outputs")),
    h("ol", { class: "outputs" }, outputs),
    foldedTable(() => dataTable(t("tree title"), COLUMNS, rows)),
    exportButtons("beam", {
      title: t("tree title"),
      drawing: () => svg,
      rows: () => [COLUMNS, ...rows.map(row => row.map(withHyphens))],
    }),
  ];
}

/**
 * Place one column per step, as wide as its longest token, with the children in the order of their parents.
 *
 * @param {TreeNode[]} nodes
 */
function layout(nodes) {
  /** @type {Map<number, NodePosition>} */
  const positions = new Map();
  /** @param {TreeNode} node */
  const parentRow = node => positions.get(node.parent)?.row ?? 0;
  let [x, rows] = [12, 0];
  for (let step = -1; ; step++) {
    const column = nodes.filter(node => node.step === step);
    if (!column.length) return { positions, rows, width: x };
    column.sort((a, b) => ORDER[a.fate] - ORDER[b.fate] || parentRow(a) - parentRow(b));
    const width = Math.max(...column.map(node => tokenText(node.piece).length)) * LETTER_WIDTH;
    const left = x;
    column.forEach((node, row) =>
      positions.set(node.number, { row, x: left, y: ROW_HEIGHT * row + 20, end: left + width + 4 }),
    );
    rows = Math.max(rows, column.length);
    x += width + COLUMN_GAP;
  }
}

/**
 * @param {SearchTree} tree
 * @param {(node: TreeNode) => void} onchoose
 */
function drawing(tree, onchoose) {
  const { positions, rows, width } = layout(tree.nodes);
  const height = rows * ROW_HEIGHT + 12;
  /** @param {number} number */
  const position = number => /** @type {NodePosition} */ (positions.get(number));
  // Branches that were kept are drawn over the ones that were dropped.
  const branches = tree.nodes.slice(1).sort((a, b) => ORDER[b.fate] - ORDER[a.fate]);
  const size = { viewBox: `0 0 ${width} ${height}`, width, height };
  return s(
    "svg",
    { class: "drawing tree", ...size, role: "group", "aria-label": t("tree title") },
    branches.map(node => branch(node.fate, position(node.parent), position(node.number))),
    tree.nodes.map(node => drawNode(node, position(node.number), onchoose)),
  );
}

/**
 * @param {Fate} fate
 * @param {NodePosition} from
 * @param {NodePosition} to
 */
function branch(fate, from, to) {
  const middle = (from.end + to.x) / 2;
  const [start, end] = [from.y - 4, to.y - 4];
  const d = `M${from.end} ${start}C${middle} ${start} ${middle} ${end} ${to.x - 4} ${end}`;
  return s("path", { class: `branch ${fate}`, d });
}

/**
 * @param {TreeNode} node
 * @param {NodePosition} position
 * @param {(node: TreeNode) => void} onchoose
 */
function drawNode(node, { x, y }, onchoose) {
  const token = tokenText(node.piece);
  return s(
    "g",
    {
      class: `node ${node.fate}`,
      role: "button",
      tabindex: "0",
      "aria-label": `${token}, ${t(`fate ${node.fate}`)}`,
      onclick: () => onchoose(node),
      onkeydown: event => {
        if (!["Enter", " "].includes(event.key)) return;
        event.preventDefault();
        onchoose(node);
      },
    },
    s("text", { x, y }, token),
  );
}
