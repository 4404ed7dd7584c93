// What the server is asked. Numbers come as bytes: uint8 for colour, float32 where they are read.

/** Something that a person can mend: what, where, how. */
export class Problem extends Error {
  constructor(status, { what, where = "", fix = "", messages = null }) {
    super(what);
    Object.assign(this, { status, what, where, fix, messages });
  }
}

async function fetched(path, options) {
  let response;
  try {
    response = await fetch(`/api/${path}`, options);
  } catch {
    throw new Problem(0, { what: "no server" });
  }
  if (response.ok) return response;
  const told = await response.json().catch(() => ({ what: `${response.status} ${response.statusText}` }));
  throw new Problem(response.status, told);
}

const MOST_KEPT = 200;
const kept = new Map();

/** An answer about a trace never changes, so it is asked for once. */
function once(path, read) {
  if (!kept.has(path)) {
    if (kept.size >= MOST_KEPT) kept.delete(kept.keys().next().value);
    kept.set(path, fetched(path).then(read).catch(error => { kept.delete(path); throw error; }));
  }
  return kept.get(path);
}

const json = response => response.json();
const shapeOf = response => response.headers.get("X-Shape").split(",").filter(Boolean).map(Number);
const query = parameters => new URLSearchParams(parameters).toString();
const post = (path, body) => fetched(path, {
  method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
}).then(json);

export const runs = () => fetched("runs").then(json);
/** {run, text, target?, free?, forced?, question?} → the outline of a trace */
export const trace = question => post("traces", question);
export const image = (run, file) => fetched(`images?${query({ run })}`, { method: "POST", body: file }).then(json);
export const beside = pair => post("beside", pair);

/** Where every head of a kind looked: {bytes, shape: [layers, heads, queries, keys]}; 255 is all. */
export const weights = (id, kind) => once(`traces/${id}/weights?${query({ kind })}`, async response =>
  ({ bytes: new Uint8Array(await response.arrayBuffer()), shape: shapeOf(response) }));

/** The exact numbers of a tensor, or of one head, row or cell of it: {numbers, shape}. */
export const values = (id, name, at = []) => once(`traces/${id}/values?${query({ name, at: at.join(",") })}`,
  async response => ({ numbers: new Float32Array(await response.arrayBuffer()), shape: shapeOf(response) }));

export const recipe = (id, name) => once(`traces/${id}/recipe?${query({ name })}`, json);
export const cell = (id, name, at) => once(`traces/${id}/cell?${query({ name, at: at.join(",") })}`, json);
export const choices = (id, most = 10) => once(`traces/${id}/choices?${query({ most })}`, json);
export const tree = (id, beam) => once(`traces/${id}/tree?${query({ beam })}`, json);

// ---------------------------------------------------------------- positions, masks, stream

/** The vectors of the first `length` places of a side: {numbers, shape}. */
export const positions = (id, side, length) => once(`traces/${id}/positions?${query({ side, length })}`,
  async response => ({ numbers: new Float32Array(await response.arrayBuffer()), shape: shapeOf(response) }));

/** The sentence with padding behind it, under some of the masks: {id, source, target, looks, written, before, after, apart}. */
export const masked = (id, chosen) => post(`traces/${id}/masked`, chosen);

/** The places of a side's residual stream: [{name, norms, normalises}]. */
export const stream = (id, side) => once(`traces/${id}/stream?${query({ side })}`, json);

/** What the output layer would say after each decoder layer. */
export const lens = id => once(`traces/${id}/lens`, json);
export const lensChoices = (id, name, row) => once(`traces/${id}/lens/choices?${query({ name, row })}`, json);
/** {run, text, target?, changes} → what changes do to an output: before, after, both outputs */
export const effect = intervention => post("effect", intervention);
/** {run, text, target?, kind} → the change as each head is silenced, layers × heads */
export const silenced = asked => post("silenced", asked);
export const numbers = run => fetched(`numbers?${query({ run })}`).then(json);
export const written = id => once(`traces/${id}/written`, json);

export const log = (run, start) => fetched(`log?${query({ run, start })}`).then(json);
/** What a checkpoint makes of a sentence. `written` is when it was saved: another then is another checkpoint. */
export const frame = asked => once(`frame?${query(asked)}`, json);
export const frameWeights = asked => once(`frame/weights?${query(asked)}`,
  async response => new Float32Array(await response.arrayBuffer()));
