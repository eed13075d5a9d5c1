# SPDX-License-Identifier: Apache-2.0
"""A banned user reads, and does not write; the tenant sets and ends the ban."""

import pytest

from tests.integration.engines import long_engine as long_engine
from tests.integration.rest_world import Actor, Rest
from tidings.model.ids import rfc3339, user_key
from tidings.model.limits import DAY_MS
from tidings.ports.sessions import Revocation

pytestmark = pytest.mark.asyncio(loop_scope="module")

BANNED = (403, "user.banned")


async def ban(rest: Rest, name: str, until: str | None) -> None:
    backend = await rest.tenant()
    shown = await backend.ok("PUT", f"/v1/tenants/acme/users/{name}", {"banned_until": until})
    assert shown["banned_until"] == until


async def test_a_banned_user_reads_and_does_not_write(rest: Rest) -> None:
    ann, ben = await rest.users("bn-ann", "bn-ben")
    chat = await ben.group("bn-ann")
    sent = await ben.send(chat, "m1")
    path = f"/v1/chats/{chat}/messages"
    later = {**send("m0"), "send_at": rfc3339(rest.clock.now() + 2 * DAY_MS)}
    scheduled = await ben.ok("POST", path, later)
    await ban(rest, "bn-ben", rfc3339(rest.clock.now() + DAY_MS))

    new = {"client_message_id": "m2", "content": "again"}
    assert await ben.refused("POST", path, new) == BANNED
    assert await ben.ok("POST", path, {"client_message_id": "m1", "content": sent["content"]})
    assert await ben.refused("POST", path, {**later, "client_message_id": "m3"}) == BANNED
    assert await ben.ok("POST", path, later) == scheduled
    for method, where, body in (
        ("PATCH", f"/v1/scheduled/{scheduled['scheduled_id']}", {"content": "changed"}),
        ("PATCH", f"{path}/{sent['sequence']}", {"content": "changed"}),
        ("DELETE", f"{path}/{sent['sequence']}", None),
        ("PUT", f"{path}/{sent['sequence']}/reactions/x", None),
        ("PUT", f"/v1/chats/{chat}/pins/{sent['sequence']}", None),
        ("PATCH", f"/v1/chats/{chat}", {"name": "Other"}),
        ("PUT", f"/v1/chats/{chat}/members/bn-ann", {"role": "admin"}),
        ("POST", "/v1/chats", {"type": "group", "name": "New", "members": ["bn-ann"]}),
        ("DELETE", f"/v1/chats/{chat}/members/bn-ann", None),
        ("DELETE", f"/v1/chats/{chat}", None),
        ("PATCH", "/v1/me", {"display_name": "Other"}),
        ("POST", "/v1/attachments", {"name": "x", "content_type": "a/b", "size": 1}),
    ):
        assert await ben.refused(method, where, body) == BANNED, where
    await ann.send(chat, "m3")
    assert len((await ben.ok("GET", path))["data"]) == 2
    await ben.ok("PUT", f"/v1/chats/{chat}/receipt", {"read": 3})
    await ben.ok("DELETE", f"/v1/scheduled/{scheduled['scheduled_id']}")
    left = await ann.group("bn-ben")
    await ben.ok("DELETE", f"/v1/chats/{left}/members/bn-ben")
    rest.clock.time += DAY_MS
    await (await rest.user("bn-ben")).send(chat, "m2", "again")


async def test_a_ban_ends_when_the_tenant_says_so(rest: Rest) -> None:
    cat, dan = await rest.users("bn-cat", "bn-dan")
    chat = await cat.direct("bn-dan")
    await ban(rest, "bn-dan", "2999-01-01T00:00:00.000Z")
    assert await dan.refused("POST", f"/v1/chats/{chat}/messages", send("m1")) == BANNED
    await ban(rest, "bn-dan", None)
    await dan.send(chat, "m1")
    backend = await rest.tenant()
    wrong = {"banned_until": "tomorrow"}
    put = "/v1/tenants/acme/users/bn-dan"
    assert await backend.refused("PUT", put, wrong) == (400, "request.invalid")


def send(cmid: str) -> dict[str, str]:
    return {"client_message_id": cmid, "content": "text"}


async def test_a_process_learns_of_a_ban_from_credentials_and_from_the_feed(rest: Rest) -> None:
    eve: Actor = await rest.user("bn-eve")
    key, bans = user_key("acme", "bn-eve"), rest.core.bans
    until = rest.clock.now() + DAY_MS
    await rest.core.store.users.ban(key, until, rest.clock.now())
    assert not bans.is_banned(key), "nobody has told this process yet"
    fresh = await rest.user("bn-eve")
    await fresh.ok("GET", "/v1/me")
    assert bans.is_banned(key)
    bans._reported([Revocation(kind="ban", subject=key, at=0)])
    assert not bans.is_banned(key)
    bans._reported([Revocation(kind="ban", subject=key, at=until)])
    assert await eve.refused("PATCH", "/v1/me", {"display_name": "Eve"}) == BANNED


async def test_a_report_ends_in_a_ban(rest: Rest) -> None:
    fay, gus = await rest.users("bn-fay", "bn-gus")
    made = await fay.ok("POST", "/v1/users/bn-gus/report", {"reason": "abuse"})
    backend = await rest.tenant()
    path = f"/v1/tenants/acme/reports/{made['report_id']}"
    handled = await backend.ok("PATCH", path, {"state": "resolved", "action": "ban"})
    assert (handled["state"], handled["action"]) == ("resolved", "ban")
    assert await gus.refused("PATCH", "/v1/me", {"display_name": "Gus"}) == BANNED
