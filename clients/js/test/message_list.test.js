// SPDX-License-Identifier: Apache-2.0
/** When the list of messages asks for more of them. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { MessageList } from "../elements/message_list.js";

Object.assign(globalThis, {
  ResizeObserver: class {
    observe() {}
  },
});

test("rows that were refused are asked for again after a pause", async (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  let asked = 0;
  let updates = 0;
  const log = { scrollTop: 0, scrollHeight: 100, clientHeight: 100, querySelectorAll: () => [] };
  /** @returns {any} */
  const chat = () => ({
    snapshot: () => ({ isLoaded: true, hasOlder: true, rows: [] }),
    older: async () => {
      asked += 1;
      throw new Error("refused");
    },
  });
  const element = {
    root: { querySelector: () => log, activeElement: null },
    view: chat(),
    update: () => (updates += 1),
  };
  const list = new MessageList(/** @type {any} */ (element));

  list.after();
  await new Promise(setImmediate);
  list.after();
  assert.deepEqual([asked, updates], [1, 0]);
  context.mock.timers.tick(5_000);
  await new Promise(setImmediate);
  list.after();
  assert.deepEqual([asked, updates], [2, 1]);

  element.view = chat();
  list.after();
  assert.equal(asked, 3, "another chat does not wait");
});
