# SPDX-License-Identifier: Apache-2.0
"""The search index: what it lists, when it is built, and that it never knows more than the log."""

from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

import msgspec
import pytest
import pytest_asyncio

from tests.integration.cores import Deployment, all_of, open_deployment
from tests.integration.engines import engine as engine
from tests.support.engine import Settings
from tests.support.short_waits import erasures_here
from tests.support.small_index import shrink_index
from tests.support.users import ANN, BOB
from tests.support.waiting import until
from tidings.actions.content.vault import Sealed, Vault
from tidings.actions.content.wrapping import Wrapping, data_key_purpose
from tidings.actions.search import indexing, searching
from tidings.actions.search.candidates import SETTLED_MS, Candidates, bound_to
from tidings.actions.search.indexing import Indexer
from tidings.actions.search.queries import parse_query
from tidings.actions.search.scanning import CLOCKS_APART_MS
from tidings.actions.search.searching import Asked
from tidings.actions.search.segments import ALL_BLOCKS, FORMAT, unpack
from tidings.keyrings import EnvironmentKeyring
from tidings.model.entries import Entry
from tidings.model.ids import ChatId, UserKey
from tidings.model.refusals import StoreUnavailable
from tidings.ports.bus import Appended
from tidings.ports.log import Page
from tidings.ports.search import AuthorWords, IndexState, Segment
from tidings.tasks import Tasks

pytestmark = pytest.mark.asyncio(loop_scope="module")

STEP: Final = 32
"""Entries that are indexed at once here; the tests of the search model have steps of full size."""
SEGMENT: Final = 4 * STEP
FULL: Final = STEP - 1
"""Messages that complete the first step of a new chat."""


@pytest.fixture(scope="module", autouse=True)
def small_index() -> Iterator[None]:
    """DynamoDB Local takes long for the messages that fill a step of full size."""
    with pytest.MonkeyPatch.context() as patch:
        shrink_index(patch, STEP)
        yield


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def here(
    tmp_path_factory: pytest.TempPathFactory, core_settings: Settings
) -> AsyncIterator[Deployment]:
    folder = tmp_path_factory.mktemp("search")
    with erasures_here():
        async with open_deployment(folder, settings=core_settings) as opened:
            yield opened


async def say(here: Deployment, chat: ChatId, *texts: str, sender: UserKey = ANN) -> None:
    """Send these texts at once, in order."""
    await all_of([here.writing.send(sender, chat, text) for text in texts])


async def found(here: Deployment, chat: ChatId, text: str, reader: UserKey = ANN) -> list[int]:
    results = await here.core.verbs.search(reader, Asked(text, chat, None, None, None), None, 50)
    assert results.cursor is None
    return [one.entry.sequence for one in results.found]


async def segments(here: Deployment, chat: ChatId) -> list[Segment]:
    return await here.core.store.search_index.segments(chat, 0, 99, strong=True)


async def words(here: Deployment, chat: ChatId) -> set[str]:
    """All words that the index of a chat lists."""
    listed: set[str] = set()
    for segment in await segments(here, chat):
        for part in segment.parts:
            sealed = Sealed(part.box, part.box_key)
            name = bound_to(chat, segment.number)
            opened = await here.core.vault.open_bytes(part.author, name, sealed)
            listed |= set(unpack(opened)) if opened is not None else set()
    return listed


async def test_an_indexed_chat_is_searched_through_its_index(here: Deployment) -> None:
    chat = await here.group(ANN, BOB)
    await say(here, chat, "walnut", *["filler"] * (FULL - 2), "Walnuts 東京都")
    indexer = here.core.indexer
    assert await indexer.step(chat)
    assert not await indexer.step(chat), "the rest is too short"
    await say(here, chat, "walnut tail", sender=BOB)
    [segment] = await segments(here, chat)
    assert (segment.until, [part.author for part in segment.parts]) == (STEP, [ANN])

    assert await found(here, chat, "walnut") == [STEP + 1, STEP, 2]
    assert await found(here, chat, "京都") == [STEP]
    assert await found(here, chat, "hazelnut") == []
    await here.core.verbs.edit(ANN, chat, 3, "hazelnut")
    await here.core.verbs.redact(ANN, chat, 2)
    assert await found(here, chat, "hazelnut") == [3]
    assert await found(here, chat, "walnut") == [STEP + 1, STEP]
    await say(here, chat, *["filler"] * (STEP - 3))
    assert await indexer.step(chat)
    listed = await words(here, chat)
    assert "hazelnut" in listed
    assert "walnut" in listed, "Bob said it"
    assert await found(here, chat, "hazelnut") == [3]

    await here.core.vault.erase(BOB)
    assert "walnut" not in await words(here, chat), "what was redacted and erased is in no list"
    assert await found(here, chat, "walnut") == [STEP]


async def test_only_messages_that_do_not_change_are_read_at_half_the_price(
    here: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cheap read may miss the changes of the last moment."""
    chat = await here.group(ANN, BOB)
    await say(here, chat, "almond", "almond", *["filler"] * (SEGMENT - 3))
    await say(here, chat, "cashew", *["filler"] * (FULL - 1))
    await say(here, chat, "filler")
    while await here.core.indexer.step(chat):
        pass
    log, reads = here.core.store.log, []
    read_messages, read_page = log.settled_messages, log.page

    async def settled_messages(*place: Any) -> list[Entry]:
        monkeypatch.setattr(type(log), "page", staticmethod(read_page))
        found = await read_messages(*place)  # on SQLite, this reads a page
        monkeypatch.setattr(type(log), "page", staticmethod(page))
        reads.append("messages")
        return found

    async def page(*place: Any, **limits: Any) -> Page | None:
        reads.append("page")
        return await read_page(*place, **limits)

    async def search(text: str) -> tuple[list[int], list[str]]:
        reads.clear()
        return await found(here, chat, text), reads[1:]  # the first page is the end of the log

    monkeypatch.setattr(type(log), "settled_messages", staticmethod(settled_messages))
    monkeypatch.setattr(type(log), "page", staticmethod(page))
    assert await search("almond") == ([3, 2], ["messages"])
    assert await search("cashew") == ([SEGMENT + 1], ["page"]), "it is in the last segment"
    await here.core.verbs.redact(ANN, chat, 3)
    assert await search("almond") == ([2], ["page"]), "it changed after the end of the index"
    await say(here, chat, *["filler"] * STEP)
    assert await here.core.indexer.step(chat)
    assert await search("almond") == ([2], ["page"]), "the index changed a moment ago"
    here.clock.time += SETTLED_MS
    assert await search("almond") == ([2], ["messages"])
    await here.core.verbs.edit(ANN, chat, 2, "almonds")
    await say(here, chat, *["filler"] * STEP)
    assert await here.core.indexer.step(chat)
    here.clock.time += SETTLED_MS
    assert await search("almonds") == ([2], ["messages", "page"]), "it was edited a minute ago"
    here.clock.time += CLOCKS_APART_MS
    assert await search("almonds") == ([2], ["messages"])


async def test_an_index_of_another_log_is_built_again(here: Deployment) -> None:
    chat = await here.group(ANN)
    await say(here, chat, "pecan", *["filler"] * (2 * STEP - 2))
    indexer, index = here.core.indexer, here.core.store.search_index
    while await indexer.step(chat):
        pass
    [segment] = await segments(here, chat)
    state = await index.state(chat)
    restored = IndexState(until=state.until, mark=f"{FORMAT} of another log")
    await index.forget(chat)
    await index.put(chat, [Segment(number=0, until=2 * STEP, began_at=1)], IndexState(), restored)
    assert await found(here, chat, "pecan") == [2], "this index is not used"

    assert await indexer.step(chat)
    assert await indexer.step(chat)
    again = await segments(here, chat)
    assert [(each.until, each.version) for each in again] == [(segment.until, 2)]
    assert await index.state(chat) == state


async def test_an_index_of_another_format_is_not_used(here: Deployment) -> None:
    chat = await here.group(ANN)
    await say(here, chat, "macadamia", *["filler"] * (FULL - 1))
    indexer, index = here.core.indexer, here.core.store.search_index
    assert await indexer.step(chat)
    state = await index.state(chat)
    for text, is_built_again in (("2/99.0.0", False), ("0/9.0.0", True)):
        other = msgspec.structs.replace(state, mark=state.mark.replace(FORMAT, text))
        await index.forget(chat)
        await index.put(chat, [Segment(number=0, until=STEP, began_at=1)], IndexState(), other)
        assert await found(here, chat, "macadamia") == [2]
        assert await indexer.step(chat) == is_built_again, "a newer process maintains its index"
        assert await index.state(chat) == (state if is_built_again else other)


async def test_lists_of_many_authors_cost_more_and_are_read_in_smaller_steps(
    here: Deployment,
) -> None:
    chat, index = await here.group(ANN), here.core.store.search_index
    authors = [AuthorWords(UserKey(f"acme:u{number}"), 1, b"") for number in range(64)]
    many = [
        Segment(number=number, until=SEGMENT * (number + 1), began_at=1, parts=tuple(authors))
        for number in range(32)
    ]
    state = IndexState(until=32 * SEGMENT)
    await index.put(chat, many, IndexState(), state)
    costs = []
    for sender in (None, UserKey("acme:u1")):
        query = parse_query("hazelnut")
        asked = Candidates(index, here.core.vault, chat, state, query, sender, here.clock.now())
        first = await asked.below(state.until + 1)
        second = await asked.below(first.first)
        costs.append((first.cost, second.cost))
        reach = [
            (state.until - first.first + 1) // SEGMENT,
            (first.first - second.first) // SEGMENT,
        ]
        assert reach == ([16, 8] if sender is None else [16, 16])
    each = index.segment_cost
    assert costs == [(16 * (each + 16), 8 * (each + 16)), (16 * each + 4, 16 * each + 4)]


async def test_a_search_gets_further_with_every_request_in_very_many_chats(
    here: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    carol = UserKey("acme:carol")
    for _ in range(4):
        await say(here, await here.group(carol), "brazil nut", sender=carol)
    monkeypatch.setattr(searching, "WORK_MAX", 4)
    asked, cursor, count = Asked("brazil", None, None, None, None), None, 0
    for _ in range(5):
        results = await here.core.verbs.search(carol, asked, cursor, 50)
        cursor, count = results.cursor, count + len(results.found)
        if cursor is None:
            break
    assert (cursor, count) == (None, 4)


async def index_reaches(here: Deployment, chat: ChatId) -> bool:
    return (await here.core.store.search_index.state(chat)).until == STEP


async def test_chats_are_indexed_as_they_grow_and_when_a_search_asks(here: Deployment) -> None:
    indexer, chat = here.core.indexer, await here.group(ANN)
    await say(here, chat, *["filler"] * FULL)
    here.core.bus.subscribe(indexer.on_appended, Appended)
    tasks = Tasks("search")
    tasks.repeat(indexer.index_when_due)
    try:
        grown = await here.group(ANN)
        await say(here, grown, *["filler"] * FULL)
        await until(lambda: index_reaches(here, grown))
        assert not await index_reaches(here, chat)
        assert await found(here, chat, "hazelnut") == []
        await until(lambda: index_reaches(here, chat))
    finally:
        await tasks.close()


async def test_expiring_messages_and_very_many_words_are_not_listed(
    here: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat = await here.group(ANN)
    await here.writing.send(ANN, chat, "almond", ttl_seconds=60)
    await say(here, chat, *["filler"] * (FULL - 1))
    assert await here.core.indexer.step(chat)
    [segment] = await segments(here, chat)
    assert (segment.unlisted, segment.unlisted_until) == (1, here.clock.now() + 60_000)
    assert "almond" not in await words(here, chat)
    assert await found(here, chat, "almond") == [2]
    here.clock.time += 60_000
    assert await found(here, chat, "almond") == []

    monkeypatch.setattr(indexing, "SEGMENT_BYTES_MAX", 10)
    await say(here, chat, "cashew", *["filler"] * FULL)
    assert await here.core.indexer.step(chat)
    [segment] = await segments(here, chat)
    assert (segment.unlisted, segment.parts) == (ALL_BLOCKS, ())
    assert await found(here, chat, "cashew") == [STEP + 1]


async def test_words_of_an_author_who_is_erased_meanwhile_are_not_listed(
    here: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat, indexer = await here.group(BOB), here.core.indexer
    await say(here, chat, *["pistachio"] * FULL, sender=BOB)
    opened = indexer._drafts

    async def then_erase(*args: Any) -> list[indexing.Draft]:
        drafts = await opened(*args)
        await here.core.vault.erase(BOB)
        return drafts

    monkeypatch.setattr(indexer, "_drafts", then_erase)
    assert not await indexer.step(chat)
    assert await segments(here, chat) == []
    monkeypatch.undo()
    assert await indexer.step(chat)
    assert await words(here, chat) == set()


async def test_the_index_waits_for_a_process_that_can_unwrap_the_keys_of_the_authors(
    here: Deployment,
) -> None:
    """Otherwise their messages would never be found again, because they are not indexed twice."""
    core, chat = here.core, await here.group(BOB)
    keys = core.store.data_keys
    await say(here, chat, *["hickory"] * FULL, sender=BOB)
    stale = Vault(keys, core.store.deployment, core.vault._master, core.chance, here.clock)
    await stale.start()
    key = await keys.current(BOB)
    assert key is not None
    other = Wrapping(EnvironmentKeyring(b"o" * 32, None), core.chance)
    purpose = data_key_purpose(BOB)
    key_id, wrapped = other.wrap(
        purpose, core.vault.wrapping.unwrap(purpose, key.master_key_id, key.wrapped)
    )
    rewrapped = msgspec.structs.replace(key, wrapped=wrapped, master_key_id=key_id)
    await keys.rewrap([rewrapped])
    with pytest.raises(StoreUnavailable):
        await Indexer(core.store.log, core.store.search_index, stale, here.clock).step(chat)
    await keys.rewrap([key])
    assert await core.indexer.step(chat)
    assert "hickory" in await words(here, chat)


async def test_an_unavailable_store_delays_the_index(
    here: Deployment, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(chat: ChatId) -> bool:
        raise StoreUnavailable("away")

    indexer = here.core.indexer
    monkeypatch.setattr(indexing, "PAUSE_SECONDS", 0)
    monkeypatch.setattr(indexer, "step", fail)
    monkeypatch.setattr(indexing, "CHATS_WAITING_MAX", 1)
    for _ in range(2):
        indexer.note(await here.group(ANN))
    await indexer.index_when_due()
    assert "cannot index now: away" in caplog.text
