// How the run was trained: what its log says, followed as it grows, and a sentence through its checkpoints.

import * as api from "../api.js";
import { go } from "../address.js";
import { chart } from "../chart.js";
import { h, refill } from "../dom.js";
import { exports } from "../export.js";
import { known, say, translate } from "../i18n.js";
import { exact } from "../numbers.js";
import { textOf } from "../problem.js";
import { tableOf, twin } from "../table.js";
import { filmPanel } from "./film.js";

const PAUSE = 2000;      // milliseconds between two looks at the log
const QUIET = 120;       // seconds without a line, after which training has probably ended
const HUES = ["accent", "ff", "value", "positions", "weights"];

export async function show(place, { trace, address }) {
  const run = address.run;
  const log = { curves: [], validated: [], tested: {}, started: null, finished: null, notes: [], next: 0, checkpoints: [], age: null };
  const status = h("p", { class: "status", "aria-live": "polite" }), panels = h("div", { class: "two even" });
  const charts = CHARTS.map(([name, series]) => panelOf(name, series, log));
  const film = filmPanel(trace, address);
  const notes = h("section", { class: "panel" });
  let timer = null, gone = false;

  const read = async () => {
    const before = log.checkpoints.length;
    do await readOn(run, log); while (log.more && !gone);
    if (gone) return;
    if (before === 0 && log.checkpoints.length && !trace && address.text && log.seen) return go(location.hash);  // now there are weights
    log.seen = true;
    status.textContent = howFar(log);
    for (const one of charts) one.update();
    fillNotes(notes, log);
    await film.update(log);
  };
  const again = async () => {
    if (!document.hidden) await read().catch(error => { status.textContent = textOf(error); });
    if (!gone) timer = setTimeout(again, PAUSE);
  };
  panels.append(...charts.map(one => one.element));
  place.append(h("section", { class: "panel" }, h("h2", {}, say("training title", { run })), status), panels, film.element, notes);
  await read();
  if (!log.started && !log.curves.length) refill(panels, h("p", { class: "empty" }, say("no log")));
  timer = setTimeout(again, PAUSE);
  return () => { gone = true; clearTimeout(timer); film.stop(); };
}

// ---------------------------------------------------------------- the log

async function readOn(run, log) {
  const found = await api.log(run, log.next);
  if (found.anew) Object.assign(log, { curves: [], validated: [], tested: {}, started: null, finished: null, notes: [] });
  const { step: steps = [] } = found.progress;
  const curves = steps.map((step, i) => Object.fromEntries(Object.entries(found.progress).map(([name, all]) => [name, all[i]])));
  const events = [...curves.map(one => ({ event: "progress", ...one })), ...found.events];
  events.sort((a, b) => a.line - b.line);
  for (const event of events) KINDS[event.event]?.(log, event);
  Object.assign(log, { next: found.next, more: found.more, checkpoints: found.checkpoints, age: found.age });
}

/** What every kind of line does to what is known. */
const KINDS = {
  started: (log, event) => {
    // A run that goes on from a checkpoint does the steps after it again: what was said of them holds no more.
    for (const name of ["curves", "validated"]) log[name] = log[name].filter(one => one.step <= event.step);
    Object.assign(log, { started: event, finished: null });
  },
  progress: (log, event) => log.curves.push(event),
  validated: (log, event) => log.validated.push(event),
  finished: (log, event) => { log.finished = event; },
  tested: (log, event) => { log.tested[event.split] = event; },
  note: (log, event) => log.notes.push(translate(event.message ?? { text: event.text })),
  skipped: (log, event) => log.notes.push(say("skipped step", { step: event.step })),
};

/** How far it is, in a sentence. */
function howFar(log) {
  if (!log.started && !log.curves.length) return say("no log");
  const step = log.finished?.step ?? log.curves.at(-1)?.step ?? log.started?.step ?? 0;
  const values = { step: step.toLocaleString("en"), steps: (log.started?.steps ?? step).toLocaleString("en"),
    seconds: Math.round(log.age ?? 0), minutes: ((log.finished?.seconds ?? 0) / 60).toFixed(1) };
  if (log.finished) return say("training ended", { ...values, reason: say(`ended ${log.finished.reason}`) });
  return say(log.age < QUIET ? "training goes on" : "training stands still", values);
}

// ---------------------------------------------------------------- curves

const curve = (name, hue) => log => [{ name: say(`curve ${name}`), hue, points: log.curves.map(one => [one.step, one[name]]) }];
const held = (log, name) => log.validated.map(one => [one.step, one.scores[name]]);

function scores(log) {
  const names = [...new Set(log.validated.flatMap(one => Object.keys(one.scores)))].filter(name => name !== "loss");
  return names.map((name, i) => ({ name: known(`score ${name}`) ? say(`score ${name}`) : name.replaceAll("_", " "),
    hue: HUES[i % HUES.length], points: held(log, name) }));
}

const CHARTS = [
  ["loss", log => [...curve("loss", "residual")(log), { name: say("curve held out"), hue: "accent", points: held(log, "loss") }]],
  ["scores", scores],
  ["lr", curve("lr", "ff")],
  ["gradient_norm", curve("gradient_norm", "value")],
];

/** A chart with its legend, its twin and its exports; `update()` draws what the log has now. */
function panelOf(name, series, log) {
  const title = say(`chart ${name}`), said = h("p", { class: "readout", "aria-live": "polite" }, say("choose a step"));
  const plot = chart({ label: `${title}. ${say("arrow keys steps")}`, tell: ({ step, values }) =>
    refill(said, `${say("step")} ${step}: `, h("strong", {}, values.map(([of, y]) => `${of} ${short(y)}`).join(", "))) });
  const legend = h("p", { class: "legend" }), nothing = h("p", { class: "soft" }, say("nothing yet"));
  const lines = () => series(log).flatMap(one => one.points.map(([step, y]) => [step, one.name, y]));
  const shown = h("div", {}, legend, plot.element, said,
    twin(() => tableOf(title, [say("step"), say("curve"), say("value")], lines().map(([step, of, y]) => [String(step), of, number(y)]))),
    exports(`training-${name}`, { title, drawing: () => plot.named(), rows: () => [["step", "curve", "value"], ...lines().map(([step, of, y]) => [step, of, y ?? ""])] }));
  return { element: h("section", { class: "panel" }, h("h2", {}, title), h("p", { class: "soft" }, say(`about ${name}`)), nothing, shown), update: () => {
    const now = series(log);
    nothing.hidden = now.some(one => one.points.length);
    shown.hidden = !nothing.hidden;
    refill(legend, ...now.map(one => h("span", { class: `of-${one.hue}` }, one.name)));
    plot.update(now);
  } };
}

/** A number of the log as it stands there; the log keeps more digits than a float32 has. */
const number = y => (y === null || y === undefined ? "–" : String(y).replace("-", "−"));
const short = y => (Math.abs(y) >= 0.01 ? Number(y).toFixed(3) : exact(y));

// ---------------------------------------------------------------- scores and notes

function fillNotes(place, log) {
  const tested = Object.values(log.tested), names = [...new Set(tested.flatMap(one => Object.keys(one.scores)))];
  const heads = [say("set"), say("examples"), ...names.map(name => (known(`score ${name}`) ? say(`score ${name}`) : name.replaceAll("_", " ")))];
  place.hidden = !tested.length && !log.notes.length;
  refill(place, h("h2", {}, say("said title")),
    ...(tested.length ? [h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": say("said title") },
      tableOf(say("tested says"), heads, tested.map(one => [say(`set ${one.split}`), String(one.examples),
        ...names.map(name => short(one.scores[name]))])))] : []),
    h("ul", { class: "said" }, log.notes.map(text => h("li", {}, text))));
}
