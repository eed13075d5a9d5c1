# SPDX-License-Identifier: Apache-2.0
"""Messages and edits about which the hook of their tenant is asked first."""

import asyncio
import hmac
import ipaddress
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

from tests.integration.attachments import upload
from tests.integration.rest_world import Actor, Json, Rest, open_rest
from tests.support.engine import Settings
from tests.support.hook_server import HookServer, open_hook
from tests.support.waiting import until
from tidings.actions.chat.before_send import PAUSE_MS
from tidings.model.entries import Entry
from tidings.model.ids import ChatId, user_key
from tidings.model.refusals import Refusal
from tidings.model.retention import RULE_AGE_MS_MAX
from tidings.outgoing import signed_posts

pytestmark = pytest.mark.asyncio(loop_scope="module")

TENANT = "hooked"
SETTINGS = f"/v1/tenants/{TENANT}/settings"
SECRET = f"/v1/tenants/{TENANT}/before-send/secret"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rest(
    tmp_path_factory: pytest.TempPathFactory, core_settings: Settings
) -> AsyncIterator[Rest]:
    allowed = {"outgoing_allow": (ipaddress.ip_network("127.0.0.1"),)}
    folder = tmp_path_factory.mktemp("rest")
    async with open_rest(folder, settings={**core_settings, **allowed}) as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="module")
async def hook(rest: Rest, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[HookServer]:
    """The hook, which a busy machine gives a minute to answer."""
    monkeypatch.setattr(signed_posts, "MS_PER_SECOND", 1_000 / 60)
    async with open_hook() as opened:
        await put(rest, opened, on_failure="refuse", timeout_ms=1_000)
        yield opened
        rest.clock.time += PAUSE_MS


async def put(rest: Rest, hook: HookServer, **more: Any) -> Actor:
    """Set the hook, and wait until every send knows of it."""
    backend = await rest.tenant(TENANT)
    await backend.ok("PUT", SETTINGS, {"before_send": {"url": hook.url, **more}})
    rest.clock.time += RULE_AGE_MS_MAX
    return backend


async def crew(rest: Rest) -> tuple[Actor, Actor, str]:
    ann, bob = [await rest.user(name, TENANT) for name in ("ann", "bob")]
    return ann, bob, await ann.group("bob", name="Crew")


async def test_what_a_hook_is_told(rest: Rest, hook: HookServer) -> None:
    ann, bob, chat = await crew(rest)
    await bob.send(chat, "m0")
    await ann.send(chat, "m1", "hello", reply_to=2, mentions=["bob"])
    assert hook.asked[1] == {
        "action": "send",
        "chat_id": chat,
        "sender_id": "ann",
        "content": "hello",
        "content_type": "text/plain",
        "client_message_id": "m1",
        "reply_to": 2,
        "mentions": ["bob"],
    }
    await ann.ok("PATCH", f"/v1/chats/{chat}/messages/3", {"content": "goodbye"})
    assert hook.asked[2] == {
        "action": "edit",
        "chat_id": chat,
        "sender_id": "ann",
        "content": "goodbye",
        "content_type": "text/plain",
        "sequence": 3,
    }


async def test_a_hook_is_told_the_names_of_files(rest: Rest, hook: HookServer) -> None:
    ann, bob, chat = await crew(rest)
    file, other = await upload(ann, b"hello", name="tax.pdf"), await upload(bob, b"x")
    await ann.send(chat, "m1", "", attachments=[file])
    told = {"attachment_id": file, "name": "tax.pdf", "content_type": "image/png", "size": 5}
    assert hook.asked[-1]["attachments"] == [told]
    hook.answer = {"verdict": "replace", "content": ""}
    bare = await ann.send(chat, "m3", "damn", attachments=[await upload(ann, b"y")])
    assert bare["content"] == "", "the file needs no words"
    path = f"/v1/chats/{chat}/messages/{bare['sequence']}"
    await ann.ok("PATCH", path, {"content": "damn again"})
    assert (await ann.ok("GET", path))["content"] == "", "nor does an edit of it"
    hook.answer = {"verdict": "replace"}
    body = {"client_message_id": "m4", "content": "", "attachments": [await upload(ann, b"z")]}
    refused = await ann.refused("POST", f"/v1/chats/{chat}/messages", body)
    assert refused == (503, "hook.unavailable"), "an answer without content is a failure"
    hook.answer = {"verdict": "allow"}
    body = {"client_message_id": "m2", "content": "", "attachments": [other]}
    refused = await ann.refused("POST", f"/v1/chats/{chat}/messages", body)
    assert refused == (409, "attachment.unknown")
    assert "attachments" not in hook.asked[-1]


async def test_a_request_is_signed(rest: Rest, hook: HookServer) -> None:
    backend = await put(rest, hook, secret_version=3)
    ann, _, chat = await crew(rest)
    await ann.send(chat, "m1")
    headers, body = hook.headers[0], hook.bodies[0]
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    expected = []
    for version in (3, 2):
        made = await backend.ok("GET", f"{SECRET}?version={version}")
        assert made["version"] == version
        key = b64decode(made["secret"].removeprefix("whsec_"))
        assert 24 <= len(key) <= 64
        expected.append(f"v1,{b64encode(hmac.digest(key, signed, 'sha256')).decode()}")
    assert headers["webhook-signature"] == " ".join(expected)
    act = (await backend.ok("GET", f"/v1/tenants/{TENANT}/audit?limit=1"))["data"][0]
    assert (act["action"], act["fields"]) == ("get_hook_secret", ["version=2"])
    assert await backend.refused("GET", f"{SECRET}?version=0") == (400, "request.invalid")


async def test_a_message_is_declined(rest: Rest, hook: HookServer) -> None:
    ann, bob, chat = await crew(rest)
    await ann.send(chat, "m1", "kept")
    hook.answer = {"verdict": "decline", "text": "No addresses, please."}
    path = f"/v1/chats/{chat}/messages"
    body = {"client_message_id": "m2", "content": "my address"}

    answer = await ann.call("POST", path, body)

    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (403, "send.declined")
    assert problem["detail"] == "No addresses, please."
    edit = {"content": "my address"}
    assert await ann.refused("PATCH", f"{path}/2", edit) == (403, "send.declined")
    assert (await bob.ok("GET", f"{path}/2"))["content"] == "kept"
    assert (await bob.ok("GET", f"/v1/chats/{chat}"))["message_count"] == 1
    # What was kept stays kept, whatever the hook says about a repeat; another try is asked anew.
    again = await ann.call("POST", path, {"client_message_id": "m1", "content": "kept"})
    assert (again.status_code, again.headers["Idempotent-Replay"]) == (200, "true")
    hook.answer = None
    assert (await ann.call("POST", path, body)).status_code == 201


async def test_a_stranger_learns_nothing_from_a_hook(rest: Rest, hook: HookServer) -> None:
    _, _, chat = await crew(rest)
    eve = await rest.user("eve", TENANT)
    body = {"client_message_id": "m1", "content": "hello"}
    hook.answer = {"verdict": "decline"}
    answer = await eve.refused("POST", f"/v1/chats/{chat}/messages", body)
    assert answer == (404, "chat.not_found")


async def test_a_message_is_replaced(rest: Rest, hook: HookServer) -> None:
    ann, bob, chat = await crew(rest)
    path = f"/v1/chats/{chat}/messages"
    body = {"client_message_id": "m1", "content": "damn"}
    hook.answer = {"verdict": "replace", "content": "d***"}
    sent = await ann.ok("POST", path, body)
    assert sent["content"] == (await bob.ok("GET", f"{path}/2"))["content"] == "d***"
    hook.answer = {"verdict": "replace", "content": "something else"}
    again = await ann.call("POST", path, body)
    assert (again.status_code, again.json()["content"]) == (200, "d***")
    other = {"client_message_id": "m1", "content": "d***"}
    assert await ann.refused("POST", path, other) == (409, "send.conflict")
    edited = await ann.ok("PATCH", f"{path}/2", {"content": "darn"})
    assert edited["content"] == "something else"


async def test_a_hook_that_fails(rest: Rest, hook: HookServer) -> None:
    ann, _, chat = await crew(rest)
    path = f"/v1/chats/{chat}/messages"
    failures: tuple[web.Response | Json, ...] = (
        web.Response(status=500),
        {"verdict": "?"},
        web.Response(status=302, headers={"Location": hook.url}),
    )
    for number, failure in enumerate(failures):
        hook.answer = failure
        body = {"client_message_id": f"m{number}", "content": "hello"}
        answer = await ann.call("POST", path, body)
        assert (answer.status_code, answer.json()["code"]) == (503, "hook.unavailable")
    assert len(hook.asked) == 3
    edit = {"content": "hello"}
    await put(rest, hook, on_failure="allow")
    await ann.send(chat, "m0", "hello")
    await ann.ok("PATCH", f"{path}/2", edit)
    hook.held["stalled"] = asyncio.Event()
    await put(rest, hook, on_failure="allow", timeout_ms=1)
    await ann.send(chat, "m1", "stalled")
    await put(rest, hook, on_failure="refuse", timeout_ms=1)
    stalled = {"client_message_id": "m2", "content": "stalled"}
    assert await ann.refused("POST", path, stalled) == (503, "hook.unavailable")


async def test_messages_of_a_sender_stay_in_order(rest: Rest, hook: HookServer) -> None:
    ann, _, chat = await crew(rest)
    await ann.send(chat, "m0")  # the hook is known now
    hook.held = {"first": asyncio.Event(), "second": asyncio.Event()}
    answers: list[str | int] = []

    def answer(outcome: Entry | Refusal, _is_replay: bool) -> None:
        answers.append(outcome.code if isinstance(outcome, Refusal) else outcome.sequence)

    def send(name: str, content: str) -> None:
        user = user_key(TENANT, name)
        rest.core.verbs.post(user, ChatId(chat), content, content, None, None, answer)

    for content in ("first", "second", "third"):
        send("ann", content)
    send("bob", "another")
    await until(lambda: answers == [3])
    await until(lambda: len(hook.asked) == 5)  # all are asked about at the same time
    hook.held["second"].set()
    hook.held["first"].set()
    await until(lambda: len(answers) == 4)
    page = (await ann.ok("GET", f"/v1/chats/{chat}/messages?after=2"))["data"]
    assert [one["content"] for one in page] == ["another", "first", "second", "third"]


async def test_the_tenant_is_not_asked_about_its_own(rest: Rest, hook: HookServer) -> None:
    _, _, chat = await crew(rest)
    backend = await rest.tenant(TENANT)
    hook.answer = {"verdict": "decline"}
    body = {"client_message_id": "m1", "content": "hello", "sender": "ann"}
    await backend.ok("POST", f"/v1/tenants/{TENANT}/chats/{chat}/messages", body)
    assert hook.asked == []


async def test_a_tenant_without_a_hook_does_not_wait(
    rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = await rest.user("ann", "plain")
    chat = await ann.group(name="Alone")
    await ann.send(chat, "m1")
    queues = rest.core.verbs.post.queues

    def enter(*_: Any) -> None:
        raise AssertionError("a message without a hook does not wait")

    monkeypatch.setattr(queues, "enter", enter)
    await ann.send(chat, "m2")
    assert not queues.waiting


@pytest.mark.parametrize("wrong", [{"url": "ftp://host/"}, {"url": "https://a/", "timeout_ms": 0}])
async def test_settings_are_checked(rest: Rest, wrong: object) -> None:
    backend = await rest.tenant(TENANT)
    assert await backend.refused("PUT", SETTINGS, {"before_send": wrong}) == (
        400,
        "request.invalid",
    )
