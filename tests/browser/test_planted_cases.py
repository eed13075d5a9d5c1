# SPDX-License-Identifier: Apache-2.0
"""Ten complaints that something did not arrive, each answered with the console alone.

Whoever answers knows what a complaint says: who sent it, where, and who misses it.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Final, NamedTuple

import httpx
import pytest_asyncio
from playwright.async_api import Page, expect

from tests.browser.test_console import DESKTOP, go, open_console
from tests.browser.visitors import Visitors
from tests.integration.socket_town import people
from tests.integration.test_explain import hello
from tests.support.explaining import as_tenant
from tests.support.people import Json, Person, Town
from tests.support.server import ServerProcess

TENANT: Final = "planted"
MUTED: Final = {"until": "2099-01-01T00:00:00Z"}


class Complaint(NamedTuple):
    """What somebody says did not arrive, and why it did not."""

    missed_by: Person
    reason: str
    """Words of the right answer."""
    chat: str = ""
    """Name of the chat, whose newest message it is."""
    id: str = ""
    """Id of a notification or a request, if it is no message."""
    is_member: bool = True


class Desk:
    """The tenant, its sender, and everything that goes wrong there."""

    def __init__(self, town: Town, sender: Person, stack: AsyncExitStack) -> None:
        self.town = town
        self.sender = sender
        self._stack = stack

    async def _chat(self, name: str, other: Person) -> str:
        return await self.sender.create_group(name, [other])

    async def _tenant(self, method: str, path: str, body: Json | None = None) -> Json:
        answer: Json = await as_tenant(self.town, method, path, body)
        return answer

    async def plant(self) -> list[Complaint]:
        """Make all ten cases."""
        names = ("new", "away", "out", "late", "off", "stuck", "heads", "none")
        new, away, out, late, off, stuck, heads, none = await people(self.town, *names)
        return [
            Complaint(new, "No device of the user has ever connected", await self._sent("A", new)),
            await self._muted(away),
            await self._removed(out),
            await self._joined_late(late),
            await self._redacted(away),
            await self._deactivated(off),
            await self._unconfirmed(stuck),
            await self._unfollowed(heads),
            await self._refused(new),
            await self._notification(none),
        ]

    async def _sent(self, name: str, other: Person) -> str:
        await self.sender.send(await self._chat(name, other))
        return name

    async def _muted(self, user: Person) -> Complaint:
        chat = await self._chat("B", user)
        async with user.device():
            await user.call("PUT", f"/v1/chats/{chat}/mute", MUTED)
        await self.sender.send(chat)
        return Complaint(user, "offline, and has not received it. The user has muted", "B")

    async def _removed(self, user: Person) -> Complaint:
        chat = await self._chat("C", user)
        await self.sender.send(chat)
        await self.sender.remove(chat, user)
        return Complaint(user, "The user left the chat or was removed", "C", is_member=False)

    async def _joined_late(self, user: Person) -> Complaint:
        chat = await self.sender.create_group("D", [])
        await self.sender.send(chat)
        await self.sender.add(chat, user)
        return Complaint(user, "The user joined the chat after this message", "D")

    async def _redacted(self, user: Person) -> Complaint:
        chat = await self._chat("E", user)
        sent = await self.sender.send(chat)
        await self.sender.call("DELETE", f"/v1/chats/{chat}/messages/{sent['sequence']}")
        return Complaint(user, "The message was redacted", "E")

    async def _deactivated(self, user: Person) -> Complaint:
        await self._sent("F", user)
        await self._tenant("PUT", f"users/{user.user_id}", {"deactivated": True})
        return Complaint(user, "The user is deactivated", "F")

    async def _unconfirmed(self, user: Person) -> Complaint:
        chat = await self._chat("G", user)
        phone = user.device()
        phone.acknowledges = False
        await self._stack.enter_async_context(phone)
        sent = await self.sender.send(chat)
        await phone.frame("entry", sequence=sent["sequence"])
        return Complaint(user, "Written to the socket of device phone, which has not conf", "G")

    async def _unfollowed(self, user: Person) -> Complaint:
        await self._sent("H", user)
        await self._stack.enter_async_context(hello(user, {"catch_up": "heads"}))
        return Complaint(user, "Device phone does not follow the chat", "H")

    async def _refused(self, user: Person) -> Complaint:
        chat = await self._chat("I", user)
        body = {"client_message_id": "c1", "content": "x" * 20_000}
        answer = await self.sender.request("POST", f"/v1/chats/{chat}/messages", body)
        asked = _request_id(answer)
        return Complaint(user, "The server refused the request with content.too_large", id=asked)

    async def _notification(self, user: Person) -> Complaint:
        await self._tenant("PUT", "inboxes/news", {"title": "News"})
        post = {
            "audience": {"kind": "users", "uids": [self.sender.user_id]},
            "message": {"title": "Hello", "body": ""},
        }
        posted = await self._tenant("POST", "inboxes/news/notifications", post)
        return Complaint(user, "this user is not one of them", id=posted["id"])


def _request_id(answer: httpx.Response) -> str:
    assert not answer.is_success
    return answer.headers["X-Request-Id"]


@pytest_asyncio.fixture(loop_scope="session")
async def desk(server: ServerProcess) -> AsyncIterator[Desk]:
    async with AsyncExitStack() as stack:
        town = await stack.enter_async_context(Town(server.url, server.root_key, TENANT))
        yield Desk(town, await town.user("sender"), stack)


async def ask_console(page: Page, sender: str, complaint: Complaint) -> None:
    """Open the explanation: through the sender's chats, or with the id in the complaint."""
    main = await go(page, f"tenants/{TENANT}/users/{sender}", "Sessions")
    if complaint.chat:
        await main.get_by_role("link", name=complaint.chat, exact=True).click()
        await main.get_by_role("link", name="Explain message").first.click()
        await expect(main.get_by_text("Who misses it?")).to_be_visible()
    else:
        await go(page, f"tenants/{TENANT}/explain", "Why did it not arrive?")
        await main.get_by_label("Message, notification or request id", exact=True).fill(
            complaint.id
        )
    if complaint.chat and complaint.is_member:
        await main.get_by_role("link", name=complaint.missed_by.user_id, exact=True).click()
    else:
        await main.get_by_label("User", exact=True).fill(complaint.missed_by.user_id)
        await main.get_by_role("button", name="Explain", exact=True).click()


async def test_the_console_answers_every_complaint(
    visitors: Visitors, desk: Desk, server: ServerProcess
) -> None:
    complaints = await desk.plant()
    page = await (await visitors.profile(viewport=DESKTOP)).new_page()
    await open_console(page, server, server.root_key)
    # Whoever has no id of the refused request finds it among the last steps of its sender. They go
    # back one minute, so this comes first.
    await go(page, f"tenants/{TENANT}/trace/{desk.sender.user_id}", "content.too_large")
    assert len({complaint.reason for complaint in complaints}) == 10
    for complaint in complaints:
        await ask_console(page, desk.sender.user_id, complaint)
        await expect(page.locator(".verdict")).to_contain_text(complaint.reason)
