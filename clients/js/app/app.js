// SPDX-License-Identifier: Apache-2.0
/** The web app: sign in, then chats and notifications. */

import "../elements/bell.js";
import "../elements/chat.js";
import { h, render } from "../elements/view.js";
import { Tidings } from "../src/index.js";
import { demoPeople, forget, session, signInAsDemo, tokenOf } from "./session.js";

/** @param {import("./session.js").Session} who */
function talk(who) {
  const tidings = new Tidings(location.origin, { token: tokenOf(who) });
  const leave = async () => {
    await tidings.signOut();
    await forget();
    location.reload();
  };
  render(
    document.body,
    h("tidings-bell", { inbox: "news", tidings }),
    h("button", { onclick: leave }, "Sign out"),
    h("tidings-chat", { tidings }),
  );
  void tidings.start();
}

async function signIn() {
  const people = await demoPeople();
  const pick = (/** @type {string} */ user) => talk(signInAsDemo(user));
  render(
    document.body,
    h(
      "main",
      null,
      people.map((one) => h("button", { onclick: () => pick(one.user_id) }, one.display_name)),
    ),
  );
}

const who = session();
if (who) talk(who);
else void signIn();
