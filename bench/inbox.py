# SPDX-License-Identifier: Apache-2.0
"""Measures notifications to a long list of users, and to all users of a tenant with a million
users."""

import asyncio
import random
from argparse import ArgumentParser, Namespace
from contextlib import closing
from pathlib import Path
from time import perf_counter
from typing import Final

import msgspec

from bench.plain_socket import PlainSocket
from bench.server import Target, own_folder, own_server
from tidings.model.ids import user_key
from tidings.stores.sqlite.engine.connections import DATABASE, connect
from tidings.tools.load_crowd import TENANT, People, side_by_side
from tidings.tools.load_talker import Rest

OTHER: Final = "other"
INBOX: Final = "news"
CONFIG: Final = {"title": "News", "description": "", "schema_version": "1.0"}
MESSAGE: Final = {"title": "A new feature", "body": "There is something that was not there before."}
ASK_EVERY_SECONDS: Final = 0.05
AT_ONCE: Final = 8
DRAW: Final = 7
"""Seed for choosing users at random, so that every run chooses the same users."""


class InboxResult(msgspec.Struct, frozen=True, kw_only=True):
    """Results of both measurements."""

    listed: int
    listed_seconds: float
    """Time from the request until the last user had a copy."""
    answer_seconds: float
    beside_seconds: float
    """Time until ten users of another tenant had a copy, if their notification was posted right
    after the long list."""
    everyone: int
    seen_ms: float
    """Time from the request until a connected user received the notification."""
    drawn: int
    wrong: int
    """Number of the chosen users whose list or unread count was wrong."""
    look_ms: float
    """Average time of one request, while several users send requests."""
    grown_bytes: int


def add_options(parser: ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--listed", type=int, default=100_000)
    parser.add_argument("--everyone", type=int, default=1_000_000)
    parser.add_argument("--drawn", type=int, default=1_000)


async def run(options: Namespace) -> InboxResult:
    """Run both measurements, each on its own server."""
    async with own_server() as target:
        answered, done, beside = await _to_listed(target, options.listed)
    with own_folder() as folder:
        async with own_server(folder / "data") as target:
            await _prepared(target)
        _make_users(folder / "data", options.everyone)
        async with own_server(folder / "data") as target:
            seen, look, wrong, grown = await _to_everyone(target, options)
    result = InboxResult(
        listed=options.listed,
        listed_seconds=done,
        answer_seconds=answered,
        beside_seconds=beside,
        everyone=options.everyone,
        seen_ms=seen * 1e3,
        drawn=options.drawn,
        wrong=wrong,
        look_ms=look * 1e3,
        grown_bytes=grown,
    )
    print(
        f"{result.listed:,} listed users: answered after {result.answer_seconds:.2f} s, "
        f"all have it after {result.listed_seconds:.2f} s; ten users of another tenant meanwhile "
        f"after {result.beside_seconds:.2f} s\n"
        f"everyone, {result.everyone:,} users: seen after {result.seen_ms:.0f} ms; of "
        f"{result.drawn:,} drawn at random {result.wrong} have a wrong list or count, a list takes "
        f"{result.look_ms:.1f} ms; the server grew by {result.grown_bytes / 2**20:.1f} MiB",
        flush=True,
    )
    return result


async def _prepared(target: Target, tenant: str = TENANT) -> None:
    with closing(Rest(target.url)) as rest:
        await People(rest, target.root_key, tenant).start()
        await rest.call("PUT", _path(tenant), target.root_key, CONFIG)


def _path(tenant: str) -> str:
    return f"/v1/tenants/{tenant}/inboxes/{INBOX}"


async def _post(
    rest: Rest, target: Target, audience: dict[str, object], tenant: str = TENANT
) -> str:
    path = f"{_path(tenant)}/notifications"
    body = {"audience": audience, "category": "product", "message": MESSAGE}
    return str((await rest.call("POST", path, target.root_key, body))["id"])


async def _to_listed(target: Target, count: int) -> tuple[float, float, float]:
    await _prepared(target)
    await _prepared(target, OTHER)
    uids = [f"user-{number:07}" for number in range(count)]
    random.Random(DRAW).shuffle(uids)
    with closing(Rest(target.url)) as rest:
        started = perf_counter()
        made = await _post(rest, target, {"kind": "users", "uids": uids})
        answered = perf_counter() - started
        beside = asyncio.create_task(_beside(rest, target, uids[:10]))
        await _done(rest, target, TENANT, made)
        return answered, perf_counter() - started, await beside


async def _beside(rest: Rest, target: Target, uids: list[str]) -> float:
    started = perf_counter()
    made = await _post(rest, target, {"kind": "users", "uids": uids}, OTHER)
    await _done(rest, target, OTHER, made)
    return perf_counter() - started


async def _done(rest: Rest, target: Target, tenant: str, made: str) -> None:
    """Wait until all users have the notification, and check that its progress never decreases."""
    before = 0
    while True:
        told = await rest.call("GET", f"{_path(tenant)}/notifications/{made}", target.root_key)
        if told["delivered"] < before:
            raise SystemExit(f"progress went back from {before} to {told['delivered']}")
        before = told["delivered"]
        if told["status"] == "done":
            return
        await asyncio.sleep(ASK_EVERY_SECONDS)


def _make_users(data: Path, count: int) -> None:
    """Write users directly into the database. They exist, but have never connected."""
    with closing(connect(data / DATABASE)) as db, db:
        db.executemany(
            "INSERT INTO users (user_id, created_at, updated_at) VALUES (?, 1, 1)",
            ((user_key(TENANT, f"user-{number:07}"),) for number in range(count)),
        )


async def _to_everyone(target: Target, options: Namespace) -> tuple[float, float, int, int]:
    drawn = random.Random(DRAW).sample(range(options.everyone), options.drawn)
    with closing(Rest(target.url)) as rest:
        people = People(rest, target.root_key)
        first, *others = [f"user-{number:07}" for number in drawn]
        with closing(PlainSocket(target.url, (await people.user(first)).token)) as socket:
            before = target.own_bytes()
            started = perf_counter()
            await _post(rest, target, {"kind": "everyone"})
            await asyncio.to_thread(socket.receive, "notification")
            seen = perf_counter() - started
        users = await side_by_side([people.user(name) for name in others], AT_ONCE)
        started = perf_counter()
        found = await side_by_side([_look(rest, user.token) for user in users], AT_ONCE)
        look = (perf_counter() - started) / max(1, 2 * len(users))
        return seen, look, found.count(False), target.own_bytes() - before


async def _look(rest: Rest, token: str) -> bool:
    """Return whether a user sees the broadcast exactly once, and as unread."""
    listed = await rest.call("GET", f"/v1/inboxes/{INBOX}/notifications?limit=50", token)
    unread = await rest.call("GET", f"/v1/inboxes/{INBOX}/unread", token)
    return [one["id"] for one in listed["data"]] == ["b1"] and unread == {
        "total": 1,
        "categories": {"product": 1},
    }
