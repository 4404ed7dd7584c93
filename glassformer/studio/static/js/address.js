// The state of the page is in its address: `#/attention?run=demo-en-fr&text=I+am+a+student&layer=2`.
// Whoever opens a link sees what its sender saw.

/** @import { Address } from "./types.js" */

const DEFAULT_VIEW = "worksheet";
/** Parameters that all views share. The others belong to one view. */
const SHARED = ["run", "text", "target", "question", "image"];

/** @typedef {string | number | boolean | null | undefined} ParameterValue */

/**
 * Split an address into its view and its parameters.
 *
 * @param {string} [hash]
 * @returns {Address}
 */
export function readAddress(hash = location.hash) {
  // The first "?" starts the parameters. A later one belongs to a sentence.
  const [, path = "", query = ""] = hash.match(/^#?\/?([^?]*)\??(.*)$/s) ?? [];
  return { ...Object.fromEntries(new URLSearchParams(query)), view: path || DEFAULT_VIEW };
}

/**
 * Read a whole number of an address. Return `fallback` if the text is not a whole number or is larger than `most`.
 *
 * @template Fallback
 * @param {string | undefined} text
 * @param {Fallback} fallback
 * @param {number} [most]
 * @returns {number | Fallback}
 */
export function wholeNumber(text, fallback, most = Infinity) {
  const number = /^\d+$/.test(text ?? "") ? Number(text) : NaN;
  return number <= most ? number : fallback;
}

/**
 * Write an address. Parameters without a value are left out.
 *
 * @param {{ view: string, [parameter: string]: ParameterValue }} address
 */
export function link({ view, ...parameters }) {
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const query = new URLSearchParams(given.map(([name, value]) => [name, String(value)]));
  return `#/${view}${given.length ? `?${query}` : ""}`;
}

/**
 * Link to another view of the same sentence.
 *
 * @param {string} view
 * @param {Record<string, ParameterValue>} [parameters]
 */
export function linkToView(view, parameters = {}) {
  const now = readAddress();
  return link({ view, ...Object.fromEntries(SHARED.map(name => [name, now[name]])), ...parameters });
}

/**
 * Change parameters of the current address without drawing the page again and without a history entry.
 *
 * @param {Record<string, ParameterValue>} changes
 */
export function replaceAddress(changes) {
  history.replaceState(null, "", link({ ...readAddress(), ...changes }));
}

/**
 * Change parameters of the current address with a history entry, so that the back button undoes the change.
 *
 * @param {Record<string, ParameterValue>} changes
 */
export function pushAddress(changes) {
  const hash = link({ ...readAddress(), ...changes });
  if (hash !== location.hash) history.pushState(null, "", hash);
}

/**
 * Go to an address and draw the page, also if it is the current address.
 *
 * @param {string} hash
 */
export function navigate(hash) {
  if (location.hash === hash) dispatchEvent(new HashChangeEvent("hashchange"));
  else location.hash = hash;
}

/**
 * The path of the page as a frame, before the "#": without header, tabs and examples. It must differ from the path of
 * the page around the frame, because browsers do not load a page inside itself.
 */
export const EMBEDDED_PATH = "/?embedded=1";

/** Whether this page is such a frame. */
export const isEmbedded = () => new URLSearchParams(location.search).has("embedded");
