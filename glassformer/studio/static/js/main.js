// The page around the views: a sentence in, one view of what became of it. Addresses decide what is shown.

import * as address from "./address.js";
import * as api from "./api.js";
import { $, h, refill } from "./dom.js";
import { current, languages, learn, remember, remembered, say, speak } from "./i18n.js";
import { plain } from "./numbers.js";
import { problem } from "./problem.js";
import { watchScrolling } from "./scrolling.js";
import { ALONE, VIEWS } from "./views/index.js";

const PRESETS = [
  "I am a student",
  "The animal didn't cross the street because it was too tired.",
  "The animal didn't cross the street because it was too wide.",
];
const MOST_UNKNOWN = 8;
const THEMES = ["auto", "light", "dark"];

let runs = [];
let asked = null;    // what the trace that is shown was asked by
let trace = null;
let leave = null;    // what the view that is shown wants to do before it goes
let drawing = 0;     // of two drawings at once the later one counts

// ---------------------------------------------------------------- the sentence

const runOf = name => runs.find(run => run.name === name) ?? runs[0];
const key = ({ run, text, target, question }) => JSON.stringify([run, text, target, question]);

/** The trace of the sentence in the address; the one that is here, if it is of that sentence. */
async function traced(now, again = false) {
  if (!again && trace && asked === key(now)) return trace;
  const found = await api.trace({ run: now.run, text: now.text, target: now.target, question: now.question ?? "" });
  [trace, asked] = [found, key(now)];
  return found;
}

/** A trace, or nothing, with the reason told in its place. */
async function orNothing(tracing) {
  try {
    return await tracing;
  } catch (error) {
    refill($("answer"), problem(error));
    return null;
  }
}

function answer(found) {
  const notes = [say(`mode ${found.mode}`)];
  if (found.task === "question_answering" && !found.output) notes.unshift(`${say("no answer")} `);
  refill($("answer"),
    found.output && h("p", { class: "output" }, h("span", { class: "arrow", "aria-hidden": "true" }, "→ "), found.output),
    h("p", { class: "soft" }, ...notes), unknownWords(found.vocabulary));
}

/** Which words the model cannot know, and what it reads in their place. */
function unknownWords(vocabulary) {
  const words = Object.entries(vocabulary?.unknown ?? {});
  if (!words.length) return null;
  const told = words.slice(0, MOST_UNKNOWN).map(([word, pieces]) => `“${word}” (${pieces.map(plain).join(" · ")})`);
  return h("p", { class: "notice", role: "note" }, say(words.length > MOST_UNKNOWN ? "unknown words and more" : "unknown words",
    { words: told.join(", "), n: vocabulary.entries.toLocaleString("en"), more: words.length - MOST_UNKNOWN }));
}

/** A person at work in a view asked for something that cannot be had; the view stays. */
function interrupt(event) {
  const error = event.reason;
  if (!(error instanceof api.Problem)) return;  // ours: it belongs in the console
  event.preventDefault();
  if (error.status === 404) return void draw(true);  // the server let the trace go
  refill($("answer"), problem(error));
  $("answer").scrollIntoView({ block: "nearest" });
}

// ---------------------------------------------------------------- drawing

async function draw(again = false) {
  const mine = ++drawing;
  const now = address.read();
  if (!Object.hasOwn(VIEWS, now.view)) now.view = "worksheet";
  const missing = now.run && !runs.some(run => run.name === now.run) ? now.run : null;
  now.run = runOf(now.run)?.name;
  now.text = (now.text ?? (runOf(now.run)?.task === "translation" ? PRESETS[0] : undefined))?.trim();
  shell(now);
  if (!now.run) return stage(h("p", { class: "empty" }, say("no runs")));
  if (missing) {
    $("run").selectedIndex = -1;  // so that any of them can be chosen
    return refuse({ what: say("no such run", { run: missing }) });
  }
  if (!now.text && trace?.run !== now.run) refill($("answer"));  // what it says is of another run
  if (!now.text && trace?.run !== now.run && !ALONE.has(now.view)) return stage(h("p", { class: "empty" },
    say(runOf(now.run).task === "image_classification" ? "choose an image" : "type a sentence")));
  const waiting = setTimeout(() => mine === drawing && stage(h("p", { class: "empty waiting" }, say("computing"))), 250);
  try {
    const tracing = now.text ? traced(now, again) : trace?.run === now.run ? trace : null;
    const [found, { show }] = await Promise.all([ALONE.has(now.view) ? orNothing(tracing) : tracing, VIEWS[now.view]()]);
    if (mine !== drawing) return;
    if (found) answer(found);
    const place = h("div", { class: "view" });
    const left = await show(place, { trace: found, address: now, runs });
    if (mine !== drawing) return left?.();
    stage(place);
    leave = left;
  } catch (error) {
    if (mine !== drawing) return;
    // A trace that the server let go, or lost as it was started anew, is asked for again: once.
    if (error.status === 404 && !again) return draw(true);
    refuse(error);
  } finally {
    clearTimeout(waiting);
  }
}

/** The reason why there is nothing to show, in the place of all that was shown. */
function refuse(error) {
  drawing++;
  asked = null;
  refill($("answer"));
  stage(problem(error));
}

function stage(...children) {
  leave?.();
  leave = null;
  refill($("view"), ...children);
}

/** What stands around the views. */
function shell(now) {
  const run = runOf(now.run);
  const images = run?.task === "image_classification";
  refill($("run"), ...runs.map(one => h("option", { value: one.name, selected: one.name === now.run }, one.name)));
  $("run").title = run?.described ?? "";
  $("question").hidden = run?.task !== "question_answering";
  $("question").placeholder = say("question");
  if (document.activeElement !== $("question")) $("question").value = now.question ?? "";
  $("text").hidden = images;
  $("image").hidden = !images;
  $("image").setAttribute("aria-label", say("picture"));
  $("text").placeholder = say("type a sentence");
  if (now.text !== undefined) $("text").value = now.text;
  refill($("presets"), ...(run?.task === "translation" ? PRESETS : []).map(text =>
    h("a", { class: "preset", href: address.link({ view: now.view, run: now.run, text }),
      "aria-current": text === now.text ? "true" : null }, text)));
  $("views").setAttribute("aria-label", say("views"));
  refill($("views"), ...Object.keys(VIEWS).map(name => h("a", {
    href: address.elsewhere(name), "aria-current": name === now.view ? "page" : null }, say(`view ${name}`))));
  document.title = `${say(`view ${now.view}`)} · Glassformer`;
}

// ---------------------------------------------------------------- what a person can switch

function options(id, entries, chosen, onchange) {
  refill($(id), ...entries.map(([value, text]) => h("option", { value, selected: value === chosen }, text)));
  $(id).onchange = () => onchange($(id).value);
}

function switches() {
  options("language", languages, current(), tag => {
    remember("language", tag);
    speak(tag);
    switches();
    draw();
  });
  const theme = remembered("theme") ?? "auto";
  document.documentElement.dataset.theme = theme;
  options("theme", THEMES.map(name => [name, say(`theme ${name}`)]), theme, name => {
    remember("theme", name);
    document.documentElement.dataset.theme = name;
    draw();
  });
}

function listen() {
  const { view } = address.read();
  $("ask").addEventListener("submit", event => {
    event.preventDefault();
    const [text, question] = ["text", "question"].map(id => $(id).value.trim());
    const now = address.read();
    if (!text) return refuse({ what: "nothing typed" });
    address.go(address.link({ view: now.view ?? view, run: $("run").value, text, question }));
  });
  $("run").addEventListener("change", () => {
    const now = address.read(), run = runOf($("run").value);
    $("image").value = "";
    address.go(address.link({ view: now.view, run: run.name, text: run.task === "image_classification" ? undefined : now.text }));
  });
  $("image").addEventListener("change", async () => {
    try {
      [trace, asked] = [await api.image($("run").value, $("image").files[0]), null];
      draw();
    } catch (error) {
      refuse(error);
    }
  });
  $("image").addEventListener("click", () => { $("image").value = ""; });  // the same file may be chosen again
  document.querySelector(".skip").addEventListener("click", event => {
    event.preventDefault();  // its address would take the place of the sentence and the view
    $("view").focus();
    $("view").scrollIntoView();
  });
  addEventListener("hashchange", () => draw());
  addEventListener("unhandledrejection", interrupt);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw());
}

await learn();
watchScrolling(document.body);
switches();
listen();
try {
  runs = await api.runs();
  await draw();
} catch (error) {
  stage(problem(error));
}
