# SPDX-License-Identifier: Apache-2.0
"""The inbox of the web app: put away and brought back on all devices, preferences, sounds."""

import asyncio
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

import pytest
from playwright.async_api import Locator, Route, expect

from tests.browser.test_account import token_of
from tests.browser.test_keyboard import pick, press
from tests.browser.test_looks import COLOURS, DESKTOP, SMALL, axe, examined
from tests.browser.test_web_app import call, tab_to
from tests.browser.visitors import FOR_AXE, Visitors
from tests.browser.web_app import WebApp, sign_in
from tests.support.server import ServerProcess
from tests.support.waiting import until

__all__ = ["axe"]

INBOX: Final = "/v1/inboxes/news"
CONFIG: Final = {
    "title": "News",
    "categories": ["reminders", "security", "updates"],
    "category_rules": {"security": {"required": True}, "updates": {"email": False}},
}
ZONE: Final = "Asia/Tokyo"
COUNT_SOUNDS: Final = """
window.sounds = 0;
const create = AudioContext.prototype.createOscillator;
AudioContext.prototype.createOscillator = function () {
  window.sounds += 0.5; // a sound has two tones
  return create.call(this);
};"""

QUIET_HOURS_ASKED: Final = """performance.getEntriesByType("resource")
  .filter(({ name }) => name.endsWith("/preferences")).length"""
"""How often the page has asked for quiet hours, as it does before each sound."""


class Panel:
    """The open inbox of somebody."""

    def __init__(self, app: WebApp) -> None:
        self.app = app
        self.region = app.page.get_by_role("region", name="Notifications", exact=True)

    def row(self, title: str) -> Locator:
        """A notification, in the inbox or among those that were put away."""
        return self.region.get_by_role("listitem").filter(has_text=title)

    def button(self, name: str) -> Locator:
        """A button of the inbox."""
        return self.region.get_by_role("button", name=name, exact=True)

    async def go(self, page: str) -> None:
        """Open another page of the inbox."""
        await self.button("Notification options").click()
        await self.app.page.get_by_role("menuitem", name=page, exact=True).click()
        await expect(self.region.get_by_role("heading", name=page, exact=True)).to_be_visible()

    async def leave(self) -> None:
        """Go back to the notifications."""
        await self.button("Back to the notifications").click()
        await expect(self.button("Notification options")).to_be_visible()

    async def snooze(self, title: str, choice: str) -> None:
        """Choose until when a notification is snoozed."""
        await self.row(title).get_by_role("button", name="Snooze", exact=True).click()
        await self.app.page.get_by_role("menuitem", name=re.compile(f"^{choice}")).click()
        await expect(self.row(title)).to_have_count(0)

    def box(self, name: str) -> Locator:
        """A box to tick."""
        return self.region.get_by_role("checkbox", name=name, exact=True)

    async def save(self) -> None:
        """Save the preferences."""
        await self.button("Save").click()
        await expect(self.region.get_by_text("Saved", exact=True)).to_be_visible()


async def open_panel(visitors: Visitors, server: ServerProcess, name: str, **options: Any) -> Panel:
    """Somebody of the demo, with the open inbox."""
    app = await sign_in(visitors, server.url, name, **options)
    await app.button("Notifications").click()
    panel = Panel(app)
    await expect(panel.row("Welcome to Tidings")).to_be_visible()
    return panel


async def post(server: ServerProcess, user: str, title: str, **more: object) -> None:
    """Post a notification to a user."""
    wish = {
        "audience": {"kind": "users", "uids": [user]},
        "message": {"title": title, "body": "…"},
        **more,
    }
    await call(server, "POST", "/v1/tenants/demo/inboxes/news/notifications", wish)


async def test_what_is_put_away_is_gone_and_back_on_all_devices(
    visitors: Visitors, demo: ServerProcess
) -> None:
    phone = await open_panel(visitors, demo, "Alice")
    desk = await open_panel(visitors, demo, "Alice")
    await post(demo, "alice", "Parcel sent")
    for panel in (phone, desk):
        await expect(panel.row("Parcel sent").get_by_role("img", name="Unread: 1")).to_be_visible()
    # Selecting it marks it as read, on the other device too.
    await phone.row("Parcel sent").get_by_role("button").first.click()
    await expect(desk.row("Parcel sent").get_by_role("img")).to_have_count(0)
    await desk.row("Parcel sent").get_by_role("button", name="Mark as unread", exact=True).click()
    for panel in (phone, desk):
        await expect(panel.row("Parcel sent").get_by_role("img", name="Unread: 1")).to_be_visible()

    await phone.row("Parcel sent").get_by_role("button", name="Archive", exact=True).click()
    for panel in (phone, desk):
        await expect(panel.row("Parcel sent")).to_have_count(0)
    for panel in (phone, desk):
        await panel.go("Archived")
        await expect(panel.row("Parcel sent")).to_be_visible()
    await (
        desk.row("Parcel sent").get_by_role("button", name="Move to the inbox", exact=True).click()
    )
    for panel in (phone, desk):
        await expect(panel.region.get_by_text("Nothing is archived")).to_be_visible()
        await panel.leave()
        await expect(panel.row("Parcel sent")).to_be_visible()


async def test_changes_that_come_during_a_reload_share_the_next_one(
    visitors: Visitors, demo: ServerProcess
) -> None:
    alice = await open_panel(visitors, demo, "Alice")
    titles = [f"Change {number}" for number in range(4)]
    for title in titles:
        await post(demo, "alice", title)
        await expect(alice.row(title)).to_be_visible()
    asked, may_answer = list[str](), asyncio.Event()

    async def hold(route: Route) -> None:
        asked.append(route.request.url)
        await may_answer.wait()
        await route.continue_()

    page = alice.app.page
    await page.clock.install()
    await page.route("**/notifications?snoozed=true*", hold)
    token = await token_of(demo, "alice")
    found = (await call(demo, "GET", f"{INBOX}/notifications", key=token))["data"]
    ids = {one["message"]["title"]: one["id"] for one in found}
    for title in titles:
        state = {"ids": [ids[title]], "archived": True}
        await call(demo, "PUT", f"{INBOX}/state", state, token)
        await expect(alice.row(title)).to_have_count(0)
        await page.clock.fast_forward(1_000)
        await until(lambda: len(asked))
    assert len(asked) == 1
    may_answer.set()
    await until(lambda: len(asked) > 1)


async def test_a_snooze_lasts_until_a_time_of_the_users_day(
    visitors: Visitors, demo: ServerProcess
) -> None:
    bob = await open_panel(visitors, demo, "Bob", timezone_id=ZONE)
    other = await open_panel(visitors, demo, "Bob")
    await post(demo, "bob", "Water the plants")
    await expect(other.row("Water the plants")).to_be_visible()
    await bob.snooze("Water the plants", "Tomorrow morning")
    await expect(other.row("Water the plants")).to_have_count(0)

    token = await token_of(demo, "bob")
    (one,) = (await call(demo, "GET", f"{INBOX}/notifications?snoozed=true", key=token))["data"]
    end = datetime.fromisoformat(one["snoozed_until"]).astimezone(ZoneInfo(ZONE))
    assert (end.hour, end.minute) == (8, 0)
    await other.go("Snoozed")
    row = other.row("Water the plants")
    await expect(row).to_contain_text("Until")
    await row.get_by_role("button", name="End the snooze", exact=True).click()
    await expect(other.region.get_by_text("Nothing is snoozed")).to_be_visible()
    await expect(bob.row("Water the plants")).to_be_visible()

    # By keys, until a time that the user types.
    snooze = bob.row("Water the plants").get_by_role("button", name="Snooze", exact=True)
    await snooze.focus()
    await press(bob.app, "Enter")
    await pick(bob.app, "Choose a time …")
    field = bob.app.page.get_by_label("Snooze until", exact=True)
    await expect(field).to_be_focused()
    await press(bob.app, "Escape")
    await expect(snooze).to_be_focused()
    await press(bob.app, "Enter")
    await pick(bob.app, "Choose a time …")
    wanted = (datetime.now(ZoneInfo(ZONE)) + timedelta(days=40)).replace(second=0, microsecond=0)
    await field.fill("2020-01-01T10:00")
    await press(bob.app, "Enter")
    await expect(field).to_be_visible()  # a time in the past is not taken
    await field.fill(wanted.strftime("%Y-%m-%dT%H:%M"))
    await press(bob.app, "Enter")
    await expect(bob.row("Water the plants")).to_have_count(0)
    (one,) = (await call(demo, "GET", f"{INBOX}/notifications?snoozed=true", key=token))["data"]
    assert datetime.fromisoformat(one["snoozed_until"]) == wanted


async def test_preferences_are_chosen_and_required_ones_are_fixed(
    visitors: Visitors, demo: ServerProcess
) -> None:
    await call(demo, "PUT", "/v1/tenants/demo/inboxes/news", CONFIG)
    carol = await open_panel(visitors, demo, "Carol", timezone_id=ZONE)
    await carol.go("Preferences")
    await expect(carol.box("security: Push")).to_be_disabled()
    await expect(carol.box("security: Push")).to_be_checked()
    await expect(carol.box("updates: E-mail")).not_to_be_checked()
    await carol.box("reminders: Push").uncheck()
    quiet = carol.box("Quiet hours, without push and e-mail")
    await expect(quiet).not_to_be_checked()
    await quiet.check()
    zone = carol.region.get_by_role("combobox", name="Time zone", exact=True)
    await expect(zone).to_have_value(ZONE)
    await zone.select_option("Europe/Berlin")
    await carol.region.get_by_label("From", exact=True).fill("21:30")
    await carol.region.get_by_label("To", exact=True).fill("06:15")
    await carol.save()

    token = await token_of(demo, "carol")
    found = await call(demo, "GET", f"{INBOX}/preferences", key=token)
    assert found["quiet_hours"] == {"from": "21:30", "to": "06:15", "timezone": "Europe/Berlin"}
    assert found["categories"]["reminders"]["push"] is False
    assert found["categories"]["updates"] == {
        "required": False, "in_app": True, "push": True, "email": False,
    }  # fmt: skip
    assert found["chosen"] == {"reminders": {"push": False}}
    other = await open_panel(visitors, demo, "Carol")
    await other.go("Preferences")
    await expect(other.box("reminders: Push")).not_to_be_checked()
    await expect(other.region.get_by_label("From", exact=True)).to_have_value("21:30")
    await other.box("Quiet hours, without push and e-mail").uncheck()
    await other.box("updates: E-mail").check()
    await other.save()
    found = await call(demo, "GET", f"{INBOX}/preferences", key=token)
    assert found["quiet_hours"] is None
    assert found["chosen"] == {"reminders": {"push": False}, "updates": {"email": True}}


async def sounds(panel: Panel) -> float:
    """How many sounds the page has played since it was loaded."""
    return float(await panel.app.page.evaluate("window.sounds"))


async def test_a_sound_is_played_if_the_user_wants_it(
    visitors: Visitors, demo: ServerProcess
) -> None:
    bob = await open_panel(visitors, demo, "Bob", timezone_id="UTC")
    page = bob.app.page
    await page.context.add_init_script(COUNT_SOUNDS)
    await page.evaluate(f"() => {{ {COUNT_SOUNDS} }}")
    await post(demo, "bob", "Without a sound")
    await expect(bob.row("Without a sound")).to_be_visible()
    assert await sounds(bob) == 0
    await bob.go("Preferences")
    await bob.box("Play a sound on this device, except in quiet hours").check()
    await bob.save()
    await page.evaluate("document.hasFocus = () => false")
    await write_to_bob(demo)
    await until(lambda: sounds(bob), equals=1)

    # The browser remembers it, and quiet hours hold at once if another device begins them.
    await page.reload()
    await bob.app.button("Notifications").click()
    await expect(bob.row("Without a sound")).to_be_visible()
    await bob.go("Preferences")
    await expect(bob.box("Play a sound on this device, except in quiet hours")).to_be_checked()
    await bob.leave()
    await until(lambda: is_heard(bob, demo))
    now = datetime.now(UTC)
    clock = {name: f"{now + timedelta(hours=h):%H:%M}" for name, h in (("from", -1), ("to", 2))}
    wish = {"quiet_hours": {**clock, "timezone": "UTC"}}
    await call(demo, "PUT", f"{INBOX}/preferences", wish, await token_of(demo, "bob"))
    heard = await sounds(bob)
    # A page that has just played is silent for a moment anyway, so it hears of several.
    asked = await page.evaluate(QUIET_HOURS_ASKED)
    await until(lambda: is_asked(bob, demo, more_than=asked))
    assert await sounds(bob) == heard
    await page.keyboard.press("Escape")
    await bob.app.button("Sign out").click()
    await expect(bob.app.button("Carol")).to_be_visible()
    await until(lambda: page.evaluate("Object.keys(localStorage)"), equals=[])


async def is_heard(bob: Panel, server: ServerProcess) -> bool:
    """Post a notification. A page is silent about what came before its socket."""
    await post(server, "bob", "Remembered")
    return await sounds(bob) > 0


async def is_asked(bob: Panel, server: ServerProcess, more_than: int) -> bool:
    """Post a notification, and return whether the page has asked if it may play a sound."""
    await post(server, "bob", "In quiet hours")
    return bool(await bob.app.page.evaluate(QUIET_HOURS_ASKED) > more_than)


async def write_to_bob(server: ServerProcess) -> None:
    """Write a message as Alice."""
    token = await token_of(server, "alice")
    chats = (await call(server, "GET", "/v1/chats", key=token))["data"]
    (chat,) = (one["chat_id"] for one in chats if one["type"] == "direct")
    message = {"client_message_id": "heard", "content": "Do you hear me?"}
    await call(server, "POST", f"/v1/chats/{chat}/messages", message, token)


async def test_the_keyboard_is_enough_and_the_focus_stays(
    visitors: Visitors, demo: ServerProcess
) -> None:
    alice = await open_panel(visitors, demo, "Alice")
    await post(demo, "alice", "By keys")
    await expect(alice.row("By keys")).to_be_visible()
    snooze = alice.row("By keys").get_by_role("button", name="Snooze", exact=True)
    await tab_to(alice.app, snooze)
    await press(alice.app, "Enter")
    await expect(alice.app.page.get_by_role("menuitem").first).to_be_focused()
    await press(alice.app, "Escape")
    await expect(snooze).to_be_focused()
    await press(alice.app, "Tab", "Enter")
    await expect(alice.row("By keys")).to_have_count(0)
    await expect(alice.region.locator(":focus")).to_have_count(1)
    await tab_to(alice.app, alice.button("Notification options"), back=True)
    await press(alice.app, "Enter")
    await pick(alice.app, "Archived")
    back = alice.button("Back to the notifications")
    await expect(back).to_be_focused()
    undo = alice.row("By keys").get_by_role("button", name="Move to the inbox", exact=True)
    await tab_to(alice.app, undo)
    await press(alice.app, "Enter")
    await expect(alice.row("By keys")).to_have_count(0)
    await expect(back).to_be_focused()
    await press(alice.app, "Enter")
    await expect(alice.row("By keys")).to_be_visible()


async def pages(panel: Panel, away: str, later: str, here: str) -> AsyncIterator[str]:
    """Walk through what the inbox loads later; the name of each view while it is shown."""
    await panel.row(here).get_by_role("button", name="Snooze", exact=True).click()
    await expect(panel.app.page.get_by_role("menu")).to_be_visible()
    yield "snooze"
    await panel.app.page.get_by_role("menuitem", name="Choose a time …", exact=True).click()
    await expect(panel.app.page.get_by_label("Snooze until", exact=True)).to_be_visible()
    yield "snooze until"
    await panel.app.page.keyboard.press("Escape")
    await expect(panel.app.page.get_by_label("Snooze until", exact=True)).to_have_count(0)
    await expect(panel.app.page.get_by_role("menu")).to_have_count(0)
    for name, title in (("Archived", away), ("Snoozed", later)):
        await panel.go(name)
        await expect(panel.row(title)).to_be_visible()
        yield name
        await panel.leave()
    await panel.go("Preferences")
    await panel.box("Quiet hours, without push and e-mail").check()
    await expect(panel.region.get_by_label("From", exact=True)).to_be_visible()
    yield "Preferences"


@pytest.mark.parametrize("size", [DESKTOP, SMALL], ids=["desktop", "small"])
async def test_nothing_keeps_anybody_out(
    visitors: Visitors, demo: ServerProcess, request: pytest.FixtureRequest, size: Any
) -> None:
    await call(demo, "PUT", "/v1/tenants/demo/inboxes/news", CONFIG)
    panel = await open_panel(visitors, demo, "Carol", viewport=size, **FOR_AXE)
    titles = [f"{title} at {size['width']}" for title in ("Away", "Later", "Here")]
    for title in titles:
        await post(demo, "carol", title)
        await expect(panel.row(title)).to_be_visible()
    away, later, _ = titles
    await panel.row(away).get_by_role("button", name="Archive", exact=True).click()
    await expect(panel.row(away)).to_have_count(0)
    await panel.snooze(later, "Next week")
    page = panel.app.page
    found: list[str] = []
    async for view in pages(panel, *titles):
        # Colours do not depend on the size.
        colours = COLOURS if size == DESKTOP else ()
        found += await examined(page, request.getfixturevalue("axe"), view, *colours)
        is_wide = await page.evaluate("document.documentElement.scrollWidth > innerWidth")
        found += [f"{view} is wider than the window"] if is_wide else []
    assert "\n".join(found) == ""
