# SPDX-License-Identifier: Apache-2.0
"""One user asks for all there is: others read, log in and hear of revocations as ever."""

import asyncio
import threading
from typing import Any

import apsw
import pytest

from tests.integration.rest_world import Rest
from tests.support.waiting import until
from tidings.model.ids import ChatId, UserKey, tenant_of
from tidings.stores.sqlite.chat import chat_list, chats

pytestmark = pytest.mark.asyncio(loop_scope="module")

READS = 50


class SlowList:
    """Chat lists of one tenant that take until they are let go on; those of others as they are."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tenant: str) -> None:
        self.go_on = threading.Event()
        self.begun = threading.Semaphore(0)
        self._tenant = tenant
        self._real = chat_list.page_of_chats
        monkeypatch.setattr(chats, "page_of_chats", self._page_of_chats)

    def _page_of_chats(
        self, db: apsw.Connection, user: UserKey, below: tuple[int, ChatId] | None, limit: int
    ) -> Any:
        if tenant_of(user) == self._tenant:
            self.begun.release()
            assert self.go_on.wait(60)
        return self._real(db, user, below, limit)


@pytest.mark.attack("S03", "F04", "D21")
async def test_a_loud_user_keeps_neither_readers_nor_logins_nor_revocations_from_others(
    rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    loud, quiet = await rest.user("loud", "loud"), await rest.user("quiet", "quiet")
    slow = SlowList(monkeypatch, "loud")
    async with asyncio.TaskGroup() as group, asyncio.timeout(50):
        asked = [group.create_task(loud.call("GET", "/v1/chats")) for _ in range(READS)]
        assert await asyncio.to_thread(slow.begun.acquire, timeout=50)

        assert (await quiet.ok("GET", "/v1/chats"))["data"] == []
        newcomer = await rest.user("newcomer", "quiet")
        assert (await newcomer.ok("GET", "/v1/me"))["user_id"] == "newcomer"
        await until(rest.core.watch.look)
        slow.go_on.set()
    assert [task.result().status_code for task in asked] == [200] * READS
