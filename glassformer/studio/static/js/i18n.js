// What the page says, in the language of its reader: one file, both languages.

const LANGUAGES = [["en", "English"], ["ko", "한국어"]];
const SENTENCES = ["why", "reason"];  // what is filled in there is a sentence of the server, too
let messages = {};
let sentences = [];  // of the server, with what is filled in
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
  sentences = Object.entries(messages).filter(([key, said]) => key === said.en && key.includes("{")).map(([key]) => patternOf(key));
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

/** "At most {n} tokens." → how to find n in such a sentence. */
function patternOf(key) {
  const literal = key.replace(/[.*+?^$()|[\]\\]/g, "\\$&");
  return { key, names: [...key.matchAll(/\{(\w+)\}/g)].map(found => found[1]),
    pattern: new RegExp(`^${literal.replace(/\{\w+\}/g, "(.*)")}$`) };
}

/** What the server said, in the language of the page. It speaks English, and a message whose key is such a sentence has it in both. */
export function told(text) {
  if (known(text)) return say(text);
  for (const { key, names, pattern } of sentences) {
    const found = pattern.exec(text);
    if (found) return say(key, Object.fromEntries(names.map((name, i) => [name, SENTENCES.includes(name) ? told(found[i + 1]) : found[i + 1]])));
  }
  return text;
}

/** Whether there is something to say. */
export const known = key => Object.hasOwn(messages, key);
