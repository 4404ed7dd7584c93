// The page at /: type a text, read its translation, point at a word to see the words that it is aligned with.

import { ask, element, h, languageName, startPage, t } from "./page.js";

/** @typedef {{ source: string, text: string, score?: number, alignment?: [number, number][] }} Sentence */
/** @typedef {{ text: string, detected?: { language: string }, sentences: Sentence[] }} Translation */
/** @typedef {{ code: string, name: string, targets: string[] }} Language */

const source = /** @type {HTMLSelectElement} */ (element("source"));
const target = /** @type {HTMLSelectElement} */ (element("target"));
const text = /** @type {HTMLTextAreaElement} */ (element("text"));
const status = element("status");
const result = element("result");

/** @type {Language[]} */
let languages = [];
let latest = 0;

/** @param {string} code */
const nameOf = code => languageName(code) ?? languages.find(one => one.code === code)?.name ?? code;

/** Offer the targets of the chosen source; keep the chosen one if it is still there. */
function showTargets() {
  const from = languages.filter(one => source.value === "auto" || one.code === source.value);
  const codes = new Set(from.flatMap(one => one.targets.filter(code => code !== one.code)));
  const chosen = target.value;
  target.replaceChildren(...[...codes].map(code => h("option", { value: code }, nameOf(code))));
  if (codes.has(chosen)) target.value = chosen;
}

function showLanguages() {
  const chosen = source.value || "auto";
  const offered = languages.filter(one => one.targets.some(code => code !== one.code));
  source.replaceChildren(
    h("option", { value: "auto" }, t("auto")),
    ...offered.map(one => h("option", { value: one.code }, nameOf(one.code))),
  );
  source.value = chosen;
  showTargets();
  text.placeholder = t("placeholder");
  if (offered.length === 0) status.textContent = t("no models");
}

/**
 * Show a sentence and its translation; a word and the words that it is aligned with are marked together.
 *
 * @param {Sentence} sentence
 */
function showSentence(sentence) {
  const pairs = sentence.alignment ?? [];
  /** @type {HTMLElement[][]} */
  const sides = [sentence.source, sentence.text].map(side =>
    side.split(/\s+/u).map(word => h("span", { class: "word", tabindex: "0" }, word)),
  );
  /**
   * @param {number} side
   * @param {number} at
   * @param {boolean} on
   */
  const mark = (side, at, on) => {
    sides[side]?.[at]?.classList.toggle("now", on);
    for (const pair of pairs) {
      if (pair[side] === at) sides[1 - side]?.[pair[1 - side] ?? -1]?.classList.toggle("now", on);
    }
  };
  sides.forEach((words, side) =>
    words.forEach((word, at) => {
      for (const event of ["pointerenter", "focus"]) word.addEventListener(event, () => mark(side, at, true));
      for (const event of ["pointerleave", "blur"]) word.addEventListener(event, () => mark(side, at, false));
    }),
  );
  const [before, after] = sides.map(words => words.flatMap(word => [word, " "]));
  const score = sentence.score === undefined ? "" : `${t("score")} ${sentence.score.toFixed(2)}`;
  return h(
    "div",
    { class: "sentence" },
    h("p", { class: "soft" }, ...(before ?? [])),
    h("p", { class: "target" }, ...(after ?? [])),
    h("p", { class: "soft", title: t("score tip") }, score),
  );
}

/** @param {Event} event */
async function translate(event) {
  event.preventDefault();
  if (!text.value.trim()) return;
  const number = ++latest;
  status.className = "soft";
  status.textContent = t("working");
  const asked = { text: text.value, source: source.value, target: target.value, alignment: true };
  try {
    const response = await ask("POST", "/v1/translate", JSON.stringify(asked));
    const answer = await response.json();
    if (number !== latest) return; // a later request was sent
    if (!response.ok) throw new Error([answer.error.message, answer.error.hint].filter(Boolean).join(" "));
    const [translation] = /** @type {Translation[]} */ (answer.translations);
    const detected = translation?.detected?.language;
    status.textContent = detected ? t("detected", { name: nameOf(detected) }) : "";
    const sentences = translation?.sentences ?? [];
    result.replaceChildren(...(sentences.length ? sentences.map(showSentence) : [h("p", {}, translation?.text ?? "")]));
  } catch (error) {
    if (number !== latest) return;
    status.className = "problem";
    status.textContent = t("failed", { why: String(error instanceof Error ? error.message : error) });
  }
}

element("form").addEventListener("submit", translate);
source.addEventListener("change", showTargets);
text.addEventListener("keydown", event => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) translate(event);
});
const settings = await (await fetch("/frontend/settings")).json();
element("key-label").hidden = !settings.keyRequired;
languages = await (await fetch("/languages")).json();
await startPage(showLanguages);
