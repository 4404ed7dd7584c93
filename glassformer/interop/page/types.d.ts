/** What the export writes into the page about the run. */
export interface PageInfo {
  name: string;
  task: "translate" | "continue" | "classify";
  languages: [string, string] | null;
  parameters: number;
  data: string[];
  examples: string[];
  labels: string[];
  /** Whether a classifier reads the first hidden state through a pooler; otherwise the maximum of all. */
  pooler: boolean;
  tokenizer: { kind: "bpe" | "characters"; lowercase: boolean; newline: number; tokens: string[]; merges: number[] };
  shape: { vocab: number; width: number; heads: number; encoderLayers: number; decoderLayers: number };
  maxPositions: number | null;
  decode: { beam: number; lengthPenalty: number; maxLength: number | null; minLength: number; maxSource: number };
  sections: Record<string, [offset: number, length: number]>;
}

export interface Hypothesis {
  tokens: number[];
  finished: boolean;
  logProbability: number;
}

export interface Candidate {
  token: number;
  probability: number;
}

/** One token that was written, and what else was probable. */
export interface Step {
  token: number;
  candidates: Candidate[];
}

export type AttentionKind = "encoder" | "decoder" | "cross";

/** Attention weights of one kind: `layers[layer][head]` has `rows.length` × `columns.length` numbers. */
export interface Attention {
  kind: AttentionKind;
  rows: string[];
  columns: string[];
  layers: Float32Array[][];
}

export interface Answer {
  text: string;
  tokens: number[];
  steps: Step[];
  labels: { label: string; probability: number }[];
  attention: Attention[];
  cutOff: boolean;
}

export interface RunOptions {
  beam?: number;
  temperature?: number;
  length?: number;
}

/** The functions of engine.wasm that the page calls; see engine.h. */
export type EngineExports = { memory: WebAssembly.Memory } & Record<string, (...args: number[]) => number>;
