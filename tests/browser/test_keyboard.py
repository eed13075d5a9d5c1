# SPDX-License-Identifier: Apache-2.0
"""Everything in the web app can be done with the keyboard, and the focus is never lost."""

from playwright.async_api import expect

from tests.browser.test_web_app import call, tab_to
from tests.browser.visitors import Visitors
from tests.browser.web_app import TICKS, WebApp, sign_in
from tests.support.server import ServerProcess


async def press(app: WebApp, *keys: str) -> None:
    """Press keys, one after the other."""
    for key in keys:
        await app.page.keyboard.press(key)


async def pick(app: WebApp, name: str) -> None:
    """Choose an item of the open menu with the arrow keys."""
    items = app.page.get_by_role("menuitem")
    await expect(items.first).to_be_focused()
    for _ in range(await items.count()):
        if await app.page.get_by_role("menuitem", name=name, exact=True).evaluate(
            "(one) => one.matches(':focus')"
        ):
            break
        await press(app, "ArrowDown")
    await press(app, "Enter")


async def test_messages_are_reached_and_changed_without_a_mouse(
    visitors: Visitors, demo: ServerProcess
) -> None:
    wish = {"user_id": "bob", "expires_in": 3_600}
    token = (await call(demo, "POST", "/v1/tenants/demo/tokens", wish))["token"]
    group = {"type": "group", "name": "Notes to myself", "members": []}
    await call(demo, "POST", "/v1/chats", group, token)
    bob = await sign_in(visitors, demo.url, "Bob")
    await tab_to(bob, bob.chat("Notes to myself"))
    await press(bob, "Enter")
    await expect(bob.box).to_be_focused()
    await bob.page.keyboard.type("By keys alone")
    await press(bob, "Enter")
    row = bob.row("By keys alone")
    await expect(row.get_by_role("img", name=TICKS)).to_be_visible()

    await tab_to(bob, bob.messages, back=True)
    await press(bob, "ArrowUp")
    await expect(row).to_be_focused()
    await press(bob, "Enter")
    await pick(bob, "React with ❤️")
    reaction = row.get_by_role("button", name="❤️", pressed=True)
    await expect(reaction).to_be_visible()
    await expect(row).to_be_focused()
    await tab_to(bob, reaction)
    await press(bob, "Enter")
    await expect(reaction).to_have_count(0)

    await press(bob, "Escape")
    await expect(bob.box).to_be_focused()
    await tab_to(bob, bob.messages, back=True)
    await press(bob, "ArrowUp")
    await expect(row).to_be_focused()
    await press(bob, "Enter")
    await bob.gives_time_to_undo()
    await pick(bob, "Delete")
    await tab_to(bob, bob.button("Undo"))
    await press(bob, "Enter")
    await expect(row).to_be_visible()
    await press(bob, "Escape")
    await expect(bob.box).to_be_focused()


async def test_dialogs_and_notifications_give_the_focus_back(
    visitors: Visitors, demo: ServerProcess
) -> None:
    carol = await sign_in(visitors, demo.url, "Carol")
    await tab_to(carol, carol.button("Notifications"))
    await press(carol, "Enter")
    note = (
        carol.page.get_by_role("list", name="Notifications", exact=True).get_by_role("button").first
    )
    await expect(note).to_be_visible()
    await tab_to(carol, note)
    await press(carol, "Enter")
    await expect(note.get_by_role("img")).to_have_count(0)
    await press(carol, "Escape")
    await expect(carol.button("Notifications")).to_be_focused()

    await tab_to(carol, carol.chat("Lunch"))
    await press(carol, "Enter")
    await expect(carol.box).to_be_focused()
    options = carol.button("Chat options")
    for item in ("Members", "Keyboard"):
        await tab_to(carol, options, back=True)
        await press(carol, "Enter")
        await pick(carol, item)
        await expect(carol.page.get_by_role("dialog")).to_be_visible()
        await press(carol, "Escape")
        await expect(carol.page.get_by_role("dialog")).to_have_count(0)
        await expect(options).to_be_focused()
    await begin_a_group(carol)


async def begin_a_group(app: WebApp) -> None:
    """Make a group and come to its field."""
    dialog = app.page.get_by_role("dialog")
    await tab_to(app, app.button("New group"), back=True)
    await press(app, "Enter")
    await tab_to(app, dialog.get_by_role("textbox", name="Name", exact=True))
    await app.page.keyboard.type("Made by keys")
    await tab_to(app, dialog.get_by_role("checkbox", name="Bob", exact=True))
    await press(app, "Space", "Enter")
    await expect(app.heading("Made by keys")).to_be_visible()
    await expect(app.box).to_be_focused()
