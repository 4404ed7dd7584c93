// Where the page is: `#/attention?run=demo-en-fr&text=I+am+a+student&layer=2`. A link shows what its sender saw.

/** What all views share; the rest belongs to one. */
const SHARED = ["run", "text", "target", "question"];

export function read() {
  const [, path, query = ""] = location.hash.match(/^#?\/?([^?]*)\??(.*)$/s);  // a later ? belongs to a sentence
  return { view: path || "worksheet", ...Object.fromEntries(new URLSearchParams(query)) };
}

/** A whole number of an address; `otherwise` where somebody wrote none there, or one that cannot be. */
export function whole(text, otherwise, most = Infinity) {
  const number = /^\d+$/.test(text ?? "") ? Number(text) : NaN;
  return number <= most ? number : otherwise;
}

export function link({ view, ...rest }) {
  const given = Object.entries(rest).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const query = new URLSearchParams(given.map(([key, value]) => [key, String(value)]));
  return `#/${view}${given.length ? `?${query}` : ""}`;
}

/** The address of another view of the same sentence. */
export function elsewhere(view, more = {}) {
  const now = read();
  return link({ view, ...Object.fromEntries(SHARED.map(key => [key, now[key]])), ...more });
}

/** Notes what was chosen, without drawing the page again. */
export function note(changes) {
  history.replaceState(null, "", link({ ...read(), ...changes }));
}

/** The same as a step of its own: the back button undoes it. The page draws what it goes back to. */
export function step(changes) {
  const now = link({ ...read(), ...changes });
  if (now !== location.hash) history.pushState(null, "", now);
}

/** Goes to an address: the page is drawn, and the back button comes back here. */
export function go(hash) {
  if (location.hash === hash) dispatchEvent(new HashChangeEvent("hashchange"));
  else location.hash = hash;
}
