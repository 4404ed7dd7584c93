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
  const filled = text.replace(/\{(\w+)\}/g, (all, name) => values[name] ?? all);
  return language === "ko" ? withParticles(filled) : filled;
}

/** The form of a particle after a Hangul syllable; both forms stay where a word may be read in several ways. */
const withParticles = text => text.replace(/([가-힣])(["”’')\]]*)(을\(를\)|이\(가\)|은\(는\)|과\(와\))/g, (_, last, between, pair) =>
  last + between + ((last.charCodeAt(0) - 0xac00) % 28 ? pair[0] : pair[2]));

/** The text of a message of the server: {text, values}. The template is the key of the message; a value may be a message, too. */
export function translate({ text, values = {} }) {
  const filled = Object.entries(values).map(([name, value]) => [name, value?.text === undefined ? value : translate(value)]);
  return say(text, Object.fromEntries(filled));
}

/** Whether there is something to say. */
export const known = key => Object.hasOwn(messages, key);
