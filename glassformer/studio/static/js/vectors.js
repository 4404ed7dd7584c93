// Arithmetic on rows of numbers, in double precision.

/** @import { Numbers } from "./types.js" */

/**
 * Row `r` of a matrix.
 *
 * @template {Numbers} Matrix
 * @param {Matrix} numbers
 * @param {number} width
 * @param {number} r
 * @returns {Matrix}
 */
export const row = (numbers, width, r) => /** @type {Matrix} */ (numbers.subarray(r * width, (r + 1) * width));

/**
 * Column `c` of a matrix.
 *
 * @param {Numbers} numbers
 * @param {number} width
 * @param {number} c
 */
export const column = (numbers, width, c) =>
  Float64Array.from({ length: numbers.length / width }, (_, r) => numbers[r * width + c]);

/**
 * The transpose of a matrix with rows of the given width.
 *
 * @param {Numbers} numbers
 * @param {number} width
 */
export function transpose(numbers, width) {
  const height = numbers.length / width;
  return Float64Array.from(
    { length: numbers.length },
    (_, i) => numbers[(i % height) * width + Math.floor(i / height)],
  );
}

/** @param {ArrayLike<number>} numbers */
export function total(numbers) {
  let sum = 0;
  for (let i = 0; i < numbers.length; i++) sum += numbers[i];
  return sum;
}

/**
 * @param {ArrayLike<number>} a
 * @param {ArrayLike<number>} b
 */
export function dot(a, b) {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i] * b[i];
  return sum;
}

/**
 * The Euclidean length of a vector.
 *
 * @param {ArrayLike<number>} a
 */
export const norm = a => Math.sqrt(dot(a, a));

/**
 * @param {ArrayLike<number>} a
 * @param {ArrayLike<number>} b
 */
export const add = (a, b) => Float64Array.from(a, (x, i) => x + b[i]);

/**
 * Dot products of all rows of one matrix with all rows of another, A·Bᵀ, row by row.
 *
 * @param {Numbers} a
 * @param {Numbers} b
 * @param {number} width
 */
export function pairwiseDotProducts(a, b, width) {
  const [rows, columns] = [a.length / width, b.length / width];
  return Float64Array.from({ length: rows * columns }, (_, i) =>
    dot(row(a, width, Math.floor(i / columns)), row(b, width, i % columns)),
  );
}

/**
 * Mean and standard deviation as normalization computes them (division by n, not by n − 1).
 *
 * @param {ArrayLike<number>} numbers
 */
export function meanAndDeviation(numbers) {
  const mean = total(numbers) / numbers.length;
  const variance = total(Float64Array.from(numbers, x => (x - mean) ** 2)) / numbers.length;
  return { mean, deviation: Math.sqrt(variance) };
}

/**
 * The largest absolute value; infinities and NaN are ignored.
 *
 * @param {ArrayLike<number>} numbers
 */
export function largestMagnitude(numbers) {
  let largest = 0;
  for (let i = 0; i < numbers.length; i++) {
    if (Number.isFinite(numbers[i])) largest = Math.max(largest, Math.abs(numbers[i]));
  }
  return largest;
}

/**
 * Whether a finite number is below 0.
 *
 * @param {ArrayLike<number>} numbers
 */
export function hasNegative(numbers) {
  for (let i = 0; i < numbers.length; i++) if (Number.isFinite(numbers[i]) && numbers[i] < 0) return true;
  return false;
}

/**
 * Probabilities from logits at a temperature, restricted to the `k` likeliest tokens (0: all).
 *
 * @param {ArrayLike<number>} logits
 * @param {number} [temperature]
 * @param {number} [k]
 */
export function softmax(logits, temperature = 1, k = 0) {
  const scaled = Float64Array.from(logits, x => x / temperature);
  const smallestKept = k > 0 && k < scaled.length ? Float64Array.from(scaled).sort()[scaled.length - k] : -Infinity;
  const largest = scaled.reduce((a, b) => Math.max(a, b), -Infinity);
  const powers = scaled.map(x => (x < smallestKept ? 0 : Math.exp(x - largest)));
  const sum = total(powers);
  return powers.map(x => x / sum);
}
