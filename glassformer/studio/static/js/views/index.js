// The views by their name in the address. The title of a view is the message "view NAME".

/** @import { Run, ViewModule } from "../types.js" */

/** @type {Record<string, () => Promise<ViewModule>>} */
export const VIEWS = {
  lessons: () => import("./lessons.js"),
  worksheet: () => import("./worksheet.js"),
  flow: () => import("./flow.js"),
  attention: () => import("./attention.js"),
  image: () => import("./image.js"),
  recurrent: () => import("./recurrent.js"),
  embeddings: () => import("./embeddings.js"),
  decode: () => import("./decode.js"),
  contrast: () => import("./contrast.js"),
  gradient: () => import("./gradient.js"),
  positions: () => import("./positions.js"),
  stream: () => import("./residual_stream.js"),
  intervene: () => import("./intervene.js"),
  compare: () => import("./compare.js"),
  training: () => import("./training.js"),
  worked: () => import("./worked_example.js"),
};

/** Views that also work without a sentence; their `trace` may be null. */
export const STANDALONE_VIEWS = new Set(["training"]);

/** Views that show neither a sentence nor a run: they are given no trace, and their page has no inputs. */
export const VIEWS_WITHOUT_INPUT = new Set(["lessons", "worked"]);

const RECURRENT_FAMILIES = new Set(["recurrent", "recurrent_lm", "recurrent_encoder", "elmo"]);

/** Views that only some runs have. @type {Record<string, (run: Run) => boolean>} */
const ONLY_FOR = {
  image: run => run.traits.input === "image",
  recurrent: run => RECURRENT_FAMILIES.has(run.family),
  embeddings: run => run.traits.input !== "image",
  contrast: run => run.traits.output === "tokens" && !run.traits.blanks,
};

/**
 * The views of a run.
 *
 * @param {Run | undefined} run
 */
export const viewsOf = run => Object.keys(VIEWS).filter(name => !run || (ONLY_FOR[name]?.(run) ?? true));
