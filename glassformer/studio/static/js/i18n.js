// The language of the page. All messages are in /static/messages.json, in both languages.

import { loadPreference } from "./preferences.js";
import { Translation } from "./translation.js";

/** @import { Option, ServerMessage } from "./types.js" */
/** @import { Values } from "./translation.js" */

/** @type {readonly Option[]} */
export const LANGUAGES = [
  ["en", "English"],
  ["ko", "한국어"],
];
let translation = new Translation({}, "en");

export const currentLanguage = () => translation.language;

/** Load the messages and choose the reader's language: the remembered one, or the first of the browser's that exists. */
export async function loadMessages() {
  const response = await fetch("/static/messages.json");
  translation = new Translation(await response.json(), "en");
  const preferred = [loadPreference("language"), ...navigator.languages].map(tag => String(tag).slice(0, 2));
  setLanguage(preferred.find(tag => LANGUAGES.some(([language]) => language === tag)) ?? "en");
}

/** @param {string} language */
export function setLanguage(language) {
  translation.language = language;
  document.documentElement.lang = language;
  for (const element of document.querySelectorAll("[data-say]")) {
    if (element instanceof HTMLElement) element.textContent = t(element.dataset.say ?? "");
  }
}

/**
 * Return a message in the language of the page: `t("layer n", { n: 3 })`.
 *
 * @param {string} key
 * @param {Values} [values]
 */
export const t = (key, values) => translation.text(key, values);

/** @param {string} key */
export const hasMessage = key => translation.has(key);

/**
 * Return a message of the server in the language of the page.
 *
 * @param {ServerMessage} message
 */
export const translate = message => translation.serverText(message);
