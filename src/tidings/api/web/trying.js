// SPDX-License-Identifier: Apache-2.0
// "Try it": a form made from an operation, and the answer of this very server.

import { element } from "./elements.js";

const JSON_TYPE = "application/json";

export function tryForm(method, path, operation, schemas, token) {
  const inputs = operation.parameters.map(parameterInput);
  const body = operation.requestBody && bodyInput(operation.requestBody, schemas);
  const output = element("pre", { class: "answer", hidden: true, "aria-live": "polite" });

  async function send(event) {
    event.preventDefault();
    output.hidden = false;
    output.textContent = "…";
    try {
      output.textContent = await ask(method, path, inputs, body, token());
    } catch (error) {
      output.textContent = `${error}`;
    }
  }

  return element(
    "details",
    { class: "try" },
    element("summary", {}, "Try it"),
    element(
      "form",
      { on: { submit: send } },
      ...inputs.map(({ label }) => label),
      body && element("label", {}, "Body", body),
      element("button", { type: "submit" }, `Send ${method}`),
    ),
    output,
  );
}

function parameterInput(parameter) {
  const field = element("input", {
    required: parameter.required,
    placeholder: parameter.schema.default ?? "",
    autocomplete: "off",
    spellcheck: "false",
  });
  const label = element("label", {}, `${parameter.name} (${parameter.in})`, field);
  return { parameter, field, label };
}

function bodyInput(requestBody, schemas) {
  const example = schemas.example(requestBody.content[JSON_TYPE].schema);
  const text = element("textarea", { rows: "6", spellcheck: "false" });
  text.value = JSON.stringify(example, null, 2);
  return text;
}

async function ask(method, path, inputs, body, token) {
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const query = new URLSearchParams();
  let address = path;
  for (const { parameter, field } of inputs) {
    if (parameter.in === "path") {
      address = address.replace(`{${parameter.name}}`, encodeURIComponent(field.value));
    } else if (field.value !== "" && parameter.in === "query") {
      query.set(parameter.name, field.value);
    } else if (field.value !== "") {
      headers[parameter.name] = field.value;
    }
  }
  if (body) headers["Content-Type"] = JSON_TYPE;
  const asked = query.size ? `${address}?${query}` : address;
  const answer = await fetch(asked, { method, headers, body: body?.value });
  return `${answer.status} ${answer.statusText}\n${await shown(answer)}`;
}

async function shown(answer) {
  const text = await answer.text();
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
