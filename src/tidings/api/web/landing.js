// SPDX-License-Identifier: Apache-2.0
// The landing page: whether the server is ready, and commands with this server's own address.

const steps = document.getElementById("steps");
steps.textContent = steps.textContent.replace("http://127.0.0.1:8080", location.origin);
document.getElementById("socket").textContent =
  `${location.origin.replace(/^http/, "ws")}/v1/ws`;

const readiness = document.getElementById("readiness");
try {
  const answer = await fetch("/readyz");
  readiness.textContent = answer.ok ? "ready." : `not ready: ${(await answer.json()).detail}.`;
} catch {
  readiness.textContent = "not answering.";
}
