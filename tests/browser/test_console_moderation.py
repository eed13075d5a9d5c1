# SPDX-License-Identifier: Apache-2.0
"""Moderation in the console: a report is read with a reason, acted on, and closed."""

import re
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest_asyncio
from playwright.async_api import Locator, Page, expect

from tests.browser.test_console import DESKTOP, Harbour, a_harbour, go, open_console
from tests.browser.visitors import Visitors
from tests.support.server import ServerProcess

PIER: Final = "pier"
REPORTED: Final = "Which boat?"
"""What bob wrote as message 3, and ann reported."""


@pytest_asyncio.fixture(loop_scope="session")
async def pier(server: ServerProcess) -> AsyncIterator[Harbour]:
    async with a_harbour(server, PIER) as made:
        yield made


async def opened(visitors: Visitors, pier: Harbour) -> Page:
    page = await (await visitors.profile(viewport=DESKTOP)).new_page()
    await open_console(page, pier.server, pier.key, PIER)
    return page


async def confirm(page: Page, name: str, verb: str, **fields: str) -> None:
    """Fill the dialog, type the name, and send it; until then, the button does not work."""
    dialog = page.get_by_role("dialog")
    for field, value in fields.items():
        await dialog.get_by_label(re.compile(f"^{field}")).fill(value)
    button = dialog.get_by_role("button", name=verb, exact=True)
    await expect(button).to_be_disabled()
    await dialog.get_by_label(f"Type {name} to confirm", exact=True).fill(name)
    await button.click()
    await expect(dialog).to_have_count(0)


async def report_of(pier: Harbour) -> dict[str, Any]:
    """The newest report, as REST shows it."""
    found = await pier.ask("GET", f"/tenants/{PIER}/reports?sealed=true&limit=1")
    return dict(found["data"][0])


async def newest_act(pier: Harbour, action: str) -> dict[str, Any]:
    acts = (await pier.ask("GET", f"/tenants/{PIER}/audit?limit=20"))["data"]
    return next(act for act in acts if act["action"] == action)


def shown(main: Locator) -> Locator:
    return main.get_by_role("region", name="Message of bob").first


async def test_a_report_is_sealed_until_there_is_a_reason(
    visitors: Visitors, pier: Harbour
) -> None:
    page = await opened(visitors, pier)
    received: list[Any] = []
    page.on("response", lambda response: received.append(response))
    main = await go(page, f"tenants/{PIER}/reports", "Message of bob")
    texts = [await one.text() for one in received if "/v1/" in one.url]
    assert texts and not any(REPORTED in text or "Rude." in text for text in texts)
    report = (await report_of(pier))["report_id"]
    await shown(main).get_by_role("button", name="Sealed", exact=True).click()
    await confirm(page, report, "Unseal", Reason="Ticket 4711")
    await expect(shown(main).get_by_text(REPORTED)).to_be_visible()
    await expect(shown(main).get_by_text("Rude.")).to_be_visible()
    act = await newest_act(pier, "unseal_report")
    assert (act["target"], act["fields"]) == (report, ["reason=Ticket 4711"])


async def test_a_file_of_a_reported_message_is_saved(visitors: Visitors, pier: Harbour) -> None:
    wishes = [{"user_id": name} for name in ("ann", "bob")]
    made = [await pier.ask("POST", f"/tenants/{PIER}/tokens", wish) for wish in wishes]
    ann, bob = [one["token"] for one in made]
    new = {"name": "boat.png", "content_type": "image/png", "size": 4}
    upload = await pier.ask("POST", "/attachments", new, bob)
    own = {"Authorization": f"Bearer {bob}"}
    await pier.http.put(upload["upload_url"], content=b"boat", headers=own)
    files = [upload["attachment_id"]]
    message = {"client_message_id": "file", "content": "", "attachments": files}
    at = f"/chats/{pier.chat}/messages"
    sequence = (await pier.ask("POST", at, message, bob))["sequence"]
    await pier.ask("POST", f"{at}/{sequence}/report", {"reason": "illegal"}, ann)
    await pier.ask("DELETE", f"{at}/{sequence}", None, bob)

    page = await opened(visitors, pier)
    main = await go(page, f"tenants/{PIER}/reports", "Message of bob")
    await shown(main).get_by_role("button", name="Sealed", exact=True).click()
    await confirm(page, (await report_of(pier))["report_id"], "Unseal", Reason="Ticket 4711")
    async with page.expect_download() as downloading:
        await shown(main).get_by_role("button", name="boat.png (4 B)", exact=True).click()
    saved = await downloading.value
    assert (saved.suggested_filename, (await saved.path()).read_bytes()) == ("boat.png", b"boat")


async def test_a_reported_message_is_redacted_and_its_report_resolved(
    visitors: Visitors, pier: Harbour
) -> None:
    page = await opened(visitors, pier)
    main = await go(page, f"tenants/{PIER}/reports", "Message of bob")
    await shown(main).get_by_role("button", name="Redact", exact=True).click()
    await confirm(page, "bob", "Redact")
    await expect(page.get_by_role("status")).to_have_text("The message is redacted.")
    report = await report_of(pier)
    assert (report["state"], report["action"]) == ("resolved", "redact")
    entries = await pier.ask("GET", f"/tenants/{PIER}/chats/{pier.chat}/entries")
    assert entries["data"][2]["redacted"] is True


async def test_a_report_is_dismissed_and_opened_again(visitors: Visitors, pier: Harbour) -> None:
    page = await opened(visitors, pier)
    main = await go(page, f"tenants/{PIER}/reports", "Message of bob")
    report = (await report_of(pier))["report_id"]
    card = main.get_by_role("region").filter(has_text=report)
    await card.get_by_role("button", name="Dismiss", exact=True).click()
    await confirm(page, report, "Dismiss", Note="A joke.")
    await expect(card).to_have_count(0)
    await main.get_by_role("button", name="Dismissed", exact=True).click()
    await expect(card.get_by_text("A joke.")).to_be_visible()
    await card.get_by_role("button", name="Open again", exact=True).click()
    await confirm(page, report, "Open again")
    await expect(card).to_have_count(0)
    assert (await report_of(pier))["state"] == "open"


async def test_a_user_is_banned_until_a_time(visitors: Visitors, pier: Harbour) -> None:
    page = await opened(visitors, pier)
    main = await go(page, f"tenants/{PIER}/reports", "Message of bob")
    await shown(main).get_by_role("button", name="Ban", exact=True).click()
    await confirm(page, "bob", "Ban", Until="2099-01-02T03:04")
    await expect(page.get_by_role("status")).to_have_text("The user is banned.")
    until = (await pier.ask("GET", f"/tenants/{PIER}/users/bob"))["banned_until"]
    assert until.startswith("2099-01-0")
    main = await go(page, f"tenants/{PIER}/users/bob", "Banned until")
    await main.get_by_role("button", name="End the ban", exact=True).click()
    await confirm(page, "bob", "End the ban")
    await expect(main.get_by_text("Active", exact=True)).to_be_visible()
    assert (await pier.ask("GET", f"/tenants/{PIER}/users/bob"))["banned_until"] is None


async def test_a_chat_is_frozen(visitors: Visitors, pier: Harbour) -> None:
    page = await opened(visitors, pier)
    main = await go(page, f"tenants/{PIER}/reports", "Message of bob")
    await shown(main).get_by_role("button", name="Freeze the chat", exact=True).click()
    await confirm(page, pier.chat, "Freeze")
    await expect(page.get_by_role("status")).to_have_text("The chat is frozen.")
    main = await go(page, f"tenants/{PIER}/chats/{pier.chat}", "Frozen")
    await main.get_by_role("button", name="Unfreeze", exact=True).click()
    await confirm(page, pier.chat, "Unfreeze")
    await expect(main.get_by_role("button", name="Freeze", exact=True)).to_be_visible()
    found = await pier.ask("GET", f"/tenants/{PIER}/chats/{pier.chat}")
    assert (found["frozen"], found["slow_mode_seconds"]) == (False, 0)
