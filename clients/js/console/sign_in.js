// SPDX-License-Identifier: Apache-2.0
/** The page that asks for the root key or a tenant key. */

import { h, render } from "../elements/view.js";
import { trouble } from "./parts.js";
import { isTenantKey, signIn } from "./server.js";

/** @typedef {import("./server.js").Server} Server */

/**
 * Show the page; resolves with the server once a key is accepted.
 *
 * @returns {Promise<Server>}
 */
export function askForKey() {
  return new Promise((resolve) => {
    const page = new SignIn(resolve);
    page.update();
  });
}

class SignIn {
  #done;
  #trouble = "";
  #needsTenant = false;
  #isTrying = false;

  /** @param {(server: Server) => void} done */
  constructor(done) {
    this.#done = done;
  }

  update() {
    document.title = "Console · Tidings";
    render(
      document.body,
      h("main", { class: "sign-in" }, [
        h("img", { src: new URL("../app/icon.svg", import.meta.url).href, alt: "" }),
        h("h1", null, "Operator’s console"),
        h(
          "p",
          null,
          "Open it with the root key of this deployment, or with the key of one tenant.",
        ),
        h("form", { onsubmit: (/** @type {any} */ event) => void this.#try(event) }, [
          h("label", null, [
            h("span", null, "Key"),
            h("input", {
              name: "key",
              type: "password",
              required: true,
              autocomplete: "off",
              spellcheck: false,
              oninput: (/** @type {any} */ event) => this.#typed(event.target.value),
            }),
          ]),
          this.#needsTenant
            ? h("label", null, [
                h("span", null, "Tenant of the key"),
                h("input", {
                  name: "tenant",
                  required: true,
                  autocapitalize: "off",
                  spellcheck: false,
                }),
              ])
            : null,
          this.#trouble ? trouble(this.#trouble) : null,
          h("button", { class: "main", disabled: this.#isTrying }, "Open"),
        ]),
        h(
          "p",
          { class: "faint" },
          "The key stays in this tab. It is forgotten when the tab is closed.",
        ),
      ]),
    );
  }

  /** @param {string} key */
  #typed(key) {
    this.#needsTenant = isTenantKey(key.trim());
    this.update();
  }

  /** @param {any} event */
  async #try(event) {
    event.preventDefault();
    const form = new FormData(event.target);
    this.#isTrying = true;
    this.update();
    try {
      const [key, tenant] = [form.get("key"), form.get("tenant") ?? ""].map(String);
      this.#done(
        await signIn(/** @type {string} */ (key).trim(), /** @type {string} */ (tenant).trim()),
      );
    } catch (error) {
      const { status, message } = /** @type {import("./server.js").Refused} */ (error);
      this.#trouble = status === 401 || status === 403 ? "This key is not accepted here." : message;
    }
    this.#isTrying = false;
    this.update();
  }
}
