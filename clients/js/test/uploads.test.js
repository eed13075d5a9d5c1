// SPDX-License-Identifier: Apache-2.0
/** Files on their way to a server that breaks connections, refuses, and forgets. */

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { afterEach, test } from "node:test";

import { Links } from "../elements/links.js";
import { Refused, Unavailable } from "../src/index.js";
import { UploadStore } from "../src/upload_store.js";
import { uploadRow, uploadsOf } from "../src/uploads.js";
import { client, live, twoMessages } from "./clients.js";
import { until } from "./fake_server.js";

/** @type {(() => void)[]} */
const ends = [];
afterEach(() => ends.splice(0).forEach((end) => end()));

/** A server that takes files; `answers` are given first, one for each request. */
async function fileServer() {
  const files = {
    /** @type {Buffer} */ bytes: Buffer.alloc(0),
    /** @type {string[]} */ asked: [],
    /** @type {(((request: any, response: any) => void) | undefined)[]} */ answers: [],
    thumbnail: 0,
    url: "",
  };
  const created = (/** @type {any} */ _, /** @type {any} */ response) => {
    response.statusCode = 201;
    response.end(JSON.stringify({ attachment_id: "a1" }));
  };
  const usual = (/** @type {any} */ request, /** @type {any} */ response) => {
    const { method, url, headers, body } = request;
    if (method === "POST") return created(request, response);
    if (url.endsWith("/thumbnail")) files.thumbnail = body.length;
    else if (method === "PATCH")
      files.bytes = Buffer.concat([files.bytes.subarray(0, headers["upload-offset"]), body]);
    response.setHeader("upload-offset", files.bytes.length);
    response.statusCode = method === "HEAD" ? 200 : 204;
    response.end();
  };
  const server = createServer(async (request, response) => {
    files.asked.push(`${request.method} ${request.headers["upload-offset"] ?? ""}`.trim());
    /** @type {Buffer[]} */
    const parts = [];
    for await (const part of request) parts.push(part);
    const whole = Object.assign(request, { body: Buffer.concat(parts) });
    (files.answers.shift() ?? usual)(whole, response);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(null)));
  ends.push(
    () => server.closeAllConnections(),
    () => server.close(),
  );
  files.url = `http://127.0.0.1:${/** @type {any} */ (server.address()).port}`;
  return files;
}

const refuses =
  (/** @type {number} */ status, /** @type {string} */ code) =>
  (/** @type {any} */ _, /** @type {any} */ response) => {
    response.statusCode = status;
    response.end(JSON.stringify({ code, detail: "why" }));
  };

/** @param {any} request */
const breaks = (request) => request.socket.destroy();

const passes = undefined;

/** A client whose files go to a server. @param {{url: string}} files */
async function sender(files) {
  const server = twoMessages();
  const tidings = client(server, { name: crypto.randomUUID() });
  tidings.link = (path) => files.url + path;
  await tidings.start();
  await live(tidings);
  return { tidings, server, uploads: uploadsOf(tidings) };
}

const photo = () => ({
  name: "cat.png",
  content_type: "image/png",
  size: 40,
  width: 4,
  height: 2,
  bytes: new Blob(["0123456789".repeat(4)]),
  thumbnail: new Blob(["small"], { type: "image/webp" }),
});

test("a message with a file is sent once the file is there", async () => {
  const files = await fileServer();
  const { tidings, server, uploads } = await sender(files);

  const id = uploads.send("c", "Look", [photo()], { silent: true });

  assert.equal(uploads.snapshot().messages[0]?.id, id, "it is shown at once");
  await until(() => tidings.chat("c").snapshot() && server.logs.get("c")?.length === 3);
  assert.equal(files.bytes.toString(), "0123456789".repeat(4));
  assert.equal(files.thumbnail, "small".length);
  const sent = server.heard.find((frame) => frame.op === "send");
  assert.deepEqual(sent.attachments, ["a1"], "the server gets the id alone");
  assert.equal(sent.client_message_id, id);
  assert.equal(sent.silent, true);
  await until(() => !uploads.snapshot().messages.length);
});

test("a message that is sent while earlier ones are loaded stays", async (context) => {
  const files = await fileServer();
  /** @type {(kept: any[]) => void} */
  let answer = () => {};
  const all = new Promise((resolve) => (answer = resolve));
  context.mock.method(UploadStore.prototype, "all", () => all);
  context.mock.method(UploadStore.prototype, "put", async () => {});
  files.answers = [() => {}];
  const { uploads } = await sender(files);

  const id = uploads.send("c", "Look", [photo()]);
  answer([]);
  await uploads.loaded;

  assert.deepEqual(
    uploads.snapshot().messages.map((message) => message.id),
    [id],
  );
  uploads.discard("c", id);
});

test("an upload goes on after the last byte that has arrived", async () => {
  const files = await fileServer();
  const { server, uploads } = await sender(files);
  const half = (/** @type {any} */ request) => {
    files.bytes = request.body.subarray(0, 25);
    breaks(request);
  };
  // What was created is answered, the thumbnail too; the bytes are cut off, then the server is busy.
  files.answers = [passes, passes, half, refuses(503, "")];

  uploads.send("c", "", [photo()]);

  await until(() => server.logs.get("c")?.length === 3);
  assert.equal(files.bytes.toString(), "0123456789".repeat(4));
  assert.deepEqual(files.asked, ["POST", "PUT", "PATCH 0", "HEAD", "HEAD", "PATCH 25"]);
});

test("an upload that the server has deleted begins anew", async () => {
  const files = await fileServer();
  const { server, uploads } = await sender(files);
  files.answers = [passes, passes, breaks, refuses(410, "attachment.gone")];

  uploads.send("c", "", [photo()]);

  await until(() => server.logs.get("c")?.length === 3);
  assert.deepEqual(files.asked, ["POST", "PUT", "PATCH 0", "HEAD", "POST", "PUT", "PATCH 0"]);
});

test("a refusal stays until the user tries again or discards it", async () => {
  const files = await fileServer();
  const { server, uploads } = await sender(files);
  files.answers = [refuses(429, "quota.reached")];

  const id = uploads.send("c", "Too much", [photo()]);

  await until(() => uploads.snapshot().messages[0]?.failed);
  const [message] = uploads.snapshot().messages;
  assert.equal(message?.failed?.code, "quota.reached");
  assert.equal(uploadRow(/** @type {any} */ (message), "alice").state, "failed");
  uploads.retry("c", id);
  await until(() => server.logs.get("c")?.length === 3);

  files.answers = [refuses(415, "attachment.type")];
  const other = uploads.send("c", "", [photo()]);
  await until(() => uploads.snapshot().messages[0]?.failed);
  uploads.discard("c", other);
  await until(() => !uploads.snapshot().messages.length);
});

test("a message for later is scheduled with its files", async () => {
  const { server, uploads } = await sender(await fileServer());
  uploads.send("c", "", [photo()], { sendAt: "2026-12-24T08:00:00Z" });
  await until(() => server.requests.includes("POST /v1/chats/c/messages"));
  await until(() => !uploads.snapshot().messages.length);
  assert.equal(server.logs.get("c")?.length, 2, "it is not sent now");
});

test("a file without its bytes is lost, and says so", async () => {
  const { uploads } = await sender(await fileServer());
  uploads.send("c", "", [{ ...photo(), bytes: undefined }]);
  await until(() => uploads.snapshot().messages[0]?.failed?.code === "upload.lost");
});

test("a thumbnail that is refused does not keep the file back", async () => {
  const files = await fileServer();
  const { server, uploads } = await sender(files);
  files.answers = [passes, refuses(415, "attachment.type")];
  uploads.send("c", "", [photo()]);
  await until(() => server.logs.get("c")?.length === 3);
});

test("signing out stops all uploads", async () => {
  const files = await fileServer();
  const { tidings, uploads } = await sender(files);
  files.answers = [() => {}];
  uploads.send("c", "", [photo()]);
  await until(() => files.asked.length);
  await tidings.signOut();
  await until(() => !uploads.snapshot().messages.length);
});

test("an own message in the log describes its files, as other tabs get them", async () => {
  const files = await fileServer();
  const { tidings, uploads, server } = await sender(files);
  tidings.chat("c").subscribe(() => {});
  uploads.send("c", "", [photo()]);
  const row = () => tidings.chat("c").snapshot().rows.at(-1);
  await until(() => server.logs.get("c")?.length === 3 && row()?.sequence === 3);
  assert.deepEqual(row()?.attachments, [
    {
      attachment_id: "a1",
      name: "cat.png",
      content_type: "image/png",
      size: 40,
      width: 4,
      height: 2,
      thumbnail: { content_type: "image/webp", size: 5 },
    },
  ]);
});

// Links.

/** @param {(path: string, n: number) => object} answer */
function links(answer) {
  /** @type {string[]} */
  const asked = [];
  let changes = 0;
  const tidings = {
    request: async (/** @type {string} */ _method, /** @type {string} */ path) =>
      answer(path, asked.push(path)),
    link: (/** @type {string} */ path) => `http://test${path}`,
  };
  const made = new Links(/** @type {any} */ (tidings), () => (changes += 1));
  return { asked, made, changes: () => changes };
}

const ROW = /** @type {any} */ ({ chat: "c", sequence: 7 });
const FILE = /** @type {any} */ ({ attachment_id: "a1" });
const inMs = (/** @type {number} */ ms) => new Date(Date.now() + ms).toISOString();

test("a link is asked for once, and a new one when it has run out", async () => {
  const { asked, made, changes } = links((_, n) => ({ url: `/f${n}`, expires_at: inMs(10_000) }));
  assert.equal(made.of(ROW, FILE), "");
  assert.equal(made.of(ROW, FILE), "");
  await until(() => changes());
  assert.equal(made.of(ROW, FILE), "http://test/f1", "what is shown needs no new one");
  assert.deepEqual(asked, ["/v1/chats/c/messages/7/attachments/a1/link"]);
  assert.equal(await made.fresh(ROW, FILE), "http://test/f2");
  made.failed(ROW, FILE);
  assert.ok(!made.isBroken(ROW, FILE));
  assert.equal(made.of(ROW, FILE), "");
});

test("what fails although its link is new is broken", async () => {
  const { made, changes } = links(() => ({ url: "/f", expires_at: inMs(300_000) }));
  made.of(ROW, FILE, true);
  await until(() => changes());
  made.failed(ROW, FILE, true);
  assert.ok(made.isBroken(ROW, FILE, true));
  assert.equal(made.of(ROW, FILE, true), "");
  assert.ok(!made.isBroken(ROW, FILE));
});

test("a link that did not come is asked for again, and one that was refused is not", async (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  const turn = () => new Promise(setImmediate);
  const answers = [new Unavailable("busy"), new Refused("attachment.gone", "", 410)];
  const { asked, made } = links(() => {
    throw answers.shift();
  });
  made.of(ROW, FILE);
  await turn();
  assert.ok(!made.isBroken(ROW, FILE));
  made.of(ROW, FILE);
  assert.equal(asked.length, 1, "not at once");
  context.mock.timers.tick(5_000);
  made.of(ROW, FILE);
  await turn();
  assert.ok(made.isBroken(ROW, FILE));
  made.of(ROW, FILE);
  assert.equal(asked.length, 2);
});
