// What the page says, in the language of its reader: one file, both languages.

const LANGUAGES = [["en", "English"], ["ko", "한국어"]];
let messages = {};
let language = "en";

/** A browser may refuse to remember; the page works without. */
export function remembered(key) {
  try { return localStorage.getItem(key); } catch { return null; }
}
export function remember(key, value) {
  try { localStorage.setItem(key, value); } catch { /* then it asks again next time */ }
}

export const languages = LANGUAGES;
export const current = () => language;

export async function learn() {
  messages = await (await fetch("/static/messages.json")).json();
  const preferred = [remembered("language"), ...navigator.languages].map(tag => String(tag).slice(0, 2));
  speak(preferred.find(tag => LANGUAGES.some(([known]) => known === tag)) ?? "en");
}

export function speak(tag) {
  language = tag;
  document.documentElement.lang = tag;
  for (const element of document.querySelectorAll("[data-say]")) element.textContent = say(element.dataset.say);
}

/** `say("layer n", {n: 3})`; a key without a message is shown as it is, so that it is noticed. */
export function say(key, values = {}) {
  const text = messages[key]?.[language] ?? key;
  return text.replace(/\{(\w+)\}/g, (all, name) => values[name] ?? all);
}

/** Whether there is something to say. */
export const known = key => key in messages;
