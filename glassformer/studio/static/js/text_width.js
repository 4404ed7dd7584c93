// Estimated width of text in a drawing, which is laid out before the browser can measure it.

const FIRST_WIDE = "\u2fff"; // CJK and Hangul characters come after this one

/**
 * @param {string} text
 * @param {number} narrow  pixels per Latin letter
 * @param {number} wide    pixels per CJK or Hangul character
 */
export const textWidth = (text, narrow = 7.6, wide = 13) =>
  [...text].reduce((sum, character) => sum + (character > FIRST_WIDE ? wide : narrow), 0);
