# SPDX-License-Identifier: Apache-2.0
"""What a tenant's requests look like, and which of them are repeated."""

import json

import httpx
import msgspec
import pytest

from clients.python.tests.test_api import Hurry
from tidings_client import (
    Explanation,
    ListedKey,
    ListPage,
    Moment,
    NewNotification,
    TenantApi,
    TracePage,
    TraceStep,
    Unavailable,
)

POSTED = {"id": "b1", "recipients": 3, "estimated": True, "status": "done"}


def an_api(*statuses: int) -> tuple[TenantApi, list[httpx.Request]]:
    """An API whose server answers like this, and what it was asked."""
    asked: list[httpx.Request] = []
    left = list(statuses)

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(left.pop(0), json=POSTED, headers={"Retry-After": "0"})

    transport = httpx.MockTransport(answer)
    api = TenantApi("http://server/", "acme", "sk_key", world=Hurry(), transport=transport)
    return api, asked


async def test_a_post_is_repeated_under_one_key() -> None:
    for key in ("monday", None):
        api, asked = an_api(503, 429, 202)
        posted = await api.post_to_everyone("news", NewNotification(title="t", body="b"), key=key)
        assert posted.id == "b1"
        (same,) = {request.headers["Idempotency-Key"] for request in asked}
        assert same == key or (key is None and len(same) == 32)
        assert {request.content for request in asked} == {asked[0].content}
        await api.close()


async def test_no_answer_is_no_answer() -> None:
    api, asked = an_api(503, 503, 503)
    with pytest.raises(Unavailable):
        await api.redact("news", "b1")
    assert [request.method for request in asked] == ["DELETE"] * 3
    await api.close()


async def test_only_what_is_said_is_sent() -> None:
    api, asked = an_api(202, 202)
    await api.post_to_users(
        "a b", (user for user in ["alice"]), NewNotification(title="t", body="")
    )
    assert asked[0].url.raw_path == b"/v1/tenants/acme/inboxes/a%20b/notifications"
    assert asked[0].headers["Authorization"] == "Bearer sk_key"
    assert json.loads(asked[0].content) == {
        "audience": {"kind": "users", "uids": ["alice"]},
        "message": {"title": "t", "body": ""},
    }
    full = NewNotification(
        title="t",
        body="b",
        cta_uri="app:x",
        extras={"price": 3, "title": "not this one"},
        category="c",
        sender="s",
        host_system_id="h",
        label="l",
        schema_version="2",
    )
    await api.post_to_everyone("news", full)
    assert json.loads(asked[1].content) == {
        "audience": {"kind": "everyone", "label": "l"},
        "message": {"title": "t", "body": "b", "cta_uri": "app:x", "price": 3},
        "category": "c",
        "sender": "s",
        "host_system_id": "h",
        "schema_version": "2",
    }
    await api.close()


async def test_a_member_is_removed_by_name() -> None:
    api, asked = an_api(204)
    await api.remove_member("01C", "bob@home")
    assert (asked[0].method, asked[0].url.raw_path) == (
        "DELETE",
        b"/v1/tenants/acme/chats/01C/members/bob%40home",
    )
    await api.close()


async def test_a_chat_is_deleted_by_a_job() -> None:
    job = {
        "job": "delete-chat-01C",
        "kind": "chat.delete",
        "chat_id": "01C",
        "state": "running",
        "phase": "members_removed",
        "counts": {"entries_emptied": 1},
        "progress": {"done": 1, "of": 5},
        "created_at": "2030-05-17T12:00:00.000Z",
        "updated_at": "2030-05-17T12:00:01.000Z",
    }
    asked: list[tuple[str, str]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append((request.method, request.url.path))
        return httpx.Response(202 if len(asked) > 1 else 503, json=job)

    transport = httpx.MockTransport(answer)
    api = TenantApi("http://server", "acme", "sk_key", world=Hurry(), transport=transport)
    deleted = await api.delete_chat("01C")
    assert deleted.progress is not None
    assert (deleted.phase, deleted.progress.of) == ("members_removed", 5)
    assert await api.job(deleted.job) == deleted
    assert asked == [
        *[("DELETE", "/v1/tenants/acme/chats/01C")] * 2,
        ("GET", "/v1/tenants/acme/jobs/delete-chat-01C"),
    ]
    await api.close()


async def test_a_chat_is_frozen_and_a_message_redacted() -> None:
    asked: list[tuple[str, str, bytes]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append((request.method, request.url.path, request.content))
        return httpx.Response(200, json={"chat_id": "01C", "frozen": True, "slow_mode_seconds": 0})

    transport = httpx.MockTransport(answer)
    api = TenantApi("http://server", "acme", "sk_key", world=Hurry(), transport=transport)
    settings = await api.change_settings("01C", frozen=True)
    assert (settings.frozen, settings.slow_mode_seconds) == (True, 0)
    await api.redact_message("01C", 7)
    assert asked == [
        ("PATCH", "/v1/tenants/acme/chats/01C", b'{"frozen":true}'),
        ("DELETE", "/v1/tenants/acme/chats/01C/messages/7", b""),
    ]
    await api.close()


async def test_reports_are_listed_and_handled() -> None:
    asked: list[tuple[str, str, bytes]] = []
    case = {
        "report_id": "01R", "state": "open", "reason": "spam", "reporter_id": "ann",
        "user_id": "bob", "created_at": "t", "expires_at": "t",
        "attachments": [
            {"attachment_id": "01F", "name": "cat.png", "content_type": "image/png", "size": 5}
        ],
    }  # fmt: skip

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append((request.method, str(request.url), request.content))
        page = {"data": [case], "next_cursor": None}
        if request.url.path.endswith("/01F"):
            return httpx.Response(200, content=b"bytes")
        return httpx.Response(200, json=page if request.method == "GET" else case)

    transport = httpx.MockTransport(answer)
    api = TenantApi("http://server", "acme", "sk_key", world=Hurry(), transport=transport)
    [found] = (await api.reports("open", limit=5)).data
    assert [file.name for file in found.attachments] == ["cat.png"]
    assert [data async for data in api.reported_file("01R", "01F")] == [b"bytes"]
    await api.reports(sealed=True)
    assert await api.unseal_report(found.report_id, "Ticket 4711") == found
    assert await api.change_report(found.report_id, action="redact") == found
    unseal = "http://server/v1/tenants/acme/reports/01R/unseal"
    assert asked == [
        ("GET", "http://server/v1/tenants/acme/reports?limit=5&state=open", b""),
        ("GET", "http://server/v1/tenants/acme/reports/01R/attachments/01F", b""),
        ("GET", "http://server/v1/tenants/acme/reports?limit=50&sealed=true", b""),
        ("POST", unseal, b'{"reason":"Ticket 4711"}'),
        ("PATCH", "http://server/v1/tenants/acme/reports/01R", b'{"action":"redact"}'),
    ]
    await api.close()


async def test_an_export_is_read_to_its_end() -> None:
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.raw_path.decode())
        if request.url.path.endswith("/export"):
            return httpx.Response(202, json={"job": "export-user-ann"})
        cursor = None if "cursor" in request.url.params else "c1"
        return httpx.Response(200, json={"data": [{"kind": "profile"}], "next_cursor": cursor})

    transport = httpx.MockTransport(answer)
    async with TenantApi("http://server", "acme", "k", world=Hurry(), transport=transport) as api:
        job = await api.export_user("ann")
        assert [one async for one in api.exported(job)] == [{"kind": "profile"}] * 2
    download = "/v1/tenants/acme/jobs/export-user-ann/download"
    users = "/v1/tenants/acme/users/ann/export"
    assert asked == [users, download, f"{download}?cursor=c1"]


async def test_users_and_inboxes_are_deleted_by_jobs() -> None:
    job = {
        "job": "delete-user-ann",
        "kind": "user.delete",
        "state": "done",
        "phase": "done",
        "counts": {"keys": 1},
        "user_id": "ann",
        "receipt": "a.b.c",
        "created_at": "2030-05-17T12:00:00.000Z",
        "updated_at": "2030-05-17T12:00:01.000Z",
    }
    asked: list[tuple[str, str]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append((request.method, request.url.path))
        return httpx.Response(202, json=job)

    transport = httpx.MockTransport(answer)
    api = TenantApi("http://server", "acme", "sk_key", world=Hurry(), transport=transport)
    deleted = await api.delete_user("ann")
    assert (deleted.user_id, deleted.receipt, deleted.counts) == ("ann", "a.b.c", {"keys": 1})
    await api.delete_inbox("news")
    assert asked == [
        ("DELETE", "/v1/tenants/acme/users/ann"),
        ("DELETE", "/v1/tenants/acme/inboxes/news"),
    ]
    await api.close()


async def test_lists_are_asked_for_page_by_page() -> None:
    asked: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        row = {"key_id": "k1", "created_at": "2026-01-01T00:00:00.000Z", "revoked_at": None}
        data = [row] if request.url.path.endswith("/keys") else []
        return httpx.Response(200, json={"data": data, "next_cursor": "c1"})

    transport = httpx.MockTransport(answer)
    async with TenantApi("http://server", "acme", "k", world=Hurry(), transport=transport) as api:
        page = await api.keys()
        assert page == ListPage([ListedKey("k1", "2026-01-01T00:00:00.000Z")], "c1")
        await api.users("bo", limit=2, cursor="c1")
        await api.users()
        await api.chats("ann")
        await api.chats(cursor="c2")
        await api.inboxes(limit=3)
        assert (await api.posted("news")).data == []
    assert [
        request.url.raw_path.decode().removeprefix("/v1/tenants/acme/") for request in asked
    ] == [
        "keys?limit=50",
        "users?limit=2&cursor=c1&prefix=bo",
        "users?limit=50",
        "chats?limit=50&user_id=ann",
        "chats?limit=50&cursor=c2",
        "inboxes?limit=3",
        "inboxes/news/notifications?limit=50",
    ]


async def test_the_server_explains_what_became_of_a_message() -> None:
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.raw_path.decode().removeprefix("/v1/tenants/acme/explain?"))
        moment = {"at": "unknown", "what": "erased", "where": "unknown"}
        said = {"verdict": "It is gone.", "code": "erased", "since": "unknown"}
        return httpx.Response(200, json={**said, "timeline": [moment]})

    transport = httpx.MockTransport(answer)
    async with TenantApi("http://server", "acme", "k", world=Hurry(), transport=transport) as api:
        found = await api.explain_message("bob", "m.1", request_id="r1")
        await api.explain_message("bob", request_id="r1")
        await api.explain_notification("bob", "b1", inbox="news")
    moments = [Moment("unknown", "erased", "unknown")]
    assert found == Explanation("It is gone.", "erased", "unknown", moments)
    assert asked == [
        "user_id=bob&message_id=m.1&request_id=r1",
        "user_id=bob&request_id=r1",
        "user_id=bob&notification_id=b1&inbox=news",
    ]


async def test_deliveries_are_traced() -> None:
    asked: list[str] = []
    step = TraceStep(
        at="T", what="refused", where="content.empty", user_id="bob", chat_id=None, sequence=None
    )

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.raw_path.decode().removeprefix("/v1/tenants/acme/trace?"))
        said = {"data": [msgspec.to_builtins(step)], "next_cursor": "c2", "complete": True}
        return httpx.Response(200, json=said)

    transport = httpx.MockTransport(answer)
    async with TenantApi("http://server", "acme", "k", world=Hurry(), transport=transport) as api:
        assert await api.trace(user="bob") == TracePage([step], "c2", True)
        await api.trace(chat="C", cursor="c2")
    assert asked == ["user_id=bob", "chat_id=C&cursor=c2"]


async def test_content_of_a_chat_is_asked_for_with_a_reason() -> None:
    asked: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(200, json={"data": [{"sequence": 2}], "next_after": None, "head": 2})

    transport = httpx.MockTransport(answer)
    api = TenantApi("http://server/", "acme", "sk_key", world=Hurry(), transport=transport)
    assert await api.log("c1", after=1) == await api.unseal("c1", "Ticket 1") == [{"sequence": 2}]
    assert asked[0].url.raw_path == b"/v1/tenants/acme/chats/c1/entries?after=1&limit=50"
    assert asked[1].url.raw_path == b"/v1/tenants/acme/chats/c1/unseal"
    assert json.loads(asked[1].content) == {"reason": "Ticket 1", "after": 0, "limit": 50}
    await api.close()


async def test_a_tenant_creates_chats_and_posts() -> None:
    asked: list[httpx.Request] = []
    message = {
        "chat_id": "c1", "sequence": 2, "message_id": "c1.2", "sender_id": "~tenant",
        "client_message_id": "m1", "content_type": "text/plain", "posted_by": "tenant",
        "created_at": "2030-01-01T00:00:00Z",
    }  # fmt: skip

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        is_message = request.url.path.endswith("/messages")
        return httpx.Response(201, json=message if is_message else {"chat_id": "c1"})

    transport = httpx.MockTransport(answer)
    api = TenantApi("http://server/", "acme", "sk_key", world=Hurry(), transport=transport)
    assert await api.create_chat(["ann", "bob"]) == "c1"
    assert await api.create_chat(["bob"], "Team", creator="ann", key="k1") == "c1"
    posted = await api.post_message("c1", "hello", client_message_id="m1", more={"silent": True})
    assert (posted.sender_id, posted.posted_by) == ("~tenant", "tenant")
    await api.post_message("c1", "hello", sender="ann")
    bodies = [json.loads(request.content) for request in asked]
    assert bodies[:3] == [
        {"type": "direct", "members": ["ann", "bob"]},
        {"type": "group", "members": ["bob"], "name": "Team", "creator": "ann"},
        {"client_message_id": "m1", "content": "hello", "silent": True},
    ]
    assert bodies[3]["sender"] == "ann" and bodies[3]["client_message_id"]
    assert asked[1].headers["Idempotency-Key"] == "k1"
    assert asked[2].url.path == "/v1/tenants/acme/chats/c1/messages"
    await api.close()
