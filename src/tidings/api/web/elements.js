// SPDX-License-Identifier: Apache-2.0
// Making elements. Text is always set as text: nothing from a document or an answer becomes markup.

export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "on") {
      for (const [event, listener] of Object.entries(value)) made.addEventListener(event, listener);
    } else if (value === true) {
      made.setAttribute(key, "");
    } else if (value !== false && value != null) {
      made.setAttribute(key, value);
    }
  }
  made.append(...children.filter((child) => child != null));
  return made;
}

// `code` between backticks becomes a code element, the rest stays text.
export function prose(text) {
  return text
    .split(/(`[^`]+`)/)
    .map((part) => (part.startsWith("`") ? element("code", {}, part.slice(1, -1)) : part));
}

export function table(headings, rows) {
  return element(
    "table",
    {},
    element("thead", {}, element("tr", {}, ...headings.map((text) => element("th", {}, text)))),
    element(
      "tbody",
      {},
      ...rows.map((cells) =>
        element("tr", {}, ...cells.map((cell) => element("td", {}, ...[cell].flat()))),
      ),
    ),
  );
}
