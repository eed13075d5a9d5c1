# SPDX-License-Identifier: Apache-2.0
"""Why a message did not arrive: every verdict, reached with real devices on a real server."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import urlencode

import pytest

from tests.integration.engines import engine as engine
from tests.integration.engines import no_limits as no_limits
from tests.integration.raw_socket import RawSocket
from tests.integration.socket_town import friends, people, post, refusal
from tests.support.canary import canary
from tests.support.client_socket import Frame, Socket
from tests.support.explaining import as_tenant, ask, explain, explain_notice, has_left, steps
from tests.support.people import Json, Person, Town
from tests.support.server import ServerProcess
from tests.support.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")


NOWHERE: Final = "01HZZZZZZZZZZZZZZZZZZZZZZZ"
NEVER: Final[tuple[str, str, list[Json]]] = ("never_accepted", "unknown", [])
WINDOW: Final = 1_000
LARGE: Final = canary("x" * 4_000)
FULL: Final = "socket_full"


async def request(person: Person, request_id: str, path: str, body: Json) -> None:
    """Post something under a request id, whatever is answered."""
    headers = {"Authorization": f"Bearer {person.token}", "X-Request-Id": request_id}
    await person.town.http.post(path, json=body, headers=headers)


@asynccontextmanager
async def hello(person: Person, more: Frame) -> AsyncIterator[Socket]:
    """A connection without any logic, which is live."""
    socket = Socket(person.town.url)
    await socket.open()
    socket.tell({"op": "hello", "token": person.token, "device": "phone", **more})
    await socket.frame("live")
    yield socket
    await socket.drop()


def at_of(explained: Json, what: str) -> str:
    """The time of a step."""
    (found,) = (moment["at"] for moment in explained["timeline"] if moment["what"] == what)
    return str(found)


async def test_a_message_is_followed_until_it_is_read(town: Town) -> None:
    chat, (ann, bob) = await friends(town, "ann", "bob")
    first = await ann.send(chat)
    never = await explain(town, bob, first, "never_connected")
    assert (steps(never), never["since"]) == (["accepted", "push_off"], "unknown")
    assert never["timeline"][0]["at"] == first["created_at"]

    phone = bob.device()
    phone.acknowledges = False
    async with phone:
        second = await ann.send(chat)
        written = await explain(town, bob, second, "written")
        assert steps(written) == ["connected", "accepted", "handed_to_gateway", "written_to_socket"]
        assert "device phone" in written["timeline"][-1]["where"]
        assert written["since"] == written["timeline"][-1]["at"]
        assert "sends `received`" in written["next_step"]
        phone.tell({"op": "received", "chat": chat, "sequence": second["sequence"]})
        confirmed = await explain(town, bob, second, "acknowledged")
        assert steps(confirmed)[-1] == "acknowledged"
        phone.tell({"op": "read", "chat": chat, "sequence": second["sequence"]})
        read = await explain(town, bob, second, "read")
        assert steps(read)[-2:] == ["acknowledged", "read"]
        assert read["since"] == read["timeline"][-1]["at"] != "unknown"
        assert read["next_step"] is None, "there is nothing to do"
    third = await ann.send(chat)
    offline = await explain(town, bob, third, "offline")
    assert (await ask(town, ann, message_id=third["message_id"]))["code"] == "own_message"
    assert offline["since"] != "unknown"


async def test_whoever_is_not_in_the_chat_gets_nothing(town: Town) -> None:
    chat, (ann, bob) = await friends(town, "ann", "bob")
    cat, dan = await people(town, "cat", "dan")
    message = await ann.send(chat)
    await ann.add(chat, cat)
    await ann.remove(chat, bob)

    late = await explain(town, cat, message, "not_member")
    assert (steps(late), late["since"]) == (["accepted", "joined"], late["timeline"][1]["at"])
    left = await explain(town, bob, message, "removed")
    assert (steps(left), left["since"]) == (["accepted", "removed"], left["timeline"][1]["at"])
    await ann.add(chat, bob)
    assert steps(await explain(town, bob, message, "removed")) == ["accepted", "removed", "joined"]
    stranger = await explain(town, dan, message, "not_member")
    assert (steps(stranger), stranger["since"]) == (["accepted"], "unknown")
    await ann.call("DELETE", f"/v1/chats/{chat}")
    assert "chat_deleted" in steps(await explain(town, cat, message, "chat_deleted"))


async def test_content_that_is_gone_is_the_reason(town: Town) -> None:
    chat, (ann, bob) = await friends(town, "ann", "bob")
    redacted, short = await ann.send(chat), await ann.send(chat, ttl_seconds=1)
    erased = await ann.send(chat)
    await ann.call("PATCH", f"/v1/chats/{chat}/messages/{redacted['sequence']}", {"content": "x"})
    await ann.call("DELETE", f"/v1/chats/{chat}/messages/{redacted['sequence']}")
    found = await explain(town, bob, redacted, "redacted")
    assert steps(found) == ["accepted", "edited", "redacted"]
    assert found["since"] == found["timeline"][2]["at"]
    found = await explain(town, bob, short, "expired")
    assert found["since"] == found["timeline"][-1]["at"] == short["expires_at"]
    await as_tenant(town, "DELETE", f"users/{ann.user_id}/content")
    found = await explain(town, bob, erased, "erased")
    assert found["timeline"][-1] == {"at": "unknown", "what": "erased", "where": "unknown"}


async def test_a_user_who_cannot_be_reached(town: Town) -> None:
    chat, (ann, bob) = await friends(town, "ann", "bob")
    phone = bob.device()
    phone.acknowledges = False
    async with phone:
        lost = await ann.send(chat)
        await phone.frame("entry", sequence=lost["sequence"])
    await bob.call("PUT", f"/v1/chats/{chat}/mute", {"until": "2099-01-01T00:00:00Z"})
    found = await explain(town, bob, lost, "offline")
    assert "muted" in found["verdict"]
    order = ["accepted", "handed_to_gateway", "written_to_socket", "disconnected"]
    assert steps(found) == [*order, "push_off", "muted"]
    assert found["since"] == found["timeline"][3]["at"]
    assert found["timeline"][2]["at"] == "unknown", "when it was written is no longer known"
    await bob.call("PUT", f"/v1/me/blocks/{ann.user_id}")
    found = await explain(town, bob, lost, "blocked")
    assert found["since"] == at_of(found, "blocked")
    await bob.call("DELETE", f"/v1/me/blocks/{ann.user_id}")
    await as_tenant(town, "PUT", f"users/{bob.user_id}", {"deactivated": True})
    found = await explain(town, bob, lost, "deactivated")
    assert "deactivated" in steps(found)


async def test_what_the_server_never_accepted(town: Town, server: ServerProcess) -> None:
    chat, (ann, bob) = await friends(town, "ann", "bob")
    for missing in (f"{chat}.1", f"{chat}.99", f"{NOWHERE}.1"):
        found = await ask(town, bob, message_id=missing)
        assert (found["code"], found["since"], found["timeline"]) == NEVER
    path = f"/v1/chats/{chat}/messages"
    await request(ann, "r-1", path, {"client_message_id": "c1", "content": ""})
    found = await ask(town, bob, request_id="r-1", message_id=f"{chat}.99")
    assert (found["code"], found["timeline"][0]["what"]) == ("never_accepted", "refused")
    assert found["timeline"][0]["where"] == "content.empty, POST /v1/chats/{chat_id}/messages"
    assert found["since"] == found["timeline"][0]["at"]
    assert (await ask(town, bob, request_id="r-2"))["code"] == "unknown"

    message = await ann.send(chat, client_message_id="c2", content="once")
    await request(ann, "r-3", path, {"client_message_id": "c2", "content": "once"})
    found = await ask(town, bob, request_id="r-3")
    assert (found["code"], steps(found)) == ("repeat", ["accepted", "push_off", "repeated"])
    assert message["message_id"] in found["verdict"]
    async with ann.device() as phone:
        frame = {"op": "send", "chat": chat, "client_message_id": "c2", "content": "once"}
        await phone.ask({**frame, "id": "f-1"})
        assert (await ask(town, bob, request_id="f-1"))["code"] == "repeat"
        await refusal(phone, {**frame, "content": "", "id": "f-2"})
        found = await ask(town, bob, request_id="f-2")
        assert found["timeline"][0]["where"] == "content.empty, socket"
    other = Town(server.url, server.root_key, "elsewhere")
    async with other:
        eve = await other.user("eve")
        assert (await ask(other, eve, request_id="r-1"))["code"] == "unknown"
        found = await ask(other, eve, message_id=message["message_id"])
        assert (found["code"], found["since"], found["timeline"]) == NEVER


async def test_a_device_that_is_not_sent_the_message_by_itself(town: Town) -> None:
    chat, (ann, bob) = await friends(town, "ann", "bob")
    first, second = await ann.send(chat), await ann.send(chat)
    async with hello(bob, {"catch_up": "heads"}):
        found = await explain(town, bob, first, "not_followed")
        assert found["since"] == at_of(found, "connected")
    async with hello(bob, {"have": {chat: second["sequence"]}}):
        found = await explain(town, bob, first, "before_connection")
        assert found["since"] == at_of(found, "connected")
    async with hello(bob, {"have": {chat: 99}}) as device:
        found = await explain(town, bob, second, "resync_not_fetched")
        assert found["since"] == at_of(found, "resync_sent")
        await device.ask({"op": "fetch", "chat": chat, "after": first["sequence"], "limit": 1})
        found = await explain(town, bob, second, "fetched")
        assert found["since"] == at_of(found, "fetched")
        found = await explain(town, bob, first, "unknown")
        assert "loads the chat again" in found["verdict"]


async def test_a_device_that_takes_no_more(town: Town, server: ServerProcess) -> None:
    chat, (ann, bob) = await friends(town, "ann", "bob")
    silent = bob.device()
    silent.acknowledges = False
    async with ann.device() as writer, silent:
        await post(writer, chat, WINDOW)
        held = await ann.send(chat)
        found = await explain(town, bob, held, "window_full")
        assert found["since"] == at_of(found, "window_full") != "unknown"
        silent.tell({"op": "received", "chat": chat, "sequence": 500})
        await silent.frame("entry", sequence=held["sequence"])
        found = await explain(town, bob, held, "written")
        assert found["since"] == at_of(found, "written_to_socket") != "unknown"

    chat, (ann, bob) = await friends(town, "ann", "bob")
    for _ in range(12):
        await ann.send(chat, LARGE)
    async with await RawSocket.greeted(server.port, bob.token, "raw", receive_bytes=4_096) as stuck:
        stuck.stop_reading()
        for number in range(200):
            stuck.tell({"op": "fetch", "id": f"{number}", "chat": chat, "after": 1})

        async def held_back() -> bool:
            message = await ann.send(chat)
            return bool((await ask(town, bob, message_id=message["message_id"]))["code"] == FULL)

        await until(held_back)


async def a_notification(town: Town, inbox: str, audience: Json) -> str:
    body = {"audience": audience, "message": {"title": "Hello", "body": ""}}
    return str((await as_tenant(town, "POST", f"inboxes/{inbox}/notifications", body))["id"])


async def test_a_notification_is_followed_until_it_is_read(town: Town) -> None:
    ann, bob, cat = await people(town, "ann", "bob", "cat")
    await as_tenant(town, "PUT", "inboxes/news", {"title": "News", "late_joiners": False})
    await as_tenant(town, "PUT", "inboxes/other", {"title": "Other"})
    listed = {"kind": "users", "uids": [ann.user_id, bob.user_id]}
    notice = await a_notification(town, "news", listed)

    found = await explain_notice(town, ann, notice, "never_connected")
    assert steps(found) == ["posted", "copied", "push_off"]
    await explain_notice(town, cat, notice, "not_addressed")
    async with ann.device() as phone:
        second = await a_notification(town, "news", listed)
        await phone.frame("notification", id=second)
        found = await explain_notice(town, ann, second, "unread")
        assert "handed_to_gateway" in steps(found)
        assert found["since"] == at_of(found, "copied")
    await has_left(town, ann)  # otherwise she was there when the next one came
    third = await a_notification(town, "news", listed)
    await explain_notice(town, ann, third, "offline")
    await ann.call("PUT", "/v1/inboxes/news/read", {"ids": [third]})
    found = await explain_notice(town, ann, third, "read")
    assert found["since"] == at_of(found, "read")
    await as_tenant(town, "DELETE", f"inboxes/news/notifications/{third}")
    assert "retracted" in steps(await explain_notice(town, ann, third, "retracted"))
    await as_tenant(town, "PUT", f"users/{bob.user_id}", {"deactivated": True})
    await explain_notice(town, bob, second, "deactivated")


async def test_a_broadcast_is_for_those_who_were_there(town: Town) -> None:
    (ann,) = await people(town, "ann")
    await as_tenant(town, "PUT", "inboxes/early", {"title": "Early", "late_joiners": False})
    notice = await a_notification(town, "early", {"kind": "everyone"})
    (bob,) = await people(town, "bob")
    found = await explain_notice(town, ann, notice, "never_connected", inbox="early")
    assert steps(found) == ["posted", "push_off"]
    await explain_notice(town, bob, notice, "not_addressed", inbox="early")
    await ann.call("PUT", "/v1/inboxes/early/read", {"ids": [notice]})
    await explain_notice(town, ann, notice, "read", inbox="early")
    await explain_notice(town, ann, "b99", "never_accepted")
    await as_tenant(town, "PUT", "inboxes/late", {"title": "Late"})
    same = await a_notification(town, "late", {"kind": "everyone"})
    assert same == notice, "each inbox has numbers of its own"
    assert await refused(town, ann, notification_id=notice) == "/inbox"


async def refused(town: Town, user: Person, **about: str) -> str:
    """Ask for what has to be refused as invalid; the field at fault."""
    query = urlencode({"user_id": user.user_id, **about})
    answer = await town.http.get(
        f"/v1/tenants/{town.tenant}/explain?{query}",
        headers={"Authorization": f"Bearer {await town.tenant_key()}"},
    )
    assert answer.status_code == 400
    return str(answer.json()["errors"][0]["pointer"])


async def test_a_question_names_one_thing(town: Town) -> None:
    (ann,) = await people(town, "ann")
    assert await refused(town, ann) == ""
    both = {"message_id": f"{NOWHERE}.1", "notification_id": "b1"}
    assert await refused(town, ann, **both) == ""
    assert await refused(town, ann, message_id="x") == "/message_id"
    assert await refused(town, ann, notification_id="x") == "/notification_id"
