// The views by their name in the address. The title of a view is the message "view NAME".

/** @import { ViewModule } from "../types.js" */

/** @type {Record<string, () => Promise<ViewModule>>} */
export const VIEWS = {
  lessons: () => import("./lessons.js"),
  worksheet: () => import("./worksheet.js"),
  attention: () => import("./attention.js"),
  decode: () => import("./decode.js"),
  positions: () => import("./positions.js"),
  stream: () => import("./residual_stream.js"),
  intervene: () => import("./intervene.js"),
  compare: () => import("./compare.js"),
  training: () => import("./training.js"),
};

/** Views that also work without a sentence; their `trace` may be null. */
export const STANDALONE_VIEWS = new Set(["training"]);

/** Views that show neither a sentence nor a run: they are given no trace, and their page has no inputs. */
export const VIEWS_WITHOUT_INPUT = new Set(["lessons"]);
