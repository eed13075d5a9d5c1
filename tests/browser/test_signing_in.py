# SPDX-License-Identifier: Apache-2.0
"""People sign in at the web app with a token or by phone, and one browser has several of them."""

import json
import re
from typing import Any

from playwright.async_api import BrowserContext, Page, Route, expect

from tests.browser.held import held
from tests.browser.test_web_app import call
from tests.browser.visitors import Visitors
from tests.browser.web_app import WebApp, sign_in
from tests.support.server import LOG_FILE, ServerProcess
from tests.support.waiting import until

TENANT = "acme"


async def acme(server: ServerProcess) -> str:
    """A token of Alice of another tenant, who has a group and the same id as Alice of the demo."""
    await call(server, "PUT", f"/v1/tenants/{TENANT}", {})
    login = {"login": {"phone": True, "register": True}}
    await call(server, "PUT", f"/v1/tenants/{TENANT}/settings", login)
    await call(server, "PUT", f"/v1/tenants/{TENANT}/users/zoe", {})
    made = await call(server, "POST", f"/v1/tenants/{TENANT}/tokens", {"user_id": "alice"})
    token = str(made["token"])
    group = {"type": "group", "name": "Acme only", "members": ["zoe"]}
    await call(server, "POST", "/v1/chats", group, token)
    return token


async def sign_in_with_token(profile: BrowserContext, url: str, token: str) -> WebApp:
    """Somebody who has a token."""
    app = WebApp(await profile.new_page())
    await app.page.goto(url)
    await app.page.locator("summary").filter(has_text=re.compile("token", re.I)).click()
    await app.page.locator("textarea").fill(token)
    await app.page.locator("form:has(textarea) button").click()
    await expect(app.button("Sign out")).to_be_visible()
    return app


async def sign_in_by_phone(profile: BrowserContext, server: ServerProcess) -> WebApp:
    """Somebody who has a phone, whose texts are in the log of the server."""
    app = WebApp(await profile.new_page())
    await app.page.goto(server.url)
    await app.page.locator("summary").filter(has_text=re.compile("phone", re.I)).click()
    await app.page.locator("[name=tenant]").fill(TENANT)
    await app.page.locator("[name=phone]").fill("+41 79 123 45 67")
    await app.button("Send me a code").click()
    code = app.page.locator("[name=code]")
    await expect(code).to_be_focused()
    await until(lambda: text_of(server) is not None)
    await code.fill(text_of(server) or "")
    async with held(app.page, "POST", "**/v1/auth/sessions") as used:
        for _ in range(2):
            await code.press("Enter")
        await until(lambda: used.urls)
        used.release()
        await expect(app.button("Sign out")).to_be_visible()
        assert len(used.urls) == 1
    return app


def text_of(server: ServerProcess) -> str | None:
    """The newest code in the log of the server."""
    lines = (server.data / LOG_FILE).read_text().splitlines()
    texts = [line for line in lines if '"sms"' in line]
    found = re.search(r"\b\d{6}\b", texts[-1]) if texts else None
    return found[0] if found else None


async def kept(page: Page) -> Any:
    """What the browser has kept of those who have signed in."""
    return await page.evaluate(
        "async () => [(await indexedDB.databases()).length, Object.keys(localStorage).sort()]"
    )


async def test_users_of_two_tenants_with_the_same_id_do_not_mix(
    visitors: Visitors, demo: ServerProcess
) -> None:
    token = await acme(demo)
    alice = await sign_in(visitors, demo.url, "Alice")
    await expect(alice.chat("Lunch")).to_be_visible()
    # Another tab finds nobody: Alice of the demo is signed in for her tab.
    other = await sign_in_with_token(alice.page.context, demo.url, token)
    await expect(other.chat("Acme only")).to_be_visible()
    await expect(other.chat("Lunch")).to_have_count(0)
    await expect(alice.chat("Acme only")).to_have_count(0)
    # Whoever signs out leaves the other alone.
    await alice.button("Sign out").click()
    # Her tab finds the other one now, who is signed in for the whole browser.
    await expect(alice.chat("Acme only")).to_be_visible()
    await other.page.reload()
    await expect(other.chat("Acme only")).to_be_visible()
    await other.button("Sign out").click()
    await expect(other.button("Carol")).to_be_visible()
    await until(lambda: kept(other.page), equals=[0, []])


async def test_another_code_is_sent_when_the_server_allows_it(
    visitors: Visitors, demo: ServerProcess
) -> None:
    await acme(demo)
    page = await (await visitors.profile()).new_page()
    await page.clock.install()
    answers = [(202, {}), (429, {"retry-after": "90"}), (202, {})]

    async def answer(route: Route) -> None:
        status, headers = answers.pop(0)
        await route.fulfill(status=status, headers=headers, json={"detail": "Too many codes"})

    await page.route("**/v1/auth/codes", answer)
    app = WebApp(page)
    await page.goto(demo.url)
    await page.locator("summary").filter(has_text=re.compile("phone", re.I)).click()
    await page.locator("[name=tenant]").fill(TENANT)
    await page.locator("[name=phone]").fill("+41 79 123 45 68")
    await app.button("Send me a code").click()
    again = page.get_by_role("button", name=re.compile("^Another code in"))
    await expect(again).to_be_disabled()
    await page.clock.run_for(30_000)
    await app.button("Send another code").click()
    await expect(page.get_by_role("alert")).to_have_text("Too many codes")
    await expect(again).to_be_disabled()
    await page.clock.run_for(60_000)  # the clock of the page does not stand still meanwhile
    await expect(again).to_be_disabled()
    await page.clock.run_for(30_000)
    await app.button("Send another code").click()
    await expect(page.get_by_role("alert")).to_have_count(0)
    await until(lambda: answers, equals=[])


async def test_a_session_by_phone_lasts_over_reloads_and_ends_on_the_server(
    visitors: Visitors, demo: ServerProcess
) -> None:
    await acme(demo)
    app = await sign_in_by_phone(await visitors.profile(), demo)
    first = json.loads(await app.page.evaluate("localStorage.getItem('tidings session')"))
    await app.page.reload()
    await expect(app.button("Sign out")).to_be_visible()
    await app.button("New chat").wait_for()
    again = json.loads(await app.page.evaluate("localStorage.getItem('tidings session')"))
    # The token that is kept is still good.
    assert again == first
    await app.button("Sign out").click()
    await expect(app.button("Carol")).to_be_visible()
    await until(lambda: kept(app.page), equals=[0, []])
    state = await app.page.evaluate(
        """async (refresh_token) => (await fetch("/v1/auth/refresh", {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify({ refresh_token }),
        })).status""",
        first["refresh"],
    )
    assert state == 401
