# SPDX-License-Identifier: Apache-2.0
"""Measures search in one long chat: the time of a request, and the cost and size of its index.

The texts have 4 to 20 words of a vocabulary of 20,000 made-up words, some far more frequent than
others, as in a language. There is no network: the benchmark calls the verbs of the server itself.
"""

import asyncio
import itertools
import random
import statistics
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from time import perf_counter, process_time
from typing import Final

import apsw
import msgspec

from bench.server import own_folder
from scripts.services.dynamodb_local import DynamoDBLocal
from tidings.actions.search.searching import Asked
from tidings.assembly import Core, open_core
from tidings.assembly.stores import make_local_tables
from tidings.config import Config, DynamoDb
from tidings.metrics import declared
from tidings.model.entries import Entry
from tidings.model.ids import ChatId, user_key
from tidings.model.refusals import Refusal
from tidings.stores.dynamodb.tables import TABLES
from tidings.stores.sqlite.engine.connections import DATABASE, StoreBroken

VOCABULARY: Final = 20_000
RARE_EVERY: Final = 10_000
"""Each of this many messages has a word that no other message has."""
AT_ONCE: Final = 500
ANN, BEN = user_key("bench", "ann"), user_key("bench", "ben")
_SYLLABLES: Final = "ka lo mi ten ra su per in de con tion al er st ma no ri ve be th an".split()
_SIZES: Final = """
SELECT (SELECT sum(length(box)) FROM messages), (SELECT sum(length(parts)) FROM search_segments),
    (SELECT sum(pgsize) FROM dbstat WHERE name = 'messages')
"""


class SearchFigures(msgspec.Struct, frozen=True):
    """Results for one engine."""

    messages: int
    index_us: float
    """Time to index one message, in microseconds."""
    rare_ms: tuple[float, float, float]
    """Of a search for a word that one message has: the median and the p99 of its time, and the
    median of the CPU time, for which other programs count for nothing."""
    absent_ms: tuple[float, float, float]
    common_ms: tuple[float, float, float]
    read_units: tuple[float, float] = (0, 0)
    """On DynamoDB: of a search for a rare word, and for an absent one."""
    write_units: float = 0
    """On DynamoDB: of the index, for each message."""


def add_options(parser: ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--on-dynamodb", type=int, default=10_000)


async def run(options: Namespace) -> list[SearchFigures]:
    """Measure on SQLite and on DynamoDB Local, and print the results."""
    found = []
    with own_folder() as folder:
        if options.messages:
            found.append(await _measure(Config(data=folder / "data"), options.messages))
            _print_sizes(folder / "data")
        if options.on_dynamodb:
            with DynamoDBLocal(folder / "dynamodb") as local:
                tables = DynamoDb(region="eu-west-1", prefix="search-", endpoint=local.address)
                config = Config(data=folder / "second", store=tables)
                await make_local_tables(config)
                found.append(await _measure(config, options.on_dynamodb))
    return found


async def _measure(config: Config, messages: int) -> SearchFigures:
    def broken(trouble: StoreBroken) -> None:
        raise trouble

    async with open_core(config, broken) as core:
        for user in (ANN, BEN):
            await core.store.users.put(user, display_name=None, phone_number=None, now=1)
        created = await core.verbs.create(ANN, "direct", None, (BEN,), None)
        chat = created.chat_id
        await _fill(core, chat, messages)
        before, began = _units("write"), perf_counter()
        while await core.indexer.step(chat):
            pass
        index_us = (perf_counter() - began) / messages * 1e6
        written = (_units("write") - before) / messages
        before = _units("read")
        rare = await _times(core, chat, [f"rare{n}x" for n in range(0, messages, RARE_EVERY)])
        middle = _units("read")
        absent = await _times(core, chat, [f"absent{n}" for n in range(50)])
        end = _units("read")
        count = len(range(0, messages, RARE_EVERY))
        figures = SearchFigures(
            messages=messages,
            index_us=index_us,
            rare_ms=rare,
            absent_ms=absent,
            common_ms=await _times(core, chat, _vocabulary()[:50]),
            read_units=((middle - before) / count, (end - middle) / 50),
            write_units=written,
        )
    print(figures, flush=True)
    return figures


async def _fill(core: Core, chat: ChatId, messages: int) -> None:
    texts = enumerate(itertools.islice(_texts(), messages))
    while some := list(itertools.islice(texts, AT_ONCE)):
        await asyncio.gather(*(_post(core, chat, number, text) for number, text in some))


async def _post(core: Core, chat: ChatId, number: int, text: str) -> None:
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def answer(outcome: Entry | Refusal, is_replay: bool) -> None:
        if isinstance(outcome, Refusal):
            done.set_exception(outcome)
        else:
            done.set_result(None)

    core.verbs.post((ANN, BEN)[number % 2], chat, f"m{number}", text, None, None, answer)
    await done


def _vocabulary() -> list[str]:
    chance = random.Random(1)
    words: dict[str, None] = {}
    while len(words) < VOCABULARY:
        words["".join(chance.choices(_SYLLABLES, k=chance.choice([1, 2, 2, 3, 3, 4])))] = None
    return sorted(words, key=lambda word: len(word) + 4 * chance.random())


def _texts() -> Iterator[str]:
    words, chance = _vocabulary(), random.Random(2)
    weights = list(itertools.accumulate(1 / (place + 2.7) for place in range(VOCABULARY)))
    for number in itertools.count():
        text = " ".join(chance.choices(words, cum_weights=weights, k=chance.randint(4, 20)))
        yield f"{text} rare{number}x" if number % RARE_EVERY == 0 else text


async def _times(core: Core, chat: ChatId, words: list[str]) -> tuple[float, float, float]:
    """Search for each of the words, and return the figures in milliseconds."""
    times, cpu = [], []
    for word in words:
        began, cpu_began = perf_counter(), process_time()
        asked = Asked(f'"{word}"', chat, None, None, None)
        results = await core.verbs.search(BEN, asked, None, 50)
        times.append((perf_counter() - began) * 1e3)
        cpu.append((process_time() - cpu_began) * 1e3)
        assert results.found or results.cursor is None, word
    p99 = sorted(times)[min(len(times) - 1, int(0.99 * len(times)))]
    return statistics.median(times), p99, statistics.median(cpu)


def _units(kind: str) -> float:
    counts = declared.capacity_units.counts
    return sum(counts[table.name, kind] for table in TABLES)


def _print_sizes(data: Path) -> None:
    with closing(apsw.Connection(str(data / DATABASE))) as db:
        boxes, index, log = db.execute(_SIZES).fetchone() or (0, 0, 0)
    sizes = {"encrypted content": boxes, "log": log, "index": index}
    print(", ".join(f"{name} {size / 1e6:.1f} MB" for name, size in sizes.items()))
