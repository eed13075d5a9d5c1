// SPDX-License-Identifier: Apache-2.0
/** As much of a document as the view helper uses, for tests without a browser. */

class FakeNode {
  parentNode = /** @type {any} */ (null);
  childNodes = /** @type {FakeNode[]} */ ([]);

  get firstChild() {
    return this.childNodes[0] ?? null;
  }

  get nextSibling() {
    const siblings = this.parentNode?.childNodes ?? [];
    return siblings[siblings.indexOf(this) + 1] ?? null;
  }

  insertBefore(node, next) {
    node.parentNode?.removeChild(node);
    const at = next ? this.childNodes.indexOf(next) : this.childNodes.length;
    this.childNodes.splice(at, 0, node);
    node.parentNode = this;
    moves.push(node);
    return node;
  }

  removeChild(node) {
    this.childNodes.splice(this.childNodes.indexOf(node), 1);
    node.parentNode = null;
    return node;
  }
}

/** The nodes that were put somewhere, in order. */
export const moves = /** @type {any[]} */ ([]);

class FakeText extends FakeNode {
  nodeType = 3;

  constructor(text) {
    super();
    this.nodeValue = text;
  }
}

export class FakeElement extends FakeNode {
  nodeType = 1;
  attributes = /** @type {Record<string, string>} */ ({});
  value = "";

  constructor(tag) {
    super();
    this.localName = tag;
  }

  setAttribute(name, value) {
    this.attributes[name] = value;
  }

  removeAttribute(name) {
    delete this.attributes[name];
  }
}

/** Return what a node looks like, in HTML. */
export function shown(node) {
  if (node.nodeType === 3) return node.nodeValue;
  const attributes = Object.entries(node.attributes).map(([name, value]) => ` ${name}="${value}"`);
  const inside = node.childNodes.map(shown).join("");
  return `<${node.localName}${attributes.join("")}>${inside}</${node.localName}>`;
}

export function install() {
  Object.assign(globalThis, {
    Node: { TEXT_NODE: 3 },
    document: {
      hidden: false,
      createElement: (tag) => new FakeElement(tag),
      createElementNS: (_, tag) => new FakeElement(tag),
      createTextNode: (text) => new FakeText(text),
    },
  });
}
