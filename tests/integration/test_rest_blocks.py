# SPDX-License-Identifier: Apache-2.0
"""A block is the blocker's view, on every engine: nothing is refused, and nobody else notices."""

from typing import Any

import pytest

from tests.integration.engines import long_engine as long_engine
from tests.integration.rest_world import TENANT, Actor, Rest
from tests.support.waiting import until
from tidings.model.blocks import Block, BlockList
from tidings.model.ids import ChatId, UserKey, user_key
from tidings.model.refusals import StoreUnavailable
from tidings.ports.bus import Appended

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def block(actor: Actor, other: str) -> None:
    await actor.ok("PUT", f"/v1/me/blocks/{other}")


async def entries(actor: Actor, chat: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await actor.ok("GET", f"/v1/chats/{chat}/entries?after=1"))[
        "data"
    ]
    return found


async def status(actor: Actor, chat: str, sequence: int) -> str:
    return str((await actor.ok("GET", f"/v1/chats/{chat}/messages/{sequence}"))["status"])


async def test_blocks_are_listed_newest_first_until_they_end(rest: Rest) -> None:
    amy, *_ = await rest.users("amy", "ben", "cleo")
    for _ in range(2):
        await block(amy, "ben")
    rest.clock.time += 1
    await block(amy, "cleo")

    listed = await amy.ok("GET", "/v1/me/blocks")
    assert [one["user_id"] for one in listed["data"]] == ["cleo", "ben"]
    for _ in range(2):
        await amy.ok("DELETE", "/v1/me/blocks/cleo")
    await amy.ok("DELETE", "/v1/me/blocks/nobody")
    listed = await amy.ok("GET", "/v1/me/blocks")
    assert [one["user_id"] for one in listed["data"]] == ["ben"]
    assert await amy.refused("PUT", "/v1/me/blocks/nobody") == (404, "user.not_found")
    assert await amy.refused("PUT", "/v1/me/blocks/ä") == (404, "user.not_found")
    assert await amy.refused("PUT", "/v1/me/blocks/amy") == (400, "request.invalid")


@pytest.mark.attack("D19")
async def test_a_blocked_sender_notices_nothing_and_is_not_read(rest: Rest) -> None:
    dora, eli, finn = await rest.users("dora", "eli", "finn")
    chat = await dora.group("eli", "finn")
    await block(dora, "eli")
    sent = await eli.send(chat, "m1")
    path = f"/v1/chats/{chat}/messages/{sent['sequence']}"
    await eli.ok("PATCH", path, {"content": "better"})

    shown = await entries(dora, chat)
    assert [(one.get("blocked"), one.get("content")) for one in shown] == [(True, None)] * 2
    message = await dora.ok("GET", path)
    assert (message["blocked"], message.get("content")) == (True, None)
    [page] = (await dora.ok("GET", f"/v1/chats/{chat}/messages?limit=1"))["data"]
    assert (page["blocked"], page.get("content")) == (True, None)
    for row in (await dora.ok("GET", f"/v1/chats/{chat}"), await listed(dora, chat)):
        assert (row["unread"], row["unread_exact"]) == (0, True)
        assert row["last_message"]["preview"] is None
    assert (await dora.ok("GET", "/v1/unread"))["messages"] == 0
    assert [one.get("blocked") for one in await entries(finn, chat)] == [None, None]
    assert (await finn.ok("GET", f"/v1/chats/{chat}"))["unread"] == 1

    backend = await rest.tenant()
    unseal = f"/v1/tenants/acme/chats/{chat}/unseal"
    unsealed = await backend.ok("POST", unseal, {"reason": "Ticket", "after": 1})
    assert unsealed["data"][0]["content"] == "better", "the tenant blocks nobody"
    await dora.ok("DELETE", "/v1/me/blocks/eli")
    assert (await dora.ok("GET", path))["content"] == "better"
    assert (await dora.ok("GET", f"/v1/chats/{chat}"))["unread"] == 1


async def test_a_send_reads_no_blocks(rest: Rest, monkeypatch: pytest.MonkeyPatch) -> None:
    gail, hugo = await rest.users("bl-gail", "bl-hugo")
    chat = await gail.direct("bl-hugo")
    await block(gail, "bl-hugo")
    asked: list[str] = []
    store = rest.core.store.blocks
    of = type(store).of

    async def noted(self: object, user: UserKey, *more: int) -> BlockList:
        asked.append(user)
        return await of(store, user, *more)

    monkeypatch.setattr(type(store), "of", noted)
    await hugo.send(chat, "m1")
    assert "acme:bl-hugo" not in asked, "his process need not know who blocks him"
    await hugo.ok("GET", f"/v1/chats/{chat}/messages")
    assert "acme:bl-hugo" in asked


async def test_mentions_replies_and_pins_of_a_blocked_user(rest: Rest) -> None:
    pia, quin = await rest.users("pia", "quin")
    chat = await quin.group("pia")
    first = (await pia.send(chat, "m1"))["sequence"]
    named = {"client_message_id": "m2", "content": "hi", "mentions": ["pia"], "reply_to": first}
    second = (await quin.ok("POST", f"/v1/chats/{chat}/messages", named))["sequence"]
    await quin.ok("PUT", f"/v1/chats/{chat}/pins/{second}")
    assert [one["sequence"] for one in await mentions(pia)] == [second]
    assert (await listed(pia, chat))["unread_mentions"] == 1

    await block(pia, "quin")

    assert await mentions(pia) == []
    assert (await listed(pia, chat))["unread_mentions"] == 0
    assert (await pia.ok("GET", "/v1/unread"))["mentions"] == 0
    assert (await pia.ok("POST", "/v1/search", {"q": "hi"}))["data"] == []
    for path in (f"messages/{first}/replies", "pins"):
        [shown] = (await pia.ok("GET", f"/v1/chats/{chat}/{path}"))["data"]
        assert (shown["blocked"], shown.get("content")) == (True, None)
    await pia.ok("DELETE", "/v1/me/blocks/quin")
    assert [one["content"] for one in await mentions(pia)] == ["hi"]
    assert len((await pia.ok("POST", "/v1/search", {"q": "hi"}))["data"]) == 1


async def mentions(actor: Actor) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await actor.ok("GET", "/v1/mentions"))["data"]
    return found


async def listed(actor: Actor, chat: str) -> dict[str, Any]:
    """One row of the chat list."""
    rows = (await actor.ok("GET", "/v1/chats"))["data"]
    return next(row for row in rows if row["chat_id"] == chat)


async def test_a_blocked_peer_sees_no_further_receipts(rest: Rest) -> None:
    gil, hal = await rest.users("gil", "hal")
    chat = await gil.direct("hal")
    before = (await gil.send(chat, "m1"))["sequence"]
    await hal.ok("PUT", f"/v1/chats/{chat}/receipt", {"read": before})
    await block(hal, "gil")
    after = (await gil.send(chat, "m2"))["sequence"]
    mark = await hal.ok("PUT", f"/v1/chats/{chat}/receipt", {"read": after})
    assert mark["read"] == after

    assert await status(gil, chat, before) == "read"
    assert await status(gil, chat, after) == "sent"
    for what in ("receipts", "members"):
        [peer] = [
            one
            for one in (await gil.ok("GET", f"/v1/chats/{chat}/{what}"))["data"]
            if one["user_id"] == "hal"
        ]
        assert (peer["delivered"], peer["read"]) == (before, before)
    counts = await gil.ok("GET", f"/v1/chats/{chat}/messages/{after}/receipts")
    assert (counts["delivered"], counts["read"]) == (0, 0)
    assert [(one["delivered_at"], one["read_at"]) for one in counts["data"]] == [(None, None)]
    await hal.send(chat, "m3")


async def test_a_new_direct_chat_of_a_blocked_user_stays_hidden(rest: Rest) -> None:
    ida, jon = await rest.users("ida", "jon")
    await block(ida, "jon")
    chat = await jon.direct("ida")
    sent = (await jon.send(chat, "m1"))["sequence"]
    await ida.ok("PUT", f"/v1/chats/{chat}/receipt", {"read": sent})

    row = await listed(ida, chat)
    assert (row["hidden"], row["unread"], row["last_message"]["preview"]) == (True, 0, None)
    assert (await listed(jon, chat))["hidden"] is False
    assert await status(jon, chat, sent) == "sent"
    await ida.send(chat, "own")
    assert (await listed(ida, chat))["hidden"] is False


async def test_a_direct_chat_that_is_created_while_a_block_is_stored(rest: Rest) -> None:
    rae, sam, tom = await rest.users("rae", "sam", "tom")
    by_sam, by_tom = (blocked_by(rest, name, "rae") for name in ("sam", "tom"))
    await rae.ok("GET", "/v1/chats")  # this process knows that nobody blocks Rae
    await rest.core.store.blocks.put(by_sam)  # as another process does
    chat = await rae.direct("sam")
    assert (await listed(sam, chat))["hidden"]

    chat = await rae.direct("tom")
    await rest.core.store.blocks.put(by_tom)
    await rest.core.blocks.changed(by_tom.user, by_tom.blocked)
    assert not (await listed(tom, chat))["hidden"]
    assert await rae.direct("tom") == chat, "who created it crashed before the block was applied"
    assert (await listed(tom, chat))["hidden"]
    sent = (await rae.send(chat, "m1"))["sequence"]
    await tom.ok("PUT", f"/v1/chats/{chat}/receipt", {"read": sent})
    assert await status(rae, chat, sent) == "sent"


def blocked_by(rest: Rest, name: str, blocked: str) -> Block:
    """A block that notes no direct chat."""
    return Block(
        user=user_key("acme", name),
        blocked=user_key("acme", blocked),
        created_at=rest.clock.now(),
    )


async def test_a_block_that_is_stored_while_a_direct_chat_is_created(
    rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    uma, vic = await rest.users("uma", "vic")
    chats, created = rest.core.store.chats, list[str]()
    find = chats.direct

    async def direct(user: UserKey, other: UserKey) -> ChatId | None:
        found = await find(user, other)
        if not created:
            created.append(await vic.direct("uma"))
        return found

    monkeypatch.setattr(chats, "direct", direct)
    await block(uma, "vic")
    sent = (await vic.send(created[0], "m1"))["sequence"]
    await uma.ok("PUT", f"/v1/chats/{created[0]}/receipt", {"read": sent})
    assert await status(vic, created[0], sent) == "sent"


async def test_a_blocker_is_not_added_to_groups(rest: Rest) -> None:
    kim, leo, mia = await rest.users("kim", "leo", "mia")
    shared = await leo.group("kim", "mia")
    await block(kim, "leo")
    group = await leo.group("mia")
    new = {"type": "group", "name": "New", "members": ["mia", "kim"]}

    assert await leo.refused("PUT", f"/v1/chats/{group}/members/kim") == (403, "user.not_addable")
    assert await leo.refused("POST", "/v1/chats", new) == (403, "user.not_addable")
    await leo.ok("PUT", f"/v1/chats/{shared}/members/kim", {"role": "admin"})
    foreign = await mia.group()
    assert await leo.refused("PUT", f"/v1/chats/{foreign}/members/kim") == (404, "chat.not_found")
    await mia.ok("PUT", f"/v1/chats/{foreign}/members/kim")


async def test_neither_sees_when_the_other_was_online(rest: Rest) -> None:
    nia, oto = await rest.users("nia", "oto")
    await nia.direct("oto")
    now = rest.clock.now()
    rest.core.store.users.seen({user_key("acme", "nia"): now, user_key("acme", "oto"): now})

    async def seen(viewer: Actor, other: str) -> bool:
        return (await viewer.ok("GET", f"/v1/users/{other}"))["last_seen_at"] is not None

    await until(lambda: seen(nia, "oto"))  # it is written without an answer
    await until(lambda: seen(oto, "nia"))
    await block(nia, "oto")

    assert not await seen(nia, "oto")
    assert not await seen(oto, "nia")
    assert (await oto.ok("GET", "/v1/users/nia"))["user_id"] == "nia"


async def test_a_repeat_hides_and_announces_a_direct_chat_whose_blocks_could_not_be_read(
    rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    yan, zoe = await rest.users("yan", "zoe")
    await block(zoe, "yan")
    core, announced = rest.core, list[str]()
    core.bus.subscribe(lambda event: announced.append(event.entry.message_id), Appended)

    async def away(_: UserKey) -> BlockList:
        raise StoreUnavailable

    direct = {"type": "direct", "members": ["zoe"]}
    with monkeypatch.context() as trouble:
        trouble.setattr(core.store.blocks, "of", away)
        assert await yan.refused("POST", "/v1/chats", direct) == (503, "store.unavailable")
    assert announced == []
    chat = await yan.direct("zoe")
    assert announced == [f"{chat}.1"]
    assert (await core.verbs.get(user_key(TENANT, "zoe"), ChatId(chat))).is_hidden
