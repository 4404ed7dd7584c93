// Teacher forcing vs. free running: what the decoder reads in training, and what it reads at inference.

import { replaceAddress } from "../address.js";
import * as api from "../api.js";
import { explanation, panel, scrollRegion } from "../components.js";
import { h, ifLatest, refill, s } from "../dom.js";
import { errorMessage } from "../error_message.js";
import { exportButtons } from "../export.js";
import { t } from "../i18n.js";
import { range } from "../ranges.js";
import { dataTable, foldedTable } from "../table.js";
import { END, tokenText } from "../tokens.js";

/** @import { TeacherForcing, Trace } from "../types.js" */

const LINE_HEIGHT = 22;
const COLUMN_WIDTH = 150;

/**
 * @param {Trace} trace
 * @param {string | undefined} target  of the address: it is compared at once
 */
export function teacherForcingPanel(trace, target) {
  const result = h("div", { "aria-live": "polite" });
  const field = h("input", { id: "given", value: target ?? trace.output, autocomplete: "off", spellcheck: "false" });
  const compare = async () => {
    try {
      const request = { run: trace.run, text: trace.text, target: field.value };
      const found = await ifLatest(result, api.teacherForcing(request));
      if (found) refill(result, comparison(found));
    } catch (error) {
      refill(result, errorMessage(error));
    }
  };
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    replaceAddress({ given: field.value });
    compare();
  };
  if (target !== undefined) compare();
  return panel(
    h("h2", {}, t("teacher forcing title")),
    explanation(t("teacher forcing says")),
    h(
      "form",
      { class: "line", onsubmit: submit },
      h("label", { class: "hidden", for: "given" }, t("given target")),
      field,
      h("button", { type: "submit" }, t("compare")),
    ),
    result,
  );
}

/** @param {TeacherForcing} found */
function comparison({ forced, free }) {
  const target = [...forced.target.slice(1), END];
  /** @type {(tokens: string[], i: number) => string} */
  const textAt = (tokens, i) => tokenText(tokens[i] ?? "–");
  const steps = range(Math.max(target.length, free.written.length));
  const divergence = steps.find(i => target[i] !== free.written[i]) ?? null;
  const rows = steps.map(i => [
    String(i + 1),
    ...[forced.target, target, forced.predicted, free.target, free.written].map(tokens => textAt(tokens, i)),
  ]);
  const columns = [
    t("step"),
    t("teacher-forced input"),
    t("given"),
    t("teacher-forced prediction"),
    t("free-running input"),
    t("free-running output"),
  ];
  const summary =
    divergence === null
      ? t("no divergence")
      : t("diverges at", {
          step: divergence + 1,
          given: textAt(target, divergence),
          own: textAt(free.written, divergence),
        });
  return [
    h("p", { class: "strong" }, summary),
    shiftedRows(t("teacher forced"), forced.target, [t("given"), target], divergence),
    explanation(t("shifted says")),
    shiftedRows(t("free running"), free.target, [t("free-running tokens"), free.written], divergence),
    foldedTable(() => dataTable(t("teacher forcing title"), columns, rows)),
    exportButtons("teacher-forcing", {
      drawing: () => drawing(columns, rows, divergence),
      rows: () => [columns, ...rows],
    }),
  ];
}

/**
 * What the decoder reads above what it should write: the same tokens, shifted by one position.
 *
 * @param {string} title
 * @param {string[]} input
 * @param {[string, string[]]} below  label and tokens of the second row
 * @param {number | null} divergence
 */
function shiftedRows(title, input, [label, output], divergence) {
  /** @type {(name: string, tokens: string[], marked: number | null) => HTMLElement[]} */
  const line = (name, tokens, marked) => [
    h("b", {}, name),
    ...tokens.map((token, i) => h("span", { class: i === marked ? "now" : null }, tokenText(token))),
  ];
  const rows = h(
    "div",
    { class: "chips shifted" },
    line(t("read by decoder"), input, null),
    line(label, output, divergence),
  );
  rows.style.gridTemplateColumns = `repeat(${1 + input.length}, auto)`;
  return h("div", { class: "run" }, h("h3", {}, title), scrollRegion(title, rows));
}

/**
 * @param {string[]} columns
 * @param {string[][]} rows
 * @param {number | null} divergence
 */
function drawing(columns, rows, divergence) {
  const [width, height] = [COLUMN_WIDTH * columns.length, LINE_HEIGHT * (rows.length + 1) + 12];
  return s(
    "svg",
    { class: "drawing", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": t("teacher forcing title") },
    [columns, ...rows].map((cells, r) => {
      const diverges = r - 1 === divergence;
      const style = { class: diverges ? "now" : null, "font-weight": r === 0 || diverges ? "600" : "400" };
      return cells.map((cell, c) => s("text", { ...style, x: 10 + c * COLUMN_WIDTH, y: 20 + r * LINE_HEIGHT }, cell));
    }),
  );
}
