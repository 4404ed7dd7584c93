// What masks hide: the sentence with padding behind it, each mask there or taken away, and what leaks through.

import { note, whole } from "../address.js";
import * as api from "../api.js";
import { choice, h, refill, tick } from "../dom.js";
import { exports } from "../export.js";
import { drawnMap, heatmap } from "../heatmap.js";
import { say } from "../i18n.js";
import { brief, exact, plain } from "../numbers.js";
import { problem } from "../problem.js";
import { replaced } from "../refocus.js";
import { tableOf, twin } from "../table.js";
import { range } from "./range.js";

const KINDS = ["encoder", "decoder", "cross"];
/** The masks that are added up for each kind of attention. */
const OF = { encoder: ["padding"], decoder: ["padding", "look_ahead"], cross: ["cross"] };
const masksOf = ({ kind, masks }) => OF[kind].filter(mask => masks.includes(mask));
const MOST_PADDING = 8, NEVER = -Infinity;

export async function masksPart(place, trace, address) {
  const { masks } = trace, kinds = KINDS.filter(kind => kind in trace.looks);
  if (!masks.length) return refill(place, h("p", { class: "empty" }, say(trace.task === "image_classification" ? "no masks images" : "no masks")));
  const own = masks.filter(name => name !== "look_ahead" || trace.tensors["decoder.0.self.mask"]);  // one may be trained without
  const kept = address.masks === undefined ? own : masks.filter(name => address.masks.split(",").includes(name));
  const state = { masks, kinds, own, kept, alone: !trace.target.length, padding: Math.max(1, whole(address.padding, 3, MOST_PADDING)),
    kind: kinds.includes(address.kind) ? address.kind : kinds.includes("decoder") ? "decoder" : kinds[0], layer: whole(address.layer, 0), head: whole(address.head, 0) };
  const inner = h("div", { class: "view" }), lost = h("section", { class: "panel" }), told = h("div", { class: "told", "aria-live": "polite" });
  let asking = 0;
  const ask = async (changes = {}) => {
    Object.assign(state, changes);
    const mine = ++asking;
    try {
      const made = await api.masked(trace.id, { padding: state.padding, masks: state.kept });
      if (mine === asking) await show(made);
    } catch (error) {
      if (error.status === 404) throw error;  // the page asks for the sentence again
      refill(told, problem(error));
    }
  };
  const show = async made => {
    note({ masks: String(state.kept) === String(own) ? null : state.kept.join(",") || "none", padding: state.padding,
      kind: state.kind, layer: state.layer, head: state.head });
    await attention(inner, made, state, changes => { Object.assign(state, changes); return show(made); });
    change(lost, told, made, state);
  };
  const toggle = name => on => ask({ kept: masks.filter(one => (one === name ? on : state.kept.includes(one))) });
  refill(place, h("section", { class: "panel" }, h("h2", {}, say("masks title")), h("p", { class: "soft" }, say("masks say")),
    h("div", { class: "controls", role: "group", "aria-label": say("masks title") },
      masks.map(name => tick(say(`mask ${name}`), state.kept.includes(name), toggle(name))),
      range("padding tokens", 1, MOST_PADDING, 1, state.padding, padding => ask({ padding }))),
    told,
    h("ul", { class: "plain soft" }, masks.map(name => h("li", {}, h("strong", {}, say(`mask ${name}`)), ": ", say(`mask ${name} says`))))),
    inner, lost);
  await ask();
}

// ---------------------------------------------------------------- one attention

/** The rows and columns of a kind, and how many of each are no padding. */
function axesOf(made, { kind, padding }) {
  const [rows, columns] = [kind === "encoder" ? made.source : made.target, kind === "decoder" ? made.target : made.source];
  return { rows: rows.map(plain), columns: columns.map(plain), real: [rows.length - padding, columns.length - padding] };
}

/** What one mask hides, 0 or −∞ for each row and column. */
const hides = (mask, { rows, columns, real }) => Float32Array.from(rows.flatMap((_, r) =>
  columns.map((__, c) => ((mask === "look_ahead" ? c > r : c >= real[1]) ? NEVER : 0))));

async function attention(place, made, state, again) {
  const axes = axesOf(made, state), look = made.looks[state.kind];
  state.layer = Math.min(state.layer, look.layers - 1);
  state.head = Math.min(state.head, look.heads - 1);
  const name = look.names[state.layer];
  const [{ numbers: mask }, { numbers: weights }] = await Promise.all([
    api.values(made.id, name.replace("weights", "mask")), api.values(made.id, name, [state.head])]);
  const [R, C] = [axes.rows.length, axes.columns.length];
  const together = Float32Array.from({ length: R * C }, (_, i) => (mask.length === C ? mask[i % C] : mask[i]));
  const kinds = choice(say("attention of"), state.kinds.map(kind => [kind, say(`kind ${kind}`)]), state.kind, kind => again({ kind, layer: 0, head: 0 }));
  replaced(place, h("div", { class: "controls tight" }, kinds), h("div", { class: "two" },
    composed(axes, together, state), looked(axes, weights, state, look, again)));
}

/** Each mask by itself, and what is added to the scores in the end. */
function composed(axes, together, state) {
  const map = (name, numbers, on, named) => {
    const size = Math.max(named ? 12 : 3, Math.min(18, Math.floor((named ? 300 : 150) / axes.columns.length)));
    return h("figure", { class: on ? null : "off" }, h("figcaption", {}, h("strong", {}, say(name)), !on && ` – ${say("taken away")}`),
      h("div", { class: "scroll" }, heatmap({ numbers: on ? numbers : new Float32Array(numbers.length), size,
        rows: named ? axes.rows : axes.rows.length, columns: named ? axes.columns : axes.columns.length,
        label: `${say(name)}. ${say("arrow keys")}`, onchoose: tell(say(name), on ? numbers : null) })));
  };
  const said = h("p", { class: "readout", "aria-live": "polite" }, say("mask legend"));
  const tell = (name, numbers) => ([r, c]) => refill(said, `${name}: ${axes.rows[r]} ⟶ ${axes.columns[c]}: `,
    h("strong", {}, numbers ? exact(numbers[r * axes.columns.length + c]) : "0"));
  const title = say("composed title"), parts = masksOf(state);
  return h("section", { class: "panel" }, h("h2", {}, title), h("p", { class: "soft" }, say("composed says")),
    h("div", { class: "masks" }, parts.map(mask => map(`mask ${mask}`, hides(mask, axes), state.kept.includes(mask), parts.length === 1)),
      parts.length > 1 && map("masks together", together, true, true)), said,
    twin(() => tableOf(title, ["", ...axes.columns], axes.rows.map((row, r) =>
      [row, ...axes.columns.map((_, c) => exact(together[r * axes.columns.length + c]))]))),
    exports(`mask-${state.kind}`, { drawing: () => drawnMap({ numbers: together, rows: axes.rows, columns: axes.columns, title }),
      rows: () => [["row", "column", "mask"], ...axes.rows.flatMap((row, r) => axes.columns.map((column, c) =>
        [row, column, together[r * axes.columns.length + c] === NEVER ? "-inf" : 0]))] }));
}

/** Where a head looked, and how much of that all masks together would have hidden. */
function looked(axes, weights, state, look, again) {
  const C = axes.columns.length, [real] = axes.real;
  const hidden = masksOf(state).map(mask => hides(mask, axes));
  const past = i => hidden.some(mask => mask[i] === NEVER);
  const leaks = axes.rows.slice(0, real).map((_, r) => axes.columns.reduce((sum, __, c) =>
    sum + (past(r * C + c) ? weights[r * C + c] : 0), 0));
  const rows = axes.rows.slice(0, real), numbers = weights.subarray(0, real * C);
  const title = `${say(`kind ${state.kind}`)}, ${say("layer and head", state)}`;
  const size = Math.max(12, Math.min(24, Math.floor(360 / C)));
  const said = h("p", { class: "readout", "aria-live": "polite" }, say("choose a cell"));
  const painted = numbers.map((weight, i) => (past(i) ? -weight : weight));  // in the other colour; nobody reads these
  const map = heatmap({ numbers: painted, signed: false, rows, columns: axes.columns, size, label: `${title}. ${say("arrow keys")}`,
    onchoose: ([r, c]) => refill(said, `${rows[r]} ⟶ ${axes.columns[c]}: `, h("strong", {}, exact(weights[r * C + c]))) });
  const counted = n => Array.from({ length: n }, (_, i) => [i, String(i)]);
  return h("section", { class: "panel leak" }, h("h2", {}, title),
    h("div", { class: "controls" }, h("span", { class: "soft" }, say("layer")),
      choice(say("layer"), counted(look.layers), state.layer, layer => again({ layer: Number(layer) })),
      h("span", { class: "soft" }, say("head")), choice(say("head"), counted(look.heads), state.head, head => again({ head: Number(head) }))),
    h("div", { class: "scroll" }, map), said, h("h3", {}, say("leak title")), h("p", { class: "soft" }, say("leak says")),
    h("ol", { class: "bars" }, rows.map((row, r) => {
      const bar = h("span", { class: "bar leaking", hidden: leaks[r] === 0 });
      bar.style.width = `${100 * leaks[r]}%`;
      return h("li", {}, h("span", { class: "name" }, row), h("span", { class: "track" }, bar),
        h("span", { class: "number", title: exact(leaks[r]) }, brief(leaks[r])));
    })),
    twin(() => tableOf(title, ["", ...axes.columns, say("leak title")], rows.map((row, r) =>
      [row, ...axes.columns.map((_, c) => exact(weights[r * C + c])), exact(leaks[r])]))),
    exports(`masked-${state.kind}-${state.layer}-${state.head}`, { drawing: () => drawnMap({ numbers, rows, columns: axes.columns, title }),
      rows: () => [["row", "column", "weight", "hidden"], ...rows.flatMap((row, r) => axes.columns.map((column, c) =>
        [row, column, exact(weights[r * C + c]), past(r * C + c)]))] }));
}

// ---------------------------------------------------------------- what became of the output

function change(place, told, made, state) {
  const total = numbers => numbers.reduce((sum, x) => sum + x, 0);
  const [before, after] = [made.before, made.after].map(total), other = String(state.kept) !== String(state.own);
  const signed = x => `${x > 0 ? "+" : ""}${brief(x)}`;
  const heads = [say("token"), say("with masks"), say("without them"), say("change")];
  const rows = [...made.written.map((piece, i) => [plain(piece), made.before[i], made.after[i]]), [say("sum"), before, after]];
  const sentence = other ? say("masks changed", { before: brief(before), after: brief(after), change: signed(after - before) })
    : made.apart === 0 ? say("masks identical") : say("masks whole", { x: made.apart.toExponential(1) });
  replaced(told, h("p", { class: "strong" }, sentence),
    state.own.includes("look_ahead") && !state.kept.includes("look_ahead") && h("p", {}, say("look ahead removed")));
  replaced(place, h("h2", {}, say("leak change title")), h("p", { class: "soft" }, say(state.alone ? "leak change alone" : "leak change says")),
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": say("leak change title") },
      tableOf(say("leak change title"), heads, rows.map(([name, was, now]) => [name, brief(was), brief(now), signed(now - was)]))),
    exports("masks-change", { drawing: () => drawnMap({ numbers: Float32Array.from(rows.flatMap(([, was, now]) => [was, now, now - was])),
      rows: rows.map(([name]) => name), columns: heads.slice(1), hue: "--plus", most: Math.max(...rows.flatMap(([, was, now]) => [Math.abs(was), Math.abs(now)])),
      title: say("leak change title") }),
      rows: () => [["token", "before", "after", "change"], ...rows.map(([name, was, now]) => [name, was, now, now - was])] }));
}
