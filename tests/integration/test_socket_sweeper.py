# SPDX-License-Identifier: Apache-2.0
"""The sweeper of the embedded store, as devices see it. Other engines delete in their own time."""

import pytest

from tests.integration.socket_town import friends
from tests.support.canary import canary
from tests.support.people import Town

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_devices_are_told_that_less_is_unread_once_a_message_has_expired(town: Town) -> None:
    chat, (ann, bob) = await friends(town, "ann", "bob")
    watcher = await bob.device("watcher").connect()
    await ann.send(chat, canary("long"), ttl_seconds=1_000)
    await ann.send(chat, canary("short"), ttl_seconds=1)

    unread = await watcher.frame("unread", chat=chat)
    assert unread["unread"] == 1, "the sweeper has emptied it, and says so"
