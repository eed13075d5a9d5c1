// SPDX-License-Identifier: Apache-2.0
// The API, made browsable from its own OpenAPI document.

import { element, prose, table } from "./elements.js";
import { Schemas } from "./schemas.js";
import { tryForm } from "./trying.js";

const KEYS = { rootKey: "root key", tenantKey: "tenant key", userToken: "user token" };
const token = document.getElementById("token");
token.value = sessionStorage.getItem("token") ?? "";
token.addEventListener("input", () => sessionStorage.setItem("token", token.value));
document.getElementById("credentials").addEventListener("submit", (event) => {
  event.preventDefault();
});

function operationsOf(document_) {
  return Object.entries(document_.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      path,
      method: method.toUpperCase(),
      operation,
    })),
  );
}

function ofTag(name, operations) {
  return operations.filter(({ operation }) => operation.tags.includes(name));
}

function contents(tags, operations) {
  return tags.map(({ name }) =>
    element(
      "section",
      {},
      element("h2", {}, name),
      element(
        "ul",
        {},
        ...ofTag(name, operations).map(({ operation }) =>
          element("li", {}, element("a", { href: `#${operation.operationId}` }, operation.summary)),
        ),
      ),
    ),
  );
}

function parameters(operation, schemas) {
  if (operation.parameters.length === 0) return null;
  const rows = operation.parameters.map((parameter) => [
    element("code", {}, parameter.name),
    parameter.in,
    schemas.type(parameter.schema),
    parameter.required ? "required" : "",
    schemas.bounds(parameter.schema),
  ]);
  return element(
    "div",
    {},
    element("h4", {}, "Parameters"),
    table(["Name", "In", "Type", "", "Form"], rows),
  );
}

function fieldTable(schema, schemas) {
  const rows = schemas
    .fields(schema)
    .map(([name, ...rest]) => [element("code", {}, name), ...rest]);
  return table(["Field", "Type", "", "Form"], rows);
}

function body(operation, schemas) {
  if (!operation.requestBody) return null;
  const { schema } = operation.requestBody.content["application/json"];
  const heading = operation.requestBody.required ? "Body" : "Body (may be left out)";
  return element("div", {}, element("h4", {}, heading), fieldTable(schema, schemas));
}

function answers(operation, schemas) {
  const rows = Object.entries(operation.responses).map(([status, response]) => {
    const [content] = Object.values(response.content ?? {});
    const codes = response.description.split("\n").map((line) => line.replace(/^- /, ""));
    return [
      element("strong", {}, status),
      content ? schemas.type(content.schema) : "",
      codes.map((line) => element("div", {}, ...prose(line))),
    ];
  });
  return element("div", {}, element("h4", {}, "Answers"), table(["Status", "With", ""], rows));
}

function neededKey(operation) {
  const names = operation.security.flatMap(Object.keys).map((scheme) => KEYS[scheme]);
  return names.length ? `Needs a ${names.join(" or ")}.` : "Needs no key.";
}

function described({ path, method, operation }, schemas) {
  return element(
    "article",
    { id: operation.operationId },
    element("h3", {}, operation.summary),
    element(
      "p",
      { class: "route" },
      element("span", { class: `method ${method.toLowerCase()}` }, method),
      element("code", {}, path),
    ),
    element("p", {}, ...prose(operation.description), " ", neededKey(operation)),
    parameters(operation, schemas),
    body(operation, schemas),
    answers(operation, schemas),
    tryForm(method, path, operation, schemas, () => token.value.trim()),
  );
}

function records(schemas) {
  return Object.entries(schemas.components).map(([name, schema]) =>
    element(
      "article",
      { id: `schema-${name}` },
      element("h3", {}, name),
      schema.description && element("p", {}, ...prose(schema.description)),
      fieldTable(schema, schemas),
    ),
  );
}

function refusals(catalogue) {
  const rows = catalogue.map(({ code, status, title, retryable }) => [
    element("code", { id: code }, code),
    `${status}`,
    title,
    retryable ? "repeat the same request later" : "",
  ]);
  return [
    element("h2", {}, "Refusals"),
    element(
      "p",
      {},
      ...prose("The `code` of a problem is stable: decide by it, and show `detail` to people."),
    ),
    table(["Code", "Status", "Means", ""], rows),
  ];
}

function groups(tags, operations, schemas) {
  return tags.flatMap(({ name }) => [
    element("h2", {}, name),
    ...ofTag(name, operations).map((operation) => described(operation, schemas)),
  ]);
}

function show(document_) {
  const schemas = new Schemas(document_.components.schemas);
  const operations = operationsOf(document_);
  document.getElementById("contents").append(...contents(document_.tags, operations));
  document.getElementById("operations").append(
    ...groups(document_.tags, operations, schemas),
    element("h2", {}, "Records"),
    ...records(schemas),
  );
  document.getElementById("refusals").append(...refusals(document_["x-refusals"]));
  if (location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView();
}

try {
  show(await (await fetch("/openapi.json")).json());
} catch (error) {
  const trouble = document.getElementById("trouble");
  trouble.textContent = `The API document could not be shown: ${error}`;
  trouble.hidden = false;
}
