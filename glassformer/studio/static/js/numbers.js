// Numbers as text. Rounding is for display only.

/** @import { JsonNumber } from "./types.js" */

const MOST_DIGITS = 9; // of a float32 in decimal

/**
 * Replace hyphens by minus signs, also in exponents.
 *
 * @param {string} text
 */
export const withMinusSigns = text => text.replaceAll("-", "−");

/**
 * Replace minus signs by hyphens, so that a program can read the number.
 *
 * @param {string} text
 */
export const withHyphens = text => text.replaceAll("−", "-");

/**
 * The shortest decimal number that is read back as the same float32.
 *
 * @param {JsonNumber | string} x
 */
export function formatExact(x) {
  if (x === "-inf" || x === -Infinity) return "−∞";
  if (x === "inf" || x === Infinity) return "∞";
  const value = Math.fround(Number(x));
  for (let digits = 1; digits < MOST_DIGITS; digits++) {
    const text = value.toPrecision(digits);
    if (Math.fround(Number(text)) === value) return withMinusSigns(String(Number(text)));
  }
  return withMinusSigns(String(Number(value.toPrecision(MOST_DIGITS))));
}

/**
 * The same with hyphens, for CSV files.
 *
 * @param {JsonNumber} x
 */
export const formatCsv = x => withHyphens(formatExact(x));

/**
 * Three decimals, for labels; the exponent form for very small and very large numbers.
 *
 * @param {JsonNumber} x
 */
export function formatShort(x) {
  const value = Number(x);
  if (!Number.isFinite(value)) return formatExact(x);
  const size = Math.abs(value);
  return withMinusSigns(size !== 0 && (size < 0.001 || size >= 10000) ? value.toExponential(1) : value.toFixed(3));
}

/**
 * About three digits, for a cell of a matrix: whole numbers as they are.
 *
 * @param {number} x
 * @param {boolean} [tiny]  whether the matrix has only small numbers, which need an exponent
 */
export function formatCell(x, tiny = false) {
  if (!Number.isFinite(x)) return formatExact(x);
  const size = Math.abs(x);
  if (size >= 10000 || (tiny && size > 0 && size < 0.01)) return withMinusSigns(x.toExponential(0));
  if (Number.isInteger(x)) return withMinusSigns(String(x));
  return withMinusSigns(x.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : 2));
}

/**
 * Three decimals with a plus sign before positive numbers.
 *
 * @param {number} x
 */
export const formatChange = x => (x > 0 ? `+${formatShort(x)}` : formatShort(x));

/** @param {number} x */
export const formatPercent = x => `${(100 * x).toFixed(x > 0 && x < 0.001 ? 3 : 1)}\u00a0%`;

/**
 * A count with thousands separators.
 *
 * @param {number} n
 */
export const formatCount = n => n.toLocaleString("en");
