// The training log of a run, read in parts while it grows.

import * as api from "../api.js";
import { isServerMessage } from "../translation.js";

/** @import { Checkpoint, CurveName, LogEvent, LogPart, ProgressEvent, ServerMessage } from "../types.js" */
/**
 * @template {LogEvent["event"]} Name
 * @typedef {Extract<LogEvent, { event: Name }>} EventOf
 */

export class TrainingLog {
  /** @type {ProgressEvent[]} */
  progress = [];
  /** @type {EventOf<"validated">[]} */
  validated = [];
  /** @type {Map<string, EventOf<"tested">>} by test set */
  tested = new Map();
  /** @type {EventOf<"started"> | null} */
  started = null;
  /** @type {EventOf<"finished"> | null} */
  finished = null;
  /** @type {ServerMessage[]} */
  notes = [];
  /** @type {Checkpoint[]} */
  checkpoints = [];
  /** @type {number | null} seconds since the last line was written */
  age = null;
  next = 0; // where to read on

  /** @param {string} run */
  constructor(run) {
    this.run = run;
  }

  get isEmpty() {
    return !this.started && !this.progress.length;
  }

  /**
   * Read everything that was written since the last call.
   *
   * @param {() => boolean} isStopped  checked between two requests
   */
  async read(isStopped) {
    let part;
    do {
      part = await api.log(this.run, this.next);
      this.add(part);
    } while (part.more && !isStopped());
  }

  /** @param {LogPart} part */
  add(part) {
    if (part.anew) this.clear();
    const events = [...progressEvents(part.progress), ...part.events].sort((a, b) => a.line - b.line);
    for (const event of events) this.addEvent(event);
    this.next = part.next;
    this.checkpoints = part.checkpoints;
    this.age = part.age;
  }

  clear() {
    [this.progress, this.validated, this.notes] = [[], [], []];
    [this.started, this.finished] = [null, null];
    this.tested.clear();
  }

  /** @param {LogEvent} event */
  addEvent(event) {
    switch (event.event) {
      case "started":
        // A resumed run repeats the steps after its checkpoint, so their values are obsolete.
        this.progress = this.progress.filter(({ step }) => step <= event.step);
        this.validated = this.validated.filter(({ step }) => step <= event.step);
        [this.started, this.finished] = [event, null];
        break;
      case "progress":
        this.progress.push(event);
        break;
      case "validated":
        this.validated.push(event);
        break;
      case "finished":
        this.finished = event;
        break;
      case "tested":
        this.tested.set(event.split, event);
        break;
      case "note":
        this.notes.push(isServerMessage(event.message) ? event.message : { text: String(event.text) });
        break;
      case "skipped":
        this.notes.push({ text: "skipped step", values: { step: event.step } });
        break;
    }
  }
}

/**
 * The server sends progress as one list per curve; return one event per line.
 *
 * @param {LogPart["progress"]} progress
 * @returns {ProgressEvent[]}
 */
function progressEvents(progress) {
  const names = /** @type {CurveName[]} */ (Object.keys(progress));
  return (progress.step ?? []).map((_, i) => {
    const values = Object.fromEntries(names.map(name => [name, progress[name]?.[i] ?? null]));
    return /** @type {ProgressEvent} */ ({ event: "progress", ...values });
  });
}
