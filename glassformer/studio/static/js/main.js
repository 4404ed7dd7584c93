// The page around the views: a sentence in, one view of its trace. The address decides what is shown.

import { isEmbedded, link, linkToView, navigate, readAddress, replaceAddress } from "./address.js";
import * as api from "./api.js";
import { emptyMessage } from "./components.js";
import { copyButton } from "./copying.js";
import { byId, find, h, ifLatest, refill } from "./dom.js";
import { errorMessage } from "./error_message.js";
import { save } from "./export.js";
import { LANGUAGES, currentLanguage, loadMessages, setLanguage, t } from "./i18n.js";
import { formatCount } from "./numbers.js";
import { loadPreference, savePreference } from "./preferences.js";
import { watchScrolling } from "./scrolling.js";
import { tokenText } from "./tokens.js";
import { STANDALONE_VIEWS, VIEWS, VIEWS_WITHOUT_INPUT, viewsOf } from "./views/index.js";

/** @import { Address, Option, Run, Trace, Vocabulary } from "./types.js" */

/** Sentences, and the words that the attention view opens at: the head in which the first attends most to the second. */
const EXAMPLES = [
  { text: "I am a student" },
  { text: "The animal didn't cross the street because it was too tired.", focus: "it,animal" },
  { text: "The animal didn't cross the street because it was too wide.", focus: "it,street" },
];
/** Sentences for a model that fills in blanks. */
const BLANK_EXAMPLES = [{ text: "The ___ is small." }, { text: "I ___ a student" }];
const BLANK = /_{2,}|<mask>|\[mask\]/i; // how a masked word is written (text/tokenizer.py)
const MOST_UNKNOWN_WORDS = 8;
const THEMES = ["auto", "light", "dark"];
/** The families that `glassformer export --to page` takes, and for which tasks. @type {Record<string, (run: Run) => boolean>} */
const SHARED = {
  transformer: run => run.traits.sequence_to_sequence,
  gpt: () => true,
  bert: run => run.traits.output === "labels",
};
const WAITING_AFTER = 250; // milliseconds before the page says that it is computing

const page = {
  run: byId("run", HTMLSelectElement),
  runLabel: byId("run-label", HTMLElement),
  share: byId("share", HTMLButtonElement),
  language: byId("language", HTMLSelectElement),
  theme: byId("theme", HTMLSelectElement),
  input: byId("input", HTMLElement),
  form: byId("ask", HTMLFormElement),
  question: byId("question", HTMLInputElement),
  text: byId("text", HTMLInputElement),
  image: byId("image", HTMLInputElement),
  presets: byId("presets", HTMLElement),
  answer: byId("answer", HTMLElement),
  copy: byId("copy-link", HTMLElement),
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
const traceKey = ({ run, text, target, question, image }) => JSON.stringify([run, text, target, question, image]);

/**
 * Return the trace of an address: the current one if it fits, otherwise a new one.
 *
 * @param {Address} address
 * @param {boolean} [again]  request it even if it is here
 * @returns {Promise<Trace | null>}  null without a sentence
 */
async function traceOf(address, again = false) {
  const { run = "", text, target, question = "", image } = address;
  if (!text && !image) return traceOfRun(run);
  if (!again && current?.key === traceKey(address)) return current.trace;
  return image ? api.exampleImageTrace(run, image) : api.trace({ run, text: text ?? "", target, question });
}

/** @param {string | undefined} run */
const traceOfRun = run => (current && current.trace.run === run ? current.trace : null);

/**
 * Wait for a trace; show an error next to the sentence instead of failing.
 *
 * @param {Promise<Trace | null>} tracing
 * @param {number} mine  the number of this drawing
 */
async function traceOrError(tracing, mine) {
  try {
    return await tracing;
  } catch (error) {
    if (mine === drawing) refill(page.answer, errorMessage(error));
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
    trace.traits.blanks && !BLANK.test(trace.text) && h("p", { class: "notice", role: "note" }, t("no blank")),
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
 * The key of the message that says what a run reads.
 *
 * @param {Run | undefined} run
 */
function inputHint(run) {
  if (run?.traits.input === "image") return "choose an image";
  return run?.traits.blanks ? "type a blank" : "type a sentence";
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
  if (address.text || address.image || traceOfRun(address.run)) return false;
  refill(page.answer); // the answer is of another run
  if (STANDALONE_VIEWS.has(address.view)) return false;
  replaceView(emptyMessage(t(inputHint(runNamed(address.run)))));
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
  const example = run?.traits.sequence_to_sequence ? EXAMPLES[0].text : undefined;
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
  const [trace, view] = await Promise.all([standalone ? traceOrError(tracing, mine) : tracing, VIEWS[address.view]()]);
  if (mine !== drawing) return;
  if (trace) {
    if (trace !== current?.trace) current = { trace, key: traceKey(address) };
    showAnswer(trace);
  }
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
  page.share.hidden = page.input.hidden || !run || !SHARED[run.family]?.(run);
  page.share.title = t("share hint");
  drawInputs(address, run);
  drawPresets(address, run);
  page.tabs.setAttribute("aria-label", t("views"));
  refill(
    page.tabs,
    [...new Set([...viewsOf(run), address.view])].map(name => {
      const shown = name === address.view ? "page" : null;
      return h("a", { href: linkToView(name), "aria-current": shown }, t(`view ${name}`));
    }),
  );
  showChosenTab();
  document.title = `${t(`view ${address.view}`)} · Glassformer`;
}

/** On a phone the tabs are one line that scrolls: move the chosen one into it. */
function showChosenTab() {
  const chosen = page.tabs.querySelector("[aria-current]");
  if (chosen instanceof HTMLElement) {
    page.tabs.scrollLeft = chosen.offsetLeft - (page.tabs.clientWidth - chosen.clientWidth) / 2;
  }
}

/**
 * @param {Run | undefined} run
 * @returns {{ text: string, focus?: string }[]}
 */
function examplesOf(run) {
  if (run?.traits.sequence_to_sequence) return EXAMPLES;
  return run?.traits.blanks ? BLANK_EXAMPLES : [];
}

/**
 * Links to example sentences, or to one image per label of the training data.
 *
 * @param {Address} address
 * @param {Run | undefined} run
 */
async function drawPresets({ view, text, image }, run) {
  /** @type {(name: string, parameters: Record<string, string | number>, chosen: boolean) => HTMLElement} */
  const preset = (name, parameters, chosen) =>
    h(
      "a",
      { class: "preset", href: link({ view, run: run?.name, ...parameters }), "aria-current": chosen ? "true" : null },
      name,
    );
  const loading = run?.traits.input === "image" && !page.input.hidden ? api.imageExamples(run.name) : [];
  const labels = await ifLatest(page.presets, loading);
  if (!labels) return;
  const sentences = examplesOf(run);
  refill(
    page.presets,
    sentences.map(({ text: sentence, focus }) =>
      preset(sentence, { text: sentence, ...(view === "attention" && focus && { focus }) }, sentence === text),
    ),
    labels.map((label, i) => preset(t("example image", { label }), { image: i }, image === String(i))),
  );
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
  page.text.placeholder = t(inputHint(run));
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
  refill(
    page.copy,
    copyButton(t("copy link"), () => location.href),
  );
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
    const trace = await ifLatest(page.image, api.imageTrace(page.run.value, file));
    if (!trace) return;
    current = { trace, key: null };
    replaceAddress({ image: null }); // it is not the example image any more
    draw();
  } catch (error) {
    refuse(error);
  }
}

/** Download the run as one HTML page. */
async function shareRun() {
  const run = page.run.value;
  page.share.disabled = true;
  page.share.textContent = t("share making");
  try {
    save(`${run}.html`, await api.sharedPage(run));
  } catch (error) {
    refuse(error);
  } finally {
    page.share.disabled = false;
    page.share.textContent = t("share");
  }
}

function listen() {
  page.share.addEventListener("click", shareRun);
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
