# SPDX-License-Identifier: Apache-2.0
"""Being removed in the middle of something: the chat's log decides, and nothing comes after it."""

import asyncio
import itertools
from collections.abc import Coroutine
from typing import Any, Final, NamedTuple

import httpx
import pytest

from tests.integration.engines import engine as engine
from tests.integration.engines import no_limits as no_limits
from tests.integration.rest_world import Actor, Rest

pytestmark = pytest.mark.asyncio(loop_scope="module")

ROUNDS: Final = 4
OWN: Final = 3
"""The sequence of the message that whoever is removed has written."""

_numbers = itertools.count(1)


class Act(NamedTuple):
    """One request to a chat, and the kind of entry it leaves; None: it leaves no entry."""

    method: str
    path: str
    body: dict[str, Any] | None = None
    kind: str | None = None


ACTS: Final = {
    "send": Act("POST", "messages", {"client_message_id": "late", "content": "late"}, "message"),
    "edit": Act("PATCH", f"messages/{OWN}", {"content": "changed"}, "edited"),
    "redact": Act("DELETE", f"messages/{OWN}", None, "redacted"),
    "react": Act("PUT", f"messages/{OWN}/reactions/x", None, "reacted"),
    "read": Act("PUT", "receipt", {"read": 1}),
    "look": Act("GET", "entries"),
    "add": Act("PUT", "members/guest", {}, "added"),
    "remove": Act("DELETE", "members/member", None, "removed"),
    "rename": Act("PATCH", "", {"name": "Mine"}, "renamed"),
}


class Group(NamedTuple):
    """A group whose admin is about to be removed."""

    chat: str
    owner: Actor
    admin: Actor

    async def act(self, act: Act) -> httpx.Response:
        """The admin does something."""
        path = f"/v1/chats/{self.chat}/{act.path}".rstrip("/")
        return await self.admin.call(act.method, path, act.body)

    async def kick(self) -> httpx.Response:
        """The owner removes the admin."""
        return await self.owner.call("DELETE", f"/v1/chats/{self.chat}/members/admin")

    async def log(self) -> list[dict[str, Any]]:
        """All entries."""
        page = await self.owner.ok("GET", f"/v1/chats/{self.chat}/entries?limit=100")
        entries: list[dict[str, Any]] = page["data"]
        return entries


async def make_group(rest: Rest) -> Group:
    owner, admin, _, _ = await rest.users("owner", "admin", "member", "guest")
    chat = await owner.group("member", "admin", name=f"Group {next(_numbers)}")
    await owner.ok("PUT", f"/v1/chats/{chat}/members/admin", {"role": "admin"})
    await admin.send(chat, "own")
    return Group(chat, owner, admin)


async def at_once(
    kick: Coroutine[Any, Any, httpx.Response],
    act: Coroutine[Any, Any, httpx.Response],
    *,
    is_first_first: bool,
) -> httpx.Response:
    """The answer to an act that was begun in the same moment as a kick, right after or before."""
    async with asyncio.TaskGroup() as tasks:
        begun = [tasks.create_task(one) for one in ((kick, act) if is_first_first else (act, kick))]
    kicked, tried = begun if is_first_first else reversed(begun)
    assert kicked.result().status_code == 204
    return tried.result()


@pytest.mark.attack("D02", "D03", "D09")
@pytest.mark.parametrize("name", ACTS)
async def test_a_removal_at_the_same_time_is_before_or_after(rest: Rest, name: str) -> None:
    """Whatever was done in time stands in front of the removal; all else was not done at all.

    Who was removed in between is answered 404 even so, where the answer would show the chat.
    """
    act = ACTS[name]
    for number in range(ROUNDS):
        group = await make_group(rest)
        answer = await at_once(group.kick(), group.act(act), is_first_first=bool(number % 2))
        is_late = answer.status_code == 404
        assert is_late or answer.is_success, answer.text

        log = await group.log()
        gone_at = next(
            entry["sequence"]
            for entry in log
            if entry["kind"] == "removed" and entry["users"] == ["admin"]
        )
        later = [entry for entry in log if entry["sequence"] > gone_at]
        assert [entry for entry in later if entry["sender"] == "admin"] == []
        done = [
            entry
            for entry in log
            if entry["sender"] == "admin" and entry["kind"] == act.kind and entry["sequence"] > OWN
        ]
        assert len(done) <= (act.kind is not None)
        assert is_late or len(done) == (act.kind is not None)

        again = await group.act(act)
        if name == "send" and done:
            assert (again.status_code, again.json()["sequence"]) == (200, done[0]["sequence"])
        else:
            assert (again.status_code, again.json()["code"]) == (404, "chat.not_found")
        assert await group.log() == log


@pytest.mark.attack("S28", "D02")
async def test_who_was_removed_learns_nothing_from_an_own_repeat(rest: Rest) -> None:
    group = await make_group(rest)
    sent = await group.act(ACTS["send"])
    place = sent.json()["sequence"]
    await group.owner.ok("PUT", f"/v1/chats/{group.chat}/messages/{place}/reactions/x")
    answer = {"client_message_id": "answer", "content": "answer", "reply_to": place}
    await group.owner.ok("POST", f"/v1/chats/{group.chat}/messages", answer)
    assert (await group.kick()).status_code == 204
    known = {
        name: sent.json()[name]
        for name in (
            "chat_id", "sequence", "message_id", "sender_id", "client_message_id", "content_type",
            "created_at",
        )
    }  # fmt: skip

    for _ in range(2):
        again = await group.act(ACTS["send"])
        assert (again.status_code, again.json()) == (
            200,
            {**known, "reply_count": 0, "status": "sent"},
        )
        assert (
            await group.owner.call("DELETE", f"/v1/chats/{group.chat}/messages/{place}")
        ).is_success


@pytest.mark.attack("D09")
async def test_who_is_added_and_removed_at_once_is_in_or_out(rest: Rest) -> None:
    for _ in range(ROUNDS):
        group = await make_group(rest)
        guest = await rest.user("guest")
        path = f"/v1/chats/{group.chat}/members/guest"
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(group.owner.call("PUT", path, {}))
            tasks.create_task(group.admin.call("DELETE", path))
            sending = tasks.create_task(
                guest.call(
                    "POST",
                    f"/v1/chats/{group.chat}/messages",
                    {"client_message_id": "knock", "content": "knock"},
                )
            )
        changes = [entry["kind"] for entry in await group.log() if entry.get("users") == ["guest"]]
        own = [entry["sequence"] for entry in await group.log() if entry["sender"] == "guest"]
        assert changes in (["added"], ["added", "removed"])
        assert len(own) == sending.result().is_success
        is_in = changes == ["added"]
        assert (await guest.call("GET", f"/v1/chats/{group.chat}")).is_success == is_in
