// SPDX-License-Identifier: Apache-2.0
/** The conversation replays the transcripts of `clients/spec`, as every client does. */

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { test } from "node:test";

import { Backoff, NOT_AUTHENTICATED } from "../src/backoff.js";
import { Conversation } from "../src/conversation.js";
import { erasedBy } from "../src/erasures.js";
import { rowOf } from "../src/rows.js";

const FOLDER = new URL("../../spec/", import.meta.url);
const TICK_MS = 500;
const VARIABLE = /^\$\w+$/;

/** Frames that the application sees as they are; the client ignores those that it does not know. */
const NOTICES = new Set("receipt typing presence unread notification retracted erased".split(" "));

/** What a transcript need not name. */
const AUTOMATIC = new Set(["ping", "received", "head"]);

/** The variables of a transcript: what the replaying side chose, and what it was told. */
class Variables {
  /** @param {Record<string, any>} examples */
  constructor(examples) {
    this.examples = examples;
    /** @type {Record<string, any>} */
    this.bound = { $token: "token" };
  }

  /** @param {any} given */
  fill(given) {
    if (typeof given === "string" && VARIABLE.test(given))
      return (this.bound[given] ??= this.examples[given] ?? given.slice(1));
    if (Array.isArray(given)) return given.map((one) => this.fill(one));
    if (given === null || typeof given !== "object") return given;
    return Object.fromEntries(
      Object.entries(given).map(([key, one]) => [this.fill(key), this.fill(one)]),
    );
  }

  /**
   * @param {any} expected
   * @param {any} actual
   */
  matches(expected, actual) {
    if (typeof expected === "string" && VARIABLE.test(expected))
      return (this.bound[expected] ??= actual) === actual;
    if (expected === null || typeof expected !== "object") return expected === (actual ?? null);
    if (Array.isArray(expected))
      return (
        Array.isArray(actual) &&
        expected.length === actual.length &&
        expected.every((one, place) => this.matches(one, actual[place]))
      );
    if (expected.any)
      return expected.any.some((/** @type {any} */ one) => this.matches(one, actual));
    return Object.entries(expected).every(([key, one]) =>
      this.matches(one, actual?.[this.bound[key] ?? key]),
    );
  }
}

/** A conversation whose server and application are the transcript. */
class Replay {
  /** @type {any[]} */
  said = [];
  /** @type {any[]} */
  seen = [];
  /** @type {any[]} */
  rows = [];
  /** @type {any} */
  bye = null;
  /** @type {any} */
  ended = null;
  now = 0;
  backoff = new Backoff(() => 1);

  /** @param {any} head */
  constructor(head) {
    this.variables = new Variables(head.values ?? {});
    const {
      user = null,
      epoch = null,
      have = {},
      reads = {},
    } = this.variables.fill(head.saved ?? {});
    const saved = { user, epoch, held: Object.entries(have), reads: Object.entries(reads) };
    this.conversation = new Conversation(saved, /** @type {any} */ (this.listener()), () => 1);
  }

  listener() {
    /** @type {(type: string, fields: any) => void} */
    const see = (type, fields) => this.seen.push({ ...fields, type });
    return {
      welcome: () => {},
      live: () => see("connected", { user: this.conversation.user }),
      applied: (/** @type {any} */ entry) => {
        const row = rowOf(entry);
        if (row.kind === "message") this.rows.push(row);
        see(entry.kind, { ...entry, gone: row.gone });
      },
      restarted: (/** @type {string} */ chat, /** @type {number} */ start) =>
        see("resynced", { chat, start }),
      forgotten: (/** @type {string} */ chat) => see("gone", { chat }),
      heads: (/** @type {any} */ heads) =>
        Object.entries(heads).forEach(([chat, head]) => see("head", { chat, head })),
      notice: (/** @type {any} */ frame) => NOTICES.has(frame.op) && see(frame.op, frame),
      sent: (/** @type {any} */ { chat, id }, /** @type {any} */ { sequence }) =>
        see("sent", { chat, client_message_id: id, sequence }),
      failed: (/** @type {any} */ { chat, id, failed }) =>
        see("failed", { chat, client_message_id: id, code: failed.code }),
    };
  }

  /** @param {any} step */
  async step(step) {
    if (step.unheard || step.elsewhere) return;
    if (step.connection) this.connection(step.connection);
    else if (step.application) this.call(this.variables.fill(step.application));
    else if (step.server) this.hear(this.variables.fill(step.server));
    else if (step.time) this.pass(step.time);
    else if (step.client) this.take(this.said, "op", step.client, step.optional);
    else if (step.event) {
      await this.shownErasures();
      this.take(this.seen, "type", step.event, step.optional);
    } else if ("reconnect" in step) this.reconnect(step.reconnect);
    else assert.fail(JSON.stringify(step));
  }

  /** @param {any} what */
  connection(what) {
    if (what === "opened") {
      const say = (/** @type {any} */ frame) => this.said.push(JSON.parse(JSON.stringify(frame)));
      const hello = { token: "token", device: "laptop", erasures: 0 };
      return this.conversation.connected(say, hello, this.now);
    }
    this.conversation.lost();
    this.ended = { ...this.bye, code: what.closed };
    this.bye = null;
  }

  /** @param {any} expected */
  reconnect(expected) {
    const ms = this.backoff.after(this.ended);
    const token = this.ended.code === NOT_AUTHENTICATED ? "new" : "same";
    assert.deepEqual(ms === null ? null : { after_ms: ms, token }, expected);
  }

  /** @param {any} given */
  call({ call, chat, ...given }) {
    const { conversation, now } = this;
    const { client_message_id: id, before, limit, ...message } = given;
    const answer = (/** @type {any} */ page) =>
      this.seen.push({
        ...page,
        type: "page",
        sequences: page.entries.map((/** @type {any} */ entry) => entry.sequence),
      });
    if (call === "post") conversation.post({ chat, id, createdAt: 0, ...message }, now);
    else if (call === "read") conversation.read(chat, given.sequence);
    else if (call === "follow") conversation.follow(chat);
    else if (call === "typing") conversation.typing(chat, now);
    else if (call === "history") conversation.ask({ chat, before, limit, answer }, now);
    else assert.fail(call);
  }

  /** @param {any} frame */
  hear(frame) {
    if (frame.op === "bye") this.bye = frame;
    else this.conversation.receive(frame, this.now);
  }

  /** @param {number} ms */
  pass(ms) {
    for (const end = this.now + ms; this.now < end;) {
      this.now += TICK_MS;
      this.conversation.tick(this.now, this.now);
    }
  }

  /** Replace each frame about erasures by the messages that it concerns. */
  async shownErasures() {
    for (const frame of this.seen.filter((one) => one.type === "erased" && !one.messages)) {
      const senders = new Set(this.rows.map((row) => row.sender));
      const isErased = frame.all ? () => true : await erasedBy(frame, senders);
      frame.messages = this.rows.filter(isErased).map(({ chat, sequence }) => [chat, sequence]);
    }
    // A frame without authors only says how far the device is.
    this.seen = this.seen.filter((one) => one.type !== "erased" || one.all || one.authors?.length);
  }

  /**
   * Remove the first of the same kind and chat, which has to match.
   *
   * @param {any[]} from
   * @param {string} kind
   * @param {any} expected
   * @param {boolean} [isOptional]
   */
  take(from, kind, expected, isOptional) {
    const chat = this.variables.fill(expected.chat);
    const place = from.findIndex(
      (one) => one[kind] === expected[kind] && (chat === undefined || one.chat === chat),
    );
    if (place < 0 && isOptional) return;
    assert(place >= 0, `missing: ${JSON.stringify(expected)} in ${JSON.stringify(from)}`);
    const [found] = from.splice(place, 1);
    assert(
      this.variables.matches(expected, found),
      `${JSON.stringify(expected)} is not ${JSON.stringify(found)}`,
    );
  }
}

for (const name of readdirSync(FOLDER).filter((one) => one.endsWith(".jsonl"))) {
  const text = readFileSync(new URL(name, FOLDER), "utf8");
  const [head, ...steps] = text
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
  // This client asks for heads only.
  if (head.replay?.includes("client") === false || head.catch_up !== "heads") continue;
  test(`transcript: ${head.transcript}`, async () => {
    const replay = new Replay(head);
    for (const step of steps) await replay.step(step);
    await replay.shownErasures();
    for (const [left, kind] of /** @type {const} */ ([
      [replay.said, "op"],
      [replay.seen, "type"],
    ]))
      assert.deepEqual(
        left.filter((one) => !AUTOMATIC.has(one[kind])),
        [],
      );
  });
}
