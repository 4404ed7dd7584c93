// Choices and progress of the reader, remembered by the browser.

/**
 * @param {string} key
 * @returns {string | null}
 */
export function loadPreference(key) {
  try {
    return localStorage.getItem(key);
  } catch {
    return null; // storage is blocked in this browser: use the default
  }
}

/**
 * @param {string} key
 * @param {string} value
 */
export function savePreference(key, value) {
  try {
    localStorage.setItem(key, value);
  } catch {
    // Storage is blocked in this browser: the choice holds until the page is closed.
  }
}
