// Teacher forcing beside free running: what a model reads in training, and what it reads when it is used.

import * as api from "../api.js";
import { h, refill, s } from "../dom.js";
import { exports } from "../export.js";
import { say } from "../i18n.js";
import { plain } from "../numbers.js";
import { problem } from "../problem.js";
import { tableOf, twin } from "../table.js";

export function besidePanel(trace) {
  const result = h("div", { "aria-live": "polite" });
  const field = h("input", { id: "given", value: trace.output, autocomplete: "off", spellcheck: "false" });
  const compare = async event => {
    event.preventDefault();
    try {
      const both = await api.beside({ run: trace.run, text: trace.text, target: field.value });
      refill(result, ...shown(both));
    } catch (error) {
      refill(result, problem(error));
    }
  };
  return h("section", { class: "panel" }, h("h2", {}, say("beside title")), h("p", { class: "soft" }, say("beside says")),
    h("form", { class: "line", onsubmit: compare }, h("label", { class: "hidden", for: "given" }, say("given target")), field,
      h("button", { type: "submit" }, say("compare"))), result);
}

function shown({ forced, free, divergence }) {
  const given = [...forced.target.slice(1), forced.predicted.at(-1)];
  const row = (pieces, label) => h("div", { class: "run" }, h("h3", {}, label),
    h("p", { class: "chips" }, pieces.map((piece, i) => h("span", { class: i === divergence ? "now" : null }, plain(piece)))));
  const told = divergence === null ? say("never parts")
    : say("parts at", { step: divergence, given: plain(given[divergence] ?? "–"), own: plain(free.written[divergence] ?? "–") });
  const steps = Array.from({ length: Math.max(given.length, free.written.length) }, (_, i) => i);
  const rows = steps.map(i => [String(i), plain(given[i] ?? "–"), plain(forced.predicted[i] ?? "–"), plain(free.written[i] ?? "–")]);
  const heads = [say("step"), say("given"), say("thought likeliest"), say("wrote itself")];
  return [h("p", { class: "strong" }, told), row(given, say("teacher forced")), row(free.written, say("free running")),
    twin(() => tableOf(say("beside title"), heads, rows)),
    exports("beside", { drawing: () => drawing(heads, rows, divergence), rows: () => [heads, ...rows] })];
}

function drawing(heads, rows, divergence) {
  const line = 22, width = 150;
  return s("svg", { class: "drawing", viewBox: `0 0 ${width * heads.length} ${line * (rows.length + 1) + 12}`, role: "img",
    "aria-label": say("beside title") },
    [heads, ...rows].map((cells, r) => cells.map((cell, c) => s("text", { class: r - 1 === divergence ? "now" : null,
      x: 10 + c * width, y: 20 + r * line, "font-weight": r === 0 || r - 1 === divergence ? "600" : "400" }, cell))));
}
