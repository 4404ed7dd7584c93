// The heads in the difference of two logits: their direct shares, the tokens they attend to, and their ablation.

import { explanation, panel, readout, scrollBox, withArrowKeys } from "../components.js";
import { h, refill } from "../dom.js";
import { heatmap } from "../heatmap.js";
import { t } from "../i18n.js";
import { headLabel, layerAndHead, layerLabel } from "../labels.js";
import { formatChange, formatExact } from "../numbers.js";
import { range } from "../ranges.js";
import { foldedMatrix } from "../table.js";
import { tokenText } from "../tokens.js";
import { largestMagnitude } from "../vectors.js";
import { swingList } from "./bars.js";

/** @import { Contrast, ContrastAblation, Share, Trace } from "../types.js" */

/** @type {[number, number]} width and height of a cell */
const CELL_SIZE = [52, 30];

/**
 * The direct share of each head; choosing one shows the tokens that it attends to.
 *
 * @param {Trace} trace
 * @param {Contrast} contrast
 */
export function headsPanel(trace, { shares }) {
  const heads = shares.filter(share => share.kind === "head");
  const kinds = [...new Set(heads.map(share => share.attention))].filter(kind => kind !== null);
  if (!heads.length) return panel(h("h2", {}, t("heads title")), explanation(t("no head shares")));
  const tokens = h("div", {});
  const most = largestMagnitude(heads.map(share => share.value));
  const maps = kinds.map(kind => {
    const ofKind = heads.filter(share => share.attention === kind);
    return headMap(t(`share ${kind}`), shareRows(ofKind), most, (layer, head) => {
      const share = ofKind.find(one => one.layer === layer && one.head === head);
      if (share) drawTokens(tokens, trace, [share], `${t(`share ${kind}`)}, ${layerAndHead(layer, head)}`);
    });
  });
  const shown = kinds.includes("cross") ? "cross" : "decoder";
  drawTokens(
    tokens,
    trace,
    heads.filter(share => share.attention === shown),
    `${t(`share ${shown}`)}, ${t("sum of heads")}`,
  );
  return panel(h("h2", {}, t("heads title")), explanation(t("heads say")), maps, tokens);
}

/**
 * The shares of one kind of attention as rows: layers × heads.
 *
 * @param {Share[]} shares
 */
function shareRows(shares) {
  /** @type {number[][]} */
  const rows = [];
  for (const { layer, head, value } of shares) (rows[layer ?? 0] ??= [])[head ?? 0] = value;
  return rows;
}

/**
 * @param {string} title
 * @param {number[][]} values  layers × heads
 * @param {number} most  the value that has the full color, the same for all maps of a panel
 * @param {(layer: number, head: number) => void} [onchoose]
 */
function headMap(title, values, most, onchoose = () => {}) {
  const numbers = Float64Array.from(values.flat());
  const matrix = {
    numbers,
    rows: range(values.length).map(layerLabel),
    columns: range(values[0].length).map(headLabel),
  };
  const chosen = readout();
  const map = heatmap({
    ...matrix,
    most,
    signed: true,
    size: CELL_SIZE,
    label: withArrowKeys(title),
    onchoose: ([layer, head]) => {
      refill(chosen, `${layerAndHead(layer, head)}: `, h("strong", {}, formatChange(values[layer][head])));
      onchoose(layer, head);
    },
  });
  return [h("h3", {}, title), scrollBox(map), chosen, foldedMatrix(title, matrix, formatExact)];
}

/**
 * The shares of the attended tokens, added up over heads.
 *
 * @param {HTMLElement} place
 * @param {Trace} trace
 * @param {Share[]} shares  of one kind of attention
 * @param {string} title
 */
function drawTokens(place, trace, shares, title) {
  const names = shares[0].attention === "cross" ? trace.source : trace.target;
  const entries = names.map((token, i) => ({
    name: tokenText(token),
    value: shares.reduce((sum, share) => sum + (share.tokens[i] ?? 0), 0),
  }));
  refill(place, h("h3", { "aria-live": "polite" }, t("shares of tokens", { head: title })), swingList(entries));
}

/** @param {ContrastAblation[]} ablations */
export function ablationPanel(ablations) {
  const most = largestMagnitude(ablations.flatMap(({ change }) => change.flat()));
  return panel(
    h("h2", {}, t("ablation title")),
    explanation(t("ablation says")),
    h(
      "div",
      { class: "head-maps" },
      ablations.map(({ kind, change }) => h("figure", {}, headMap(t(`share ${kind}`), change, most))),
    ),
  );
}
