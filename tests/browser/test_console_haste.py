# SPDX-License-Identifier: Apache-2.0
"""The console of people who are faster than the server, or who are not alone."""

import re
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest_asyncio
from playwright.async_api import Locator, Page, Route, expect

from tests.browser.held import held
from tests.browser.test_console import DESKTOP, Harbour, a_harbour, go, open_console
from tests.browser.test_console_moderation import confirm
from tests.browser.visitors import Visitors
from tests.browser.web_app import END_TIMERS, KEEP_TIMERS, RUN_WHAT_IS_DUE, WebApp
from tests.support.server import ServerProcess
from tests.support.waiting import until

DOCK: Final = "dock"
AT: Final = f"/tenants/{DOCK}"
LOAD_AGAIN: Final = "document.dispatchEvent(new Event('visibilitychange'))"
SUBMIT_TWICE: Final = "(form) => { form.requestSubmit(); form.requestSubmit(); }"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def dock(server: ServerProcess) -> AsyncIterator[Harbour]:
    async with a_harbour(server, DOCK) as made:
        yield made


async def opened(visitors: Visitors, dock: Harbour) -> Page:
    page = await (await visitors.profile(viewport=DESKTOP)).new_page()
    await open_console(page, dock.server, dock.server.root_key)
    return page


async def ask_to_deactivate(page: Page, user: str) -> Locator:
    """Open the dialog, and type the name; return the form."""
    main = await go(page, f"tenants/{DOCK}/users/{user}", "Sessions")
    await main.get_by_role("button", name="Deactivate", exact=True).click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label(f"Type {user} to confirm", exact=True).fill(user)
    return dialog.locator("form")


async def test_a_dialog_waits_for_the_answer_to_what_it_sends(
    visitors: Visitors, dock: Harbour
) -> None:
    page = await opened(visitors, dock)
    form = await ask_to_deactivate(page, "bob")
    dialog = page.get_by_role("dialog")
    await page.evaluate(KEEP_TIMERS, 30_000)
    async with held(page, "PUT", "**/users/bob") as sent:
        await form.evaluate(SUBMIT_TWICE)
        await until(lambda: sent.urls)
        for name in ("Cancel", "Close", "Deactivate"):
            await expect(dialog.get_by_role("button", name=name, exact=True)).to_be_disabled()
        await page.keyboard.press("Escape")
        await expect(dialog).to_be_visible()
        await page.evaluate(END_TIMERS)  # as if the server had been silent for long
        for name in ("Cancel", "Close"):
            await expect(dialog.get_by_role("button", name=name, exact=True)).to_be_enabled()
        sent.release()
        await expect(page.get_by_role("status")).to_have_text("The user is deactivated.")
    await expect(dialog).to_have_count(0)
    assert len(sent.urls) == 1
    await dock.ask("PUT", f"{AT}/users/bob", {"deactivated": False})


async def test_a_dialog_that_was_closed_opens_again_at_once(
    visitors: Visitors, dock: Harbour
) -> None:
    page = await opened(visitors, dock)
    await ask_to_deactivate(page, "bob")
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_be_visible()
    frames = WebApp(page)
    await frames.holds_frames()
    await page.keyboard.press("Escape")
    await page.evaluate(RUN_WHAT_IS_DUE)
    await page.keyboard.press("Enter")  # the button has the focus again
    await frames.lets_frames_go()
    await expect(dialog).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(dialog).to_have_count(0)


async def test_what_became_of_a_change_is_said_on_another_screen(
    visitors: Visitors, dock: Harbour
) -> None:
    page = await opened(visitors, dock)
    main = await go(page, f"tenants/{DOCK}/users/bob", "Sessions")
    form = await ask_to_deactivate(page, "ann")
    dialog = page.get_by_role("dialog")
    async with held(page, "PUT", "**/users/ann") as sent:
        await form.evaluate("(form) => form.requestSubmit()")
        await until(lambda: sent.urls)
        await page.go_back()
        await expect(dialog).to_have_count(0)
        await expect(main.get_by_role("heading", name="bob", exact=True)).to_be_visible()
        await main.get_by_role("button", name="Ban", exact=True).click()
        sent.release()
        await expect(page.get_by_role("status")).to_have_text("Deactivate ann: done.")
    await expect(dialog.get_by_role("heading", name="Ban bob", exact=True)).to_be_visible()
    await dock.ask("PUT", f"{AT}/users/ann", {"deactivated": False})


async def test_a_long_change_is_stopped(visitors: Visitors, dock: Harbour) -> None:
    jobs = [
        {
            "id": f"job-{number}",
            "tenant": DOCK,
            "inbox": "news",
            "notification_id": "n1",
            "users": ["ann"],
            "reason": "slow",
            "set_aside_at": "2026-01-01T00:00:00Z",
        }
        for number in range(3)
    ]

    async def answer(route: Route) -> None:
        await route.fulfill(json={"data": jobs, "next_cursor": None})

    page = await opened(visitors, dock)
    await page.route("**/v1/jobs/aside?*", answer)
    main = await go(page, "jobs", "job-2")
    await main.get_by_role("button", name="Replay 3", exact=True).click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Type replay 3 to confirm", exact=True).fill("replay 3")
    # The server does not know the job: somebody else has replayed it.
    async with held(page, "POST", "**/v1/jobs/aside/*/replay") as sent:
        await dialog.get_by_role("button", name="Replay", exact=True).click()
        await until(lambda: sent.urls)
        await dialog.get_by_role("button", name="Stop", exact=True).click()
        await expect(dialog).to_have_count(0)
        sent.release()
        said = "Replay 3 jobs: Stopped. 0 of 3 jobs done."
        await expect(page.get_by_role("status")).to_have_text(said)
    assert len(sent.urls) == 1
    await main.get_by_role("row").nth(1).get_by_role("button", name="Drop", exact=True).click()
    await expect(dialog.get_by_role("heading", name="Drop job-0", exact=True)).to_be_visible()


async def test_settings_that_are_replaced_are_those_of_now(
    visitors: Visitors, dock: Harbour
) -> None:
    page = await opened(visitors, dock)
    dialog = page.get_by_role("dialog")
    await go(page, f"tenants/{DOCK}/push", "nothing but the chat")
    await dock.ask("PUT", f"{AT}/push", {"content": "preview"})
    await page.get_by_role("button", name="Change", exact=True).click()
    field = dialog.get_by_label(re.compile("^Settings"))
    await expect(field).to_have_value(re.compile("preview"))
    await page.keyboard.press("Escape")

    main = await go(page, f"tenants/{DOCK}", "Messages a day")
    await dock.ask("PUT", AT, {"quotas": {"users": 700}})
    await dock.ask("PUT", f"{AT}/settings", {"login": {"phone": True}})
    change = "Change"
    await main.get_by_role("region", name="Tenant").get_by_role("button", name=change).click()
    await expect(dialog.get_by_label("Users, at most", exact=True)).to_have_value("700")
    await page.keyboard.press("Escape")
    await dock.ask("PUT", f"{AT}/settings", {"login": {"phone": False}})
    await main.get_by_role("region", name="Settings").get_by_role("button", name=change).click()
    await expect(field).to_have_value(re.compile('"phone": false'))


async def test_nobody_is_asked_on_another_screen(visitors: Visitors, dock: Harbour) -> None:
    page = await opened(visitors, dock)
    await go(page, f"tenants/{DOCK}/push", "Browsers (Web Push)")
    async with held(page, "GET", f"**{AT}/push") as asked:
        await page.get_by_role("button", name="Change", exact=True).click()
        await until(lambda: asked.urls)
        main = await go(page, f"tenants/{DOCK}/users/bob", "Sessions")
        async with page.expect_response(f"**{AT}/push"):
            asked.release()
    # A dialog would keep this one from opening.
    await main.get_by_role("button", name="Ban", exact=True).click()
    heading = page.get_by_role("dialog").get_by_role("heading")
    await expect(heading).to_have_text("Ban bob")


async def test_an_endpoint_is_enabled_as_somebody_else_has_changed_it(
    visitors: Visitors, dock: Harbour
) -> None:
    page = await opened(visitors, dock)
    main = await go(page, f"tenants/{DOCK}/webhooks/shop", "https://example.com/hook")
    hook = {"url": "https://example.com/new", "events": ["chat.created"], "enabled": False}
    await dock.ask("PUT", f"{AT}/webhooks/shop", hook)
    await main.get_by_role("button", name="Enable", exact=True).click()
    await confirm(page, "shop", "Enable")
    await expect(main.get_by_text("Enabled", exact=True)).to_be_visible()
    found = await dock.ask("GET", f"{AT}/webhooks/shop")
    assert (found["url"], found["events"]) == (hook["url"], hook["events"])


async def test_a_report_that_somebody_else_has_closed_is_not_closed_again(
    visitors: Visitors, dock: Harbour
) -> None:
    page = await opened(visitors, dock)
    main = await go(page, f"tenants/{DOCK}/reports", "Message of bob")
    (report,) = (await dock.ask("GET", f"{AT}/reports?sealed=true"))["data"]
    done = {"state": "resolved", "note": "Talked to bob."}
    await dock.ask("PATCH", f"{AT}/reports/{report['report_id']}", done)
    await main.get_by_role("button", name="Dismiss", exact=True).click()
    said = "Somebody else has changed the report."
    await expect(page.get_by_role("status")).to_have_text(said)
    await expect(main.get_by_text("There are no such reports.")).to_be_visible()
    await main.get_by_role("button", name="All", exact=True).click()
    note = {"note": "Talked to bob and ann."}
    await expect(main.get_by_text(done["note"])).to_be_visible()
    await dock.ask("PATCH", f"{AT}/reports/{report['report_id']}", {**done, **note})
    await main.get_by_role("button", name="Open again", exact=True).click()
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_label(re.compile("^Note"))).to_have_value(note["note"])


async def test_a_button_stays_that_of_its_message(visitors: Visitors, dock: Harbour) -> None:
    page = await opened(visitors, dock)
    main = await go(page, f"tenants/{DOCK}/chats/{dock.chat}", "Sealed")
    log = main.get_by_role("table", name="Log", exact=True)

    def row(sequence: int) -> Locator:
        cell = page.get_by_role("cell", name=str(sequence), exact=True).first
        return log.get_by_role("row").filter(has=cell)

    await row(2).get_by_role("button", name="Sealed", exact=True).focus()
    message = {"client_message_id": "late", "content": "Who comes?"}
    posted: Any = await dock.ask("POST", f"{AT}/chats/{dock.chat}/messages", message)
    await page.evaluate(LOAD_AGAIN)
    await expect(row(posted["sequence"])).to_be_visible()
    await page.keyboard.press("Enter")
    heading = page.get_by_role("dialog").get_by_role("heading")
    await expect(heading).to_have_text("Unseal message 2")
