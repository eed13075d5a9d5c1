// SPDX-License-Identifier: Apache-2.0
/** A socket to the server: a thin layer over WebSocket that decodes frames and reports the end. */

/** @typedef {import("./backoff.js").Ended} Ended */
/** @typedef {import("./frames.js").ClientFrame} ClientFrame */
/** @typedef {import("./frames.js").ServerFrame} ServerFrame */

/**
 * A way to the server: a socket, or another tab that has one.
 *
 * @typedef {object} Line
 * @property {(frame: ClientFrame) => void} say
 * @property {() => void} close - Ends the line. Events that come afterwards mean nothing.
 */

/**
 * @typedef {object} LineEvents
 * @property {() => void} opened
 * @property {(frame: ServerFrame) => void} receive
 * @property {(ended: Ended) => void} ended
 */

/** @typedef {(events: LineEvents) => Line} Connect */

const CONNECT_MS_MAX = 15_000;
const NO_ANSWER = 1006;

/**
 * Return a function that opens sockets.
 *
 * @param {string} url - The server, such as `https://chat.example.org`.
 * @param {typeof WebSocket} Socket
 * @returns {Connect}
 */
export const socketTo = (url, Socket) => (events) => {
  const socket = new Socket(`${url.replace(/^http/, "ws")}/v1/ws`);
  /** @type {Ended | null} */
  let bye = null;
  const timer = setTimeout(() => events.ended({ code: NO_ANSWER }), CONNECT_MS_MAX);
  socket.onopen = () => {
    clearTimeout(timer);
    events.opened();
  };
  socket.onmessage = ({ data }) => {
    const frame = decode(data);
    if (frame?.op === "bye") bye = frame;
    else if (frame) events.receive(frame);
  };
  socket.onclose = ({ code }) => events.ended(bye ?? { code });
  return {
    say: (frame) => {
      if (socket.readyState === Socket.OPEN) socket.send(JSON.stringify(frame, idOf));
    },
    close: () => {
      clearTimeout(timer);
      socket.close();
    },
  };
};

/**
 * Return what the server gets of a value: of an attachment its id. Tabs get all of it.
 *
 * @param {string} _name
 * @param {any} value
 */
const idOf = (_name, value) => value?.attachment_id ?? value;

/**
 * Decode a frame; return null if it is not one. Nothing is lost by ignoring a frame: a missing
 * entry leaves a gap in the log, and the client fetches missing entries.
 *
 * @param {unknown} data
 * @returns {ServerFrame | null}
 */
function decode(data) {
  try {
    const frame = JSON.parse(String(data));
    return typeof frame?.op === "string" ? frame : null;
  } catch {
    return null;
  }
}
