// The page /docs: the OpenAPI description of the service, with examples that can be sent.

import { ask, element, h, startPage, t } from "./page.js";

/** @typedef {Record<string, any>} Schema */
/** @typedef {{ method: string, path: string, about: Schema }} Operation */

/** @type {Schema} */
const description = await (await fetch("/openapi.json")).json();

/**
 * Follow a reference inside the description.
 *
 * @param {Schema | undefined} schema
 * @returns {Schema}
 */
function resolve(schema) {
  const name = schema?.["$ref"]?.split("/").pop();
  return name ? description["components"]["schemas"][name] : (schema ?? {});
}

/**
 * Return the type of a field as one would write it.
 *
 * @param {Schema} schema
 * @returns {string}
 */
function typeOf(schema) {
  const found = resolve(schema);
  const choices = found["anyOf"] ?? found["oneOf"];
  if (choices) {
    return choices
      .map(typeOf)
      .filter((/** @type {string} */ kind) => kind !== "null")
      .join(" | ");
  }
  if (found["enum"]) return found["enum"].join(" | ");
  if (found["type"] === "array") return `${typeOf(found["items"] ?? {})}[]`;
  return found["const"] ?? found["type"] ?? "object";
}

/**
 * Return the schema of the body of an operation, and an example of it.
 *
 * @param {Schema} about
 * @returns {{ schema: Schema, example: any } | null}
 */
function bodyOf(about) {
  const content = about["requestBody"]?.content?.["application/json"];
  if (!content) return null;
  const schema = resolve(content.schema);
  const fields = Object.entries(/** @type {Record<string, Schema>} */ (schema["properties"] ?? {}));
  const made = Object.fromEntries(
    fields.flatMap(([name, one]) => (one["examples"] ? [[name, one["examples"][0]]] : [])),
  );
  return { schema, example: schema["examples"]?.[0] ?? made };
}

/** @param {Schema} schema */
function fieldTable(schema) {
  const fields = Object.entries(/** @type {Record<string, Schema>} */ (schema["properties"] ?? {}));
  const rows = fields.map(([name, one]) => {
    const required = schema["required"]?.includes(name) ? ` (${t("required")})` : "";
    return h(
      "tr",
      {},
      h("td", {}, h("code", {}, name)),
      h("td", {}, h("code", {}, typeOf(one))),
      h("td", { class: "soft" }, (one["description"] ?? "") + required),
    );
  });
  return h("div", { class: "table" }, h("table", {}, ...rows));
}

/** @param {Operation} operation */
function example({ method, path, about }) {
  const body = bodyOf(about);
  const input = /** @type {HTMLTextAreaElement} */ (h("textarea", { class: "code", rows: 6, spellcheck: "false" }));
  if (body) input.value = JSON.stringify(body.example, null, 2);
  const output = h("pre", { "aria-live": "polite" });
  const send = async () => {
    const response = await ask(method.toUpperCase(), path, body ? input.value : undefined);
    const content = await response.text();
    const shown = response.headers.get("content-type")?.includes("json") ? pretty(content) : content;
    output.textContent = `HTTP ${response.status}\n${shown}`;
  };
  const data = body ? ` -H 'Content-Type: application/json' -d '${JSON.stringify(body.example)}'` : "";
  const command = `curl ${method === "post" ? "-X POST " : ""}${location.origin}${path}${data}`;
  const parts = [h("h3", {}, t("curl")), h("pre", {}, command)];
  if (body) parts.push(h("h3", {}, t("fields")), fieldTable(body.schema), h("h3", {}, t("request body")), input);
  if (!path.includes("{") && (body || method === "get")) {
    parts.push(h("button", { type: "button", onclick: send }, t("send")));
  }
  return [...parts, output];
}

/** @param {string} content */
function pretty(content) {
  return JSON.stringify(JSON.parse(content), null, 2);
}

/** @param {Operation} operation */
function show(operation) {
  const { method, path, about } = operation;
  const [first, ...rest] = String(about["description"] ?? "").split("\n\n");
  return h(
    "details",
    {},
    h("summary", {}, h("span", { class: "method" }, method.toUpperCase()), h("code", {}, path), ` ${first}`),
    ...rest.map(paragraph => h("p", {}, paragraph)),
    ...example(operation),
  );
}

function showAll() {
  /** @type {Map<string, Operation[]>} */
  const groups = new Map();
  for (const [path, methods] of Object.entries(description["paths"])) {
    for (const [method, about] of Object.entries(/** @type {Record<string, Schema>} */ (methods))) {
      const tag = about["tags"]?.[0] ?? "";
      groups.set(tag, [...(groups.get(tag) ?? []), { method, path, about }]);
    }
  }
  const sections = [...groups].map(([tag, found]) => h("section", {}, h("h2", {}, tag), ...found.map(show)));
  element("operations").replaceChildren(...sections);
}

element("description").textContent = description["info"].description;
await startPage(showAll);
