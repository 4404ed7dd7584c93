// The exercises that the reader has solved, remembered by the browser.

import { loadPreference, savePreference } from "./preferences.js";

const KEY = "solved exercises";
/** @type {Set<string>} solved since the page was opened, also if storage is blocked */
const solvedHere = new Set();

/** @returns {string[]} */
function stored() {
  try {
    const found = JSON.parse(loadPreference(KEY) ?? "[]");
    return Array.isArray(found) ? found.map(String) : [];
  } catch {
    return []; // not JSON: something else wrote it
  }
}

/**
 * Name an exercise independently of the language.
 *
 * @param {string} lesson
 * @param {number} number  of the exercise in its lesson, from 1
 */
export const exerciseId = (lesson, number) => `${lesson}/${number}`;

/** @param {string} id */
export const isSolved = id => solvedHere.has(id) || stored().includes(id);

/**
 * Return whether all exercises of a lesson are solved.
 *
 * @param {string} lesson
 * @param {number} exercises  how many it has
 */
export function isLessonSolved(lesson, exercises) {
  const ids = Array.from({ length: exercises }, (_, i) => exerciseId(lesson, i + 1));
  return exercises > 0 && ids.every(isSolved);
}

/** @param {string} id */
export function markSolved(id) {
  solvedHere.add(id);
  // What another tab has stored meanwhile is kept.
  savePreference(KEY, JSON.stringify([...new Set([...stored(), ...solvedHere])]));
}
