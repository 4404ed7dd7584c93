// An exercise: a question, a field or options for the answer, feedback, a hint and the solution.

import { isCorrect, readNumbers } from "../answers.js";
import { h, refill } from "../dom.js";
import { t } from "../i18n.js";
import { isSolved, markSolved } from "../progress.js";
import { htmlNodes, withCode } from "./markdown.js";

/** @import { Exercise } from "../types.js" */

/**
 * @param {Exercise} exercise
 * @param {string} id
 */
export function exerciseForm(exercise, id) {
  const feedback = h("p", { class: "feedback", role: "status", "aria-live": "polite" });
  const solved = h("p", { class: "solved", hidden: !isSolved(id) }, `✓ ${t("solved")}`);
  const question = h("div", { id: `question ${id}`.replaceAll(" ", "-") }, htmlNodes(exercise.question));
  const check = (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    const given = new FormData(form).get("answer");
    const [kind, message] = verdict(exercise, typeof given === "string" ? given.trim() : "");
    if (kind === "right") {
      markSolved(id);
      solved.hidden = false;
    }
    feedback.className = `feedback ${kind}`;
    refill(feedback, message);
  };
  const form = h(
    "form",
    { class: "exercise", autocomplete: "off", onsubmit: check },
    solved,
    question,
    exercise.options.length ? optionButtons(exercise.options, question.id) : numberField(question.id),
    h("button", { class: "first", type: "submit" }, t("check answer")),
    feedback,
    h("details", {}, h("summary", {}, t("exercise hint")), htmlNodes(exercise.hint)),
    h("details", {}, h("summary", {}, t("exercise solution")), htmlNodes(exercise.solution)),
  );
  return form;
}

/**
 * Return the kind of the feedback ("right", "wrong" or "invalid") and its text.
 *
 * @param {Exercise} exercise
 * @param {string} given
 * @returns {[string, string]}
 */
function verdict(exercise, given) {
  const isChoice = exercise.options.length > 0;
  if (!given) return ["invalid", t(isChoice ? "choose an answer" : "enter a number")];
  if (!isChoice && !readNumbers(given).length) return ["invalid", t("not a number", { given })];
  return isCorrect(exercise, given) ? ["right", `✓ ${t("right answer")}`] : ["wrong", `✗ ${t("wrong answer")}`];
}

/**
 * @param {readonly string[]} options
 * @param {string} question  id of the question
 */
const optionButtons = (options, question) =>
  h(
    "div",
    { class: "options", role: "radiogroup", "aria-labelledby": question },
    options.map(value =>
      h("label", {}, h("input", { type: "radio", name: "answer", value }), h("span", {}, withCode(value))),
    ),
  );

/** @param {string} question  id of the question */
const numberField = question =>
  h(
    "label",
    { class: "number" },
    t("your answer"),
    h("input", { name: "answer", autocomplete: "off", spellcheck: "false", "aria-describedby": question }),
  );
