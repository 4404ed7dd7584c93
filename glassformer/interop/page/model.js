// The model of the page: from a text to an answer, with the attention weights and the decoding steps behind it.

import { Engine } from "./engine.js";
import { readPayload } from "./payload.js";
import { EOS, PAD, SOS, Tokenizer } from "./tokenizer.js";

/** @import { Answer, Attention, PageInfo, RunOptions, Step } from "./types.js" */

const CANDIDATES = 5;
const MORE_OUTPUT = 50; // tokens that an output may have beyond its source (§6.1)
const MOST_SHOWN = 64; // tokens of a continued text whose attention weights are shown
const MOST_TOKENS = 512; // of an input, where the model has no limit of its own

export class PageModel {
  /**
   * @param {PageInfo} info
   * @param {Engine} engine
   * @param {Float32Array} head  weights of a classifier's head
   */
  constructor(info, engine, head) {
    this.info = info;
    this.engine = engine;
    this.head = head;
    this.tokenizer = new Tokenizer(info.tokenizer);
  }

  /** @param {string} payload */
  static async open(payload) {
    const { info, section } = await readPayload(payload);
    const engine = await Engine.start(section("engine"), info.shape, section("weights"));
    return new PageModel(info, engine, new Float32Array(section("head").slice().buffer));
  }

  /**
   * The token ids that the model reads for a text.
   *
   * @param {string} text
   */
  encode(text) {
    const { task, maxPositions, decode } = this.info,
      ids = this.tokenizer.encode(text),
      most = maxPositions ?? MOST_TOKENS;
    if (task === "continue") return truncateLeft([this.tokenizer.newline, ...ids], most);
    if (task === "classify") return [SOS, ...ids.slice(0, most - 2), EOS];
    return [...ids.slice(0, Math.min(decode.maxSource, most - 1)), EOS];
  }

  /**
   * @param {string} text
   * @param {RunOptions} [options]
   * @returns {Answer}
   */
  run(text, options = {}) {
    const input = this.encode(text);
    const answers = {
      translate: () => this.#translate(input, options.beam ?? 1),
      continue: () => this.#continue(input, options.length ?? MORE_OUTPUT, options.temperature ?? 0),
      classify: () => this.#classify(input),
    };
    return answers[this.info.task]();
  }

  /**
   * @param {number[]} source
   * @param {number} beam  1 is greedy decoding
   * @returns {Answer}
   */
  #translate(source, beam) {
    const { lengthPenalty, minLength, maxLength } = this.info.decode;
    const limit = Math.min(maxLength ?? source.length - 1 + MORE_OUTPUT, this.info.maxPositions ?? Infinity);
    const { tokens, finished } = this.engine.translate(source, { beam, lengthPenalty, minLength, limit });
    const written = finished ? [...tokens, EOS] : tokens;
    const { logits, attention } = this.#look(source, [SOS, ...written].slice(0, Math.max(1, written.length)));
    const steps = written.map((token, i) => this.#step(token, this.#row(logits, i)));
    return { text: this.tokenizer.decode(tokens), tokens, steps, labels: [], attention, cutOff: !finished };
  }

  /**
   * @param {number[]} prompt
   * @param {number} length  tokens to write
   * @param {number} temperature  0: always the most probable token
   * @returns {Answer}
   */
  #continue(prompt, length, temperature) {
    const most = this.info.maxPositions ?? MOST_TOKENS,
      /** @type {Step[]} */ steps = [];
    let read = prompt,
      unread = prompt;
    this.engine.start(most);
    while (steps.length < length) {
      const logits = this.engine.read(unread);
      logits[PAD] = logits[SOS] = -1e30;
      const token = temperature > 0 ? this.engine.sample(logits, temperature, Math.random()) : argmax(logits);
      steps.push(this.#step(token, logits));
      read = [...read, token];
      unread = [token];
      if (read.length > most) {
        read = unread = truncateLeft(read, most);
        this.engine.start(most);
      }
    }
    const tokens = steps.map(step => step.token),
      { attention } = this.#look([], [...prompt, ...tokens].slice(0, Math.min(MOST_SHOWN, most)));
    const text = this.tokenizer.decodeLines([...prompt.slice(1), ...tokens]);
    return { text, tokens, steps, labels: [], attention, cutOff: false };
  }

  /**
   * @param {number[]} input
   * @returns {Answer}
   */
  #classify(input) {
    const { width } = this.info.shape,
      hidden = this.engine.encode(input),
      /** @type {number[]} */ noTokens = [];
    const pooled = this.info.pooler
      ? linear(hidden.subarray(0, width), this.head, 0, width).map(Math.tanh)
      : maximum(hidden, width);
    const logits = linear(pooled, this.head, this.info.pooler ? width * (width + 1) : 0, this.info.labels.length);
    const probabilities = softmax(logits);
    const labels = this.info.labels.map((label, i) => ({ label, probability: probabilities[i] }));
    labels.sort((a, b) => b.probability - a.probability);
    const { attention } = this.#look(input, noTokens);
    return { text: labels[0].label, tokens: noTokens, steps: [], labels, attention, cutOff: false };
  }

  /**
   * @param {number} token
   * @param {Float32Array} logits
   * @returns {Step}
   */
  #step(token, logits) {
    const probabilities = softmax(logits);
    const order = Array.from(probabilities.keys()).sort((a, b) => probabilities[b] - probabilities[a]);
    const best = order.slice(0, CANDIDATES);
    if (!best.includes(token)) best.push(token);
    return { token, candidates: best.map(one => ({ token: one, probability: probabilities[one] })) };
  }

  /**
   * @param {Float32Array} logits
   * @param {number} i
   */
  #row(logits, i) {
    return logits.subarray(i * this.info.shape.vocab, (i + 1) * this.info.shape.vocab);
  }

  /**
   * One pass over a source and what the decoder reads, with all attention weights.
   *
   * @param {number[]} source
   * @param {number[]} target
   */
  #look(source, target) {
    const { weights, logits } = this.engine.attention(source, target);
    const [columns, rows] = [source, target].map(ids => ids.map(id => this.tokenizer.tokens[id]));
    return { logits, attention: unpackAttention(weights, this.info.shape, columns, rows) };
  }
}

/**
 * Sort the weights of gf_attention by kind, layer and head.
 *
 * @param {Float32Array} weights
 * @param {PageInfo["shape"]} shape
 * @param {string[]} source
 * @param {string[]} target
 * @returns {Attention[]}
 */
export function unpackAttention(weights, { heads, encoderLayers, decoderLayers }, source, target) {
  let at = 0;
  /** @param {number} rows @param {number} columns @param {boolean} causal */
  const layer = (rows, columns, causal) => {
    const found = Array.from({ length: heads }, () => new Float32Array(rows * columns));
    for (let row = 0; row < rows; row++) {
      const count = causal ? row + 1 : columns;
      for (let head = 0; head < heads; head++, at += count) {
        found[head].set(weights.subarray(at, at + count), row * columns);
      }
    }
    return found;
  };
  const [S, T] = [source.length, target.length];
  /** @type {Float32Array[][]} */
  const encoder = [],
    /** @type {Float32Array[][]} */ decoder = [],
    /** @type {Float32Array[][]} */ cross = [];
  for (let i = 0; i < encoderLayers; i++) encoder.push(layer(S, S, false));
  for (let i = 0; i < decoderLayers; i++) {
    decoder.push(layer(T, T, true));
    if (encoderLayers > 0) cross.push(layer(T, S, false));
  }
  /** @type {Attention[]} */
  const all = [
    { kind: "cross", rows: target, columns: source, layers: cross },
    { kind: "encoder", rows: source, columns: source, layers: encoder },
    { kind: "decoder", rows: target, columns: target, layers: decoder },
  ];
  return all.filter(({ layers }) => layers.length > 0);
}

/**
 * x·Wᵀ + b; W and then b are at `offset` of `weights`.
 *
 * @param {Float32Array} x
 * @param {Float32Array} weights
 * @param {number} offset
 * @param {number} outputs
 */
function linear(x, weights, offset, outputs) {
  return Float32Array.from({ length: outputs }, (_, row) => {
    let sum = weights[offset + outputs * x.length + row];
    for (let i = 0; i < x.length; i++) sum += x[i] * weights[offset + row * x.length + i];
    return sum;
  });
}

/**
 * The maximum of each column.
 *
 * @param {Float32Array} rows
 * @param {number} width
 */
function maximum(rows, width) {
  const most = new Float32Array(width).fill(-Infinity);
  rows.forEach((value, i) => (most[i % width] = Math.max(most[i % width], value)));
  return most;
}

/** @param {Float32Array} logits */
export function softmax(logits) {
  const largest = logits.reduce((a, b) => Math.max(a, b), -Infinity);
  const powers = Float64Array.from(logits, x => Math.exp(x - largest));
  const sum = powers.reduce((a, b) => a + b, 0);
  return powers.map(x => x / sum);
}

/** @param {Float32Array} values */
function argmax(values) {
  return values.reduce((best, value, i) => (value > values[best] ? i : best), 0);
}

/**
 * Drop tokens from the left until between half of `most` and all of it remain, as decoding.truncate_left does.
 *
 * @param {number[]} tokens
 * @param {number} most
 */
function truncateLeft(tokens, most) {
  const half = most - Math.floor(most / 2);
  return tokens.slice(Math.ceil(Math.max(0, tokens.length - most) / half) * half);
}
