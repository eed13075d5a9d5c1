# SPDX-License-Identifier: Apache-2.0
"""A client that knows only the stack API's own words posts, lists, reads, counts and redacts."""

from dataclasses import dataclass
from typing import Any, Final

import pytest

from tests.integration.engines import long_engine as long_engine
from tests.integration.inbox_world import delivering as delivering
from tests.integration.inbox_world import open_newsroom, to_users
from tests.integration.rest_world import Actor, Json, Rest, problem
from tests.support.waiting import until
from tidings.model import limits
from tidings.model.ids import user_key
from tidings.model.notifications import Copy, Notification

pytestmark = pytest.mark.asyncio(loop_scope="module")

INVALID: Final = (400, "request.invalid")
MESSAGE: Final = {
    "title": "New Feature Available",
    "body": "Check out our latest feature...",
    "cta_uri": "myapp://features/new",
}
POST: Final = {
    "host_system_id": "external_id_123",
    "category": "notification",
    "sender": "admin_user",
    "audiences": {"kind": "users", "label": "Premium Users", "uids": ["user456", "user789"]},
    "message": MESSAGE,
}
"""The example of the stack API, without what its server adds."""


@dataclass
class StackClient:
    """The five calls of the stack API, and nothing else."""

    admin: Actor
    user: Actor
    inbox: str

    def path(self, role: str, rest: str) -> str:
        return f"/stack/{role}/v1/acme/{self.inbox}/messages/{rest}"

    async def post(self, body: Json) -> str:
        answer = await self.admin.call("POST", self.path("admin", "post"), body)
        assert answer.status_code == 202, answer.text
        return str(answer.json()["id"])

    async def refused(self, body: Json) -> tuple[int, str]:
        return await self.admin.refused("POST", self.path("admin", "post"), body)

    async def redact(self, message_id: str) -> None:
        path = self.path("admin", "redact")
        assert (await self.admin.call("DELETE", path, {"id": message_id})).status_code == 204

    async def last(self, limit: int = 100) -> list[Json]:
        listed = (await self.user.ok("GET", self.path("users", f"last/{limit}")))["data"]
        assert isinstance(listed, list)
        return listed

    async def until_last(self, *ids: str) -> list[Json]:
        """The list, once it has these messages."""

        async def ids_now() -> list[str]:
            return [one["id"] for one in await self.last()]

        await until(ids_now, equals=list(ids))
        return await self.last()

    async def read(self, **change: Any) -> Json:
        counts: Json = await self.user.ok("PUT", self.path("users", "read/"), change)
        return counts

    async def unread(self) -> Json:
        counts: Json = await self.user.ok("GET", self.path("users", "unread"))
        return counts


async def a_client(rest: Rest, inbox: str) -> StackClient:
    news = await open_newsroom(rest, inbox)
    return StackClient(news.actor, (await news.user("user456")).actor, inbox)


async def test_the_example_is_posted_listed_counted_read_and_redacted(rest: Rest) -> None:
    client = await a_client(rest, "DEFAULT")
    began = rest.clock.time // 1_000
    first = await client.post(POST)
    [listed] = await client.until_last(first)
    times = {name: listed.pop(name) for name in ("received", "delivered", "readat")}
    assert listed == {
        **POST,
        "id": first,
        "audiences": {"kind": "users", "label": "Premium Users", "uids": ["user456"]},
    }
    assert times == {"received": began, "delivered": began, "readat": None}

    rest.clock.time += 2_000
    everyone = await client.post({"audiences": {"kind": "everyone"}, "message": MESSAGE})
    listed, _ = await client.until_last(everyone, first)
    assert (listed["audiences"], listed["category"]) == ({"kind": "everyone"}, None)
    assert (listed["received"], listed["delivered"]) == (began + 2, began + 2)
    assert await client.unread() == {"total": 2, "categories": {"notification": 1}}

    assert await client.read(ids=[first]) == {"total": 1, "categories": {}}
    assert [one["readat"] for one in await client.last()] == [None, began + 2]
    assert [one["id"] for one in await client.last(1)] == [everyone]
    await client.redact(everyone)
    assert [one["id"] for one in await client.last()] == [first]
    assert await client.unread() == {"total": 0, "categories": {}}


async def test_the_time_of_the_post_and_of_the_delivery_are_both_kept(rest: Rest) -> None:
    client = await a_client(rest, "times")
    posted_at = rest.clock.time
    late = await client.post({**POST, "audiences": {"kind": "users", "uids": ["user789"]}})
    copy = (await rest.core.store.notifications.get("acme", "times", [late]))[0]
    rest.clock.time += 5_000
    await rest.core.store.copies.deliver(
        [user_key("acme", "user456")], "times", copy_of(copy, received_at=rest.clock.time)
    )
    [listed] = await client.until_last(late)
    assert listed["received"] == posted_at // 1_000
    assert listed["delivered"] == (posted_at + 5_000) // 1_000

    # What is marked is what the client sees: up to the second that it was received in.
    assert (await client.read(before=listed["received"] - 1))["total"] == 1
    assert (await client.read(before=listed["received"]))["total"] == 0
    read_at = (await client.last())[0]["readat"]
    rest.clock.time += 5_000
    await client.read(before=listed["received"])
    assert (await client.last())[0]["readat"] == read_at, "read once and for all"


def copy_of(notification: Notification, *, received_at: int) -> Copy:
    return Copy(
        notification_id=notification.notification_id,
        category=notification.category,
        received_at=received_at,
        expires_at=notification.expires_at,
    )


async def test_both_ways_of_saying_it_are_understood_but_no_mixture(rest: Rest) -> None:
    client = await a_client(rest, "mixed")
    ours = to_users(["user456"], "ours")
    posted = await client.post(ours)
    await client.until_last(posted)
    assert await client.refused({**POST, "audience": ours["audience"]}) == INVALID
    assert await client.refused({"message": MESSAGE}) == INVALID
    for extra in ({"id": "msg789"}, {"received": 1}, {"readat": None}):
        assert await client.refused({**POST, **extra}) == INVALID
    path = "/v1/tenants/acme/inboxes/mixed/notifications"
    assert await client.admin.refused("POST", path, POST) == INVALID
    for change in ({"ids": [posted], "before": 1}, {}, {"before": -1}, {"before": 2**60}):
        answer = await client.user.refused("PUT", client.path("users", "read/"), change)
        assert answer == INVALID
    assert (await client.read(before="2099-01-01T00:00:00Z"))["total"] == 0


async def test_a_refusal_names_the_field_that_was_sent(rest: Rest) -> None:
    client = await a_client(rest, "pointers")
    long = "x" * (limits.LABEL_CHARS_MAX + 1)
    for name in ("audiences", "audience"):
        for audience, field_ in (
            ({"kind": "users", "uids": []}, "uids"),
            ({"kind": "everyone", "label": long}, "label"),
        ):
            path = client.path("admin", "post")
            answer = await client.admin.call("POST", path, {name: audience, "message": MESSAGE})
            assert problem(answer) == INVALID
            assert answer.json()["errors"][0]["pointer"] == f"/{name}/{field_}"
