// Checking the answer of an exercise. No DOM.

/** @import { Exercise } from "./types.js" */

const ROUNDING = 1e-9; // of the decimal numbers themselves, so that a difference of exactly the tolerance is accepted
const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;
const WITH_THOUSANDS = /^[+-]?\d{1,3}(,\d{3})+(\.\d*)?$/;

/**
 * Return what a text can mean as a number. A comma is a decimal comma; in "1,804" it can also separate thousands.
 *
 * @param {string} text
 * @returns {number[]}  empty if the text is not a number
 */
export function readNumbers(text) {
  const plain = text.trim().replace("−", "-"); // the minus sign of typography, as in a copied number
  const readings = [plain.replace(",", ".")];
  if (WITH_THOUSANDS.test(plain)) readings.push(plain.replaceAll(",", ""));
  return readings.filter(reading => NUMBER.test(reading)).map(Number);
}

/**
 * Return whether an answer is correct: the correct option, or a number that is close enough.
 *
 * @param {Exercise} exercise
 * @param {string} given
 */
export function isCorrect({ answer, tolerance }, given) {
  if (typeof answer === "string") return given === answer;
  return readNumbers(given).some(number => Math.abs(number - answer) <= tolerance + ROUNDING);
}
