// SPDX-License-Identifier: Apache-2.0
/** The keys of a tenant: those it calls the API with, and those that sign tokens of its users. */

import { h } from "../elements/view.js";
import { button, card, keyed, label, mono, shownOnce, table, when } from "./parts.js";
import { Pages, Screen } from "./screen.js";
import { Refused } from "./server.js";

export class KeysScreen extends Screen {
  static path = "tenants/:tenant/keys";
  static title = "Keys";
  static icon = /** @type {const} */ ("key");
  static menu = /** @type {const} */ ("tenant");

  #keys = new Pages(this.desk, this.at("keys"));
  #signing = /** @type {any[]} */ ([]);
  #issuer = /** @type {any} */ (null);

  async load() {
    const [, signing, issuer] = await Promise.all([
      this.#keys.load(),
      this.server.get(this.at("signing-keys")),
      this.server.get(this.at("token-issuer")).catch((error) => {
        if (error instanceof Refused && error.status === 404) return null;
        throw error;
      }),
    ]);
    this.#signing = signing.data;
    this.#issuer = issuer;
  }

  render() {
    return [this.#tenantKeys(), this.#signingKeys(), this.#issuerCard()];
  }

  #tenantKeys() {
    const { isRoot } = this.server;
    const rows = this.#keys.rows.map((key) =>
      keyed(key.key_id, [
        mono(key.key_id),
        key.revoked_at ? label("Revoked", "bad") : label("Valid", "good"),
        when(key.created_at),
        isRoot && !key.revoked_at
          ? button("Revoke", () => void this.#revoke(key.key_id), "danger")
          : null,
      ]),
    );
    return card(
      "Tenant keys",
      [
        table("Tenant keys", ["Key", "State", "Created", ""], rows, "The tenant has no key."),
        this.#keys.foot(),
      ],
      {
        hint: "The backend of the tenant calls the API with such a key. Only the root key creates and revokes them.",
        actions: isRoot ? button("New key", () => void this.#create(), "main") : null,
      },
    );
  }

  #signingKeys() {
    const rows = this.#signing.map((key) =>
      keyed(key.key_id, [
        mono(key.key_id),
        key.signs ? label("Signs", "good") : label("Old"),
        when(key.created_at),
        key.signs ? null : button("Delete", () => void this.#deleteSigning(key.key_id), "danger"),
      ]),
    );
    return card("Signing keys", table("Signing keys", ["Key", "State", "Created", ""], rows), {
      hint: "They sign the tokens of users.",
      actions: button("Rotate", () => void this.#rotate()),
    });
  }

  #issuerCard() {
    const issuer = this.#issuer;
    const hint = "Keys with which the tenant signs tokens of users itself.";
    if (!issuer)
      return card("Own issuer", h("p", { class: "empty" }, "The tenant signs no tokens itself."), {
        hint,
      });
    const rows = issuer.keys.map((/** @type {any} */ key) => [
      mono(key.kid ?? "–"),
      key.alg ?? key.kty,
    ]);
    return card(
      "Own issuer",
      [
        h("p", null, ["Issuer ", mono(issuer.issuer ?? "–")]),
        table("Keys of the issuer", ["Key", "Kind"], rows),
      ],
      { hint },
    );
  }

  #create() {
    return this.change(
      {
        title: "New tenant key",
        text: "The key is shown once; the server keeps only a digest of it.",
        name: this.tenant,
        verb: "Create",
        request: `POST /v1/tenants/${this.tenant}/keys`,
        act: async () => {
          const { key } = await this.server.ask("POST", this.at("keys"));
          return shownOnce("New key", key);
        },
      },
      "The key is created.",
    );
  }

  /** @param {string} id */
  #revoke(id) {
    return this.change(
      {
        title: "Revoke a tenant key",
        text: "The next request with the key is refused. Tokens that were made with it end within five seconds.",
        name: id,
        verb: "Revoke",
        isDangerous: true,
        request: `DELETE /v1/tenants/${this.tenant}/keys/${id}`,
        act: async () => void (await this.server.ask("DELETE", this.at("keys", id))),
      },
      "The key is revoked.",
    );
  }

  #rotate() {
    return this.change(
      {
        title: "Rotate the signing key",
        text: "A new key signs from now on. Tokens of the old one stay valid until you delete it.",
        name: this.tenant,
        verb: "Rotate",
        request: `POST /v1/tenants/${this.tenant}/signing-keys`,
        act: async () => void (await this.server.ask("POST", this.at("signing-keys"))),
      },
      "A new key signs.",
    );
  }

  /** @param {string} id */
  #deleteSigning(id) {
    return this.change(
      {
        title: "Delete a signing key",
        text: "Tokens that it signed end within five seconds.",
        name: id,
        verb: "Delete",
        isDangerous: true,
        request: `DELETE /v1/tenants/${this.tenant}/signing-keys/${id}`,
        act: async () => void (await this.server.ask("DELETE", this.at("signing-keys", id))),
      },
      "The key is deleted.",
    );
  }
}
