// Messages in the language of the reader. No DOM: i18n.js connects this to the page.

/** @typedef {Record<string, Record<string, string>>} Messages  key → language → text */
/** @typedef {Record<string, string | number | null | undefined>} Values  values of the placeholders of a message */
/** @import { ServerMessage } from "./types.js" */

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
 * Whether a value has the shape of a message. A log file may contain anything.
 *
 * @param {unknown} value
 * @returns {value is ServerMessage}
 */
export const isServerMessage = value =>
  typeof value === "object" && value !== null && "text" in value && typeof value.text === "string";

/** Looks up messages by key and fills in their placeholders. */
export class Translation {
  /**
   * @param {Messages} messages
   * @param {string} language
   */
  constructor(messages, language) {
    this.messages = messages;
    this.language = language;
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
   * Return the text of a message of the server. Its template is the key of the message; a value may be a message, too.
   *
   * @param {ServerMessage} message
   * @returns {string}
   */
  serverText({ text, values }) {
    const filled = Object.entries(values ?? {}).map(([name, value]) => [
      name,
      isServerMessage(value) ? this.serverText(value) : value,
    ]);
    return this.text(text, Object.fromEntries(filled));
  }
}
