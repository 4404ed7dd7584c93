// What changes did: both translations, and the log-probability of every token before and after.

import * as api from "../api.js";
import { h, s } from "../dom.js";
import { exports } from "../export.js";
import { largest } from "../heatmap.js";
import { say } from "../i18n.js";
import { brief, exact, plain } from "../numbers.js";
import { problem } from "../problem.js";
import { tableOf, twin } from "../table.js";

/** What there is to show, changes or none. */
export async function effectOf(asked, changes) {
  const title = h("h2", {}, say("effect title"));
  if (!changes.length) return [title, h("p", { class: "soft" }, say("effect nothing"))];
  try {
    return [title, ...shown(await api.effect({ ...asked, changes }))];
  } catch (error) {
    return [title, problem(error)];
  }
}

const signed = x => (x > 0 ? `+${brief(x)}` : brief(x));
const sum = numbers => numbers.reduce((a, b) => a + b, 0);

function shown(effect) {
  const { outputs, written, before, after } = effect;
  const changes = after.map((x, i) => x - before[i]), most = largest(changes);
  const rows = written.map((piece, i) => [plain(piece), exact(before[i]), exact(after[i]), exact(changes[i])]);
  const heads = [say("token"), say("before"), say("after"), say("difference")];
  const totals = { before: exact(sum(before)), after: exact(sum(after)), change: exact(effect.change) };
  return [h("div", { class: "two" }, output(say("as it is"), outputs.before, outputs.after), output(say("with changes"), outputs.after, outputs.before)),
    h("p", { class: "strong" }, say(outputs.before.text === outputs.after.text ? "same output" : "other output")),
    h("p", { class: "total" }, say("total change", totals)),
    h("h3", {}, say("token by token")), h("p", { class: "soft" }, say("token by token says")),
    h("ol", { class: "bars swings" }, written.map((piece, i) => h("li", {}, h("span", { class: "name" }, plain(piece)),
      swing(changes[i], most), h("span", { class: "number", title: exact(changes[i]) }, signed(changes[i]))))),
    twin(() => tableOf(say("token by token"), heads, rows)),
    exports("effect", { drawing: () => drawing(written, changes, most),
      rows: () => [["token", "before", "after", "change"], ...written.map((piece, i) => [piece, before[i], after[i], changes[i]])] })];
}

/** An output, with the pieces marked that the other does not have. */
function output(label, mine, other) {
  const common = inCommon(mine.pieces, other.pieces);
  return h("div", {}, h("h3", {}, label), h("p", { class: "output" }, mine.text || "–"),
    h("p", { class: "chips" }, mine.pieces.map((piece, i) => h("span", { class: common.has(i) ? null : "changed" }, plain(piece)))));
}

/** Places in `mine` of the longest sequence that both have. */
function inCommon(mine, other) {
  const longest = Array.from({ length: mine.length + 1 }, () => new Uint16Array(other.length + 1));
  for (let i = mine.length - 1; i >= 0; i--)
    for (let j = other.length - 1; j >= 0; j--)
      longest[i][j] = mine[i] === other[j] ? 1 + longest[i + 1][j + 1] : Math.max(longest[i + 1][j], longest[i][j + 1]);
  const places = new Set();
  for (let i = 0, j = 0; i < mine.length && j < other.length;) {
    if (mine[i] === other[j]) { places.add(i); i++; j++; }
    else if (longest[i + 1][j] >= longest[i][j + 1]) i++;
    else j++;
  }
  return places;
}

/** A bar from the middle: to the left less likely, to the right likelier. */
function swing(change, most) {
  const bar = h("span", { class: change < 0 ? "bar less" : "bar more" });
  bar.style.width = `${most > 0 ? 50 * Math.abs(change) / most : 0}%`;
  return h("span", { class: "track swing" }, bar);
}

function drawing(written, changes, most) {
  const line = 24, middle = 270, half = 120, title = say("token by token");
  return s("svg", { class: "drawing", viewBox: `0 0 480 ${line * written.length + 40}`, role: "img", "aria-label": title },
    s("text", { x: 8, y: 20 }, title), s("line", { class: "axis", x1: middle, x2: middle, y1: 30, y2: line * written.length + 34 }),
    written.map((piece, i) => {
      const width = most > 0 ? half * Math.abs(changes[i]) / most : 0, y = 34 + i * line;
      return [s("text", { x: 130, y: y + 14, "text-anchor": "end" }, plain(piece)),
        s("rect", { class: changes[i] < 0 ? "less" : "more", x: changes[i] < 0 ? middle - width : middle, y, width, height: line - 6 }),
        s("text", { x: 404, y: y + 14 }, signed(changes[i]))];
    }));
}
