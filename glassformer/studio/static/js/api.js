// Requests to the server. Tensors come as bytes: uint8 for colours, float32 where the values are shown.

/**
 * @import { Candidate, Cell, CheckpointRequest, CheckpointTrace, Effect, HeadAblation, InterventionRequest, LensLayer,
 *   Lesson, LessonTitle, LogPart, MaskedTrace, OutputToken, Recipe, Run, RunSummary, SearchTree, ServerError, StreamTensor, TeacherForcing,
 *   ProbableColumns, TensorValues, TokenProbability, Trace, TraceRequest, WeightBytes, WorkedExample, WorkedRequest } from "./types.js"
 * @import { BackwardPass, Contrast, ContrastAblation, GradientThroughTime, RecurrentModel, SampleRequest,
 *   SimilarToken } from "./types.js"
 */

/** An error that the reader can do something about: what is wrong, where, and a hint. */
export class RequestError extends Error {
  /**
   * @param {number} status  HTTP status; 0 if the server did not answer
   * @param {ServerError} error
   */
  constructor(status, { what, where = "", hint = "", messages = { what: { text: what }, hint: { text: hint } } }) {
    super(what);
    this.status = status;
    this.where = where;
    this.messages = messages;
  }
}

/**
 * @param {unknown} error
 * @returns {boolean} whether the server no longer has what was asked for
 */
export const isNotFound = error => error instanceof RequestError && error.status === 404;

/**
 * @param {string} path
 * @param {RequestInit} [options]
 */
async function request(path, options) {
  let response;
  try {
    response = await fetch(`/api/${path}`, options);
  } catch {
    throw new RequestError(0, { what: "no server" }); // fetch fails only if there is no answer at all
  }
  if (response.ok) return response;
  const statusLine = { what: `${response.status} ${response.statusText}` };
  // An answer in another form comes from something between the page and the server, such as a proxy.
  throw new RequestError(response.status, { ...statusLine, ...(await response.json().catch(() => null)) });
}

const CACHE_SIZE = 200;
/** @type {Map<string, Promise<unknown>>} */
const cache = new Map();

/**
 * Request a path and keep the answer. Answers about a trace never change.
 *
 * @template T
 * @param {string} path
 * @param {(response: Response) => Promise<T>} read
 * @returns {Promise<T>}
 */
function cached(path, read) {
  const known = cache.get(path);
  if (known) return /** @type {Promise<T>} */ (known);
  const [oldest] = cache.keys();
  if (cache.size >= CACHE_SIZE) cache.delete(oldest);
  const answer = request(path)
    .then(read)
    .catch(error => {
      cache.delete(path);
      throw error;
    });
  cache.set(path, answer);
  return answer;
}

/** @param {Response} response */
const json = response => response.json();

/** @param {Response} response */
const shapeOf = response => (response.headers.get("X-Shape") ?? "").split(",").filter(Boolean).map(Number);

/**
 * @param {Response} response
 * @returns {Promise<TensorValues>}
 */
const tensor = async response => ({
  numbers: new Float32Array(await response.arrayBuffer()),
  shape: shapeOf(response),
});

/**
 * @param {Response} response
 * @returns {Promise<WeightBytes>}
 */
const tensorBytes = async response => ({
  bytes: new Uint8Array(await response.arrayBuffer()),
  shape: shapeOf(response),
});

/** @param {Record<string, unknown>} parameters */
const query = parameters =>
  new URLSearchParams(Object.entries(parameters).map(([name, value]) => [name, String(value)])).toString();

/**
 * @param {string} path
 * @param {unknown} body
 */
async function post(path, body) {
  const headers = { "Content-Type": "application/json" };
  return json(await request(path, { method: "POST", headers, body: JSON.stringify(body) }));
}

// ---------------------------------------------------------------- runs and traces

/** @returns {Promise<Run[]>} */
export const runs = async () => json(await request("runs"));

/**
 * @param {TraceRequest} question
 * @returns {Promise<Trace>}
 */
export const trace = question => post("traces", question);

/**
 * @param {string} run
 * @param {File} file
 * @returns {Promise<Trace>}
 */
export const imageTrace = async (run, file) =>
  json(await request(`images?${query({ run })}`, { method: "POST", body: file }));

/**
 * The labels of the example images of a run.
 *
 * @param {string} run
 * @returns {Promise<string[]>}
 */
export const imageExamples = run => cached(`image-examples?${query({ run })}`, json);

/**
 * @param {string} run
 * @param {string} number
 * @returns {Promise<Trace>}
 */
export const exampleImageTrace = (run, number) => post(`image-examples?${query({ run, number })}`, {});

/**
 * Attention weights of all layers and heads of a kind, for colours only.
 *
 * @param {string} id
 * @param {string} kind
 */
export const attentionWeights = (id, kind) => cached(`traces/${id}/weights?${query({ kind })}`, tensorBytes);

/**
 * Exact values of a tensor, or of one head, row or cell of it (`at`: the first indices).
 *
 * @param {string} id
 * @param {string} name
 * @param {readonly number[]} [at]
 */
export const tensorValues = (id, name, at = []) =>
  cached(`traces/${id}/values?${query({ name, at: at.join(",") })}`, tensor);

/**
 * @param {string} id
 * @param {string} name
 * @returns {Promise<Recipe>}
 */
export const recipe = (id, name) => cached(`traces/${id}/recipe?${query({ name })}`, json);

/**
 * @param {string} id
 * @param {string} name
 * @param {readonly number[]} at
 * @returns {Promise<Cell>}
 */
export const cell = (id, name, at) => cached(`traces/${id}/cell?${query({ name, at: at.join(",") })}`, json);

/**
 * A weight of the model that a tensor is computed from, as the W of x·W.
 *
 * @param {string} id
 * @param {string} name
 * @param {string} role
 */
export const weightMatrix = (id, name, role) => cached(`traces/${id}/weight?${query({ name, role })}`, tensor);

/**
 * @param {string} id
 * @param {string} name  "logits" or "probabilities"
 * @returns {Promise<ProbableColumns>}
 */
export const probableColumns = (id, name) => cached(`traces/${id}/probable?${query({ name })}`, json);

// ---------------------------------------------------------------- worked example

/**
 * @param {WorkedRequest} matrices
 * @returns {Promise<WorkedExample>}
 */
export const workedExample = matrices => post("worked-example", matrices);

// ---------------------------------------------------------------- decoding

/**
 * The likeliest tokens of every step.
 *
 * @param {string} id
 * @param {number} most
 * @returns {Promise<Candidate[][]>}
 */
export const candidates = (id, most) => cached(`traces/${id}/choices?${query({ most })}`, json);

/**
 * @param {string} id
 * @param {number} beam
 * @returns {Promise<SearchTree>}
 */
export const searchTree = (id, beam) => cached(`traces/${id}/tree?${query({ beam })}`, json);

/**
 * @param {{ run: string, text: string, target: string }} pair
 * @returns {Promise<TeacherForcing>}
 */
export const teacherForcing = pair => post("compare-teacher-forcing", pair);

/**
 * Every token of the output with its log-probability.
 *
 * @param {string} id
 * @returns {Promise<OutputToken[]>}
 */
export const outputTokens = id => cached(`traces/${id}/written`, json);

// ---------------------------------------------------------------- positions, masks, residual stream

/**
 * Positional encodings of the first `length` positions.
 *
 * @param {string} id
 * @param {string} side
 * @param {number} length
 */
export const positionalEncodings = (id, side, length) =>
  cached(`traces/${id}/positions?${query({ side, length })}`, tensor);

/**
 * The sentence with padding, under a selection of the masks.
 *
 * @param {string} id
 * @param {{ padding: number, masks: string[] }} chosen
 * @returns {Promise<MaskedTrace>}
 */
export const maskedTrace = (id, chosen) => post(`traces/${id}/masked`, chosen);

/**
 * @param {string} id
 * @param {string} side
 * @returns {Promise<StreamTensor[]>}
 */
export const residualStream = (id, side) => cached(`traces/${id}/stream?${query({ side })}`, json);

/**
 * @param {string} id
 * @returns {Promise<LensLayer[]>}
 */
export const logitLens = id => cached(`traces/${id}/lens`, json);

/**
 * @param {string} id
 * @param {string} name
 * @param {number} row
 * @returns {Promise<TokenProbability[]>}
 */
export const logitLensCandidates = (id, name, row) => cached(`traces/${id}/lens/choices?${query({ name, row })}`, json);

// ---------------------------------------------------------------- recurrent models, gradients, contrast, embeddings

/**
 * @param {string} id
 * @returns {Promise<RecurrentModel>}
 */
export const recurrentModel = id => cached(`traces/${id}/recurrent`, json);

/** @type {Map<string, Promise<BackwardPass>>} */
const backwardPasses = new Map();

/**
 * The backward pass of a trace, computed once per trace.
 *
 * @param {string} id
 */
export function backwardPass(id) {
  const known = backwardPasses.get(id) ?? post(`traces/${id}/gradient`, {});
  backwardPasses.set(id, known);
  known.catch(() => backwardPasses.delete(id));
  return known;
}

/**
 * @param {string} run
 * @param {string} text
 * @returns {Promise<GradientThroughTime>}
 */
export const gradientThroughTime = (run, text) => cached(`gradient-through-time?${query({ run, text })}`, json);

/**
 * @param {string} id
 * @param {{ step: number, token: number, other: number }} pair
 * @returns {Promise<Contrast>}
 */
export const contrast = (id, pair) => cached(`traces/${id}/contrast?${query(pair)}`, json);

/**
 * @param {string} id
 * @param {{ step: number, token: number, other: number }} pair
 * @returns {Promise<ContrastAblation[]>}
 */
export const contrastAblation = (id, pair) => cached(`traces/${id}/contrast/ablation?${query(pair)}`, json);

/**
 * The tokens of the vocabulary whose embeddings are most similar to the embedding of a token.
 *
 * @param {string} id
 * @param {string} side
 * @param {number} row
 * @returns {Promise<SimilarToken[]>}
 */
export const nearestTokens = (id, side, row) => cached(`traces/${id}/nearest?${query({ side, row })}`, json);

/**
 * @param {SampleRequest} sampling
 * @returns {Promise<{ pieces: string[] }>}
 */
export const sample = sampling => post("sample", sampling);

// ---------------------------------------------------------------- interventions

/**
 * @param {InterventionRequest & { changes: string[] }} intervention
 * @returns {Promise<Effect>}
 */
export const effect = intervention => post("effect", intervention);

/**
 * @param {InterventionRequest & { kind: string }} ablation
 * @returns {Promise<HeadAblation>}
 */
export const headAblation = ablation => post("ablate-heads", ablation);

// ---------------------------------------------------------------- training

/**
 * @param {string} run
 * @returns {Promise<RunSummary>}
 */
export const runSummary = async run => json(await request(`numbers?${query({ run })}`));

/**
 * @param {string} run
 * @param {number} start
 * @returns {Promise<LogPart>}
 */
export const log = async (run, start) => json(await request(`log?${query({ run, start })}`));

/**
 * @param {CheckpointRequest} checkpoint
 * @returns {Promise<CheckpointTrace>}
 */
export const checkpointTrace = checkpoint => cached(`frame?${query({ ...checkpoint })}`, json);

/** @param {CheckpointRequest & { name: string, head: number }} checkpoint */
export const checkpointWeights = checkpoint => cached(`frame/weights?${query({ ...checkpoint })}`, tensor);

// ---------------------------------------------------------------- lessons

/**
 * @param {string} language
 * @returns {Promise<LessonTitle[]>}
 */
export const lessonTitles = language => cached(`lessons?${query({ language })}`, json);

/**
 * @param {string} name
 * @param {string} language
 * @returns {Promise<Lesson>}
 */
export const lesson = (name, language) => cached(`lessons/${encodeURIComponent(name)}?${query({ language })}`, json);

/**
 * Return a run as one HTML page.
 *
 * @param {string} run
 */
export const sharedPage = async run => (await request(`page?${query({ run })}`)).blob();
