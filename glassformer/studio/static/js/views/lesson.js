// One lesson: its sections with Markdown, Python code, live views and exercises, and links to the lessons next to it.

import { link, linkToView } from "../address.js";
import { panel } from "../components.js";
import { copyButton } from "../copying.js";
import { h } from "../dom.js";
import { t } from "../i18n.js";
import { exerciseId } from "../progress.js";
import { codeBox } from "./code_box.js";
import { exerciseForm } from "./exercise.js";
import { liveView } from "./live_view.js";
import { htmlNodes } from "./markdown.js";

/** @import { Lesson, LessonPart, LessonTitle, Run } from "../types.js" */

/**
 * @param {Lesson} lesson
 * @param {{ titles: LessonTitle[], part: number | null, runs: Run[] }} context  part: number of the section to mark
 */
export function lessonPage(lesson, { titles, part, runs }) {
  const index = titles.findIndex(({ name }) => name === lesson.name);
  const number = t("lesson of", { n: index + 1, all: titles.length });
  return h(
    "article",
    { class: "lesson" },
    neighbours(titles, index),
    panel(h("p", { class: "soft" }, number), h("h2", { tabindex: "-1" }, lesson.title), sections(lesson, part, runs)),
    neighbours(titles, index),
  );
}

/**
 * Links to the previous lesson, the list and the next lesson.
 *
 * @param {LessonTitle[]} titles
 * @param {number} index
 */
function neighbours(titles, index) {
  const linkTo = (/** @type {LessonTitle | undefined} */ lesson, /** @type {string} */ label) =>
    lesson &&
    h(
      "a",
      { href: linkToView("lessons", { lesson: lesson.name }) },
      h("span", { class: "soft" }, t(label)),
      h("span", {}, lesson.title),
    );
  return h(
    "nav",
    { class: "neighbours", "aria-label": t("view lessons") },
    h("div", {}, linkTo(titles[index - 1], "previous lesson")),
    h("a", { class: "all", href: linkToView("lessons") }, t("all lessons")),
    h("div", {}, linkTo(titles[index + 1], "next lesson")),
  );
}

/**
 * The parts of a lesson in sections. A section starts at every heading; its number is `part` in the address.
 *
 * @param {Lesson} lesson
 * @param {number | null} chosen
 * @param {Run[]} runs
 */
function sections(lesson, chosen, runs) {
  /** @type {HTMLElement[]} */
  const all = [];
  const start = () => {
    const section = h("section", { class: "part", "aria-current": all.length + 1 === chosen ? "true" : null });
    all.push(section);
    return section;
  };
  let exercises = 0;
  for (const part of lesson.parts) {
    const id = part.kind === "exercise" ? exerciseId(lesson.name, ++exercises) : "";
    for (const node of partNodes(part, id, runs)) {
      const isHeading = node instanceof HTMLHeadingElement && node.tagName === "H3";
      const section = isHeading || !all.length ? start() : all[all.length - 1];
      section.append(isHeading ? sectionTitle(node, lesson.name, all.length) : node);
    }
  }
  return all;
}

/**
 * @param {HTMLElement} heading
 * @param {string} lesson
 * @param {number} part
 */
function sectionTitle(heading, lesson, part) {
  heading.tabIndex = -1;
  const address = () => new URL(link({ view: "lessons", lesson, part }), location.origin).href;
  return h("div", { class: "part-title" }, heading, copyButton(t("copy link"), address));
}

/**
 * @param {LessonPart} part
 * @param {string} id  of an exercise
 * @param {Run[]} runs
 * @returns {Node[]}
 */
function partNodes(part, id, runs) {
  switch (part.kind) {
    case "markdown":
      return htmlNodes(part.html);
    case "python":
      return [codeBox("Python", part.code)];
    case "view":
      return [liveView(part, runs)];
    case "exercise":
      return [exerciseForm(part, id)];
  }
}
