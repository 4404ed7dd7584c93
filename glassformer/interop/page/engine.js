// The native engine (glassformer/engine/csrc) as WebAssembly.

import { EOS, SOS } from "./tokenizer.js";

/** @import { EngineExports, Hypothesis, PageInfo } from "./types.js" */

const ALIGNMENT = 64;

export class Engine {
  /**
   * @param {EngineExports} functions
   * @param {PageInfo["shape"]} shape
   * @param {Uint8Array} weights  a packed model
   */
  constructor(functions, shape, weights) {
    this.functions = functions;
    this.shape = shape;
    functions._initialize();
    const model = this.#create("gf_model_from_memory", this.#put(weights), weights.length);
    this.worker = this.#create("gf_worker_new", model);
  }

  /**
   * @param {Uint8Array<ArrayBuffer>} module
   * @param {PageInfo["shape"]} shape
   * @param {Uint8Array} weights
   */
  static async start(module, shape, weights) {
    const { instance } = await WebAssembly.instantiate(module);
    return new Engine(/** @type {EngineExports} */ (instance.exports), shape, weights);
  }

  /**
   * Translate one sentence.
   *
   * @param {readonly number[]} source  token ids with `<eos>`
   * @param {{ beam: number, lengthPenalty: number, minLength: number, limit: number }} search
   * @returns {Hypothesis}
   */
  translate(source, { beam, lengthPenalty, minLength, limit }) {
    return this.#scope(put => {
      const options = new DataView(new ArrayBuffer(36));
      [beam, SOS, EOS, minLength, 0].forEach((value, i) => options.setInt32(4 * i, value, true));
      [lengthPenalty, 1].forEach((value, i) => options.setFloat32(20 + 4 * i, value, true));
      options.setFloat32(32, 1, true);
      const inputs = [Int32Array.from(source), Int32Array.of(source.length), Int32Array.of(limit)].map(put);
      const [tokens, lengths, finished] = [beam * limit, beam, beam].map(n => put(new Int32Array(n)));
      const [logProbabilities, scores] = [beam, beam].map(n => put(new Float64Array(n)));
      const search = put(new Uint8Array(options.buffer));
      const outputs = [tokens, lengths, logProbabilities, scores, finished];
      this.#call("gf_translate", this.worker, search, 1, ...inputs, 0, 0, 0, limit, ...outputs);
      const length = Math.max(0, this.#get(Int32Array, lengths, 1)[0]);
      return {
        tokens: Array.from(this.#get(Int32Array, tokens, length)),
        finished: this.#get(Int32Array, finished, 1)[0] === 1,
        logProbability: this.#get(Float64Array, logProbabilities, 1)[0],
      };
    });
  }

  /**
   * The attention weights of every head, as gf_attention lays them out, and the logits after each token.
   *
   * @param {readonly number[]} source
   * @param {readonly number[]} target  what the decoder reads
   */
  attention(source, target) {
    const { encoderLayers, decoderLayers, heads, vocab } = this.shape;
    const [rows, columns] = [target.length, source.length];
    const perDecoder = (rows * (rows + 1)) / 2 + rows * columns;
    const size = heads * (encoderLayers * columns * columns + decoderLayers * perDecoder);
    return this.#scope(put => {
      const weights = put(new Float32Array(size)),
        logits = put(new Float32Array(rows * vocab));
      const [from, to] = [source, target].map(ids => put(Int32Array.from(ids)));
      this.#call("gf_attention", this.worker, columns, from, rows, to, weights, logits);
      return { weights: this.#get(Float32Array, weights, size), logits: this.#get(Float32Array, logits, rows * vocab) };
    });
  }

  /**
   * The hidden states of the top encoder layer.
   *
   * @param {readonly number[]} source
   */
  encode(source) {
    const size = source.length * this.shape.width;
    return this.#scope(put => {
      const hidden = put(new Float32Array(size)),
        tokens = put(Int32Array.from(source)),
        length = put(Int32Array.of(source.length));
      this.#call("gf_encode", this.worker, 1, tokens, length, 0, hidden);
      return this.#get(Float32Array, hidden, size);
    });
  }

  /**
   * Start a text of up to so many tokens (language models).
   *
   * @param {number} most
   */
  start(most) {
    this.#call("gf_start", this.worker, most);
  }

  /**
   * Read further tokens of the text; return the logits of the next one.
   *
   * @param {readonly number[]} tokens
   */
  read(tokens) {
    return this.#scope(put => {
      const logits = put(new Float32Array(this.shape.vocab));
      this.#call("gf_read", this.worker, tokens.length, put(Int32Array.from(tokens)), logits);
      return this.#get(Float32Array, logits, this.shape.vocab);
    });
  }

  /**
   * Draw a token from softmax(logits / temperature).
   *
   * @param {Float32Array} logits
   * @param {number} temperature
   * @param {number} roll  in [0, 1)
   */
  sample(logits, temperature, roll) {
    return this.#scope(put => {
      const token = put(new Int32Array(1));
      this.#call("gf_sample", put(logits), logits.length, temperature, 0, 1, roll, token);
      return this.#get(Int32Array, token, 1)[0];
    });
  }

  /**
   * Run a function that copies arrays into the memory of the engine; free them afterwards.
   *
   * @template Result
   * @param {(put: (array: Int32Array | Float32Array | Float64Array | Uint8Array) => number) => Result} act
   * @returns {Result}
   */
  #scope(act) {
    /** @type {number[]} */
    const addresses = [];
    try {
      return act(array => {
        addresses.push(this.#put(array));
        return addresses[addresses.length - 1];
      });
    } finally {
      for (const address of addresses) this.functions.free(address);
    }
  }

  /**
   * Copy an array into the memory of the engine; return its address.
   *
   * @param {Int32Array | Float32Array | Float64Array | Uint8Array | Uint32Array} array
   */
  #put(array) {
    const room = Math.ceil((array.byteLength + 1) / ALIGNMENT) * ALIGNMENT;
    const address = this.functions.aligned_alloc(ALIGNMENT, room);
    if (address === 0) throw new Error("out of memory");
    const bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
    new Uint8Array(this.functions.memory.buffer, address, bytes.length).set(bytes);
    return address;
  }

  /**
   * Copy an array out of the memory of the engine.
   *
   * @template {Int32Array | Float32Array | Float64Array} Values
   * @param {new (buffer: ArrayBuffer, offset: number, length: number) => Values} Type
   * @param {number} address
   * @param {number} length
   * @returns {Values}
   */
  #get(Type, address, length) {
    return /** @type {Values} */ (new Type(this.functions.memory.buffer, address, length).slice());
  }

  /**
   * @param {string} name
   * @param {...number} values
   */
  #call(name, ...values) {
    const code = this.functions[name](...values);
    if (code >= 0) return;
    const bytes = new Uint8Array(this.functions.memory.buffer, this.functions.gf_error_text(code), 200);
    throw new Error(new TextDecoder().decode(bytes.slice(0, bytes.indexOf(0))));
  }

  /**
   * Call a function whose last argument receives a handle; return the handle.
   *
   * @param {string} name
   * @param {...number} before
   */
  #create(name, ...before) {
    const place = this.#put(new Int32Array(1));
    this.#call(name, ...before, place);
    return this.#get(Int32Array, place, 1)[0];
  }
}
