# SPDX-License-Identifier: Apache-2.0
"""Webhooks and push in the console: made, tested, replayed, disabled, and set."""

import re
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest_asyncio
from playwright.async_api import Page, expect

from tests.browser.test_console import DESKTOP, Harbour, a_harbour, go, open_console
from tests.browser.test_console_moderation import confirm
from tests.browser.visitors import Visitors
from tests.support.server import ServerProcess

QUAY: Final = "quay"
AT: Final = f"/tenants/{QUAY}"


@pytest_asyncio.fixture(loop_scope="session")
async def quay(server: ServerProcess) -> AsyncIterator[Harbour]:
    async with a_harbour(server, QUAY) as made:
        for endpoint in (await made.ask("GET", f"{AT}/webhooks"))["data"]:
            await made.ask("DELETE", f"{AT}/webhooks/{endpoint['webhook_id']}")
        yield made


async def opened(visitors: Visitors, quay: Harbour) -> Page:
    page = await (await visitors.profile(viewport=DESKTOP)).new_page()
    await open_console(page, quay.server, quay.key, QUAY)
    return page


async def waiting(quay: Harbour) -> dict[str, Any]:
    """An endpoint whose events are pulled, with an event that waits."""
    body = {"url": None, "events": ["message.created"]}
    await quay.ask("PUT", f"{AT}/webhooks/slow", body)
    notice = {"client_message_id": "w1", "content": "The tide is high."}
    posted = await quay.ask("POST", f"{AT}/chats/{quay.chat}/messages", notice)
    return dict(posted)


async def test_an_endpoint_is_made_and_its_secret_shown_once(
    visitors: Visitors, quay: Harbour
) -> None:
    page = await opened(visitors, quay)
    main = await go(page, f"tenants/{QUAY}/webhooks", "The tenant has no webhook endpoint.")
    await page.get_by_role("button", name="New endpoint", exact=True).click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label(re.compile("^Id")).fill("orders")
    await dialog.get_by_label("Address", exact=True).fill("https://example.com/orders")
    await dialog.get_by_label(re.compile("^Types of events")).fill(
        "message.created, report.created"
    )
    await dialog.get_by_role("button", name="Create", exact=True).click()
    shown = dialog.get_by_label("New secret", exact=True)
    await expect(shown).to_have_value(re.compile("^whsec_"))
    secret = await shown.input_value()
    await dialog.get_by_role("button", name="Done", exact=True).click()
    await expect(main.get_by_text("https://example.com/orders")).to_be_visible()
    made = await quay.ask("GET", f"{AT}/webhooks/orders")
    assert made["events"] == ["message.created", "report.created"]
    await expect(dialog).to_have_count(0)
    assert secret not in await page.content()

    main = await go(page, f"tenants/{QUAY}/webhooks/orders", "report.created")
    await main.get_by_role("button", name="Replace the secret", exact=True).click()
    await dialog.get_by_label("Type orders to confirm", exact=True).fill("orders")
    await dialog.get_by_role("button", name="Replace", exact=True).click()
    await expect(shown).to_have_value(re.compile("^whsec_"))
    await expect(shown).not_to_have_value(secret)
    await dialog.get_by_role("button", name="Done", exact=True).click()
    await expect(main.get_by_text("Old secret until")).to_be_visible()


async def test_an_endpoint_is_disabled_enabled_and_deleted(
    visitors: Visitors, quay: Harbour
) -> None:
    body = {"url": "https://example.com/hook", "events": ["chat.created"]}
    await quay.ask("PUT", f"{AT}/webhooks/old", body)
    page = await opened(visitors, quay)
    main = await go(page, f"tenants/{QUAY}/webhooks/old", "Enabled")
    await main.get_by_role("button", name="Disable", exact=True).click()
    await confirm(page, "old", "Disable")
    await expect(main.get_by_text("Disabled", exact=True).first).to_be_visible()
    found = await quay.ask("GET", f"{AT}/webhooks/old")
    assert (found["disabled_by"], found["url"]) == ("tenant", body["url"])
    await main.get_by_role("button", name="Enable", exact=True).click()
    await confirm(page, "old", "Enable")
    await expect(main.get_by_text("Enabled", exact=True)).to_be_visible()
    await main.get_by_role("button", name="Delete", exact=True).click()
    await confirm(page, "old", "Delete for good")
    await expect(main.get_by_text("The tenant has no webhook endpoint.")).to_be_visible()


async def test_what_waits_is_listed_and_replayed(visitors: Visitors, quay: Harbour) -> None:
    posted = await waiting(quay)
    page = await opened(visitors, quay)
    main = await go(page, f"tenants/{QUAY}/webhooks/slow", "1 event")
    row = main.get_by_role("row").filter(has_text=f"{quay.chat}.{posted['sequence']}")
    await row.get_by_role("button", name="Replay", exact=True).click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Type slow to confirm", exact=True).fill("slow")
    await dialog.get_by_role("button", name="Replay", exact=True).click()
    await expect(dialog.get_by_text("its events are pulled")).to_be_visible()
    await dialog.get_by_role("button", name="Done", exact=True).click()
    await main.get_by_role("button", name="Failed", exact=True).click()
    await expect(main.get_by_text("Nothing failed, and nothing waits.")).to_be_visible()


async def test_push_is_set_and_tested(visitors: Visitors, quay: Harbour) -> None:
    page = await opened(visitors, quay)
    main = await go(page, f"tenants/{QUAY}/push", "nothing but the chat")
    await main.get_by_role("button", name="Change", exact=True).click()
    await confirm(page, QUAY, "Replace", Settings='{"content": "preview"}')
    await expect(main.get_by_text("who wrote what")).to_be_visible()
    assert (await quay.ask("GET", f"{AT}/push"))["content"] == "preview"
    await main.get_by_role("button", name="Send a test", exact=True).click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("User", exact=True).fill("ann")
    await dialog.get_by_label(f"Type {QUAY} to confirm", exact=True).fill(QUAY)
    await dialog.get_by_role("button", name="Send", exact=True).click()
    await expect(dialog.get_by_text("The user has registered no device.")).to_be_visible()
