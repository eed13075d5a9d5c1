# SPDX-License-Identifier: Apache-2.0
"""A server on a moved store shows everybody the same inbox, and delivers what was still queued."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from tests.integration.inbox_world import (
    Newsroom,
    Reader,
    open_newsroom,
    to_users,
)
from tests.integration.rest_world import ROOT_KEY, Json, Rest, open_rest
from tests.support.dynamo_tables import some_tables
from tests.support.engine import on_tables
from tests.support.settings import config_of
from tidings.actions.export.exporting import export_all
from tidings.actions.export.importing import import_all
from tidings.assembly.delivery import run_delivery
from tidings.assembly.stores import open_source, open_target
from tidings.config import Config

MASTER_KEY: Final = bytes(range(32))
INBOX: Final = "news"
READERS: Final = ("ann", "bob", "cat")


async def test_a_moved_inbox_is_shown_as_it_was(tmp_path: Path, dynamodb_endpoint: str) -> None:
    first, second, third = (tmp_path / name for name in ("first", "second", "third"))
    async with some_tables(dynamodb_endpoint) as prefix:
        tables = on_tables(dynamodb_endpoint, prefix)
        async with open_rest(first, master_key=MASTER_KEY) as rest:
            await _live_a_while(rest, _config(first))
            before = await _shown(rest)
            queued = await _post_what_waits(rest)
            now = rest.clock.now()
        there = await _export(_config(first), now)
        await _import(_config(second, tables), there)
        assert await _export(_config(second, tables), now) == there
        async with open_rest(second, master_key=MASTER_KEY, settings=tables) as rest:
            rest.clock.time = now
            assert await _shown(rest) == before
            after = await _deliver_what_waits(rest, _config(second, tables), queued)
        back = await _export(_config(second, tables), now)
    await _import(_config(third), back)
    async with open_rest(third, master_key=MASTER_KEY) as rest:
        rest.clock.time = now
        assert await _shown(rest) == after


async def test_what_waits_in_the_store_is_delivered_when_there_is_another_queue(
    tmp_path: Path,
) -> None:
    """As after a move from one process to many, which have their queue elsewhere."""
    folder = tmp_path / "one"
    async with open_rest(folder) as rest, open_rest(tmp_path / "other") as other:
        news = await open_newsroom(rest, INBOX)
        queued = await news.post(to_users(["cat"], "late"))
        core = replace(rest.core, jobs=other.core.store.jobs)
        async with run_delivery(_config(folder), core, None):
            assert (await news.delivered(queued["id"]))["status"] == "done"
        assert await (await news.user("cat")).titles() == ["late"]


async def _live_a_while(rest: Rest, config: Config) -> None:
    news = await _newsroom(rest)
    readers = [await news.user(name) for name in READERS]
    async with run_delivery(config, rest.core, None):
        first = await news.tell(READERS, "first", category="offers")
        gone = await news.tell(READERS[:2], "gone")
        rest.clock.time += 1_000
        await news.tell_everyone("to all", category="offers")
        taken_back = await news.tell_everyone("never mind")
        rest.clock.time += 1_000
        await readers[1].read(before="2027-01-15T08:00:00.500Z")
        last = await news.tell_everyone("last")
        await news.tell(READERS[1:], "second")
    await readers[0].read(ids=[first, last])
    for one in (gone, taken_back):
        await news.redact(one)


async def _newsroom(rest: Rest) -> Newsroom:
    return await open_newsroom(rest, INBOX, categories=["offers"], keep_days=7)


async def _shown(rest: Rest) -> list[Json]:
    """The list and the count of each."""
    news = await _newsroom(rest)
    readers: list[Reader] = [await news.user(name) for name in READERS]
    shown: list[Json] = []
    for reader in readers:
        shown += [await reader.page(), await reader.page("?unread=true"), await reader.unread()]
    assert [len(shown[start]["data"]) for start in (0, 3, 6)] == [3, 4, 4]
    assert "never mind" not in str(shown)
    return shown


async def _post_what_waits(rest: Rest) -> Json:
    """Nobody delivers: it waits in the queue."""
    rest.clock.time += 1_000
    news = await _newsroom(rest)
    return await news.post(to_users(["cat"], "late"), {"Idempotency-Key": "the-late-one"})


async def _deliver_what_waits(rest: Rest, config: Config, queued: Json) -> list[Json]:
    news = await _newsroom(rest)
    again = await news.post(to_users(["cat"], "late"), {"Idempotency-Key": "the-late-one"})
    assert again["id"] == queued["id"], "the key counts on"
    async with run_delivery(config, rest.core, None):
        await news.delivered(queued["id"])
    cat = await news.user("cat")
    assert (await cat.titles())[0] == "late"
    await cat.read(ids=[queued["id"]])
    await news.redact(queued["id"])
    assert (await rest.core.store.users.about_how_many(news.tenant)) == len(READERS)
    return await _shown(rest)


def _config(folder: Path, settings: Mapping[str, str] | None = None) -> Config:
    engine: dict[str, Any] = dict(settings or {})
    return config_of(data=folder, root_key=ROOT_KEY, master_key=MASTER_KEY, **engine)


async def _export(config: Config, now: int) -> bytes:
    written: list[bytes] = []
    async with open_source(config) as source:
        await export_all(source, now, written.append, lambda _: None)
    return b"".join(written)


async def _import(config: Config, export: bytes) -> None:
    async with open_target(config) as target:
        await import_all(target, export.splitlines(keepends=True), lambda _: None)
