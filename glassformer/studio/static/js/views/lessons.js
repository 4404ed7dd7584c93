// The list of the lessons, or the lesson of the address: `#/lessons?lesson=09-self-attention-by-hand&part=2`.

import { linkToView, wholeNumber } from "../address.js";
import * as api from "../api.js";
import { explanation } from "../components.js";
import { find, h } from "../dom.js";
import { currentLanguage, t } from "../i18n.js";
import { isLessonSolved } from "../progress.js";
import { lessonPage } from "./lesson.js";

/** @import { LessonTitle, ViewContext } from "../types.js" */

/** @type {string | null} the lesson and the part that were shown last */
let shownBefore = null;

/**
 * @param {HTMLElement} place
 * @param {ViewContext} context
 */
export async function show(place, { address: { lesson: name, part }, runs }) {
  const titles = await api.lessonTitles(currentLanguage());
  if (name) {
    const lesson = await api.lesson(name, currentLanguage());
    document.title = `${lesson.title} · Glassformer`;
    place.append(lessonPage(lesson, { titles, part: wholeNumber(part, null), runs }));
  } else {
    place.append(lessonList(titles));
  }
  const shown = JSON.stringify([name, part]);
  const [moved, first] = [shown !== shownBefore, shownBefore === null];
  shownBefore = shown;
  // The page appends `place` after this function has returned, before the next animation frame.
  if (moved) requestAnimationFrame(() => scrollToStart(place, first));
}

/**
 * Scroll to the part of the address or to the start, and move the focus there: the link that had it is gone.
 *
 * @param {HTMLElement} place
 * @param {boolean} first  whether the page was just opened, at its start
 */
function scrollToStart(place, first) {
  const part = place.querySelector(".part[aria-current]");
  if (part) part.scrollIntoView({ block: "start" });
  else if (first) return;
  else scrollTo(0, 0);
  find(part ?? place, "h2, h3").focus({ preventScroll: true });
}

/** @param {LessonTitle[]} titles */
function lessonList(titles) {
  const solved = titles.map(({ name, exercises }) => isLessonSolved(name, exercises));
  const count = solved.filter(Boolean).length;
  const label = t("lessons solved", { n: count, all: titles.length });
  return h(
    "section",
    { class: "panel lessons" },
    h("h2", { tabindex: "-1" }, t("view lessons")),
    explanation(t("lessons say")),
    h("p", { class: "progress" }, h("progress", { value: count, max: titles.length, "aria-label": label }), label),
    h(
      "ol",
      { class: "lesson-list" },
      titles.map(({ name, title }, i) =>
        h(
          "li",
          {},
          h(
            "a",
            { href: linkToView("lessons", { lesson: name }) },
            h("span", { class: "number" }, i + 1),
            h("span", { class: "title" }, title),
            solved[i] && h("span", { class: "mark", role: "img", "aria-label": t("solved") }, "✓"),
          ),
        ),
      ),
    ),
  );
}
