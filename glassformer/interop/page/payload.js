// What the page carries: a description of the run, the engine and the weights, deflated and written as text.
//
// The text has 7 bits per character. NUL, carriage return and "<" cannot stand in a script element: such a value and the
// one after it are written together as one character from U+0080 on, which UTF-8 also stores in two bytes.

/** @import { PageInfo } from "./types.js" */

const ILLEGAL = [0, 13, 60];

/**
 * Return the bytes that a text stands for.
 *
 * @param {string} text
 * @param {number} size
 */
export function decodeText(text, size) {
  const bytes = new Uint8Array(size + 2); // the last character may bring up to two bytes of padding
  let at = 0,
    bits = 0,
    value = 0;
  const push = (/** @type {number} */ seven) => {
    value = ((value << 7) | seven) & 0x7fff;
    bits += 7;
    if (bits >= 8) bytes[at++] = value >> (bits -= 8);
  };
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code >= 128) push(ILLEGAL[(code - 128) >> 7]);
    push(code & 127);
  }
  return bytes.subarray(0, size);
}

/**
 * Read a payload: its size, a space, and the text.
 *
 * @param {string} written
 * @returns {Promise<{ info: PageInfo, section: (name: string) => Uint8Array<ArrayBuffer> }>}
 */
export async function readPayload(written) {
  const space = written.indexOf(" ");
  const deflated = decodeText(written.slice(space + 1), Number(written.slice(0, space)));
  const stream = new Blob([deflated]).stream().pipeThrough(new DecompressionStream("deflate"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const size = new DataView(bytes.buffer).getUint32(0, true);
  /** @type {PageInfo} */
  const info = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + size)));
  return {
    info,
    section: name => {
      const [offset, length] = info.sections[name];
      return bytes.subarray(4 + size + offset, 4 + size + offset + length);
    },
  };
}
