// The views, by the name in their address. A view is a module with `show(place, {trace, address, runs})`: it fills `place`,
// and may give back a function that is called before it goes. Its title is the message "view NAME".

export const VIEWS = {
  worksheet: () => import("./worksheet.js"),
  attention: () => import("./attention.js"),
  decode: () => import("./decode.js"),
  positions: () => import("./positions.js"),
  stream: () => import("./stream.js"),
  intervene: () => import("./intervene.js"),
  compare: () => import("./compare.js"),
  training: () => import("./training.js"),
};

/** Views that have something to show without a sentence; their `trace` may be null. */
export const ALONE = new Set(["training"]);
