// Text to token ids and back, as glassformer/text/tokenizer.py does it.

/** @import { PageInfo } from "./types.js" */

export const PAD = 0;
export const SOS = 1;
export const EOS = 2;
const WORD_MARK = "▁";
// What Python's str.split takes as whitespace; \s of JavaScript differs.
// eslint-disable-next-line no-control-regex
const SPACES = /[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+/u;
const ISOLATED = /(▁?[\p{P}\p{Sc}\p{Sm}\p{Sk}\p{Nd}])/u;
const BYTE = /^<0x([0-9A-F]{2})>$/;

export class Tokenizer {
  /** @param {PageInfo["tokenizer"]} settings */
  constructor({ kind, lowercase, newline, tokens, merges }) {
    this.kind = kind;
    this.lowercase = lowercase;
    this.newline = newline;
    this.tokens = tokens;
    this.ids = new Map(tokens.map((token, id) => [token, id]));
    /** Rank and result of merging two tokens, by `left * tokens.length + right`. @type {Map<number, [number, number]>} */
    this.merges = new Map();
    for (let i = 0; i < merges.length; i += 2) {
      const result = this.ids.get(tokens[merges[i]] + tokens[merges[i + 1]]) ?? 0;
      this.merges.set(merges[i] * tokens.length + merges[i + 1], [i, result]);
    }
  }

  /** @param {string} text */
  normalize(text) {
    if (this.kind === "characters") return text.normalize("NFC");
    const cased = this.lowercase ? text.toLowerCase() : text;
    return cased.normalize("NFC").split(SPACES).filter(Boolean).join(" ").replaceAll(WORD_MARK, "_");
  }

  /**
   * @param {string} text
   * @returns {number[]}
   */
  encode(text) {
    const normalized = this.normalize(text);
    if (this.kind === "characters") return this.#characters(normalized);
    const words = normalized.split(" ").filter(Boolean);
    const parts = words.flatMap(word => (WORD_MARK + word).split(ISOLATED).filter(Boolean));
    return parts.flatMap(part => this.#merge(this.#characters(part)));
  }

  /**
   * The tokens of single characters; a character that is not in the vocabulary becomes bytes.
   *
   * @param {string} text
   */
  #characters(text) {
    return Array.from(text).flatMap(character => {
      const id = this.ids.get(character);
      if (id !== undefined) return [id];
      const bytes = Array.from(new TextEncoder().encode(character));
      return bytes.map(byte => this.ids.get(`<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`) ?? PAD);
    });
  }

  /**
   * Byte-pair encoding: merge the pair that was learned first, the leftmost of several, until none is left.
   *
   * @param {number[]} ids
   */
  #merge(ids) {
    for (;;) {
      let best = -1,
        /** @type {[number, number]} */ merge = [Infinity, 0];
      for (let i = 0; i + 1 < ids.length; i++) {
        const found = this.merges.get(ids[i] * this.tokens.length + ids[i + 1]);
        if (found && found[0] < merge[0]) [best, merge] = [i, found];
      }
      if (best < 0) return ids;
      ids.splice(best, 2, merge[1]);
    }
  }

  /**
   * Return ids as text: one normalized line, or with kind "characters" the exact text.
   *
   * @param {readonly number[]} ids
   */
  decode(ids) {
    let text = "",
      /** @type {number[]} */ bytes = [];
    const flush = () => {
      text += decodeBytes(bytes);
      bytes = [];
    };
    for (const id of ids.filter(one => one > EOS)) {
      const byte = BYTE.exec(this.tokens[id]);
      if (byte) {
        bytes.push(parseInt(byte[1], 16));
        continue;
      }
      flush();
      text += this.kind === "characters" ? this.tokens[id] : this.tokens[id].replaceAll(WORD_MARK, " ");
    }
    flush();
    return this.normalize(text);
  }

  /**
   * Return ids as several lines; `<eos>` ends a line.
   *
   * @param {readonly number[]} ids
   */
  decodeLines(ids) {
    /** @type {number[][]} */
    const lines = [[]];
    for (const id of ids) {
      if (id === EOS) lines.push([]);
      else lines[lines.length - 1].push(id);
    }
    return lines.map(line => this.decode(line)).join("\n");
  }
}

/**
 * Bytes as UTF-8; each byte as a replacement character if they are not valid.
 *
 * @param {number[]} bytes
 */
function decodeBytes(bytes) {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(Uint8Array.from(bytes));
  } catch {
    return "\ufffd".repeat(bytes.length);
  }
}
