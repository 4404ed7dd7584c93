// What the page knows about tensors from their names. All lists of tensor names are here.

/** A block opens at the first of these that it has. */
export const SHOWN_FIRST = [
  "weights",
  "activations",
  "norm",
  "hidden_state",
  "input",
  "embedding",
  "positions",
  "rotation",
  "memory",
  "hidden",
  "logits",
  "probabilities",
];

/** Tensors whose columns stand for tokens, as their rows do. */
export const TOKEN_BY_TOKEN = ["scores", "energies", "scaled_scores", "mask", "masked_scores", "weights"];

/** Tensors of cross-attention whose rows stand for source tokens. */
export const READ_FROM_SOURCE = ["key", "value"];

/** With rotary positions, the tensors that the scores are computed from in place of queries and keys. */
export const ROTATED = /** @type {const} */ ({ query: "rotated_query", key: "rotated_key" });

/** Tensors that tell a model the order of its tokens: vectors for the embeddings, or angles for queries and keys. */
export const POSITION_TENSORS = ["positions", "rotation"];

/** Tensors whose columns stand for the tokens of the vocabulary, or for labels. */
export const OVER_VOCABULARY = ["logits", "probabilities"];

/** Tensors at the beginning and the end of a residual stream. */
export const STREAM_ENDS = ["input", "memory", "hidden"];

/** @type {Record<string, string>} */
const COLOURS = {
  query: "--query",
  key: "--key",
  rotated_query: "--query",
  rotated_key: "--key",
  value: "--value",
  weights: "--weights",
  activations: "--ff",
  residual: "--residual",
  positions: "--positions",
  rotation: "--positions",
  logits: "--logits",
  probabilities: "--probability",
  head_output: "--value",
  context: "--value",
  norm: "--residual",
  embedding: "--embedding",
};

/**
 * "encoder.0.self.weights" → "weights".
 *
 * @param {string} name
 */
export const lastPart = name => name.slice(name.lastIndexOf(".") + 1);

/**
 * "encoder.0.self.weights" → "encoder.0.self".
 *
 * @param {string} name
 */
export const withoutLastPart = name => name.slice(0, Math.max(0, name.lastIndexOf(".")));

/**
 * The CSS variable of the colour of a tensor.
 *
 * @param {string} name
 */
export const tensorColour = name => COLOURS[lastPart(name)] ?? "--plus";

/**
 * Whether the rows of a tensor start at the last token: those of the backward language model of ELMo do.
 *
 * @param {string} name
 */
export const isReversed = name => name.startsWith("backwards.") && name !== "backwards.output";
