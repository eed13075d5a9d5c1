// SPDX-License-Identifier: Apache-2.0
/**
 * Push notices in a browser, for pages with a service worker that shows them. `index.js` does not
 * contain them.
 */

/** @typedef {import("./tidings.js").Tidings} Tidings */

/**
 * Subscribe this browser, and register it as a device of the user. Call it after the user has
 * allowed notices, and then at each start: a browser may replace its subscription.
 *
 * @param {Tidings} tidings
 * @param {ServiceWorkerRegistration} worker
 * @param {string} device - The name of the device; that of the user's token, if it has one.
 * @returns {Promise<boolean>} False if the tenant does not use Web Push.
 */
export async function turnOnPush(tidings, worker, device) {
  const { vapid_public_key: key } = await tidings.request("GET", "/v1/push");
  if (!key) return false;
  const made = await subscribed(worker.pushManager, key);
  const body = { provider: "webpush", subscription: made.toJSON() };
  await tidings.request("PUT", pathOf(device), body);
  return true;
}

/**
 * End the registration, and the subscription of this browser.
 *
 * @param {Tidings} tidings
 * @param {ServiceWorkerRegistration} worker
 * @param {string} device
 */
export async function turnOffPush(tidings, worker, device) {
  const subscription = await worker.pushManager.getSubscription();
  const ended = await Promise.allSettled([
    subscription?.unsubscribe(),
    tidings.request("DELETE", pathOf(device)),
  ]);
  // Without its subscription the browser gets nothing, whatever the server knows.
  return ended.some(({ status }) => status === "fulfilled");
}

/** @param {string} device */
const pathOf = (device) => `/v1/me/devices/${encodeURIComponent(device)}/push`;

/**
 * @param {PushManager} manager
 * @param {string} key
 */
async function subscribed(manager, key) {
  const options = { userVisibleOnly: true, applicationServerKey: key };
  try {
    return await manager.subscribe(options);
  } catch (error) {
    // There is a subscription with another key, perhaps of another tenant.
    const old = await manager.getSubscription();
    if (!old) throw error;
    await old.unsubscribe();
    return manager.subscribe(options);
  }
}
