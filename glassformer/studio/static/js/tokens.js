// Tokens as text. "▁" marks the beginning of a word.

/** The token that ends every target. */
export const END = "<eos>";

/**
 * A token without its word mark; a token that is only the mark stays visible.
 *
 * @param {string} token
 */
export const tokenText = token => token.replace(/^▁+/, "") || "▁";

/**
 * Whether a token is a control symbol such as <eos>. Byte tokens such as <0xE2> are not.
 *
 * @param {string} token
 */
export const isSpecialToken = token => /^<[^<>\s]+>$/.test(token) && !/^<0x/.test(token);

/**
 * Group the indices of tokens by word: [[0], [1, 2], …].
 *
 * @param {readonly string[]} tokens
 */
export function groupWords(tokens) {
  /** @type {number[][]} */
  const words = [];
  tokens.forEach((token, i) => {
    const begins = i === 0 || token.startsWith("▁") || isSpecialToken(token) || isSpecialToken(tokens[i - 1]);
    if (begins) words.push([i]);
    else words[words.length - 1].push(i);
  });
  return words;
}

/**
 * A decoder row: the token that is read and the token that is predicted from it.
 *
 * @param {string} read
 * @param {string} predicted
 */
export const inputAndPrediction = (read, predicted) => `${tokenText(read)} → ${tokenText(predicted)}`;
