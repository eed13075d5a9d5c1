# SPDX-License-Identifier: Apache-2.0
"""Deleting inboxes and tenants, on every engine: refused at once, and then nothing is left."""

import pytest

from tests.integration.engines import engine as engine
from tests.integration.rest_world import Actor, Json, Rest
from tests.integration.test_rest_deleting import finish
from tests.integration.test_rest_user_deletion import a_runner
from tidings.actions.inbox.showing import author_of
from tidings.model import limits
from tidings.model.ids import user_key
from tidings.model.limits import DAY_MS
from tidings.model.notifications import Copy, ReadState

pytestmark = pytest.mark.asyncio(loop_scope="module")

NO_INBOX = (404, "inbox.not_found")
GONE = (409, "tenant.deleted")


async def finished(rest: Rest, tenant: str, job: str) -> Json:
    """Let a job come to its end."""
    runner = a_runner(rest)
    path = f"/v1/tenants/{tenant}/jobs/{job}"
    record: Json = {}
    for _ in range(400):
        record = await rest.root.ok("GET", path)
        if record["state"] == "done":
            return dict(record)
        if not await runner.round():
            rest.clock.time += limits.SECOND_MS
    raise AssertionError(f"it does not end: {record}")


async def an_inbox(rest: Rest, backend: Actor, tenant: str, inbox: str) -> None:
    """An inbox with two notifications for ann and one for everyone, which she has read."""
    path = f"/v1/tenants/{tenant}/inboxes/{inbox}"
    await backend.ok("PUT", path, {"title": "News"})
    message = {"title": "t", "body": "b"}
    for kind in ({"kind": "users", "uids": ["ann"]},) * 2 + ({"kind": "everyone"},):
        posted = {"audience": kind, "message": message}
        await backend.ok("POST", f"{path}/notifications", posted)
    ann, now = user_key(tenant, "ann"), rest.clock.now()
    copy = Copy(notification_id="n1", category=None, received_at=now, expires_at=now + DAY_MS)
    await rest.core.store.copies.deliver([ann], inbox, copy)
    await rest.core.store.copies.read_before(ann, inbox, now, 1)


async def test_an_inbox_is_gone_with_everything_in_it(rest: Rest) -> None:
    backend = await rest.tenant("hall")
    await backend.ok("PUT", "/v1/tenants/hall/users/ann")
    await an_inbox(rest, backend, "hall", "news")
    path = "/v1/tenants/hall/inboxes/news"

    job = await backend.ok("DELETE", path)

    assert (job["job"], job["kind"], job["inbox"]) == ("delete-inbox-news", "inbox.delete", "news")
    assert await backend.refused("GET", path) == NO_INBOX
    assert await backend.refused("PUT", path, {"title": "x"}) == (409, "inbox.deleting")
    assert (await backend.ok("DELETE", path))["job"] == job["job"]
    done = await finished(rest, "hall", job["job"])
    assert done["counts"] == {"notifications": 2, "broadcasts": 1}
    store, ann = rest.core.store, user_key("hall", "ann")
    posted = await store.notifications.newest("hall", "news", before=None, limit=9)
    assert {each.box for each in posted} == {None}
    (broadcast,) = await store.notifications.last_broadcasts("hall", "news", before=None, limit=9)
    assert broadcast.box is None
    assert await store.copies.newest(ann, "news", before=None, limit=9) == []
    assert await store.copies.read_state(ann, "news") == ReadState()

    await backend.ok("PUT", path, {"title": "Anew"})
    again = await backend.ok("DELETE", path)
    assert again["state"] == "running" and again["counts"] == {}
    assert await backend.refused("DELETE", "/v1/tenants/hall/inboxes/nothing") == NO_INBOX
    await finished(rest, "hall", again["job"])


async def test_a_tenant_is_gone_with_everything_that_belongs_to_it(rest: Rest) -> None:
    backend = await rest.tenant("gone")
    await rest.tenant("stays")
    ann, _ = [await rest.user(name, "gone") for name in ("ann", "bob")]
    chat = await ann.group("bob")
    await ann.send(chat, "m1")
    await an_inbox(rest, backend, "gone", "news")

    job = await rest.root.ok("DELETE", "/v1/tenants/gone")

    assert (job["job"], job["kind"]) == ("delete-tenant-gone", "tenant.delete")
    assert await backend.refused("GET", "/v1/tenants/gone") == (401, "auth.required")
    assert await ann.refused("GET", "/v1/me") == (401, "auth.required")
    assert await rest.root.refused("PUT", "/v1/tenants/gone", {"suspended": False}) == GONE
    assert await rest.root.refused("POST", "/v1/tenants/gone/keys") == (404, "tenant.not_found")
    done = await finished(rest, "gone", job["job"])
    assert done["counts"] == {"keys": 1, "chats": 1, "users": 2, "inboxes": 1}
    await finish(rest)

    assert await rest.root.ok("DELETE", "/v1/tenants/gone") == done
    store = rest.core.store
    assert await store.data_keys.current(author_of("gone")) is None
    assert await store.tenant_events.after("gone", 0) is None
    for name in ("ann", "bob"):
        assert await store.data_keys.current(user_key("gone", name)) is None
        user = await rest.root.ok("GET", f"/v1/tenants/gone/jobs/delete-user-{name}")
        assert user["receipt"]
    assert await store.tenants.signing_keys("gone") == []
    assert (await store.tenants.newest_keys("gone", below=None, limit=9)).rows == []
    mark = await store.tenants.get("gone")
    assert mark is not None and (mark.name, mark.deleted_at is None) == (None, False)
    listed = await rest.root.ok("GET", "/v1/tenants?limit=100")
    names = {row["tenant"] for row in listed["data"]}
    assert "gone" not in names and "stays" in names
    assert await rest.root.refused("DELETE", "/v1/tenants/never") == (404, "tenant.not_found")
    assert await rest.root.refused("PUT", "/v1/tenants/gone", {"name": "x"}) == GONE
