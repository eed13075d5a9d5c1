# SPDX-License-Identifier: Apache-2.0
"""Replies, mentions, pins, search and blocks in the web app."""

import re

from playwright.async_api import expect

from tests.browser.test_conversations import choose
from tests.browser.test_web_app import call
from tests.browser.visitors import Visitors
from tests.browser.web_app import HURRY, RUN_WHAT_IS_DUE, TICKS, WebApp, sign_in
from tests.support.server import ServerProcess


async def make_group(server: ServerProcess, name: str) -> None:
    """Make a group of Alice, Bob and Carol with a message of Alice, who owns it."""
    wish = {"user_id": "alice", "expires_in": 3_600}
    token = (await call(server, "POST", "/v1/tenants/demo/tokens", wish))["token"]
    group = {"type": "group", "name": name, "members": ["bob", "carol"]}
    chat = (await call(server, "POST", "/v1/chats", group, token))["chat_id"]
    message = {"client_message_id": "1", "content": "Who brings the cake?"}
    await call(server, "POST", f"/v1/chats/{chat}/messages", message, token)


async def mention(app: WebApp, text: str, begun: str, name: str) -> None:
    """Write a text, and choose a person with the keyboard."""
    await app.box.fill(text)
    await app.box.press("End")
    await app.box.press_sequentially(begun)
    option = app.page.get_by_role("listbox", name="People to mention", exact=True).get_by_role(
        "option"
    )
    await expect(option.filter(has_text=name)).to_have_attribute("aria-selected", "true")
    await app.box.press("Enter")


async def test_a_reply_quotes_mentions_and_leads_back(
    visitors: Visitors, demo: ServerProcess
) -> None:
    await make_group(demo, "Party")
    alice = await sign_in(visitors, demo.url, "Alice")
    bob = await sign_in(visitors, demo.url, "Bob")
    await bob.open("Party")
    field = await bob.box.element_handle()
    await choose(bob, "Who brings the cake?", "Reply")
    await expect(bob.page.get_by_text("Replying to Alice")).to_be_visible()
    assert await bob.box.evaluate("(box, before) => box === before", field)
    await expect(bob.box).to_be_focused()
    await mention(bob, "You do, ", "@al", "Alice")
    await expect(bob.box).to_have_value("You do, @Alice ")
    await bob.button("Other ways to send").click()
    await bob.page.get_by_role("menuitem", name="Without push notices", exact=True).click()
    await expect(bob.button("Without push notices")).to_have_attribute("aria-pressed", "true")
    await bob.box.press("Enter")
    answer = bob.row("You do,")
    await expect(answer.get_by_role("img", name=TICKS)).to_be_visible()
    await expect(answer.get_by_role("button", name="Who brings the cake?")).to_be_visible()
    await expect(answer.get_by_role("img", name="without push notices", exact=True)).to_be_visible()

    entry = alice.chat("Party")
    await expect(entry.get_by_role("img", name="Unread mentions: 1", exact=True)).to_be_visible()
    await alice.page.get_by_role("button", name=re.compile("^Mentions, Unread")).click()
    await alice.page.get_by_role("dialog").get_by_role("button", name="You do,").click()
    row = alice.row("You do,")
    await expect(row).to_be_focused()
    # Once more, when everything is there and one update shows it all, later than usual.
    await alice.open("Lunch")
    await alice.page.get_by_role("button", name=re.compile("^Mentions")).click()
    entry = alice.page.get_by_role("dialog").get_by_role("button", name="You do,")
    await expect(entry).to_be_visible()
    await alice.page.evaluate(HURRY, 2_500)
    await alice.holds_frames()
    await entry.click()
    await alice.page.evaluate(RUN_WHAT_IS_DUE)
    await alice.lets_frames_go()
    await expect(alice.heading("Party")).to_be_visible()
    await expect(row).to_be_focused()
    await expect(row.locator("mark")).to_have_text("@Alice")
    await expect(row).to_have_accessible_name(re.compile("Reply to Alice.*mentions you"))
    await row.get_by_role("button", name="Who brings the cake?").click()
    asked = alice.messages.get_by_role("article", name=re.compile("^Alice, Who brings"))
    await expect(asked).to_be_focused()
    await asked.get_by_role("button", name="Replies: 1", exact=True).click()
    dialog = alice.page.get_by_role("dialog", name="Replies", exact=True)
    await expect(dialog.get_by_role("listitem").get_by_text("You do, @Alice")).to_be_visible()
    await dialog.get_by_role("button", name="Reply", exact=True).click()
    await expect(alice.page.get_by_text("Replying to Alice")).to_be_visible()
    await alice.box.press("Escape")
    await expect(alice.page.get_by_text("Replying to Alice")).to_have_count(0)


async def test_an_owner_pins_and_others_see_it(visitors: Visitors, demo: ServerProcess) -> None:
    await make_group(demo, "Notice board")
    alice = await sign_in(visitors, demo.url, "Alice")
    carol = await sign_in(visitors, demo.url, "Carol")
    await alice.open("Notice board")
    await carol.open("Notice board")
    await choose(alice, "Who brings the cake?", "Pin")
    await expect(carol.button("Pinned: Who brings the cake?")).to_be_visible()
    row = carol.row("Who brings the cake?")
    await expect(row.get_by_role("img", name="pinned", exact=True)).to_be_visible()
    await carol.button("Pinned: Who brings the cake?").click()
    await expect(row).to_be_focused()
    await alice.button("Pinned: 1").click()
    dialog = alice.page.get_by_role("dialog", name="Pinned messages", exact=True)
    await dialog.get_by_role("button", name="Unpin", exact=True).click()
    await expect(carol.button("Pinned: Who brings the cake?")).to_have_count(0)
    await alice.page.keyboard.press("Escape")
    await carol.button("Chat options").click()
    async with carol.page.expect_response("**/mute") as muted:
        await carol.page.get_by_role("menuitem", name="Only notify of mentions", exact=True).click()
    assert (await (await muted.value).json())["except_mentions"] is True
    await expect(
        carol.chat("Notice board").get_by_role("img", name="muted", exact=True)
    ).to_be_visible()


async def test_messages_are_found_and_their_author_is_blocked(
    visitors: Visitors, demo: ServerProcess
) -> None:
    await make_group(demo, "Bakery")
    bob = await sign_in(visitors, demo.url, "Bob")
    await bob.page.get_by_role("searchbox", name="Search", exact=True).fill("brings the ca")
    hits = bob.page.get_by_role("list", name="Messages found", exact=True)
    await hits.get_by_role("button").filter(has_text="Bakery").click()
    row = bob.row("Who brings the cake?")
    await expect(row).to_be_focused()
    await bob.button("Chat options").click()
    await bob.page.get_by_role("menuitem", name="Search in this chat", exact=True).click()
    dialog = bob.page.get_by_role("dialog")
    await dialog.get_by_role("searchbox").fill("cake")
    await expect(dialog.locator("mark")).to_have_text("cake")
    await dialog.get_by_role("button", name="Close", exact=True).click()

    await choose(bob, "Who brings the cake?", "Report")
    await dialog.get_by_role("combobox", name="Reason", exact=True).select_option("Abuse")
    await dialog.get_by_role("textbox", name="Comment", exact=True).fill("It is my birthday")
    await dialog.get_by_role("button", name="Report", exact=True).click()
    await expect(bob.page.get_by_text("Reported. Thank you.")).to_be_visible()
    reports = (await call(demo, "GET", "/v1/tenants/demo/reports"))["data"]
    assert [one["comment"] for one in reports if one["reason"] == "abuse"] == ["It is my birthday"]
    await choose(bob, "Who brings the cake?", "Block Alice")
    await expect(bob.message("You blocked the author of this message")).to_be_visible()
    await expect(row).to_have_count(0)
    await bob.button("Unblock").click()
    await expect(row).to_be_visible()
