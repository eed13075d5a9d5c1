# SPDX-License-Identifier: Apache-2.0
"""Signing out of the web app twice, and while the server is slow."""

import json
from typing import Final

from playwright.async_api import expect

from tests.browser.held import held
from tests.browser.test_signing_in import acme, sign_in_by_phone
from tests.browser.visitors import Visitors
from tests.browser.web_app import RUN_WHAT_IS_DUE
from tests.support.server import ServerProcess
from tests.support.waiting import until

REFRESHED: Final = """async (refresh_token) => (await fetch("/v1/auth/refresh", {
  method: "POST",
  headers: { "content-type": "application/json" },
  body: JSON.stringify({ refresh_token }),
})).status"""


async def test_a_second_click_on_sign_out_lets_the_first_one_end_the_session(
    visitors: Visitors, demo: ServerProcess
) -> None:
    await acme(demo)
    app = await sign_in_by_phone(await visitors.profile(), demo)
    await expect(app.button("New chat")).to_be_visible()
    session = json.loads(await app.page.evaluate("localStorage.getItem('tidings session')"))
    async with held(app.page, "GET", "**/v1/sessions") as asked:
        await app.button("Sign out").click()
        await until(lambda: asked.urls)
        await app.button("Sign out").click()
        for _ in range(10):
            await app.page.evaluate(RUN_WHAT_IS_DUE)
        asked.release()
        await expect(app.button("Carol")).to_be_visible()
    assert await app.page.evaluate(REFRESHED, session["refresh"]) == 401
