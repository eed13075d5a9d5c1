# SPDX-License-Identifier: Apache-2.0
"""Notices of the web app: when users are asked, what is registered, and what the worker shows."""

import json
from collections.abc import AsyncIterator
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
import pytest_asyncio
from playwright.async_api import Page, Request, Route, Worker, expect

from tests.browser.held import held
from tests.browser.test_looks import SMALL, axe, problems
from tests.browser.test_web_app import call
from tests.browser.visitors import FOR_AXE, Visitors
from tests.browser.web_app import END_TIMERS, KEEP_TIMERS, WebApp
from tests.support.server import ServerProcess
from tests.support.waiting import until
from tests.support.web_push_service import Browser as Subscriber

__all__ = ["axe"]

SETTINGS: Final = "/v1/tenants/demo/push"

NOTICES: Final = """
globalThis.notices = new Map();
ServiceWorkerRegistration.prototype.showNotification = async (title, options) => {
  const close = () => notices.delete(options.tag);
  notices.set(options.tag, { title, ...options, close });
};
ServiceWorkerRegistration.prototype.getNotifications = async () => [...notices.values()];
"""
"""Notices, in a page or a worker: a browser without a window never allows them."""
SUBSCRIPTION: Final = json.dumps(Subscriber.new().subscription("https://push.example.com/1"))
BROWSER: Final = f"""if (location.protocol === "http:") {{
  {NOTICES}
  const KEY = "answer of the test";
  const answer = () => localStorage.getItem(KEY) ?? "default";
  Object.defineProperty(Notification, "permission", {{ get: answer }});
  Notification.requestPermission = async () => (localStorage.setItem(KEY, "granted"), answer());
  const made = {{
    toJSON: () => ({SUBSCRIPTION}),
    unsubscribe: async () => ((window.isSubscribed = false), true),
  }};
  PushManager.prototype.getSubscription = async () => (window.isSubscribed ? made : null);
  PushManager.prototype.subscribe = async ({{ applicationServerKey }}) => {{
    window.subscribedWith = applicationServerKey;
    window.isSubscribed = true;
    return made;
  }};
}}"""
"""A browser whose user says yes to notices, and which has a push service."""
SHOWN: Final = "() => [...notices.values()].map(({ title, body, tag }) => [title, body, tag])"


class PushedPage:
    """Bob in the web app, with a browser that has push."""

    def __init__(self, app: WebApp, url: str) -> None:
        self.app = app
        self.url = url
        self.key = ""
        """The public key of the tenant."""
        self.requests: list[tuple[str, str, Any]] = []
        """Method, path and body of the requests about push."""


PUSH: Final = """async (notice) => {
  const event = new PushEvent("push", { data: JSON.stringify(notice) });
  let work;
  event.waitUntil = (promise) => (work = promise);
  dispatchEvent(event);
  await work;
  return [...notices.values()].map(({ title, body, tag }) => [title, body, tag]);
}"""
"""Handle a push message to its end, as if the push service had sent it; return what is shown."""


@pytest_asyncio.fixture(loop_scope="session")
async def bob(visitors: Visitors, demo: ServerProcess) -> AsyncIterator[PushedPage]:
    """Bob, whose browser has push."""
    url = demo.url.rstrip("/")
    profile = await visitors.profile()
    await profile.add_init_script(BROWSER)
    page = await profile.new_page()
    pushed = PushedPage(WebApp(page), url)

    def note(request: Request) -> None:
        path = urlsplit(request.url).path
        if path.endswith("/push"):
            body = request.post_data_json if request.method == "PUT" else None
            pushed.requests.append((request.method, path, body))

    page.on("request", note)
    settings = await call(demo, "PUT", SETTINGS, {"webpush": {}})
    pushed.key = settings["webpush"]["public_key"]
    await page.goto(url)
    await pushed.app.button("Bob").click()
    await expect(pushed.app.chat("Lunch")).to_be_visible()
    await page.evaluate("navigator.serviceWorker.ready.then(() => null)")
    yield pushed
    await call(demo, "PUT", SETTINGS, {})  # other tests push nothing


async def test_the_user_is_asked_after_a_message_and_registers(bob: PushedPage) -> None:
    app = bob.app
    question = app.page.get_by_role("status").filter(has=app.button("Turn on notifications"))
    await app.open("Lunch")
    await expect(question).to_have_count(0)
    await app.send("Is there soup?")
    await expect(question).to_be_visible()
    assert bob.requests == []
    async with app.page.expect_response("**/devices/*/push") as answer:
        await app.button("Turn on notifications").click()
    assert (await answer.value).status == 200
    await expect(question).to_have_count(0)
    await expect(
        app.page.get_by_role("button", name="Desktop notices", pressed=True, exact=True)
    ).to_be_visible()
    await until(lambda: len(bob.requests) == 2)
    device = await app.page.evaluate('sessionStorage.getItem("tidings device")')
    assert bob.requests[0][:2] == ("GET", "/v1/push")
    method, path, body = bob.requests[1]
    assert (method, path) == ("PUT", f"/v1/me/devices/{device}/push")
    assert body["provider"] == "webpush"
    assert body["subscription"]["endpoint"] == "https://push.example.com/1"
    assert await app.page.evaluate("window.subscribedWith") == bob.key


async def test_who_does_not_want_notices_is_not_asked_again(bob: PushedPage) -> None:
    app = bob.app
    await app.open("Lunch")
    await app.send("One.")
    await app.button("Not now").click()
    await app.send("Two.")
    await expect(app.row("Two.").get_by_role("img").first).to_be_visible()
    await expect(app.button("Not now")).to_have_count(0)
    assert bob.requests == []


async def test_a_registration_is_renewed_at_a_start_and_ends_with_the_login(
    bob: PushedPage,
) -> None:
    app = bob.app
    await app.button("Desktop notices").click()
    await until(lambda: len(bob.requests) == 2)
    await app.page.reload()
    await until(lambda: len(bob.requests) == 4)
    assert [method for method, _, _ in bob.requests] == ["GET", "PUT"] * 2
    assert bob.requests[1] == bob.requests[3]
    await app.page.evaluate(KEEP_TIMERS, 3_000)  # for so long a sign-out waits for the server
    await app.button("Sign out").click()
    await expect(app.button("Carol")).to_be_visible()
    ended = [("DELETE", bob.requests[1][1])]
    await until(lambda: [one[:2] for one in bob.requests[4:]], equals=ended)
    kept = 'localStorage.getItem("tidings notices")'
    await until(lambda: app.page.evaluate(kept), equals=None)


def methods(bob: PushedPage) -> list[str]:
    """The requests about push, in order."""
    return [method for method, _, _ in bob.requests]


async def silence(page: Page, method: str, path: str) -> None:
    """Let the server never answer some requests of a page."""

    async def sort(route: Route) -> None:
        if route.request.method != method:
            await route.continue_()

    await page.route(path, sort)


async def test_the_last_of_quick_clicks_counts(bob: PushedPage) -> None:
    page = bob.app.page
    notices = bob.app.button("Desktop notices")
    async with held(page, "GET", "**/v1/push") as asked:
        await notices.click()
        await until(lambda: asked.urls)
        await notices.click()
        await expect(notices).to_have_attribute("aria-pressed", "false")
        asked.release()
        await until(lambda: methods(bob), equals=["GET", "PUT", "DELETE"])
    assert await page.evaluate("window.isSubscribed") is False


async def test_push_ends_with_the_login_whatever_was_chosen(bob: PushedPage) -> None:
    page = bob.app.page
    await bob.app.button("Desktop notices").click()
    await until(lambda: len(bob.requests) == 2)
    await page.evaluate('localStorage.setItem("tidings notices", "off")')  # in another tab
    await page.evaluate(KEEP_TIMERS, 3_000)
    await bob.app.button("Sign out").click()
    await expect(bob.app.button("Carol")).to_be_visible()
    await until(lambda: methods(bob), equals=["GET", "PUT", "DELETE"])


async def test_a_subscription_that_was_left_ends_at_a_start(bob: PushedPage) -> None:
    page = bob.app.page
    await page.add_init_script("window.isSubscribed = true")
    await page.reload()
    await until(lambda: methods(bob), equals=["DELETE"])


async def test_a_sign_out_does_not_wait_long_for_the_end_of_push(bob: PushedPage) -> None:
    page = bob.app.page
    await bob.app.button("Desktop notices").click()
    await until(lambda: len(bob.requests) == 2)
    await silence(page, "DELETE", "**/push")
    await page.evaluate(KEEP_TIMERS, 3_000)
    await bob.app.button("Sign out").click()
    await until(lambda: methods(bob), equals=["GET", "PUT", "DELETE"])
    await page.evaluate(END_TIMERS)
    await expect(bob.app.button("Carol")).to_be_visible()


async def test_what_a_sign_out_had_to_leave_ends_right_after_it(bob: PushedPage) -> None:
    page = bob.app.page
    await bob.app.button("Desktop notices").click()
    await until(lambda: len(bob.requests) == 2)
    await page.add_init_script("window.isSubscribed = true")
    await silence(page, "GET", "**/v1/push")
    await page.reload()
    await until(lambda: methods(bob), equals=["GET", "PUT", "GET"])
    await page.evaluate(KEEP_TIMERS, 3_000)
    await bob.app.button("Sign out").click()
    await until(lambda: page.evaluate("window.timers.length"), equals=1)
    await page.evaluate(END_TIMERS)
    await expect(bob.app.button("Carol")).to_be_visible()
    await until(lambda: page.evaluate("window.isSubscribed"), equals=False)


async def worker_of(page: Page) -> Worker:
    """Return the service worker of the app, whose notices can be read."""
    await page.evaluate("navigator.serviceWorker.ready.then(() => null)")
    worker = (await until(lambda: page.context.service_workers))[0]
    # A browser without a window has no badges either: the worker would die of one.
    badge = "WorkerNavigator.prototype.setAppBadge = async (n) => void (globalThis.badge = n);"
    await worker.evaluate(f"() => {{ {NOTICES} {badge} }}")
    return worker


async def test_the_worker_shows_a_push_while_the_app_is_closed(bob: PushedPage) -> None:
    page = bob.app.page
    await bob.app.button("Desktop notices").click()
    await until(lambda: len(bob.requests) == 2)
    worker = await worker_of(page)
    notice = {"kind": "message", "collapse_key": "chat:c1", "data": {"chat_id": "c1"}, "badge": 2}
    assert await worker.evaluate(PUSH, notice) == []  # somebody looks at the app
    await worker.evaluate("() => void (Clients.prototype.matchAll = async () => [])")
    assert await worker.evaluate(PUSH, notice) == [["Tidings", "New message", "c1"]]
    assert await worker.evaluate("badge") == 2
    shown = {**notice, "title": "Alice", "body": "Soup!"}
    assert await worker.evaluate(PUSH, shown) == [["Alice", "Soup!", "c1"]]


async def test_a_click_on_a_notice_opens_its_chat(bob: PushedPage) -> None:
    page = bob.app.page
    worker = await worker_of(page)
    await bob.app.open("Lunch")
    chat = await page.evaluate("location.hash.slice(1)")
    await page.evaluate("location.hash = ''")
    # Nobody has clicked, so the worker may not bring a window to the front: that part fails.
    await worker.evaluate(
        """async (chat_id) => {
          await registration.showNotification("Tidings", { tag: chat_id, data: { chat_id } });
          const event = new ExtendableEvent("notificationclick");
          event.notification = notices.get(chat_id);
          event.waitUntil = (work) => work.catch(() => {});
          dispatchEvent(event);
        }""",
        chat,
    )
    await until(lambda: page.evaluate("location.hash.slice(1)"), equals=chat)
    await until(lambda: worker.evaluate(SHOWN), equals=[])


async def test_notices_of_a_chat_end_when_it_is_read(bob: PushedPage) -> None:
    app = bob.app
    await app.button("Desktop notices").click()
    await until(lambda: len(bob.requests) == 2)
    await app.open("Lunch")
    chat = await app.page.evaluate("location.hash.slice(1)")
    show = """async ([chat_id, sequence]) => {
      const worker = await navigator.serviceWorker.ready;
      await worker.showNotification("Tidings", { tag: chat_id, data: { chat_id, sequence } });
    }"""
    await app.page.evaluate(show, [chat, "1"])
    await app.page.evaluate(show, ["another chat", "1"])
    await app.send("I am here.")  # the list of chats changes
    await until(lambda: app.page.evaluate(SHOWN), equals=[["Tidings", None, "another chat"]])


@pytest.mark.parametrize("language", ["en", "de", "ar"])
async def test_everybody_can_answer_the_question(
    visitors: Visitors, demo: ServerProcess, request: pytest.FixtureRequest, language: str
) -> None:
    profile = await visitors.profile(viewport=SMALL, locale=language, **FOR_AXE)
    await profile.add_init_script(BROWSER)
    page = await profile.new_page()
    await page.goto(demo.url)
    await page.get_by_role("button", name="Alice", exact=True).click()
    await page.get_by_role("button", name="Lunch").first.press("Enter")
    box = page.get_by_role("textbox").last
    await box.fill(f"Soup in {language}?")
    await box.press("Enter")
    row = page.get_by_role("article").filter(has_text=f"Soup in {language}?")
    # What waits to be sent is paler.
    await expect(row.locator(".tick:not(.pending)")).to_be_visible()
    buttons = page.get_by_role("status").get_by_role("button")
    await expect(buttons).to_have_count(2)
    await page.evaluate(request.getfixturevalue("axe"))
    for scheme in ("light", "dark"):
        await page.emulate_media(color_scheme=scheme)
        assert await problems(page) == []
    assert not await page.evaluate("document.documentElement.scrollWidth > innerWidth")
