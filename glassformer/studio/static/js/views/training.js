// Training: the curves of the log, followed while it grows, and a sentence at every checkpoint.

import { navigate } from "../address.js";
import { chart } from "../chart.js";
import { explanation, panel, readout, scrollRegion } from "../components.js";
import { h, refill } from "../dom.js";
import { errorText } from "../error_message.js";
import { exportButtons } from "../export.js";
import { hasMessage, t, translate } from "../i18n.js";
import { formatCount, formatExact, withMinusSigns } from "../numbers.js";
import { dataTable, foldedTable } from "../table.js";
import { checkpointsPanel } from "./checkpoints.js";
import { TrainingLog } from "./training_log.js";

/** @import { Address, ChartSeries, Run, Trace } from "../types.js" */
/** @typedef {{ element: HTMLElement, update: () => void }} ChartPanel */

const POLL_INTERVAL = 2000; // milliseconds
const STALLED_AFTER = 120; // seconds without a new line in the log
const HUES = ["accent", "ff", "value", "positions", "weights"];

/**
 * @param {HTMLElement} place
 * @param {{ trace: Trace | null, address: Address, runs: Run[] }} context
 */
export async function show(place, { trace, address }) {
  const run = address.run ?? "";
  const log = new TrainingLog(run);
  const status = h("p", { class: "status", "aria-live": "polite" });
  const charts = CHARTS.map(([name, series]) => chartPanel(name, () => series(log)));
  const chartsPlace = h(
    "div",
    { class: "two even" },
    charts.map(({ element }) => element),
  );
  const checkpoints = checkpointsPanel(trace, address);
  const notes = panel();
  let stopped = false;
  let firstRead = true;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  const read = async () => {
    const hadCheckpoints = log.checkpoints.length > 0;
    await log.read(() => stopped);
    if (stopped) return;
    const firstCheckpoint = !firstRead && !hadCheckpoints && log.checkpoints.length > 0;
    firstRead = false;
    // With the first checkpoint the sentence can be traced: draw the page again.
    if (firstCheckpoint && !trace && address.text) return navigate(location.hash);
    status.textContent = statusText(log);
    for (const one of charts) one.update();
    drawNotes(notes, log);
    await checkpoints.update(log.checkpoints);
  };
  const poll = async () => {
    try {
      if (!document.hidden) await read();
    } catch (error) {
      status.textContent = errorText(error); // the server may be back at the next poll
    }
    if (!stopped) timer = setTimeout(poll, POLL_INTERVAL);
  };
  place.append(panel(h("h2", {}, t("training title", { run })), status), chartsPlace, checkpoints.element, notes);
  await read();
  if (log.isEmpty) refill(chartsPlace, h("p", { class: "empty" }, t("no log")));
  timer = setTimeout(poll, POLL_INTERVAL);
  return () => {
    stopped = true;
    clearTimeout(timer);
    checkpoints.stop();
  };
}

/** @param {TrainingLog} log */
function statusText(log) {
  if (log.isEmpty) return t("no log");
  const { started, finished, progress } = log;
  const step = finished?.step ?? progress[progress.length - 1]?.step ?? started?.step ?? 0;
  const values = {
    step: formatCount(step),
    steps: formatCount(started?.steps ?? step),
    seconds: Math.round(log.age ?? 0),
    minutes: ((finished?.seconds ?? 0) / 60).toFixed(1),
  };
  if (finished) return t("training ended", { ...values, reason: t(`ended ${finished.reason}`) });
  return t((log.age ?? 0) < STALLED_AFTER ? "training running" : "training stalled", values);
}

// ---------------------------------------------------------------- charts

/**
 * @param {"loss" | "lr" | "gradient_norm"} name
 * @param {string} hue
 * @returns {(log: TrainingLog) => ChartSeries}
 */
const progressCurve = (name, hue) => log => ({
  name: t(`curve ${name}`),
  hue,
  points: log.progress.map(event => [event.step, event[name]]),
});

/**
 * @param {TrainingLog} log
 * @param {string} name
 * @returns {ChartSeries["points"]}
 */
const validationPoints = (log, name) => log.validated.map(({ step, scores }) => [step, scores[name]]);

/** @param {string} name */
const metricName = name => (hasMessage(`score ${name}`) ? t(`score ${name}`) : name.replaceAll("_", " "));

/**
 * @param {TrainingLog} log
 * @returns {ChartSeries[]}
 */
function scoreCurves(log) {
  const names = new Set(log.validated.flatMap(({ scores }) => Object.keys(scores)));
  names.delete("loss");
  return [...names].map((name, i) => ({
    name: metricName(name),
    hue: HUES[i % HUES.length],
    points: validationPoints(log, name),
  }));
}

/**
 * @param {TrainingLog} log
 * @returns {ChartSeries[]}
 */
const lossCurves = log => [
  progressCurve("loss", "residual")(log),
  { name: t("curve held out"), hue: "accent", points: validationPoints(log, "loss") },
];

/** @type {[string, (log: TrainingLog) => ChartSeries[]][]} */
const CHARTS = [
  ["loss", lossCurves],
  ["scores", scoreCurves],
  ["lr", log => [progressCurve("lr", "ff")(log)]],
  ["gradient_norm", log => [progressCurve("gradient_norm", "value")(log)]],
];

/**
 * A chart with its legend, its table and its downloads.
 *
 * @param {string} name
 * @param {() => ChartSeries[]} series
 * @returns {ChartPanel}
 */
function chartPanel(name, series) {
  const title = t(`chart ${name}`);
  const chosen = readout(t("choose a step"));
  const plot = chart({
    label: `${title}. ${t("arrow keys steps")}`,
    onchoose: ({ step, values }) => {
      const text = values.map(([curve, y]) => `${curve} ${formatScore(y)}`).join(", ");
      refill(chosen, `${t("step")} ${step}: `, h("strong", {}, text));
    },
  });
  const legend = h("p", { class: "legend" });
  const nothingYet = explanation(t("nothing yet"));
  const points = () => series().flatMap(one => one.points.map(([step, y]) => ({ step, curve: one.name, y })));
  const table = () =>
    dataTable(
      title,
      [t("step"), t("curve"), t("value")],
      points().map(({ step, curve, y }) => [String(step), curve, formatLogged(y)]),
    );
  const downloads = exportButtons(`training-${name}`, {
    title,
    drawing: () => plot.drawingWithNames(),
    rows: () => [["step", "curve", "value"], ...points().map(({ step, curve, y }) => [step, curve, y ?? ""])],
  });
  const content = h("div", {}, legend, plot.element, chosen, foldedTable(table), downloads);
  const update = () => {
    const now = series();
    content.hidden = now.every(one => one.points.length === 0);
    nothingYet.hidden = !content.hidden;
    refill(
      legend,
      now.map(one => h("span", { class: `of-${one.hue}` }, one.name)),
    );
    plot.update(now);
  };
  const element = panel(h("h2", {}, title), explanation(t(`about ${name}`)), nothingYet, content);
  return { element, update };
}

/**
 * A number as it is in the log, which has more digits than a float32.
 *
 * @param {number | null | undefined} y
 */
const formatLogged = y => (y === null || y === undefined ? "–" : withMinusSigns(String(y)));

/** @param {number} y */
const formatScore = y => (Math.abs(y) >= 0.01 ? y.toFixed(3) : formatExact(y));

// ---------------------------------------------------------------- test scores and notes

/**
 * @param {HTMLElement} place
 * @param {TrainingLog} log
 */
function drawNotes(place, log) {
  const tested = [...log.tested.values()];
  const names = [...new Set(tested.flatMap(({ scores }) => Object.keys(scores)))];
  place.hidden = !tested.length && !log.notes.length;
  const rows = tested.map(({ split, examples, scores }) => [
    t(`set ${split}`),
    String(examples),
    ...names.map(name => (typeof scores[name] === "number" ? formatScore(scores[name]) : "–")),
  ]);
  const columns = [t("set"), t("examples"), ...names.map(metricName)];
  refill(
    place,
    h("h2", {}, t("notes title")),
    tested.length > 0 && scrollRegion(t("notes title"), dataTable(t("tested says"), columns, rows)),
    h(
      "ul",
      { class: "said" },
      log.notes.map(note => h("li", {}, translate(note))),
    ),
  );
}
