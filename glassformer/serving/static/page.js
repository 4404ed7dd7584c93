// Shared by the pages of the service: texts in English and Korean, elements, requests.

/** @typedef {Record<string, Record<string, string>>} Messages */
/** @typedef {Record<string, string | number | boolean | ((event: Event) => void)>} Attributes */

/** @type {Messages} */
let messages = {};
let language = "en";

/**
 * Return a text in the language of the page.
 *
 * @param {string} key
 * @param {Record<string, string>} [values]
 */
export function t(key, values = {}) {
  const text = messages[key]?.[language] ?? key;
  return text.replace(/\{(\w+)\}/g, (_, name) => values[name] ?? "");
}

/**
 * Load the texts, choose the language, and call `changed` now and whenever the reader chooses another one.
 *
 * @param {() => void} changed
 */
export async function startPage(changed) {
  messages = await (await fetch("/static/messages.json")).json();
  const select = /** @type {HTMLSelectElement} */ (element("page-language"));
  const known = [...select.options].map(option => option.value);
  const preferred = [localStorage.getItem("language"), ...navigator.languages].map(tag => String(tag).slice(0, 2));
  const show = () => {
    language = document.documentElement.lang = select.value;
    for (const one of document.querySelectorAll("[data-say]")) {
      one.textContent = t(one.getAttribute("data-say") ?? "");
    }
    changed();
  };
  select.value = preferred.find(tag => known.includes(tag)) ?? "en";
  select.addEventListener("change", () => {
    localStorage.setItem("language", select.value);
    show();
  });
  show();
}

/**
 * Return the name of a language in the language of the page.
 *
 * @param {string} code
 */
export const languageName = code => new Intl.DisplayNames([language], { type: "language", fallback: "none" }).of(code);

/** @param {string} id */
export function element(id) {
  const found = document.getElementById(id);
  if (found === null) throw new Error(`There is no element ${id}.`);
  return found;
}

/**
 * Create an element. Children are inserted as text, never as HTML.
 *
 * @param {string} tag
 * @param {Attributes} [attributes]
 * @param {...(Node | string)} children
 */
export function h(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name.slice(2), value);
    else if (value !== false) made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children);
  return made;
}

/**
 * Send a request with the key of the page, if one is typed in.
 *
 * @param {string} method
 * @param {string} path
 * @param {string} [body]
 */
export function ask(method, path, body) {
  const key = /** @type {HTMLInputElement} */ (element("key")).value;
  /** @type {Record<string, string>} */
  const headers = {};
  if (key) headers["Authorization"] = `Bearer ${key}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  return fetch(path, { method, headers, body });
}
