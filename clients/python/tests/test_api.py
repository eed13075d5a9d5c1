# SPDX-License-Identifier: Apache-2.0
"""The REST side of the client, and the events that come of it."""

from datetime import UTC, datetime, timedelta

import httpx
import pytest

from clients.python.tests.test_client import a_client, shown
from tests.support.people import Town
from tests.support.waiting import retried
from tidings_client import (
    ChatCreated,
    ChatDeleted,
    Edited,
    MemberAdded,
    MemberRemoved,
    Message,
    Pinned,
    ProfileChange,
    Reacted,
    Redacted,
    Refused,
    Renamed,
    RoleChanged,
    Unavailable,
    Unpinned,
    Unreacted,
)
from tidings_client.api import Api
from tidings_client.tokens import Tokens
from tidings_client.world import SystemWorld


async def test_everything_that_happens_in_a_chat_has_an_event(town: Town) -> None:
    for user in ("alice", "bob", "carol"):
        await town.token(user)
    async with shown(client := a_client(town)) as screen:
        api = client.api
        chat = (await api.create_group("first name", ["bob"])).chat_id
        sent = await client.send(chat, "hello")
        await api.edit(chat, sent.sequence, "hello!")
        await api.react(chat, sent.sequence, "👍")
        await api.unreact(chat, sent.sequence, "👍")
        await api.redact(chat, sent.sequence)
        await api.rename(chat, "second name")
        await api.put_member(chat, "carol")
        await api.put_member(chat, "carol", "admin")
        await api.remove_member(chat, "carol")
        job = await api.delete_chat(chat)
        assert job.progress is not None and (job.chat_id, job.progress.of) == (chat, 11)
        await screen.until(lambda: screen.last(chat) == 11)
        kinds = [type(event) for event in screen.shown[chat]]
        assert kinds == [
            ChatCreated,
            Message,
            Edited,
            Reacted,
            Unreacted,
            Redacted,
            Renamed,
            MemberAdded,
            RoleChanged,
            MemberRemoved,
            ChatDeleted,
        ]
        edited = screen.shown[chat][2]
        assert isinstance(edited, Edited)
        assert (edited.target, edited.content) == (sent.sequence, "hello!")


async def test_a_group_is_created_once_with_the_key_of_the_application(town: Town) -> None:
    await town.token("bob")
    async with a_client(town) as client:
        made = await client.api.create_group("club", ["bob"], key="club-1")
        assert (
            await client.api.create_group("club", ["bob"], key="club-1")
        ).chat_id == made.chat_id
        assert len((await client.api.chats()).data) == 1


async def test_asking(town: Town) -> None:
    await town.token("bob")
    async with a_client(town) as client:
        api = client.api
        chat = await api.create_direct("bob")
        assert (await api.create_direct("bob")).chat_id == chat.chat_id
        assert (chat.type, chat.members, chat.last_message) == ("direct", ["bob"], None)
        sent = await client.send(chat.chat_id, "hello")
        await api.react(chat.chat_id, sent.sequence, "👍")
        page = await api.chats(limit=1)
        assert page.next_cursor is None
        receipts = await api.message_receipts(chat.chat_id, sent.sequence, limit=1)
        assert (receipts.delivered, receipts.read, receipts.next_cursor) == (0, 0, None)
        assert [(one.user_id, one.read_at) for one in receipts.data] == [("bob", None)]
        marked = await api.mark_unread(chat.chat_id, sent.sequence)
        assert (marked.marked_unread, marked.unread) == (True, 0), "it is an own message"
        await api.hide(chat.chat_id)
        record = await api.chat(chat.chat_id)
        assert (record.marked_unread, record.hidden) == (True, True)
        assert (await api.unread()).total == 0
        assert page.data[0].last_message is not None
        assert page.data[0].last_message.preview == "hello"
        assert [member.user_id for member in await api.members(chat.chat_id)] == ["alice", "bob"]
        assert {one.user_id for one in await api.receipts(chat.chat_id)} == {"alice", "bob"}
        message = await api.message(chat.chat_id, sent.sequence)
        assert (message.content, message.status, message.gone) == ("hello", "sent", None)
        assert [one.emoji for one in await api.reactions(chat.chat_id, sent.sequence)] == ["👍"]
        await api.mute(chat.chat_id, datetime(2040, 1, 1, tzinfo=UTC))
        assert (await api.chat(chat.chat_id)).muted_until == datetime(2040, 1, 1, tzinfo=UTC)
        await api.mute(chat.chat_id, None)
        await api.redact(chat.chat_id, sent.sequence)
        assert (await api.message(chat.chat_id, sent.sequence)).gone == "redacted"


async def test_replies_mentions_and_pins(town: Town) -> None:
    await town.token("bob")
    async with shown(client := a_client(town)) as screen:
        api = client.api
        chat = (await api.create_direct("bob")).chat_id
        first = await client.send(chat, "lunch?")
        answer = client.send(chat, "one?", reply_to=first.sequence, mentions=["alice"], silent=True)
        assert (await answer).sequence == 3
        await api.pin(chat, first.sequence)
        await api.unpin(chat, first.sequence)
        await api.pin(chat, first.sequence)
        await screen.until(lambda: screen.last(chat) == 6)
        reply = screen.shown[chat][2]
        assert isinstance(reply, Message)
        assert (reply.reply_to, reply.mentions, reply.silent) == (2, ("alice",), True)
        assert [type(event) for event in screen.shown[chat][3:]] == [Pinned, Unpinned, Pinned]

        replies = await api.replies(chat, first.sequence, limit=1)
        assert [(one.sequence, one.reply_to) for one in replies.data] == [(3, 2)]
        assert (await api.message(chat, first.sequence)).reply_count == 1
        [pin] = await api.pins(chat)
        assert (pin.sequence, pin.pinned_by) == (first.sequence, "alice")
    async with a_client(town, "bob") as client:
        await client.send(chat, "yes", mentions=["alice"])
    async with a_client(town) as client:
        assert [one.content for one in (await client.api.mentions()).data] == ["yes"]
        assert (await client.api.chat(chat)).unread_mentions == 1


async def test_scheduled_messages(town: Town) -> None:
    await town.token("bob")
    async with shown(client := a_client(town)) as screen:
        api = client.api
        chat = (await api.create_direct("bob")).chat_id
        first = await client.send(chat, "hello")
        later = datetime.now(UTC) + timedelta(hours=1)
        name = await api.schedule(
            chat, "later", later, client_message_id="s1", reply_to=first.sequence
        )
        again = api.schedule(chat, "later", later, client_message_id="s1", reply_to=first.sequence)
        assert await again == name
        changed = await api.change_scheduled(name, content="soon", mentions=["bob"], silent=True)
        [listed] = (await api.scheduled()).data
        assert listed == changed
        assert (listed.content, listed.reply_to, listed.mentions) == ("soon", 2, ["bob"])

        async def have_it_sent_soon() -> None:
            """Choose a time that a busy server may find too late."""
            await api.change_scheduled(name, send_at=datetime.now(UTC) + timedelta(seconds=0.2))

        await retried(have_it_sent_soon, Refused)
        await screen.until(lambda: screen.last(chat) == 3)
        sent = screen.shown[chat][-1]
        assert isinstance(sent, Message)
        assert (sent.content, sent.client_message_id) == ("soon", f"sch:{name}")
        with pytest.raises(Refused, match=r"scheduled\.too_late"):
            await api.cancel_scheduled(name)
        other = await api.schedule(chat, "never", later)
        await api.cancel_scheduled(other)
        assert (await api.scheduled()).data == []


async def test_search(town: Town) -> None:
    await town.token("bob")
    async with a_client(town) as client:
        chat = (await client.api.create_direct("bob")).chat_id
        for text in ("lunch at noon", "Lunch at one", "dinner"):
            await client.send(chat, text)
        first = await client.api.search("lunch", chat=chat, sender="alice", limit=1)
        assert (first.complete, first.searched_until is None) == (False, False)
        rest = await client.api.search(
            "lunch", chat=chat, sender="alice", limit=1, cursor=first.next_cursor
        )
        assert [(hit.message.content, hit.highlights) for hit in first.data + rest.data] == [
            ("Lunch at one", [(0, 5)]),
            ("lunch at noon", [(0, 5)]),
        ]
        long_ago = datetime(2020, 1, 1, tzinfo=UTC)
        assert (await client.api.search("lunch", before=long_ago)).complete
        assert not (await client.api.search("lunch", before=long_ago)).data
        assert not (await client.api.search("lunch", chat=chat, has="attachment")).data


async def test_people(town: Town) -> None:
    await town.token("bob")
    async with a_client(town) as client:
        api = client.api
        avatar = "https://a.example/1.png"
        change = ProfileChange(display_name="Alice", avatar_url=avatar, metadata={"team": "red"})
        changed = await api.change_profile(change)
        assert (changed.display_name, changed.metadata) == ("Alice", {"team": "red"})
        chat = await api.create_direct("bob")
        await client.send(chat.chat_id, "hello")
        connected = await api.me()
        assert connected.last_seen_at is not None, "this minute"
        assert connected.display_name == changed.display_name
        hidden = await api.change_profile(ProfileChange(avatar_url=None, show_last_seen=False))
        assert (hidden.avatar_url, hidden.show_last_seen) == (None, False)
        assert (await api.profile("bob")).last_seen_at is None
        found = await api.profiles(["bob", "nobody", "alice"])
        assert [one.user_id for one in found] == ["bob", "alice"]
        assert [(one.user_id, one.display_name) for one in chat.others] == [("bob", None)]
        assert (await api.members(chat.chat_id))[0].display_name == "Alice"


async def test_no_is_an_exception(town: Town) -> None:
    async with a_client(town) as client:
        with pytest.raises(Refused) as refused:
            await client.api.create_direct("nobody")
        assert (refused.value.code, refused.value.status) == ("user.not_found", 404)


def an_api(*answers: int | httpx.TransportError) -> tuple[Api, list[httpx.Request]]:
    """An API whose server gives these answers, and what it was asked."""
    asked: list[httpx.Request] = []
    left = list(answers)

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(httpx.Request(request.method, request.url, headers=request.headers))
        given = left.pop(0)
        if isinstance(given, httpx.TransportError):
            raise given
        body: dict[str, object] = {"data": [], "next_cursor": None, "code": "c", "detail": "d"}
        return httpx.Response(given, json=body, headers={"Retry-After": "0"})

    tokens = iter(f"token {number}" for number in range(9))
    given_tokens = Tokens(lambda: next(tokens), lambda: 0)
    api = Api("http://server", given_tokens, Hurry(), transport=httpx.MockTransport(answer))
    return api, asked


class Hurry(SystemWorld):
    """Nobody waits."""

    def jitter(self, least: float, most: float) -> float:
        return 0


async def test_what_may_be_repeated_is_repeated() -> None:
    api, asked = an_api(503, httpx.ConnectError("away"), 200)
    await api.chats()
    assert len(asked) == 3
    api, asked = an_api(503, 429, 503)
    with pytest.raises(Unavailable):
        await api.remove_member("c", "bob")
    api, asked = an_api(503, 400)
    with pytest.raises(Refused):
        await api.create_group("name", [])
    assert len({request.headers["Idempotency-Key"] for request in asked}) == 1


@pytest.mark.parametrize("status", [500, 502, 504])
async def test_a_failed_server_and_a_proxy_that_lost_it_are_no_refusal(status: int) -> None:
    api, asked = an_api(status, 200)
    await api.chats()
    assert len(asked) == 2
    api, _ = an_api(*[status] * 3)
    with pytest.raises(Unavailable):
        await api.create_group("name", [])


async def test_what_a_repeated_delete_does_not_find_is_gone() -> None:
    api, asked = an_api(httpx.ReadError("the answer was lost"), 404)
    await api.remove_member("c", "bob")
    assert len(asked) == 2
    api, _ = an_api(404)
    with pytest.raises(Refused):
        await api.remove_member("c", "bob")
    api, _ = an_api(503, 404)
    with pytest.raises(Refused):
        await api.delete_chat("c")


async def test_what_may_not_be_repeated_is_not() -> None:
    for trouble in (500, 503, httpx.ReadError("broken")):
        api, asked = an_api(trouble)
        with pytest.raises(Unavailable):
            await api.edit("c", 1, "new")
        assert len(asked) == 1


async def test_a_refused_token_is_replaced_once() -> None:
    api, asked = an_api(401, 200)
    await api.chats()
    assert [one.headers["Authorization"] for one in asked] == ["Bearer token 0", "Bearer token 1"]
    api, asked = an_api(401, 401)
    with pytest.raises(Refused):
        await api.chats()


async def test_names_in_paths_are_escaped() -> None:
    api, asked = an_api(204)
    await api.react("c", 1, "a/b?")
    assert asked[0].url.raw_path == b"/v1/chats/c/messages/1/reactions/a%2Fb%3F"


async def test_leaving_is_repeated_and_tells_what_became_of_each() -> None:
    left = {"chat_id": "c", "left": False, "code": "chat.direct", "retryable": False}
    asked: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        body = {"data": [left], "next_cursor": None}
        return httpx.Response(200 if len(asked) > 1 else 503, json=body)

    world = Hurry()
    tokens = Tokens(lambda: "token", world.wall)
    api = Api("http://server", tokens, world, transport=httpx.MockTransport(answer))
    (outcome,) = await api.leave(["c"])
    assert (outcome.left, outcome.code, len(asked)) == (False, "chat.direct", 2)
    await api.close()


async def test_invitations_are_listed_accepted_and_declined() -> None:
    invite = {
        "chat_id": "c",
        "name": "Club",
        "user_id": "bob",
        "invited_by": "alice",
        "role": "member",
        "invited_at": "2030-05-17T12:00:00.000Z",
        "expires_at": "2030-06-16T12:00:00.000Z",
    }
    asked: list[tuple[str, str]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append((request.method, request.url.path))
        status = {"GET": 200, "PUT": 202, "DELETE": 204}[request.method]
        return httpx.Response(status, json=invite if status == 202 else {"data": [invite]})

    world = Hurry()
    tokens = Tokens(lambda: "token", world.wall)
    api = Api("http://server", tokens, world, transport=httpx.MockTransport(answer))
    (listed,) = await api.invites()
    assert await api.put_member("c", "bob") == listed
    await api.decline_invite("c")
    assert asked == [
        ("GET", "/v1/me/invites"),
        ("PUT", "/v1/chats/c/members/bob"),
        ("DELETE", "/v1/me/invites/c"),
    ]
    await api.close()
