# SPDX-License-Identifier: Apache-2.0
"""What people do with messages in the web app, and what becomes of it at the other end."""

import asyncio

from playwright.async_api import Locator, Route, expect

from tests.browser.test_web_app import call
from tests.browser.visitors import Visitors
from tests.browser.web_app import TICKS, WebApp, sign_in
from tests.support.server import ServerProcess
from tests.support.waiting import until


async def choose(app: WebApp, text: str, action: str) -> None:
    """Choose one of the actions on a message."""
    row = app.row(text)
    await row.hover()
    await row.get_by_role("button", name="Actions", exact=True).click()
    await app.page.get_by_role("menuitem", name=action, exact=True).click()


async def write_anew(app: WebApp, text: str, wanted: str) -> None:
    """Begin to edit a message, and replace its text."""
    await choose(app, text, "Edit")
    # The field for messages is there until the next frame, and looks the same.
    await expect(app.box).to_have_value(text)
    await app.box.fill(wanted)


async def make_long_chat(server: ServerProcess, name: str) -> None:
    """Make a group of Bob and Carol with more messages than a page shows at first."""
    wish = {"user_id": "bob", "expires_in": 3_600}
    token = (await call(server, "POST", "/v1/tenants/demo/tokens", wish))["token"]
    group = {"type": "group", "name": name, "members": ["carol"]}
    chat = (await call(server, "POST", "/v1/chats", group, token))["chat_id"]
    for number in range(110):
        message = {"client_message_id": str(number), "content": f"Page {number} of a long book"}
        await call(server, "POST", f"/v1/chats/{chat}/messages", message, token)


def reaction(app: WebApp, text: str, *, pressed: bool) -> Locator:
    """The reaction to a message, if it is the user's own or if it is not."""
    return app.row(text).get_by_role("button", name="🎉", pressed=pressed)


async def test_changes_of_a_message_are_seen_by_the_other(
    visitors: Visitors, demo: ServerProcess
) -> None:
    carol = await sign_in(visitors, demo.url, "Carol")
    bob = await sign_in(visitors, demo.url, "Bob")
    await carol.open("Lunch")
    await bob.open("Lunch")
    await carol.send("See you at twelv")
    await expect(bob.row("See you at twelv")).to_be_visible()

    await write_anew(carol, "See you at twelv", "See you at twelve")
    await carol.box.press("Enter")
    await expect(bob.row("See you at twelve").get_by_text("edited")).to_be_visible()
    await choose(bob, "See you at twelve", "React with 🎉")
    await expect(reaction(carol, "See you at twelve", pressed=False)).to_be_visible()
    await expect(reaction(bob, "See you at twelve", pressed=True)).to_be_visible()
    # A log that is loaded does not say whose the reactions are.
    await bob.page.reload()
    await reaction(bob, "See you at twelve", pressed=True).click()
    await expect(carol.row("See you at twelve").get_by_text("🎉")).to_have_count(0)
    await carol.gives_time_to_undo()
    await choose(carol, "See you at twelve", "Delete")
    await carol.button("Undo").click()
    await expect(carol.row("See you at twelve")).to_be_visible()
    await carol.gives_time_to_undo(is_slow=False)
    await choose(carol, "See you at twelve", "Delete")
    await expect(bob.row("See you at twelve")).to_have_count(0)
    await expect(bob.message("This message was deleted")).to_be_visible()


async def test_an_edit_that_fails_keeps_its_text(visitors: Visitors, demo: ServerProcess) -> None:
    carol = await sign_in(visitors, demo.url, "Carol")
    await carol.open("Lunch")
    await carol.send("At the new place")

    is_shown, refused = asyncio.Event(), list[str]()

    async def refuse(route: Route) -> None:
        await is_shown.wait()
        refused.append(route.request.url)
        await route.fulfill(status=400, body="{}", content_type="application/json")

    await expect(carol.row("At the new place").get_by_role("img", name=TICKS)).to_be_visible()
    await carol.page.route("**/messages/*", refuse)
    await write_anew(carol, "At the new place", "At the old place")
    await carol.box.press("Enter")
    await expect(carol.button("Save")).to_have_count(0)
    is_shown.set()
    await expect(carol.button("Save")).to_be_visible()
    await expect(carol.box).to_have_value("At the old place")
    # The next attempt fails before the page has shown that it was made.
    await carol.holds_frames()
    await carol.box.press("Enter")
    await until(lambda: len(refused), equals=2)
    await expect(carol.box).to_have_value("At the old place")
    await carol.lets_frames_go()
    await carol.page.unroute("**/messages/*")
    await carol.button("Save").click()
    await expect(carol.row("At the old place").get_by_text("edited")).to_be_visible()


async def test_a_draft_stays_with_its_chat(visitors: Visitors, demo: ServerProcess) -> None:
    alice = await sign_in(visitors, demo.url, "Alice")
    await alice.open("Lunch")
    await alice.box.fill("For everybody at lunch")
    await alice.open("Bob")
    await expect(alice.box).to_have_value("")
    await expect(alice.chat("Lunch").get_by_text("Draft:")).to_be_visible()
    await alice.open("Lunch")
    await expect(alice.box).to_have_value("For everybody at lunch")
    await alice.box.fill("")


async def test_a_group_is_made_searched_and_left(visitors: Visitors, demo: ServerProcess) -> None:
    bob = await sign_in(visitors, demo.url, "Bob")
    carol = await sign_in(visitors, demo.url, "Carol")
    await bob.button("New group").click()
    dialog = bob.page.get_by_role("dialog")
    await dialog.get_by_role("textbox", name="Name", exact=True).fill("Holiday plans")
    await dialog.get_by_role("checkbox", name="Carol", exact=True).check()
    await dialog.get_by_role("button", name="Create", exact=True).click()
    await expect(bob.heading("Holiday plans")).to_be_visible()
    await bob.send("Where to?")
    await expect(carol.chat("Holiday plans")).to_be_visible()
    search = carol.page.get_by_role("searchbox", name="Search", exact=True)
    await search.fill("holi")
    await expect(carol.chat("Lunch")).to_have_count(0)
    await carol.open("Holiday plans")
    await expect(carol.message("Where to?")).to_be_visible()
    await search.fill("")
    await carol.button("Chat options").click()
    await carol.page.get_by_role("menuitem", name="Leave the group", exact=True).click()
    await expect(carol.chat("Holiday plans")).to_have_count(0)
    await expect(bob.message("Carol left")).to_be_visible()


async def test_two_tabs_of_one_browser_are_two_people(
    visitors: Visitors, demo: ServerProcess
) -> None:
    alice = await sign_in(visitors, demo.url, "Alice")
    page = await alice.page.context.new_page()
    await page.goto(demo.url)
    bob = WebApp(page)
    await bob.button("Bob").click()
    await bob.open("Alice")
    await bob.send("From the tab beside yours")
    await alice.open("Bob")
    await expect(alice.message("From the tab beside yours")).to_be_visible()
    await bob.button("Sign out").click()
    await expect(bob.button("Carol")).to_be_visible()
    await alice.send("I am still here")
    await expect(alice.row("I am still here").get_by_role("img", name=TICKS)).to_be_visible()


async def test_an_arabic_page_goes_from_right_to_left(
    visitors: Visitors, demo: ServerProcess
) -> None:
    profile = await visitors.profile(locale="ar")
    page = await profile.new_page()
    await page.goto(demo.url)
    await page.get_by_role("button", name="Alice", exact=True).click()
    chats = page.get_by_role("navigation")
    await expect(chats).to_be_visible()
    await expect(page.locator("html")).to_have_attribute("dir", "rtl")

    async def is_on_the_right() -> bool:
        box = await chats.bounding_box()
        width = (page.viewport_size or {"width": 0})["width"]
        return box is not None and box["x"] > width / 2 - box["width"] / 2

    await until(is_on_the_right)
    await until(lambda: page.evaluate("document.documentElement.scrollWidth <= innerWidth"))


async def test_a_link_leads_to_a_message_and_back(visitors: Visitors, demo: ServerProcess) -> None:
    bob = await sign_in(visitors, demo.url, "Bob")
    await bob.open("Lunch")
    for number in range(40):
        await bob.send(f"Line {number} of a long story")
    await expect(bob.row("Line 39 of a long story").get_by_role("img", name=TICKS)).to_be_visible()
    await expect(bob.message("Lunch at half past twelve?")).not_to_be_in_viewport()
    await bob.page.goto(f"{bob.page.url}/2")
    await expect(bob.message("Lunch at half past twelve?")).to_be_in_viewport()
    await bob.page.get_by_role("button", name="Jump to the latest", exact=True).click()
    await expect(bob.message("Line 39 of a long story")).to_be_in_viewport()
    # What is read above stays where it is when something comes below.
    await bob.page.goto(f"{bob.page.url}/2")
    await expect(bob.message("Lunch at half past twelve?")).to_be_in_viewport()
    carol = await sign_in(visitors, demo.url, "Carol")
    await carol.open("Lunch")
    await carol.send("A late answer")
    await expect(
        bob.page.get_by_role("button", name="Jump to the latest", exact=True)
    ).to_be_visible()
    await expect(bob.message("A late answer")).not_to_be_in_viewport()
    await expect(bob.message("Lunch at half past twelve?")).to_be_in_viewport()


async def test_a_chat_is_searched_that_is_not_all_in_the_page(
    visitors: Visitors, demo: ServerProcess
) -> None:
    bob = await sign_in(visitors, demo.url, "Bob")
    await make_long_chat(demo, "Library")
    await bob.open("Library")
    await expect(bob.message("Page 109 of a long book")).to_be_in_viewport()
    await bob.box.press("Control+f")
    dialog = bob.page.get_by_role("dialog")
    await dialog.get_by_role("searchbox").fill("page 3 of")
    await dialog.locator("li").get_by_role("button").click()
    await expect(bob.message("Page 3 of a long book")).to_be_in_viewport()


async def test_a_chat_is_muted_and_hidden_and_a_message_is_sent_for_an_hour(
    visitors: Visitors, demo: ServerProcess
) -> None:
    carol = await sign_in(visitors, demo.url, "Carol")
    await carol.open("Lunch")
    # Which messages are loaded depends on how many other tests have sent.
    await expect(carol.page.get_by_role("log", name="Messages", exact=True)).not_to_be_empty()
    await carol.button("Chat options").click()
    await carol.page.get_by_role("menuitem", name="Mute", exact=True).click()
    await expect(carol.chat("Lunch").get_by_role("img", name="muted", exact=True)).to_be_visible()
    await carol.button("Chat options").click()
    await carol.page.get_by_role("menuitem", name="Unmute", exact=True).click()
    await expect(carol.chat("Lunch").get_by_role("img", name="muted", exact=True)).to_have_count(0)
    await carol.button("Chat options").click()
    await carol.page.get_by_role("menuitem", name="Hide", exact=True).click()
    await expect(carol.chat("Lunch")).to_have_count(0)
    await carol.button("Show hidden chats").click()
    await carol.open("Lunch")
    await carol.button("Chat options").click()
    async with carol.page.expect_response("**/hidden"):
        await carol.page.get_by_role("menuitem", name="Show in the list again", exact=True).click()
    await carol.page.reload()
    await expect(carol.chat("Lunch")).to_be_visible()
    await carol.page.get_by_role("combobox", name="Disappears after", exact=True).select_option(
        "1 hour"
    )
    await carol.send("Not for ever")
    await expect(carol.row("Not for ever").get_by_title("Disappears in")).to_be_visible()


async def test_what_is_deleted_is_gone_though_the_page_is_closed_at_once(
    visitors: Visitors, demo: ServerProcess
) -> None:
    bob = await sign_in(visitors, demo.url, "Bob")
    await bob.open("Lunch")
    await bob.send("Not for long")
    await expect(bob.row("Not for long").get_by_role("img", name=TICKS)).to_be_visible()
    alice = await sign_in(visitors, demo.url, "Alice")
    await alice.open("Lunch")
    await expect(alice.message("Not for long")).to_be_visible()
    await bob.gives_time_to_undo()
    await choose(bob, "Not for long", "Delete")
    await expect(bob.button("Undo")).to_be_visible()
    await bob.page.close(run_before_unload=True)
    await expect(alice.message("Not for long")).to_have_count(0)


async def test_a_deletion_is_undone_in_its_own_chat(
    visitors: Visitors, demo: ServerProcess
) -> None:
    bob = await sign_in(visitors, demo.url, "Bob")
    wish = {"user_id": "bob", "expires_in": 3_600}
    token = (await call(demo, "POST", "/v1/tenants/demo/tokens", wish))["token"]
    for name in ("Attic", "Cellar"):
        group = {"type": "group", "name": name, "members": ["carol"]}
        chat = (await call(demo, "POST", "/v1/chats", group, token))["chat_id"]
        message = {"client_message_id": name, "content": f"Said {name}"}
        await call(demo, "POST", f"/v1/chats/{chat}/messages", message, token)

    await bob.gives_time_to_undo()
    await bob.open("Attic")
    await choose(bob, "Said Attic", "Delete")
    await expect(bob.button("Undo")).to_be_visible()
    # The message in the cellar has the same number in its chat.
    await bob.open("Cellar")
    await expect(bob.row("Said Cellar")).to_be_visible()
    await expect(bob.button("Undo")).to_have_count(0)
