# SPDX-License-Identifier: Apache-2.0
"""Blocks on the socket: entries without content, live and on catch-up; no typing, no receipts."""

import pytest

from tests.integration.engines import socket_engine as socket_engine
from tests.integration.socket_town import friends, people, settled, told, until_entries
from tests.support.people import Town

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_entries_of_a_blocked_sender_come_without_content(town: Town) -> None:
    chat, (ann, bob, cat) = await friends(town, "ann", "bob", "cat")
    device, other = await ann.device().connect(), await ann.device("tablet").connect()
    await ann.call("PUT", f"/v1/me/blocks/{bob.user_id}")
    changed = await other.frame("chat_changed")
    assert "chat" not in changed

    await bob.send(chat)
    await cat.send(chat)
    await until_entries(device, chat, 3)
    late = await ann.device("watch").connect()
    await until_entries(late, chat, 3)

    for one in (device, late):
        theirs, others = told(one, "entry", chat=chat, kind="message")
        assert (theirs["blocked"], "content" in theirs) == (True, False)
        assert ("blocked" in others, others["content"] != "") == (False, True)
    await ann.call("DELETE", f"/v1/me/blocks/{bob.user_id}")
    await bob.send(chat)
    for one in (device, late):
        await until_entries(one, chat, 4)
        assert "content" in told(one, "entry", chat=chat, kind="message")[-1]


async def test_nobody_sees_whom_they_block_typing(town: Town) -> None:
    chat, (ann, bob, cat) = await friends(town, "ann", "bob", "cat")
    hers, his, third = [await person.device().connect() for person in (ann, bob, cat)]
    await ann.call("PUT", f"/v1/me/blocks/{bob.user_id}")

    his.tell({"op": "typing", "chat": chat})
    await third.frame("typing", user=bob.user_id)
    await settled(hers)

    assert told(hers, "typing") == []


async def test_a_blocked_user_sees_nothing_of_the_blocker_in_a_direct_chat(town: Town) -> None:
    ann, bob = await people(town, "ann", "bob")
    chat = await ann.create_direct(bob)
    hers, his = await ann.device().connect(), await bob.device().connect()
    await ann.call("PUT", f"/v1/me/blocks/{bob.user_id}")
    sent = await bob.send(chat)
    await hers.frame("entry", sequence=sent["sequence"])

    hers.tell({"op": "typing", "chat": chat})
    hers.tell({"op": "read", "chat": chat, "sequence": sent["sequence"]})
    await hers.frame("unread", chat=chat)
    await settled(his)

    assert told(his, "typing") == []
    assert [one for one in told(his, "receipt") if one["user"] == ann.user_id] == []
