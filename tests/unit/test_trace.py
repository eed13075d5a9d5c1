# SPDX-License-Identifier: Apache-2.0
"""Traces of a user and of a chat, in a gateway without sockets."""

import pytest

from tests.support.users import ANN, BOB, CAT
from tests.unit.test_explain import NOWHERE, Desk
from tests.unit.test_explain import desk as desk
from tidings.actions.explain.refusals import TRACE_REFUSALS_MAX
from tidings.actions.explain.tracing import SETTLED_MS
from tidings.actions.identity.caller import Root
from tidings.assembly.rest import make_identity_verbs
from tidings.gateway.tracing import TRACE_STEPS_MAX
from tidings.model.ids import ChatId, UserKey, message_id, user_key
from tidings.model.refusals import (
    ChatNotFound,
    CursorInvalid,
    Invalid,
    TenantNotFound,
    UserNotFound,
)
from tidings.ports.journals import NoJournals, TraceQuestion

Told = tuple[str, UserKey | None, ChatId | None, int | None]


async def test_a_user_and_a_chat_are_traced(desk: Desk) -> None:
    bench, refusals = desk.bench, desk.verb.refusals
    chat = await bench.group(ANN, BOB)
    other = await bench.group(ANN, CAT)

    async def trace(cursor: str | None = None, **about: str) -> tuple[list[Told], str]:
        asked = {"user": None, "chat": None, **about}
        found = await desk.verb.trace(Root(), "acme", asked["user"], asked["chat"], cursor)
        return [(one.what, one.user, one.chat, one.sequence) for one in found.steps], found.cursor

    assert (await trace(user="bob"))[0] == []
    line = await desk.line().live(BOB)
    begun = bench.clock.time
    bench.clock.time += 1
    await bench.post(ANN, chat)
    await bench.post(ANN, other)
    await line.until_entries(chat, 2)
    refusals.refused("r1", "content.empty", "socket", "acme", BOB)
    refusals.repeated("r2", message_id(chat, 2), "socket", BOB)
    refusals.refused("r3", "content.empty", "socket", "acme", ANN)
    bench.clock.time += SETTLED_MS
    line.time += bench.clock.time - begun
    told, cursor = await trace(user="bob")
    written = ("written_to_socket", BOB, chat, 2)
    refused, repeated = ("refused", BOB, None, None), ("repeated", BOB, None, None)
    first = ("written_to_socket", BOB, chat, 1)
    assert told == [("connected", BOB, None, None), first, written, refused, repeated]
    assert (await trace(cursor, user="bob"))[0] == []
    in_chat, _ = await trace(chat=chat)
    assert in_chat == [first, ("handed_to_gateway", None, chat, 2)]
    await line.hang_up()
    bench.clock.time += SETTLED_MS + 1
    told, _ = await trace(cursor, user="bob")
    assert told == [("unconfirmed", BOB, chat, 2), ("disconnected", BOB, None, None)]
    assert ("unconfirmed", BOB, chat, 2) in (await trace(chat=chat))[0]
    with pytest.raises(CursorInvalid):
        await trace(cursor, user="ann")


async def test_a_trace_is_of_one_user_or_chat_of_the_tenant(desk: Desk) -> None:
    bench, trace = desk.bench, desk.verb.trace
    chat = await bench.group(ANN, BOB)
    for user, about in ((None, None), ("bob", chat)):
        with pytest.raises(Invalid):
            await trace(Root(), "acme", user, about, None)
    for user in ("nobody", "a/b"):
        with pytest.raises(UserNotFound):
            await trace(Root(), "acme", user, None, None)
    with pytest.raises(TenantNotFound):
        await trace(Root(), "nowhere", "bob", None, None)
    await make_identity_verbs(bench.core).put_tenant(Root(), "other", None)
    for missing in (chat, NOWHERE, "x"):
        with pytest.raises(ChatNotFound):
            await trace(Root(), "other", None, missing, None)
    # A cursor of a user is none of a chat with the same name.
    namesake = user_key("other", chat)
    await bench.core.store.users.put(namesake, display_name=None, phone_number=None, now=1)
    cursor = (await trace(Root(), "other", chat, None, None)).cursor
    with pytest.raises(CursorInvalid):
        await trace(Root(), "other", None, chat, cursor)
    assert await NoJournals().trace(TraceQuestion(after=0, until=1)) == []


async def test_the_newest_steps_are_traced(desk: Desk) -> None:
    bench = desk.bench
    chat = await bench.group(ANN, BOB)
    line = await desk.line().live(BOB)
    bench.clock.time += 1
    await bench.post(ANN, chat, TRACE_STEPS_MAX + 1)
    await line.until_entries(chat, TRACE_STEPS_MAX + 2)
    for _ in range(TRACE_REFUSALS_MAX + 1):
        desk.verb.refusals.refused("r1", "content.empty", "socket", "acme", ANN)
    bench.clock.time += SETTLED_MS
    found = await desk.verb.trace(Root(), "acme", None, chat, None)
    assert (len(found.steps), found.is_complete) == (TRACE_STEPS_MAX, False)
    assert found.steps[-1].sequence == TRACE_STEPS_MAX + 2
    found = await desk.verb.trace(Root(), "acme", "ann", None, None)
    assert len(found.steps) == TRACE_REFUSALS_MAX
