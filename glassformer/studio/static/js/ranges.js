// Lists of consecutive numbers, and limits.

/** @import { Option } from "./types.js" */

/**
 * 0, 1, …, n − 1.
 *
 * @param {number} n
 */
export const range = n => Array.from({ length: n }, (_, i) => i);

/**
 * The same as text.
 *
 * @param {number} n
 */
export const indexNames = n => range(n).map(String);

/**
 * Numbers for people: 1, 2, …, n.
 *
 * @param {number} n
 */
export const countedNames = n => range(n).map(i => String(i + 1));

/**
 * Options to choose from; for people they are counted from 1.
 *
 * @param {number} n
 * @param {(i: number) => string} [name]
 * @returns {Option[]}
 */
export const indexOptions = (n, name = i => String(i + 1)) => range(n).map(i => [i, name(i)]);

/**
 * @param {number} value
 * @param {number} least
 * @param {number} most
 */
export const clamp = (value, least, most) => Math.max(least, Math.min(most, value));

/**
 * The size in pixels of a cell, so that `count` cells take about `space` pixels.
 *
 * @param {number} space
 * @param {number} count
 * @param {number} least
 * @param {number} most
 */
export const cellSize = (space, count, least, most) => clamp(Math.floor(space / Math.max(count, 1)), least, most);
