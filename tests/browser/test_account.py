# SPDX-License-Identifier: Apache-2.0
"""What belongs to a user of the web app: scheduled messages, invitations, blocked people."""

from datetime import UTC, datetime, timedelta

from playwright.async_api import Locator, expect

from tests.browser.test_attachments import attach
from tests.browser.test_conversations import choose
from tests.browser.test_replies import make_group
from tests.browser.test_signing_in import sign_in_with_token
from tests.browser.test_web_app import call
from tests.browser.visitors import Visitors
from tests.browser.web_app import WebApp, sign_in
from tests.support.server import ServerProcess
from tests.support.waiting import until


async def token_of(server: ServerProcess, user: str, tenant: str = "demo") -> str:
    """A token of a user."""
    wish = {"user_id": user, "expires_in": 3_600}
    made = await call(server, "POST", f"/v1/tenants/{tenant}/tokens", wish)
    return str(made["token"])


async def ways_to_send(app: WebApp, item: str) -> Locator:
    """Choose something of the menu beside the send button; the dialog that it opens."""
    await app.button("Other ways to send").click()
    await app.page.get_by_role("menuitem", name=item, exact=True).click()
    return app.page.get_by_role("dialog")


def on_the_clock(hours: int) -> str:
    """A time as a field of a form takes it, in hours from now; the browser is in UTC."""
    return (datetime.now(UTC) + timedelta(hours=hours)).strftime("%Y-%m-%dT%H:%M")


def in_seconds(seconds: int) -> str:
    """A time as the API takes it, in seconds from now."""
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


async def test_a_message_is_scheduled_changed_and_cancelled(
    visitors: Visitors, demo: ServerProcess
) -> None:
    bob = await sign_in(visitors, demo.url, "Bob", timezone_id="UTC")
    token = await token_of(demo, "bob")
    await bob.open("Alice")
    await bob.box.fill("Happy new year")
    dialog = await ways_to_send(bob, "Send later …")
    await expect(dialog.get_by_label("Message", exact=True)).to_have_value("Happy new year")
    first, second = on_the_clock(48), on_the_clock(72)
    await dialog.get_by_label("Send at", exact=True).fill(first)
    await dialog.get_by_role("button", name="Schedule", exact=True).click()
    await expect(bob.page.get_by_text("Scheduled for")).to_be_visible()
    await expect(bob.box).to_have_value("")

    (one,) = (await call(demo, "GET", "/v1/scheduled", key=token))["data"]
    assert one["content"] == "Happy new year"
    assert one["send_at"].startswith(first)
    dialog = await ways_to_send(bob, "Scheduled messages")
    await dialog.get_by_role("button", name="Change", exact=True).click()
    await dialog.get_by_label("Message", exact=True).fill("A happy new year")
    await dialog.get_by_label("Send at", exact=True).fill(second)
    await dialog.get_by_role("button", name="Save", exact=True).click()
    await expect(dialog).to_have_count(0)
    (one,) = (await call(demo, "GET", "/v1/scheduled", key=token))["data"]
    assert one["content"] == "A happy new year"
    assert one["send_at"].startswith(second)
    dialog = await ways_to_send(bob, "Scheduled messages")
    await expect(dialog.get_by_text("A happy new year")).to_be_visible()
    await dialog.get_by_role("button", name="Cancel it", exact=True).click()
    await expect(dialog.get_by_text("Nothing is scheduled")).to_be_visible()
    assert (await call(demo, "GET", "/v1/scheduled", key=token))["data"] == []


async def test_a_scheduled_message_has_a_file(visitors: Visitors, demo: ServerProcess) -> None:
    alice = await sign_in(visitors, demo.url, "Alice", timezone_id="UTC")
    token = await token_of(demo, "alice")
    await alice.open("Bob")
    await attach(alice, {"name": "plan.txt", "mimeType": "text/plain", "buffer": b"1. eat"})
    dialog = await ways_to_send(alice, "Send later …")
    await dialog.get_by_label("Send at", exact=True).fill(on_the_clock(48))
    await dialog.get_by_role("button", name="Schedule", exact=True).click()
    await expect(dialog).to_have_count(0)
    await expect(alice.page.get_by_role("list", name="Files to send", exact=True)).to_have_count(0)

    async def scheduled() -> list[list[str]]:
        found = (await call(demo, "GET", "/v1/scheduled", key=token))["data"]
        return [one["attachments"] for one in found if not one["content"]]

    await until(scheduled)
    ((file,),) = await scheduled()
    assert file
    dialog = await ways_to_send(alice, "Scheduled messages")
    await expect(dialog.get_by_text("Files: 1")).to_be_visible()
    await (
        dialog.get_by_role("listitem")
        .filter(has_text="Files: 1")
        .get_by_role("button", name="Cancel it", exact=True)
        .click()
    )
    await expect(dialog.get_by_text("Files: 1")).to_have_count(0)


async def test_a_scheduled_message_that_fails_is_shown(
    visitors: Visitors, demo: ServerProcess
) -> None:
    await make_group(demo, "Left early")
    carol = await sign_in(visitors, demo.url, "Carol")
    await expect(carol.chat("Left early")).to_be_visible()
    token = await token_of(demo, "carol")
    chats = (await call(demo, "GET", "/v1/chats", key=token))["data"]
    (chat,) = (one["chat_id"] for one in chats if one["name"] == "Left early")
    message = {
        "client_message_id": "s1",
        "content": "Too late for me",
        "send_at": in_seconds(3_600),
    }
    made = await call(demo, "POST", f"/v1/chats/{chat}/messages", message, token)
    await call(demo, "DELETE", f"/v1/chats/{chat}/members/carol", key=token)
    # Only now is it certain that Carol has left before the message is sent.
    due = {"send_at": in_seconds(10)}
    await call(demo, "PATCH", f"/v1/scheduled/{made['scheduled_id']}", due, token)
    await expect(carol.page.get_by_text("A scheduled message could not be sent")).to_be_visible()
    await carol.button("Settings").click()
    dialog = carol.page.get_by_role("dialog", name="Settings", exact=True)
    failed = dialog.get_by_role("listitem").filter(has_text="Too late for me")
    await expect(failed).to_contain_text("Not sent: you are not in this chat")
    await expect(failed.get_by_role("button", name="Try again", exact=True)).to_be_visible()


async def test_an_invitation_is_accepted_and_another_declined(
    visitors: Visitors, server: ServerProcess
) -> None:
    tenant = "/v1/tenants/asking"
    await call(server, "PUT", tenant, {})
    await call(server, "PUT", f"{tenant}/settings", {"invites": "ask"})
    await call(server, "PUT", f"{tenant}/users/zoe", {"display_name": "Zoe"})
    zoe, yann = [await token_of(server, user, "asking") for user in ("zoe", "yann")]
    app = await sign_in_with_token(await visitors.profile(), server.url, yann)
    invited = app.page.get_by_role("navigation").get_by_role("button", name="Invitations")
    await expect(app.page.get_by_text("No chats yet")).to_be_visible()
    await expect(invited).to_have_count(0)
    for name in ("Rowing", "Singing"):
        group = {"type": "group", "name": name, "members": ["yann"]}
        await call(server, "POST", "/v1/chats", group, zoe)
    await expect(invited).to_contain_text("2")

    await invited.click()
    dialog = app.page.get_by_role("dialog", name="Invitations", exact=True)
    rowing, singing = [
        dialog.get_by_role("listitem").filter(has_text=name) for name in ("Rowing", "Singing")
    ]
    await expect(singing).to_contain_text("Zoe invites you")
    await singing.get_by_role("button", name="Decline", exact=True).click()
    await expect(singing).to_have_count(0)
    await rowing.get_by_role("button", name="Accept", exact=True).click()
    await expect(app.chat("Rowing")).to_be_visible()
    await expect(app.box).to_be_visible()
    await expect(invited).to_have_count(0)
    await expect(app.chat("Singing")).to_have_count(0)
    await app.send("Thank you")
    await expect(app.row("Thank you")).to_be_visible()


async def test_blocked_people_are_listed(visitors: Visitors, demo: ServerProcess) -> None:
    await make_group(demo, "Quarrel")
    carol = await sign_in(visitors, demo.url, "Carol")
    await carol.open("Quarrel")
    await choose(carol, "Who brings the cake?", "Block Alice")
    await expect(carol.message("You blocked the author of this message")).to_be_visible()
    await carol.button("Settings").click()
    blocked = carol.page.get_by_role("dialog").get_by_role(
        "list", name="Blocked people", exact=True
    )
    await expect(blocked.get_by_role("listitem")).to_contain_text(["Alice"])
    await blocked.get_by_role("button", name="Unblock", exact=True).click()
    dialog = carol.page.get_by_role("dialog")
    await expect(dialog.get_by_text("You have blocked nobody")).to_be_visible()
    await carol.page.keyboard.press("Escape")
    await expect(carol.button("Settings")).to_be_focused()
    await expect(carol.message("Who brings the cake?")).to_be_visible()
