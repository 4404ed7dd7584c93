// The effect of interventions: both outputs, and the log-probability of every token before and after.

import * as api from "../api.js";
import { explanation, tokenChips } from "../components.js";
import { h } from "../dom.js";
import { errorMessage } from "../error_message.js";
import { exportButtons } from "../export.js";
import { t } from "../i18n.js";
import { formatExact } from "../numbers.js";
import { dataTable, foldedTable } from "../table.js";
import { tokenText } from "../tokens.js";
import { total } from "../vectors.js";
import { swingDrawing, swingList } from "./bars.js";

/** @import { Child, Effect, InterventionRequest, Output } from "../types.js" */

/**
 * @param {InterventionRequest} request
 * @param {string[]} changes
 * @returns {Promise<Child>}
 */
export async function effectOf(request, changes) {
  const title = h("h2", {}, t("effect title"));
  if (!changes.length) return [title, explanation(t("effect nothing"))];
  try {
    return [title, drawEffect(await api.effect({ ...request, changes }))];
  } catch (error) {
    return [title, errorMessage(error)];
  }
}

/** @param {Effect} effect */
function drawEffect({ outputs, written, before, after, change }) {
  const changes = after.map((x, i) => x - before[i]);
  const entries = written.map((token, i) => ({ name: tokenText(token), value: changes[i] }));
  const columns = [t("token"), t("before"), t("after"), t("difference")];
  const rows = written.map((token, i) => [
    tokenText(token),
    formatExact(before[i]),
    formatExact(after[i]),
    formatExact(changes[i]),
  ]);
  const totals = {
    before: formatExact(total(before)),
    after: formatExact(total(after)),
    change: formatExact(change),
  };
  return [
    h(
      "div",
      { class: "two" },
      outputPart(t("as it is"), outputs.before, outputs.after),
      outputPart(t("with changes"), outputs.after, outputs.before),
    ),
    h("p", { class: "strong" }, t(outputs.before.text === outputs.after.text ? "same output" : "other output")),
    h("p", { class: "total" }, t("total change", totals)),
    h("h3", {}, t("token by token")),
    explanation(t("token by token says")),
    swingList(entries),
    foldedTable(() => dataTable(t("token by token"), columns, rows)),
    exportButtons("effect", {
      drawing: () => swingDrawing(t("token by token"), entries),
      rows: () => [
        ["token", "before", "after", "change"],
        ...written.map((token, i) => [token, before[i], after[i], changes[i]]),
      ],
    }),
  ];
}

/**
 * An output; the tokens that the other output does not have are marked.
 *
 * @param {string} label
 * @param {Output} output
 * @param {Output} other
 */
function outputPart(label, output, other) {
  const common = longestCommonSubsequence(output.pieces, other.pieces);
  return h(
    "div",
    {},
    h("h3", {}, label),
    h("p", { class: "output" }, output.text || "–"),
    tokenChips(output.pieces.map(tokenText), i => (common.has(i) ? null : "changed")),
  );
}

/**
 * The indices in `a` of a longest common subsequence of `a` and `b`.
 *
 * @param {string[]} a
 * @param {string[]} b
 */
export function longestCommonSubsequence(a, b) {
  // lengths[i][j]: of the longest common subsequence of a[i:] and b[j:]
  const lengths = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      lengths[i][j] = a[i] === b[j] ? 1 + lengths[i + 1][j + 1] : Math.max(lengths[i + 1][j], lengths[i][j + 1]);
    }
  }
  /** @type {Set<number>} */
  const indices = new Set();
  let [i, j] = [0, 0];
  while (i < a.length && j < b.length) {
    if (a[i] === b[j]) {
      indices.add(i);
      i++;
      j++;
    } else if (lengths[i + 1][j] >= lengths[i][j + 1]) i++;
    else j++;
  }
  return indices;
}
