// Search in pages that are opened from a folder (file://). Browsers start no worker there, so the script of the worker
// runs in a hidden frame. The search of the theme finds out by the name `IFrameWorker`.

if (location.protocol === "file:") {
  /** @param {Document} inside @param {string} src */
  const load = (inside, src) =>
    new Promise((resolve, reject) => {
      const script = Object.assign(inside.createElement("script"), { src, onload: resolve, onerror: reject });
      inside.body.append(script);
    });

  class IFrameWorker extends EventTarget {
    /** @param {string | URL} script */
    constructor(script) {
      super();
      const frame = Object.assign(document.createElement("iframe"), { hidden: true });
      document.body.append(frame);
      const inside = /** @type {Window} */ (frame.contentWindow);
      Object.assign(inside, {
        /** @param {unknown} data */
        postMessage: data => this.dispatchEvent(new MessageEvent("message", { data })),
        /** @param {string[]} scripts */
        importScripts: async (...scripts) => {
          for (const next of scripts) await load(inside.document, next);
        },
      });
      this.started = load(inside.document, String(script)).then(() => inside);
    }

    /** @param {unknown} data */
    postMessage(data) {
      this.started.then(inside => inside.dispatchEvent(new MessageEvent("message", { data })));
    }
  }

  Object.assign(window, { IFrameWorker, Worker: IFrameWorker });
}
