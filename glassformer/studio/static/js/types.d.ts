/** Shapes of the server's JSON answers (glassformer/studio/serialization.py, entries.py, figure.py, routes/) and of the page's own values. */

// ---------------------------------------------------------------- numbers

export type Numbers = Float32Array | Float64Array;

/** A float as the server writes it in JSON, which has no infinities. */
export type JsonNumber = number | "inf" | "-inf" | "nan";

/** Exact values of a tensor, or of a part of it, in row-major order. */
export interface TensorValues {
  numbers: Float32Array;
  shape: number[];
}

/** Attention weights of all layers and heads of one kind, as bytes (255 is 1); shape: [layers, heads, queries, keys]. */
export interface WeightBytes {
  bytes: Uint8Array;
  shape: number[];
}

// ---------------------------------------------------------------- messages

/** A text of the server: a template, which is a key of messages.json, and the values of its placeholders. */
export interface ServerMessage {
  text: string;
  values?: Record<string, string | number | ServerMessage>;
}

/** An error in English; `messages` has the same for translation. */
export interface ServerError {
  what: string;
  where?: string;
  hint?: string;
  messages?: { what: ServerMessage; hint: ServerMessage };
}

// ---------------------------------------------------------------- runs and traces

/** What the page must know about the task of a run (glassformer/settings/tasks.py). */
export interface TaskTraits {
  input: "text" | "image" | "question";
  output: "tokens" | "labels" | "span" | "vectors";
  /** Whether the text may contain blanks (___), which the model fills. */
  blanks: boolean;
  sequence_to_sequence: boolean;
}

export interface Run {
  name: string;
  task: string;
  traits: TaskTraits;
  family: string;
  described: string;
}

export type TokenSide = "source" | "target";

/** All attention layers of one kind ("encoder", "decoder", "cross" or "question"). */
export interface Attention {
  layers: number;
  heads: number;
  /** The tensor of attention weights of each layer. */
  names: string[];
  rows: TokenSide;
  columns: TokenSide;
}

/** One box of the architecture figure: tensors that belong together. */
export interface Block {
  id: string;
  side: string;
  /** null outside the layers: embeddings, encoder output, logits. */
  layer: number | null;
  kind: string;
  tensors: string[];
}

export interface Figure {
  blocks: Block[];
  /** The ids of two blocks, from and to, and the tensor that the second reads. */
  arrows: [from: string, to: string, tensor: string][];
}

export interface Vocabulary {
  entries: number;
  /** Words that are not in the vocabulary, with the tokens that they are split into. */
  unknown: Record<string, string[]>;
}

/** Tokens and attention layers: the part of a trace that a trace at a checkpoint or under other masks has, too. */
export interface TokensAndAttention {
  source: string[];
  target: string[];
  looks: Record<string, Attention>;
}

/** The outline of a trace: everything except its numbers. */
export interface Trace extends TokensAndAttention {
  id: string;
  run: string;
  task: string;
  traits: TaskTraits;
  family: string;
  text: string;
  question: string;
  output: string;
  mode: string;
  /** The likeliest token after each input token. */
  predicted: string[];
  /** The tokens of the output, in the order of the decoding steps. */
  written: string[];
  masks: string[];
  /** Of an image: the number of patches from top to bottom and from left to right. */
  grid: [number, number] | null;
  /** Name and shape of every recorded tensor. */
  tensors: Record<string, number[]>;
  figure: Figure;
  vocabulary: Vocabulary | null;
}

export interface TraceRequest {
  run: string;
  text: string;
  target?: string;
  free?: boolean;
  forced?: Record<number, number>;
  question?: string;
}

// ---------------------------------------------------------------- worksheet

/** A weight that a tensor is computed from. `symbol`: its letter in the formula, such as W_Q. */
export interface WeightOperand {
  role: string;
  name: string;
  symbol: string | null;
  /** Of the matrix in the formula x·W. */
  shape: number[];
}

/** How a tensor is computed: its formula, the tensors and weights that it reads, and the same computation in NumPy. */
export interface Recipe {
  formula: string;
  /** The activation function after the linear layer. */
  activation: "relu" | "gelu" | "gelu_tanh" | "swish" | null;
  parents: string[];
  weights: WeightOperand[];
  numpy: string | null;
}

/** The entries of one operand that a cell is computed from. `at`: an index, a range "4:8", or null for all. */
export interface Operand {
  role: string;
  name: string;
  /** Whether it is a tensor of the trace; otherwise it is a weight of the model. */
  tensor: boolean;
  /** The entries of a weight as a textbook writes them, such as W_Q[:, 6]. */
  symbol: string | null;
  at: (number | string | null)[];
  values: JsonNumber | JsonNumber[];
}

export interface Cell {
  value: JsonNumber;
  /** The formula of the value; null without operands. */
  says: string | null;
  /** The same for translation. */
  message?: ServerMessage;
  /** The value recomputed from the operands. */
  again: JsonNumber | null;
  operands: Operand[];
  /** The token or label of the column of logits and probabilities. */
  column: string | null;
  /** Why there are no operands: "put in" for an input, "no formula" otherwise. */
  without?: string;
}

/** The columns of logits or probabilities that are among the largest of any row. */
export interface ProbableColumns {
  columns: number[];
  tokens: string[];
  values: number[][];
}

// ---------------------------------------------------------------- worked example

export interface WorkedRequest {
  [matrix: string]: string | boolean | number | null;
  scaled: boolean;
  decimals: number | null;
}

/** A row, a column or a cell of a matrix; null: all of them. */
export interface WorkedRegion {
  matrix: string;
  row: number | null;
  column: number | null;
}

export interface WorkedStep {
  name: string;
  formula: string;
  /** The matrices that it is computed from. */
  operands: string[];
  values: number[][];
  /** What each cell is computed from. */
  cells: WorkedRegion[][][];
  constants: Record<string, number>;
}

export interface WorkedExample {
  inputs: Record<string, number[][]>;
  steps: WorkedStep[];
}

// ---------------------------------------------------------------- decoding

export interface Candidate {
  token: number;
  piece: string;
}

export interface TokenProbability extends Candidate {
  probability: number;
}

/** A token of the output and its log-probability. */
export interface OutputToken {
  piece: string;
  log_probability: number;
}

export type Fate = "kept" | "ended" | "dropped";

export interface TreeNode {
  number: number;
  parent: number;
  step: number;
  token: number;
  piece: string;
  log_probability: number;
  total: number;
  score: number;
  fate: Fate;
}

export interface SearchTree {
  beam: number;
  source: string[];
  nodes: TreeNode[];
  finished: { text: string; log_probability: number; score: number; ended: boolean }[];
}

/** The same sentence decoded with a given target and freely; `divergence` is the first step at which they differ. */
export interface TeacherForcing {
  forced: Trace;
  free: Trace;
  divergence: number | null;
}

// ---------------------------------------------------------------- masks, residual stream

export interface MaskedTrace extends TokensAndAttention {
  id: string;
  written: string[];
  /** Log-probabilities of the output tokens with the model's own masks and with the chosen ones. */
  before: number[];
  after: number[];
  /** Largest difference between the logits with and without padding. */
  apart: number;
}

/** A tensor of the residual stream: the norm of each row, and the tensor that it is the normalization of. */
export interface StreamTensor {
  name: string;
  norms: number[];
  normalizes: string | null;
}

/** Predictions of the output layer from the stream after one decoder layer, one entry per position. */
export interface LensLayer {
  name: string;
  pieces: string[];
  probabilities: number[];
  log_probabilities: number[];
  ranks: number[];
}

// ---------------------------------------------------------------- interventions

export interface InterventionRequest {
  run: string;
  text: string;
  target?: string;
}

export interface Output {
  text: string;
  pieces: string[];
}

export interface Effect {
  written: string[];
  before: number[];
  after: number[];
  change: number;
  outputs: { before: Output; after: Output };
}

/** Change in log-probability when one head is ablated, layers × heads. */
export interface HeadAblation {
  kind: string;
  log_probability: number;
  change: number[][];
}

// ---------------------------------------------------------------- recurrent models

/** One direction of a recurrent layer. */
export interface RecurrentLayer {
  side: "encoder" | "decoder";
  layer: number;
  direction: "forwards" | "backwards";
  cell: "rnn" | "lstm" | "gru";
  /** The token of each row of its tensors. */
  tokens: string[];
  /** Whether the rows of a backward layer start at the last token. */
  in_reading_order: boolean;
  /** Names of the hidden state and, of an LSTM, the cell state. */
  states: string[];
  gates: string[];
  bidirectional: boolean;
}

/** The attention of a recurrent decoder: names of tensors. */
export interface Alignment {
  kind: "additive" | "dot";
  energies: string;
  weights: string;
  context: string;
  steps: string[];
}

export interface RecurrentModel {
  layers: RecurrentLayer[];
  /** The last state of the encoder and the initial state of the decoder, of each decoder layer. */
  handovers: { layer: number; last: string; start: string }[];
  alignment: Alignment | null;
}

// ---------------------------------------------------------------- gradients

/** The gradient of a parameter, or of some rows of it, as an operand of a tensor. */
export interface ParameterGradient {
  tensor: string;
  role: string;
  name: string;
  rows: [number, number] | null;
  shape: number[];
  norm: number;
}

export interface BackwardPass {
  /** Of the trace that contains the tensors and, as "gradient.NAME", their gradients. */
  id: string;
  loss: number;
  losses: (number | null)[];
  targets: (string | null)[];
  norm: number;
  tensors: Record<string, number[]>;
  /** difference: the largest one between autograd and the formula; null without a formula. */
  gradients: { name: string; norm: number; difference: number | null }[];
  parameters: ParameterGradient[];
}

/** The gradient of the first decoder state at each source token, the last token first. */
export interface GradientThroughTime {
  run: string;
  tokens: string[];
  norms: number[];
}

// ---------------------------------------------------------------- contrast of two tokens

/** The share of one part of the model in the difference of two logits. */
export interface Share {
  part: string;
  kind: "embedding" | "positions" | "head" | "ff" | "bias" | "other";
  value: number;
  layer: number | null;
  head: number | null;
  attention: "decoder" | "cross" | null;
  /** Of a head: the share of each token that it attends to. */
  tokens: number[];
}

export interface Contrast {
  step: number;
  logits: [number, number];
  probabilities: [number, number];
  value: number;
  shares: Share[];
}

/** The change of the difference when a head is ablated, layers × heads. */
export interface ContrastAblation {
  kind: string;
  change: number[][];
}

// ---------------------------------------------------------------- embeddings, sampling

export interface SimilarToken extends Candidate {
  similarity: number;
}

export interface SampleRequest {
  run: string;
  text: string;
  temperature: number;
  k: number;
  seed: number;
  length: number;
}

// ---------------------------------------------------------------- training

export interface RunSummary {
  run: string;
  described: string;
  weights: number;
  steps: number | null;
  seconds: number | null;
  scores: Record<string, Record<string, number | null>>;
}

export interface Checkpoint {
  step: number;
  /** When it was saved: a checkpoint of the same step with another time is another checkpoint. */
  written: string;
}

export type CurveName = "line" | "step" | "loss" | "lr" | "gradient_norm" | "tokens_per_second";

export type Scores = Record<string, number | null>;

export type ProgressEvent = { event: "progress"; line: number; step: number } & Record<
  Exclude<CurveName, "line" | "step">,
  number | null
>;

export type LogEvent =
  | ProgressEvent
  | { event: "started"; line: number; step: number; steps: number }
  | { event: "validated"; line: number; step: number; scores: Scores }
  | { event: "finished"; line: number; step: number; reason: string; seconds: number }
  | { event: "tested"; line: number; split: string; examples: number; scores: Scores }
  | { event: "note"; line: number; text: string; message?: ServerMessage }
  | { event: "skipped"; line: number; step: number };

/** A part of the training log. `anew`: the file was replaced, so what was read before is obsolete. */
export interface LogPart {
  next: number;
  more: boolean;
  anew: boolean;
  age: number | null;
  progress: Partial<Record<CurveName, (number | null)[]>>;
  events: LogEvent[];
  checkpoints: Checkpoint[];
}

export interface CheckpointRequest {
  run: string;
  step: number;
  written: string;
  text: string;
  target?: string;
  question?: string;
}

/** A sentence at one checkpoint. */
export interface CheckpointTrace extends TokensAndAttention {
  step: number;
  output: string;
  log_probability: number;
  predicted: string[];
}

// ---------------------------------------------------------------- lessons

export interface LessonTitle {
  name: string;
  title: string;
  /** How many there are. */
  exercises: number;
}

/** The view and the parameters of an address that a lesson shows. */
export interface LessonAddress {
  view: string;
  [parameter: string]: string | number;
}

export interface LessonView {
  kind: "view";
  caption: string;
  address: LessonAddress;
}

/** A question. `question`, `hint` and `solution` are HTML; without options the answer is a number. */
export interface Exercise {
  kind: "exercise";
  question: string;
  options: string[];
  answer: number | string;
  tolerance: number;
  hint: string;
  solution: string;
}

export type LessonPart = { kind: "markdown"; html: string } | { kind: "python"; code: string } | LessonView | Exercise;

export interface Lesson {
  name: string;
  title: string;
  parts: LessonPart[];
}

// ---------------------------------------------------------------- the page

/** The view and the parameters of an address. */
export interface Address {
  view: string;
  [parameter: string]: string | undefined;
}

/** What a view is given. `trace` is null only in views that work without a sentence (STANDALONE_VIEWS, lessons). */
export interface ViewContext {
  trace: Trace;
  address: Address;
  runs: Run[];
}

/** A view fills `place`. The function that it may return is called before the view is replaced. */
export interface ViewModule {
  show(place: HTMLElement, context: ViewContext): Promise<(() => void) | void>;
}

/** Conditional content is written as `condition && element`, so false, null and undefined are left out. */
export type Child = Node | string | number | boolean | null | undefined | readonly Child[];

type Handlers = {
  [Name in keyof GlobalEventHandlersEventMap as `on${Name}`]?: (event: GlobalEventHandlersEventMap[Name]) => void;
};

/** Attributes and event handlers of an element. */
export type Attributes = Handlers & { [name: string]: unknown };

/** Value and text of an option or a button. */
export type Option = readonly [value: string | number, text: string];

/** A matrix with the names of its rows and columns. */
export interface Matrix<N extends Numbers = Numbers> {
  numbers: N;
  rows: string[];
  columns: string[];
}

/** Row and column. */
export type CellIndex = [number, number];

export interface Series {
  name: string;
  /** A colour of the style sheet: "accent" for the classes of a chart, "--accent" for a line plot. */
  hue: string;
}

export interface ChartSeries extends Series {
  /** Step and value. */
  points: [number, number | null | undefined][];
}

export interface LineSeries extends Series {
  numbers: ArrayLike<number>;
}
