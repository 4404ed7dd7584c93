// Messages in the language of the reader. No DOM: i18n.js connects this to the page.

/** @typedef {Record<string, Record<string, string>>} Messages  key → language → text */
/** @typedef {Record<string, string | number | null | undefined>} Values  values of the placeholders of a message */
/** @typedef {{ key: string, names: string[], pattern: RegExp }} SentencePattern */

/** Placeholders whose value is itself a sentence of the server that needs translation. */
const NESTED = new Set(["why", "reason"]);
const FIRST_SYLLABLE = 0xac00;
const FINAL_CONSONANTS = 28; // forms per syllable; the first has no final consonant

/**
 * Replace "을(를)", "이(가)", "은(는)" and "과(와)" by the form that fits the Hangul syllable before it. Both forms stay
 * after a digit or a Latin letter, because these can be read aloud in several ways.
 *
 * @param {string} text
 */
export function withParticles(text) {
  return text.replace(
    /([가-힣])(["”’')\]]*)(을\(를\)|이\(가\)|은\(는\)|과\(와\))/g,
    (_, /** @type {string} */ syllable, /** @type {string} */ closing, /** @type {string} */ pair) => {
      const endsInConsonant = (syllable.charCodeAt(0) - FIRST_SYLLABLE) % FINAL_CONSONANTS > 0;
      return syllable + closing + (endsInConsonant ? pair[0] : pair[2]);
    },
  );
}

/**
 * "At most {n} tokens." → a pattern that matches such sentences and captures n.
 *
 * @param {string} key
 * @returns {SentencePattern}
 */
function sentencePattern(key) {
  const literal = key.replace(/[.*+?^$()|[\]\\]/g, "\\$&");
  const names = [...key.matchAll(/\{(\w+)\}/g)].map(match => match[1]);
  return { key, names, pattern: new RegExp(`^${literal.replace(/\{\w+\}/g, "(.*)")}$`) };
}

/** Looks up messages by key and fills in their placeholders. */
export class Translation {
  /**
   * @param {Messages} messages
   * @param {string} language
   */
  constructor(messages, language) {
    this.messages = messages;
    this.language = language;
    // The server answers in English. A message whose key is its own English text translates such a sentence.
    this.sentences = Object.entries(messages)
      .filter(([key, texts]) => key === texts.en && key.includes("{"))
      .map(([key]) => sentencePattern(key));
  }

  /** @param {string} key */
  has(key) {
    return Object.hasOwn(this.messages, key);
  }

  /**
   * Return a message. A key without a message is returned as it is, so that the gap is visible.
   *
   * @param {string} key
   * @param {Values} [values]
   * @returns {string}
   */
  text(key, values = {}) {
    const message = this.has(key) ? (this.messages[key][this.language] ?? key) : key;
    const filled = message.replace(/\{(\w+)\}/g, (placeholder, name) => String(values[name] ?? placeholder));
    return this.language === "ko" ? withParticles(filled) : filled;
  }

  /**
   * Translate a sentence of the server. A sentence without a message is returned as it is.
   *
   * @param {string} sentence
   * @returns {string}
   */
  serverText(sentence) {
    if (this.has(sentence)) return this.text(sentence);
    for (const { key, names, pattern } of this.sentences) {
      const match = pattern.exec(sentence);
      if (!match) continue;
      const values = names.map((name, i) => [name, NESTED.has(name) ? this.serverText(match[i + 1]) : match[i + 1]]);
      return this.text(key, Object.fromEntries(values));
    }
    return sentence;
  }
}
