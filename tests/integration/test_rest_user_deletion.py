# SPDX-License-Identifier: Apache-2.0
"""Deleting a user, on every engine: the id is refused at once, and the job ends in a receipt."""

import hashlib

import jwt
import msgspec
import pytest

from tests.contract.identity_builders import a_code, a_session
from tests.integration.engines import engine as engine
from tests.integration.rest_world import NOWHERE, TENANT, Actor, Json, Rest
from tidings.assembly.system import back_off
from tidings.delivery.rounds import TenantJobRunner
from tidings.model import limits
from tidings.model.ids import ChatId, UserKey, rfc3339, user_key
from tidings.model.limits import DAY_MS
from tidings.model.notifications import Copy, ReadState
from tidings.model.roles import Invite

pytestmark = pytest.mark.asyncio(loop_scope="module")

DELETED = (409, "user.deleted")
NO_USER = (404, "user.not_found")
PHONE = "+4915112345678"
ZOE = user_key(TENANT, "zoe2")


def a_runner(rest: Rest) -> TenantJobRunner:
    return TenantJobRunner(
        jobs=rest.core.store.tenant_jobs,
        kinds=rest.core.tenant_work.kinds,
        clock=rest.core.clock,
        holder="test",
        back_off=back_off,
    )


async def finished(rest: Rest, user: str) -> Json:
    """Let the job that deletes a user come to its end."""
    backend, runner = await rest.tenant(), a_runner(rest)
    path = f"/v1/tenants/{TENANT}/jobs/delete-user-{user}"
    job: Json = {}
    for _ in range(200):
        job = await backend.ok("GET", path)
        if job["state"] == "done":
            return dict(job)
        if not await runner.round():
            rest.clock.time += limits.SECOND_MS
    raise AssertionError(f"it does not end: {job}")


async def verified(rest: Rest, job: Json) -> Json:
    """What the receipt says, checked with the published keys."""
    published = await rest.nobody.ok("GET", "/.well-known/receipt-keys.json")
    header = jwt.get_unverified_header(job["receipt"])
    assert header["typ"] == "tidings-erasure+jws" and header["alg"] == "EdDSA"
    (key,) = [key for key in published["keys"] if key["kid"] == header["kid"]]
    payload = jwt.PyJWS().decode(job["receipt"], jwt.PyJWK(key).key, algorithms=["EdDSA"])
    return dict(msgspec.json.decode(payload))


async def a_person(rest: Rest, name: str) -> Actor:
    """A user with a number, who is in chats and inboxes."""
    backend = await rest.tenant()
    await backend.ok(
        "PUT", f"/v1/tenants/{TENANT}/users/{name}", {"display_name": "Zoe", "phone_number": PHONE}
    )
    (actor,) = await rest.users(name)
    return actor


async def uses_of_the_id(rest: Rest, other: Actor, chat: str, name: str) -> set[tuple[int, str]]:
    """What is answered to everyone who wants to do something with this id."""
    backend = await rest.tenant()
    users = f"/v1/tenants/{TENANT}/users/{name}"
    direct = {"type": "direct", "members": [name]}
    group = {"type": "group", "name": "g", "members": [name]}
    return {
        await backend.refused("PUT", users, {"display_name": "Again"}),
        await backend.refused("PUT", users, {"deactivated": False}),
        await backend.refused("POST", f"/v1/tenants/{TENANT}/tokens", {"user_id": name}),
        await backend.refused("DELETE", f"{users}/content"),
        await other.refused("PUT", f"/v1/chats/{chat}/members/{name}"),
        await other.refused("POST", "/v1/chats", direct),
        await other.refused("POST", "/v1/chats", group),
    }


async def test_from_the_answer_on_the_id_is_refused(rest: Rest) -> None:
    backend = await rest.tenant()
    zoe = await a_person(rest, "zoe1")
    anna, bert = await rest.users("anna", "bert")
    chat, other = await anna.group("bert"), await bert.group("anna")

    job = await backend.ok("DELETE", f"/v1/tenants/{TENANT}/users/zoe1")

    assert (job["job"], job["kind"], job["state"]) == ("delete-user-zoe1", "user.delete", "running")
    assert job["user_id"] == "zoe1" and "receipt" not in job
    assert await uses_of_the_id(rest, anna, chat, "zoe1") == {DELETED}
    assert await zoe.refused("GET", "/v1/me") == (401, "auth.required")
    assert await anna.refused("GET", "/v1/users/zoe1") == NO_USER
    assert await anna.refused("PUT", f"/v1/chats/{NOWHERE}/members/zoe1") == (404, "chat.not_found")
    assert await anna.refused("PUT", f"/v1/chats/{other}/members/zoe1") == DELETED
    listed = await backend.ok("GET", f"/v1/tenants/{TENANT}/users?prefix=zoe1")
    assert listed["data"] == []
    for number in (PHONE, None):
        await backend.ok("PUT", f"/v1/tenants/{TENANT}/users/heir", {"phone_number": number})
    await finished(rest, "zoe1")
    assert await uses_of_the_id(rest, anna, chat, "zoe1") == {DELETED}


async def fill(rest: Rest, user: UserKey, inbox: str) -> None:
    """Give a user sessions, notifications, read marks and an invitation."""
    store, now = rest.core.store, rest.clock.now()
    backend = await rest.tenant()
    for number in range(30):
        await store.sessions.open(a_session(user, device=f"d{number}", created_at=now))
    await backend.ok("PUT", f"/v1/tenants/{TENANT}/inboxes/{inbox}", {"title": inbox})
    for number in range(26):
        copy = Copy(
            notification_id=f"n{number:02d}",
            category=None,
            received_at=now,
            expires_at=now + DAY_MS,
        )
        await store.copies.deliver([user], inbox, copy)
    await store.copies.read_before(user, inbox, now, 0)
    await store.copies.read_broadcasts(user, inbox, [7], now)
    await store.invites.put(an_invite(user, now), now)
    await store.login_codes.put(a_code(phone_number=PHONE, expires_at=now + DAY_MS))


def an_invite(user: UserKey, now: int) -> Invite:
    return Invite(
        user_id=user, chat_id=ChatId(NOWHERE), inviter=user_key(TENANT, "anna"), role="member",
        name="g", invited_at=now, expires_at=now + DAY_MS,
    )  # fmt: skip


async def test_the_job_ends_in_a_receipt_with_exact_counts(rest: Rest) -> None:
    backend = await rest.tenant()
    zoe = await a_person(rest, "zoe2")
    anna, bert = await rest.users("anna", "bert")
    owned = await zoe.group("anna", "bert")
    joined = await anna.group("zoe2")
    direct = (await zoe.ok("POST", "/v1/chats", {"type": "direct", "members": ["anna"]}))["chat_id"]
    for chat in (owned, joined, direct):
        await zoe.send(chat, f"m{chat}")
    later = {"client_message_id": "s", "content": "x", "send_at": rfc3339(rest.clock.time + 9_999)}
    await zoe.ok("POST", f"/v1/chats/{owned}/messages", later)
    await fill(rest, ZOE, "news")

    await backend.ok("DELETE", f"/v1/tenants/{TENANT}/users/zoe2")
    job = await finished(rest, "zoe2")

    counts = {
        "sessions": 30, "keys": 1, "groups_left": 2, "direct_chats_left": 1, "invitations": 1,
        "scheduled": 1, "notifications": 26, "inboxes": 1,
    }  # fmt: skip
    assert job["counts"] == counts and job["phase"] == "done"
    receipt = await verified(rest, job)
    assert receipt["counts"] == counts and receipt["tenant"] == TENANT
    assert receipt["subject"] == hashlib.sha256(f"{TENANT}:zoe2".encode()).hexdigest()
    assert receipt["remains"] and "zoe2" not in str(receipt)
    members = await anna.ok("GET", f"/v1/chats/{owned}/members")
    assert {m["user_id"]: m["role"] for m in members["data"]} == {"anna": "owner", "bert": "member"}
    page = await bert.ok("GET", f"/v1/chats/{owned}/entries?after=0")
    assert [entry.get("erased") for entry in page["data"] if entry["kind"] == "message"] == [True]
    await nothing_is_left(rest, ZOE, "news")


async def nothing_is_left(rest: Rest, user: UserKey, inbox: str) -> None:
    """Ask the store for everything that it could still have of the user."""
    store, now = rest.core.store, rest.clock.now()
    assert await store.data_keys.current(user) is None
    assert await store.personal_data.sessions(user, 9) == []
    assert await store.personal_data.invites(user, 9) == []
    assert await store.scheduled.names(user, 9) == []
    assert await store.chats.ids(user) == []
    assert await store.copies.newest(user, inbox, before=None, limit=9) == []
    assert await store.copies.read_state(user, inbox) == ReadState()
    assert await store.login_codes.find(TENANT, PHONE) is None
    mark = await store.users.get(user)
    assert mark is not None and mark.deleted_at is not None and mark.deleted_at <= now
    assert (mark.display_name, mark.phone_number, mark.last_seen_at) == (None, None, None)


async def test_the_other_one_keeps_the_direct_chat_and_can_send_nothing(rest: Rest) -> None:
    backend = await rest.tenant()
    zoe = await a_person(rest, "zoe3")
    (anna,) = await rest.users("anna")
    chat = (await zoe.ok("POST", "/v1/chats", {"type": "direct", "members": ["anna"]}))["chat_id"]
    await zoe.send(chat, "m1")
    await anna.send(chat, "m2")
    assert (await anna.ok("GET", f"/v1/chats/{chat}"))["deleted_user"] is False

    await backend.ok("DELETE", f"/v1/tenants/{TENANT}/users/zoe3")
    await finished(rest, "zoe3")

    record = await anna.ok("GET", f"/v1/chats/{chat}")
    assert record["deleted_user"] is True and record["member_count"] == 1
    message = {"client_message_id": "late", "content": "late"}
    assert await anna.refused("POST", f"/v1/chats/{chat}/messages", message) == DELETED
    page = await anna.ok("GET", f"/v1/chats/{chat}/entries?after=0")
    kinds = [(entry["kind"], entry.get("erased", False)) for entry in page["data"]]
    assert kinds == [
        ("created", False), ("message", True), ("message", False), ("removed", False)
    ]  # fmt: skip


async def test_a_repeat_returns_the_same_job_and_strangers_learn_nothing(rest: Rest) -> None:
    backend = await rest.tenant()
    await a_person(rest, "zoe4")
    path = f"/v1/tenants/{TENANT}/users/zoe4"
    first = await backend.ok("DELETE", path)
    assert (await backend.ok("DELETE", path))["job"] == first["job"]
    done = await finished(rest, "zoe4")
    assert await backend.ok("DELETE", path) == done
    for name in ("nobody-of-this-name", "a%20b"):
        assert await backend.refused("DELETE", f"/v1/tenants/{TENANT}/users/{name}") == NO_USER
    other = await rest.tenant("other")
    assert await other.refused("DELETE", path) == (404, "tenant.not_found")
    assert await other.refused("GET", f"/v1/tenants/other/jobs/{first['job']}") == (
        404, "job.not_found"
    )  # fmt: skip


async def test_receipts_are_verified_after_a_rotation_of_keys(rest: Rest) -> None:
    backend = await rest.tenant()
    await a_person(rest, "zoe5")
    await backend.ok("DELETE", f"/v1/tenants/{TENANT}/users/zoe5")
    old = await finished(rest, "zoe5")
    made = await rest.root.ok("POST", "/v1/receipt-keys")
    await a_person(rest, "zoe6")
    await backend.ok("DELETE", f"/v1/tenants/{TENANT}/users/zoe6")
    new = await finished(rest, "zoe6")
    assert jwt.get_unverified_header(new["receipt"])["kid"] == made["key_id"]
    await rest.core.rotate_keys()
    for job in (old, new):
        assert (await verified(rest, job))["counts"] == job["counts"]
