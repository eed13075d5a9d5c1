// SPDX-License-Identifier: Apache-2.0
/**
 * A backend with Express: tokens for its users, a notification, and webhooks of Tidings.
 *
 * npm install express @tidings/client
 * TIDINGS_TENANT_KEY=sk_... WEBHOOK_SECRET=whsec_... node examples/express_backend/backend.js
 */

import express from "express";
import { verifyWebhook, WebhookRefused } from "@tidings/client/webhooks";

const TIDINGS = process.env.SERVER_URL ?? "http://127.0.0.1:8080";
const TENANT = process.env.TENANT ?? "acme";
const KEY = process.env.TIDINGS_TENANT_KEY; // the tenant key: it never leaves the backend
const SECRET = process.env.WEBHOOK_SECRET;
const PORT = Number(process.env.PORT ?? 9000);

/** The newest webhooks by id. Your backend keeps the ids in its database. */
const events = new Map();
const KEPT = 10_000;

/** Send a request with the tenant key. */
async function ask(method, path, body, headers = {}) {
  const answer = await fetch(`${TIDINGS}/v1/tenants/${TENANT}/${path}`, {
    method,
    headers: { Authorization: `Bearer ${KEY}`, "Content-Type": "application/json", ...headers },
    body: JSON.stringify(body),
  });
  const content = await answer.json();
  if (!answer.ok) throw new Error(content.detail);
  return content;
}

const app = express();

/** Your product checks a password here, and its cookie cannot be forged. */
app.get("/sign-in", (request, response) => {
  response.cookie("user", request.query.user, { httpOnly: true, sameSite: "strict" });
  response.redirect(303, "/");
});

/** A token of the user who is signed in; Tidings creates the user at the first one. */
app.get("/token", async (request, response) => {
  const user = /(?:^|; )user=([^;]+)/.exec(request.headers.cookie ?? "")?.[1];
  if (!user) return response.status(401).end();
  const { token } = await ask("POST", "tokens", {
    user_id: decodeURIComponent(user),
    expires_in: 3600,
  });
  response.set("Cache-Control", "no-store").type("text").send(token);
});

/** Notify a user. The order is the key: a repeat notifies nobody twice. */
app.post("/orders/:order/shipped", async (request, response) => {
  const { order } = request.params;
  const posted = await ask(
    "POST",
    "inboxes/orders/notifications",
    {
      audience: { kind: "users", uids: [request.query.user] },
      message: { title: "Your order has left", body: `Order ${order} arrives tomorrow.` },
    },
    { "Idempotency-Key": `shipped-${order}` },
  );
  response.status(202).json({ notification_id: posted.id });
});

/** Take a webhook: verify it, recognise repeats, answer soon, and do the work afterwards. */
app.post("/hook", express.raw({ type: () => true, limit: "1mb" }), async (request, response) => {
  try {
    const { id, type, data } = await verifyWebhook(SECRET, request.headers, request.body);
    if (!events.has(id)) events.set(id, { type, data });
    if (events.size > KEPT) events.delete(events.keys().next().value);
    response.status(204).end();
  } catch (error) {
    if (!(error instanceof WebhookRefused)) throw error;
    response.status(400).json({ detail: error.message });
  }
});

/** What the webhooks reported. Your backend shows this to nobody. */
app.get("/events", (_request, response) => void response.json([...events.values()]));

await ask("PUT", "inboxes/orders", { title: "Orders" });
app.listen(PORT, "127.0.0.1");
