// SPDX-License-Identifier: Apache-2.0
/** The errors that the application gets. */

/** The server refused a request for good; `code` is stable, `detail` is for people. */
export class Refused extends Error {
  name = "Refused";

  /**
   * @param {string} code
   * @param {string} [detail]
   * @param {number} [status] - The HTTP status, if the refusal came by REST.
   */
  constructor(code, detail, status) {
    super(detail);
    this.code = code;
    this.status = status;
  }
}

/** The server cannot be reached, or cannot answer now; the request may be repeated. */
export class Unavailable extends Error {
  name = "Unavailable";
}

/** The user is signed out: there is no token, and there will be none. */
export class SignedOut extends Error {
  name = "SignedOut";
}

/** The token belongs to another user than the saved state of this browser. Pages never see this. */
export class WrongUser extends Error {}
