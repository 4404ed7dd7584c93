// The page around the views: a sentence in, one view of its trace. The address decides what is shown.

import { isEmbedded, link, linkToView, navigate, readAddress } from "./address.js";
import * as api from "./api.js";
import { emptyMessage } from "./components.js";
import { byId, find, h, refill } from "./dom.js";
import { errorMessage } from "./error_message.js";
import { LANGUAGES, currentLanguage, loadMessages, setLanguage, t } from "./i18n.js";
import { formatCount } from "./numbers.js";
import { loadPreference, savePreference } from "./preferences.js";
import { watchScrolling } from "./scrolling.js";
import { tokenText } from "./tokens.js";
import { STANDALONE_VIEWS, VIEWS, VIEWS_WITHOUT_INPUT } from "./views/index.js";

/** @import { Address, Option, Run, Trace, Vocabulary } from "./types.js" */

const EXAMPLES = [
  "I am a student",
  "The animal didn't cross the street because it was too tired.",
  "The animal didn't cross the street because it was too wide.",
];
const MOST_UNKNOWN_WORDS = 8;
const THEMES = ["auto", "light", "dark"];
const WAITING_AFTER = 250; // milliseconds before the page says that it is computing

const page = {
  run: byId("run", HTMLSelectElement),
  runLabel: byId("run-label", HTMLElement),
  language: byId("language", HTMLSelectElement),
  theme: byId("theme", HTMLSelectElement),
  input: byId("input", HTMLElement),
  form: byId("ask", HTMLFormElement),
  question: byId("question", HTMLInputElement),
  text: byId("text", HTMLInputElement),
  image: byId("image", HTMLInputElement),
  presets: byId("presets", HTMLElement),
  answer: byId("answer", HTMLElement),
  tabs: byId("views", HTMLElement),
  view: byId("view", HTMLElement),
};

/** @type {Run[]} */
let runs = [];
/** @type {{ trace: Trace, key: string | null } | null} the trace that is shown; key: of its address, null for an image */
let current = null;
/** @type {(() => void) | null} cleanup of the view that is shown */
let leaveView = null;
let drawing = 0; // number of the latest drawing: an earlier one that is still waiting for the server is discarded

// ---------------------------------------------------------------- the sentence

/** @param {string | undefined} name */
const runNamed = name => runs.find(run => run.name === name) ?? runs[0];

/** @param {Address} address */
const traceKey = ({ run, text, target, question }) => JSON.stringify([run, text, target, question]);

/**
 * Return the trace of an address: the current one if it fits, otherwise a new one.
 *
 * @param {Address} address
 * @param {boolean} [again]  request it even if it is here
 * @returns {Promise<Trace | null>}  null without a sentence
 */
async function traceOf(address, again = false) {
  const { run = "", text, target, question = "" } = address;
  if (!text) return traceOfRun(run);
  const key = traceKey(address);
  if (!again && current?.key === key) return current.trace;
  const trace = await api.trace({ run, text, target, question });
  current = { trace, key };
  return trace;
}

/** @param {string | undefined} run */
const traceOfRun = run => (current && current.trace.run === run ? current.trace : null);

/**
 * Wait for a trace; show an error next to the sentence instead of failing.
 *
 * @param {Promise<Trace | null>} tracing
 */
async function traceOrError(tracing) {
  try {
    return await tracing;
  } catch (error) {
    refill(page.answer, errorMessage(error));
    return null;
  }
}

/** @param {Trace} trace */
function showAnswer(trace) {
  const noAnswer = trace.traits.output === "span" && !trace.output;
  const arrow = h("span", { class: "arrow", "aria-hidden": "true" }, "→ ");
  refill(
    page.answer,
    trace.output && h("p", { class: "output" }, arrow, trace.output),
    h("p", { class: "soft" }, noAnswer && `${t("no answer")} `, t(`mode ${trace.mode}`)),
    trace.vocabulary && unknownWords(trace.vocabulary),
  );
}

/**
 * Words that are not in the vocabulary, and the tokens that they are split into.
 *
 * @param {Vocabulary} vocabulary
 */
function unknownWords({ entries, unknown }) {
  const words = Object.entries(unknown);
  if (!words.length) return null;
  const shown = words
    .slice(0, MOST_UNKNOWN_WORDS)
    .map(([word, tokens]) => `“${word}” (${tokens.map(tokenText).join(" · ")})`);
  const values = { words: shown.join(", "), n: formatCount(entries), more: words.length - MOST_UNKNOWN_WORDS };
  const key = words.length > MOST_UNKNOWN_WORDS ? "unknown words and more" : "unknown words";
  return h("p", { class: "notice", role: "note" }, t(key, values));
}

// ---------------------------------------------------------------- drawing

/**
 * Draw the page of the current address.
 *
 * @param {boolean} [again]  request the trace even if it is here
 */
async function draw(again = false) {
  const mine = ++drawing;
  const address = readAddress();
  const missingRun = address.run && !runs.some(run => run.name === address.run) ? address.run : null;
  complete(address);
  drawShell(address);
  if (!VIEWS_WITHOUT_INPUT.has(address.view) && showMissingInput(address, missingRun)) return;
  const showWaiting = () => mine === drawing && replaceView(h("p", { class: "empty waiting" }, t("computing")));
  const waiting = setTimeout(showWaiting, WAITING_AFTER);
  try {
    await drawView(address, mine, again);
  } catch (error) {
    if (mine !== drawing) return;
    // The server may have dropped the trace or may have been restarted: request the trace again, once.
    if (api.isNotFound(error) && !again) return draw(true);
    refuse(error);
  } finally {
    clearTimeout(waiting);
  }
}

/**
 * Show what an address lacks in place of its view: a run, or a sentence.
 *
 * @param {Address} address
 * @param {string | null} missingRun  the name of a run that does not exist
 * @returns {boolean}  whether something is missing
 */
function showMissingInput(address, missingRun) {
  if (!address.run) {
    replaceView(emptyMessage(t("no runs")));
    return true;
  }
  if (missingRun) {
    page.run.selectedIndex = -1; // so that choosing any run is a change
    refuse(new api.RequestError(404, { what: t("no such run", { run: missingRun }) }));
    return true;
  }
  if (address.text || traceOfRun(address.run)) return false;
  refill(page.answer); // the answer is of another run
  if (STANDALONE_VIEWS.has(address.view)) return false;
  const images = runNamed(address.run).traits.input === "image";
  replaceView(emptyMessage(t(images ? "choose an image" : "type a sentence")));
  return true;
}

/**
 * Fill in what an address leaves out.
 *
 * @param {Address} address
 */
function complete(address) {
  if (!Object.hasOwn(VIEWS, address.view)) address.view = "worksheet";
  const run = runNamed(address.run);
  address.run = run?.name;
  const example = run?.traits.sequence_to_sequence ? EXAMPLES[0] : undefined;
  address.text = (address.text ?? example)?.trim();
}

/**
 * @param {Address} address
 * @param {number} mine  the number of this drawing
 * @param {boolean} again
 */
async function drawView(address, mine, again) {
  const tracing = VIEWS_WITHOUT_INPUT.has(address.view) ? Promise.resolve(null) : traceOf(address, again);
  const standalone = STANDALONE_VIEWS.has(address.view);
  const [trace, view] = await Promise.all([standalone ? traceOrError(tracing) : tracing, VIEWS[address.view]()]);
  if (mine !== drawing) return;
  if (trace) showAnswer(trace);
  const place = h("div", { class: "view" });
  // Only standalone views and views without input are shown without a trace, and these accept null.
  const context = { trace: /** @type {Trace} */ (trace), address, runs };
  const leave = (await view.show(place, context)) ?? null;
  if (mine !== drawing) {
    leave?.();
    return;
  }
  replaceView(place);
  leaveView = leave;
}

/**
 * Show an error in place of the view.
 *
 * @param {unknown} error
 */
function refuse(error) {
  drawing++;
  if (current) current.key = null;
  refill(page.answer);
  replaceView(errorMessage(error));
}

/** @param {Element} content */
function replaceView(content) {
  leaveView?.();
  leaveView = null;
  refill(page.view, content);
}

/**
 * Show an error of a request that a view made after it was drawn. The view stays.
 *
 * @param {PromiseRejectionEvent} event
 */
function handleRejection(event) {
  const error = event.reason;
  if (!(error instanceof api.RequestError)) return; // a defect of the page belongs in the console
  event.preventDefault();
  if (api.isNotFound(error)) {
    draw(true); // the server dropped the trace
    return;
  }
  refill(page.answer, errorMessage(error));
  page.answer.scrollIntoView({ block: "nearest" });
}

// ---------------------------------------------------------------- around the view

/**
 * Draw everything around the view: runs, inputs, examples, tabs.
 *
 * @param {Address} address
 */
function drawShell(address) {
  const run = runNamed(address.run);
  refill(
    page.run,
    runs.map(({ name }) => h("option", { value: name, selected: name === address.run }, name)),
  );
  page.run.title = run?.described ?? "";
  page.runLabel.hidden = page.input.hidden = VIEWS_WITHOUT_INPUT.has(address.view);
  drawInputs(address, run);
  const presets = run?.traits.sequence_to_sequence ? EXAMPLES : [];
  refill(
    page.presets,
    presets.map(text => {
      const href = link({ view: address.view, run: address.run, text });
      return h("a", { class: "preset", href, "aria-current": text === address.text ? "true" : null }, text);
    }),
  );
  page.tabs.setAttribute("aria-label", t("views"));
  refill(
    page.tabs,
    Object.keys(VIEWS).map(name => {
      const shown = name === address.view ? "page" : null;
      return h("a", { href: linkToView(name), "aria-current": shown }, t(`view ${name}`));
    }),
  );
  document.title = `${t(`view ${address.view}`)} · Glassformer`;
}

/**
 * @param {Address} address
 * @param {Run | undefined} run
 */
function drawInputs(address, run) {
  const images = run?.traits.input === "image";
  page.question.hidden = run?.traits.input !== "question";
  page.question.placeholder = t("question");
  if (document.activeElement !== page.question) page.question.value = address.question ?? "";
  page.text.hidden = images;
  page.text.placeholder = t("type a sentence");
  if (address.text !== undefined) page.text.value = address.text;
  page.image.hidden = !images;
  page.image.setAttribute("aria-label", t("picture"));
}

// ---------------------------------------------------------------- controls

/**
 * @param {HTMLSelectElement} element
 * @param {readonly Option[]} options
 * @param {string} chosen
 * @param {(value: string) => void} onchange
 */
function fillSelect(element, options, chosen, onchange) {
  refill(
    element,
    options.map(([value, text]) => h("option", { value, selected: value === chosen }, text)),
  );
  element.onchange = () => onchange(element.value);
}

function drawSettings() {
  fillSelect(page.language, LANGUAGES, currentLanguage(), language => {
    savePreference("language", language);
    setLanguage(language);
    drawSettings();
    draw();
  });
  const chosen = loadPreference("theme") ?? "auto";
  document.documentElement.dataset.theme = chosen;
  /** @type {Option[]} */
  const themes = THEMES.map(theme => [theme, t(`theme ${theme}`)]);
  fillSelect(page.theme, themes, chosen, theme => {
    savePreference("theme", theme);
    document.documentElement.dataset.theme = theme;
    draw();
  });
}

/** @param {Event} event */
function submitSentence(event) {
  event.preventDefault();
  const [text, question] = [page.text.value.trim(), page.question.value.trim()];
  if (!text) return refuse(new api.RequestError(400, { what: "nothing typed" }));
  navigate(link({ view: readAddress().view, run: page.run.value, text, question }));
}

function changeRun() {
  const { view, text } = readAddress();
  const run = runNamed(page.run.value);
  page.image.value = "";
  navigate(link({ view, run: run.name, text: run.traits.input === "image" ? undefined : text }));
}

async function uploadImage() {
  const file = page.image.files?.[0];
  if (!file) return;
  try {
    current = { trace: await api.imageTrace(page.run.value, file), key: null };
    draw();
  } catch (error) {
    refuse(error);
  }
}

function listen() {
  page.form.addEventListener("submit", submitSentence);
  page.run.addEventListener("change", changeRun);
  page.image.addEventListener("change", uploadImage);
  page.image.addEventListener("click", () => {
    page.image.value = ""; // so that choosing the same file again is a change
  });
  find(document, ".skip").addEventListener("click", event => {
    event.preventDefault(); // the address of the link would replace the address of the view
    page.view.focus();
    page.view.scrollIntoView();
  });
  addEventListener("hashchange", () => draw());
  addEventListener("unhandledrejection", handleRejection);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw());
}

await loadMessages();
watchScrolling(document.body);
drawSettings();
listen();
document.body.classList.toggle("embedded", isEmbedded());
if (!isEmbedded()) page.text.focus({ preventScroll: true }); // a frame must not take the focus from its lesson
try {
  runs = await api.runs();
  await draw();
} catch (error) {
  replaceView(errorMessage(error));
}
