// SPDX-License-Identifier: Apache-2.0
export { Refused, SignedOut, Unavailable } from "./errors.js";
export { indexedDb, memory } from "./storage.js";
export { Tidings } from "./tidings.js";
