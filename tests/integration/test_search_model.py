# SPDX-License-Identifier: Apache-2.0
"""Search with its index finds what a plain search over the opened log finds, whatever happens."""

import random
from contextlib import suppress
from pathlib import Path

import pytest

from tests.integration.cores import Deployment, all_of, open_deployment, outcome
from tests.integration.engines import long_engine as long_engine
from tests.support.engine import Settings
from tests.support.scripts import SCRIPTS
from tests.support.users import ANN, BOB, CAT
from tidings.actions.search import scanning, searching
from tidings.actions.search.queries import parse_query
from tidings.actions.search.searching import Asked
from tidings.model.entries import Entry
from tidings.model.ids import ChatId
from tidings.model.refusals import ChatNotFound, CursorInvalid, RateLimited, Refusal
from tidings.ports.search import Segment

pytestmark = pytest.mark.asyncio(loop_scope="module")

AUTHORS = (ANN, BOB, CAT)
COMMON = [word for words in SCRIPTS.values() for word in words]


def a_text(chance: random.Random, number: int) -> str:
    """Some words of several scripts, and one that only this text has."""
    return " ".join([*chance.choices(COMMON, k=chance.randint(0, 4)), f"rare{number}"])


async def talk(
    here: Deployment, chat: ChatId, count: int, chance: random.Random, start: int = 0
) -> None:
    """Fill a chat; every tenth message expires."""
    for first in range(start, start + count, 50):
        numbers = range(first, min(first + 50, start + count))
        sends = [
            here.writing.send(
                chance.choice(AUTHORS),
                chat,
                a_text(chance, number),
                ttl_seconds=None if number % 10 else chance.randint(1, 60),
            )
            for number in numbers
        ]
        await all_of(sends)
        here.clock.time += 100


async def searched(here: Deployment, asked: Asked, limit: int = 100) -> list[tuple[ChatId, int]]:
    """What search finds, over all its pages, which are in order."""
    found: list[tuple[ChatId, int]] = []
    times: list[int] = []
    cursor = None
    while True:
        results = await here.core.verbs.search(ANN, asked, cursor, limit)
        found += [(one.entry.chat_id, one.entry.sequence) for one in results.found]
        times += [one.entry.created_at for one in results.found]
        cursor = results.cursor
        if cursor is None:
            assert times == sorted(times, reverse=True)
            return found
        assert results.searched_until is not None


async def plain(here: Deployment, chat: ChatId, asked: Asked) -> list[tuple[ChatId, int]]:
    """What is found by opening every message of a chat."""
    return matching(await here.log(chat, ANN), asked)


def matching(log: list[Entry], asked: Asked) -> list[tuple[ChatId, int]]:
    """Those entries of an opened log that are searched for, newest first."""
    query = parse_query(asked.text)
    return [
        (entry.chat_id, entry.sequence)
        for entry in reversed(log)
        if entry.kind == "message" and entry.content is not None and query.matches(entry.content)
        if asked.sender in (None, entry.sender)
        if asked.after is None or entry.created_at > asked.after
        if asked.before is None or entry.created_at < asked.before
    ]


def a_search(chance: random.Random, here: Deployment, chat: ChatId | None, numbers: int) -> Asked:
    words = chance.choices(COMMON, k=chance.randint(0, 2))
    words.append(chance.choice([f"rare{chance.randrange(numbers)}", "rare1", *COMMON]))
    text = " ".join(words)
    sender = chance.choice([None, None, *AUTHORS])
    times = sorted(here.clock.now() - chance.randrange(3_000) for _ in range(2))
    after = chance.choice([None, None, times[0]])
    before = chance.choice([None, None, times[1] + 1])
    return Asked(f'"{text}"' if chance.random() < 0.1 else text, chat, sender, after, before)


async def index(here: Deployment, chat: ChatId) -> int:
    """Index what can be indexed; return the number of steps."""
    steps = 0
    while await here.core.indexer.step(chat):
        steps += 1
    return steps


async def change_something(
    here: Deployment, chat: ChatId, chance: random.Random, head: int
) -> None:
    verbs, sequence = here.core.verbs, chance.randint(2, head)
    entry = await here.core.store.log.entry(chat, sequence)
    if entry is None or entry.kind != "message":
        return
    with suppress(Refusal):  # it may be gone already
        if chance.random() < 0.6:
            await verbs.edit(entry.sender, chat, sequence, a_text(chance, chance.randrange(600)))
        else:
            await verbs.redact(entry.sender, chat, sequence)


@pytest.mark.parametrize("searches", [12, pytest.param(250, marks=pytest.mark.soak)])
async def test_a_search_finds_what_a_look_at_everything_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, searches: int, core_settings: Settings
) -> None:
    chance = random.Random(17)
    async with open_deployment(tmp_path, settings=core_settings) as here:
        chat = await here.group(*AUTHORS)
        other = await here.group(ANN, BOB, CAT)
        await talk(here, other, 60, chance)
        await talk(here, chat, 600, chance)
        assert await index(here, chat) == 2
        for turn in range(8):
            monkeypatch.setattr(searching, "WORK_MAX", chance.choice([100, 400, 2_000]))
            monkeypatch.setattr(scanning, "TAIL_PAGES_MAX", chance.choice([1, 4]))
            for _ in range(10):
                await change_something(here, chat, chance, 600)
            if turn == 3:
                await talk(here, chat, 200, chance, 600)
            if turn in (2, 6):
                await index(here, chat)
            if turn == 4:
                here.clock.time += 30_000
            if turn == 5:
                await here.core.vault.erase(CAT)
                await talk(here, chat, 300, chance, 800)
            log = await here.log(chat, ANN)
            for _ in range(searches):
                asked = a_search(chance, here, chat, 1_000)
                assert await searched(here, asked) == matching(log, asked), asked
            asked = a_search(chance, here, None, 60)
            both = [*matching(log, asked), *await plain(here, other, asked)]
            found = await searched(here, asked, chance.choice([3, 50]))
            assert sorted(found) == sorted(both), asked


def words(text: str, chat: ChatId | None, before: int | None = None) -> Asked:
    return Asked(text, chat, None, None, before)


async def test_a_chat_of_several_segments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_deployment(tmp_path) as here:
        chat = await here.group(*AUTHORS)
        for part in range(13):
            await all_of([here.writing.send(ANN, chat, f"part{part}") for _ in range(100)])
            here.clock.time += 60_000
        assert await index(here, chat) == 5
        await here.core.verbs.edit(ANN, chat, 3, "almond")
        await here.core.verbs.redact(ANN, chat, 4)
        for _ in range(2):
            await all_of([here.writing.send(BOB, chat, "filler") for _ in range(120)])
        assert await searched(here, words("almond", chat)) == [(chat, 3)]
        assert await index(here, chat) == 1, "the edit is in another segment than its target"
        assert await searched(here, words("almond", chat)) == [(chat, 3)]

        long_ago = here.clock.now() - 10 * 60_000
        for word in ("part0", "part9", "almond"):
            asked = words(word, chat, long_ago)
            assert await searched(here, asked) == await plain(here, chat, asked), word
        monkeypatch.setattr(searching, "WORK_MAX", 30)
        monkeypatch.setattr(scanning, "TAIL_PAGES_MAX", 0)
        asked = words("part", chat)
        assert await searched(here, asked) == await plain(here, chat, asked)


async def test_segments_that_are_behind_are_not_believed(tmp_path: Path) -> None:
    async with open_deployment(tmp_path) as here:
        chat = await here.group(*AUTHORS)
        for _ in range(6):
            await all_of([here.writing.send(ANN, chat, "pecan") for _ in range(100)])
        assert await index(here, chat) == 2
        store = here.core.store.search_index
        state = await store.state(chat)
        [segment] = await store.segments(chat, 0, 0)
        old = Segment(number=0, until=256, began_at=segment.began_at, version=3)
        assert await store.put(chat, [old], state, state)
        asked = words("pecan", chat)
        assert await searched(here, asked) == await plain(here, chat, asked)


async def test_searches_of_a_user_are_limited_and_cursors_are_checked(tmp_path: Path) -> None:
    async with open_deployment(tmp_path) as here:
        chat = await here.group(*AUTHORS)
        for number in range(2):
            await here.writing.send(ANN, chat, f"pecan {number}")
        search, asked = here.core.verbs.search, words("pecan", chat)
        async with search._slot(BOB), search._slot(BOB):
            assert isinstance(await outcome(search(BOB, asked, None, 1)), RateLimited)
        results = await search(BOB, asked, None, 1)
        await here.writing.remove_member(ANN, chat, BOB)
        assert isinstance(await outcome(search(BOB, asked, results.cursor, 1)), ChatNotFound)
        other = here.core.vault.cursors.seal(searching._purpose(asked), ANN, b"from elsewhere")
        assert isinstance(await outcome(search(ANN, asked, other, 1)), CursorInvalid)


async def test_no_word_is_stored_readable(tmp_path: Path) -> None:
    async with open_deployment(tmp_path) as here:
        chat = await here.group(*AUTHORS)
        for _ in range(3):
            await all_of([here.writing.send(ANN, chat, "pistachio") for _ in range(100)])
        assert await index(here, chat) == 1
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(path.suffix == ".db" for path in files)
    for path in files:
        assert b"pistachio" not in path.read_bytes(), path
