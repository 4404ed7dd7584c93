// Numbers and pieces as people read them. Nothing here changes a number; rounding is for display.

/** The shortest decimal that is the very float32; −∞ as such. */
export function exact(x) {
  if (x === "-inf" || x === -Infinity) return "−∞";
  if (x === "inf" || x === Infinity) return "∞";
  const value = Math.fround(Number(x));
  for (let digits = 1; digits < 9; digits++) {
    const text = value.toPrecision(digits);
    if (Math.fround(Number(text)) === value) return signed(String(Number(text)));
  }
  return signed(String(Number(value.toPrecision(9))));
}

/** Three digits, for labels; the exact number is one click away. */
export function brief(x) {
  if (!Number.isFinite(Number(x))) return exact(x);
  const size = Math.abs(x);
  return signed(size !== 0 && (size < 0.001 || size >= 10000) ? Number(x).toExponential(1) : Number(x).toFixed(3));
}

const signed = text => text.replace("-", "−");
export const percent = x => `${(100 * x).toFixed(x > 0 && x < 0.001 ? 3 : 1)}\u00a0%`;

/** A piece without its word mark; a bare mark stays visible. */
export const plain = piece => piece.replace(/^▁+/, "") || "▁";
export const isSpecial = piece => /^<[^<>\s]+>$/.test(piece) && !/^<0x/.test(piece);

/** Probabilities from logits at a temperature, of the `k` likeliest alone (0: of all). */
export function probabilities(logits, temperature = 1, k = 0) {
  const scaled = Float64Array.from(logits, x => x / temperature);
  const least = k > 0 && k < scaled.length ? Float64Array.from(scaled).sort()[scaled.length - k] : -Infinity;
  const most = scaled.reduce((a, b) => Math.max(a, b), -Infinity);
  const powers = scaled.map(x => (x < least ? 0 : Math.exp(x - most)));
  const sum = powers.reduce((a, b) => a + b, 0);
  return powers.map(x => x / sum);
}

/** One head of the weights of all heads, or their mean, summed in double precision. */
export function ofHead(all, heads, head) {
  const size = all.length / heads;
  if (head !== "mean") return all.subarray(head * size, (head + 1) * size);
  const mean = new Float64Array(size);
  for (let i = 0; i < all.length; i++) mean[i % size] += all[i] / heads;
  return Float32Array.from(mean);
}

/** Which pieces make up a word: [[0], [1, 2], …]. */
export function wordsOf(pieces) {
  const words = [];
  pieces.forEach((piece, i) => {
    const begins = i === 0 || piece.startsWith("▁") || isSpecial(piece) || isSpecial(pieces[i - 1]);
    if (begins) words.push([i]);
    else words.at(-1).push(i);
  });
  return words;
}

/** Attention between words: weights to the pieces of a word are added, those from its pieces averaged. */
export function merged(numbers, columns, rowGroups, columnGroups) {
  return Float32Array.from(rowGroups.flatMap(rows => columnGroups.map(group => {
    let sum = 0;
    for (const row of rows) for (const column of group) sum += numbers[row * columns + column];
    return sum / rows.length;
  })));
}
