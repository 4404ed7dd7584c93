// Run by test_wasm.py: `node wasm_check.mjs ENGINE.wasm MODEL < searches.json`. Prints the results as JSON.
/* global WebAssembly, TextDecoder, TextEncoder, console, performance, process */
import { readFileSync } from "node:fs";

const { instance } = await WebAssembly.instantiate(readFileSync(process.argv[2]));
const engine = instance.exports;
engine._initialize();

/** Copy an array into the memory of the engine; return its address. */
function put(array) {
  const address = engine.aligned_alloc(64, Math.ceil((array.byteLength + 1) / 64) * 64);
  if (address === 0) throw new Error("out of memory");
  new array.constructor(engine.memory.buffer, address, array.length).set(array);
  return address;
}

const get = (Type, address, length) => Array.from(new Type(engine.memory.buffer, address, length));

function text(address) {
  const bytes = new Uint8Array(engine.memory.buffer, address);
  return new TextDecoder().decode(bytes.slice(0, bytes.indexOf(0)));
}

function check(code) {
  if (code < 0) throw new Error(text(engine.gf_error_text(code)));
}

/** Call a function whose last argument receives a handle; return the handle. */
function create(name, ...before) {
  const place = put(new Uint32Array(1));
  check(engine[name](...before, place));
  return get(Uint32Array, place, 1)[0];
}

function translate(worker, { options, sources, limits }) {
  const beam = new Int32Array(new Uint8Array(options).buffer)[0];
  const slots = sources.length * beam,
    capacity = Math.max(...limits);
  const [search, source, lengths, limit] = [
    Uint8Array.from(options),
    Int32Array.from(sources.flat()),
    Int32Array.from(sources.map(s => s.length)),
    Int32Array.from(limits),
  ].map(put);
  const [tokens, outputLengths, finished] = [slots * capacity, slots, slots].map(n => put(new Int32Array(n)));
  const [logProbabilities, scores] = [slots, slots].map(n => put(new Float64Array(n)));
  const start = performance.now();
  check(
    engine.gf_translate(
      worker,
      search,
      sources.length,
      source,
      lengths,
      limit,
      0,
      0,
      0,
      capacity,
      tokens,
      outputLengths,
      logProbabilities,
      scores,
      finished,
    ),
  );
  const milliseconds = performance.now() - start;
  const all = get(Int32Array, tokens, slots * capacity);
  return {
    milliseconds,
    tokens: get(Int32Array, outputLengths, slots).map((length, i) => all.slice(i * capacity, i * capacity + length)),
    logProbabilities: get(Float64Array, logProbabilities, slots),
  };
}

/** x·Wᵀ + b with one instruction set, in the given precision. */
function matmul(name, rows, inputs, outputs, precision) {
  const values = (count, step) => put(Float32Array.from({ length: count }, (_, i) => Math.sin(step * (i + 1))));
  const out = put(new Float32Array(rows * outputs));
  check(engine.gf_use_instruction_set(put(new TextEncoder().encode(`${name}\0`))));
  check(
    engine.gf_test_matmul(
      values(rows * inputs, 1.7),
      rows,
      inputs,
      values(outputs * inputs, 2.3),
      values(outputs, 0.9),
      outputs,
      precision,
      out,
    ),
  );
  return get(Float32Array, out, rows * outputs);
}

const packed = readFileSync(process.argv[3]);
const worker = create("gf_worker_new", create("gf_model_from_memory", put(new Uint8Array(packed)), packed.length));
const { searches, sizes } = JSON.parse(readFileSync(0, "utf8"));
console.log(
  JSON.stringify({
    sets: text(engine.gf_instruction_sets()),
    translations: searches.map(search => translate(worker, search)),
    products: sizes.map(size => ["simd128", "scalar"].map(name => matmul(name, ...size))),
  }),
);
