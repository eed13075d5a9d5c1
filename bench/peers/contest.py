# SPDX-License-Identifier: Apache-2.0
"""Decides in which order the servers run: ours is measured anew before every run of the other."""

from collections.abc import Awaitable, Callable, Iterator
from typing import Final

import msgspec
import uvloop

from bench.machine import Others
from bench.peers.ejabberd import Ejabberd, own_ejabberd
from bench.peers.load import Load
from bench.peers.ours import group_on_ours, pairs_on_ours
from bench.peers.outcome import Outcome
from bench.peers.packages import Installed
from bench.peers.pairs import connect_pairs
from bench.peers.room import connect_room
from bench.server import LOAD_CORE, SERVER_CORE


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The load, which is the same for both servers."""

    pairs: int
    window: int
    members: int
    senders: int
    seconds: float
    rounds: int


class Variant(msgspec.Struct, frozen=True):
    """A way to run the other server."""

    who: str
    archive: bool
    postgres_core: int = SERVER_CORE


ARCHIVE: Final = Variant("ejabberd, archive", archive=True)
PAIRS_VARIANTS: Final = (
    ARCHIVE,
    Variant("ejabberd, archive, PostgreSQL on the load's core", True, LOAD_CORE),
    Variant("ejabberd, no archive", archive=False),
)
GROUP_VARIANTS: Final = (ARCHIVE, Variant("ejabberd, no archive", archive=False))


class Contest(msgspec.Struct, frozen=True):
    """One kind of load, for our server and for the other."""

    name: str
    variants: tuple[Variant, ...]
    ours: Callable[[Settings], Awaitable[Outcome]]
    connect: Callable[[Ejabberd, Settings], Awaitable[Load]]


PAIRS: Final = Contest(
    "1:1",
    PAIRS_VARIANTS,
    lambda it: pairs_on_ours(it.pairs, it.window, it.seconds),
    lambda node, it: connect_pairs(node, it.pairs),
)
GROUP: Final = Contest(
    "group",
    GROUP_VARIANTS,
    lambda it: group_on_ours(it.members, it.senders, it.window, it.seconds),
    lambda node, it: connect_room(node, it.members, it.senders),
)
CONTESTS: Final = {contest.name: contest for contest in (PAIRS, GROUP)}


def outcomes(contest: Contest, settings: Settings, installed: Installed) -> Iterator[Outcome]:
    """Yield the outcomes of our server and of the other in turn, each on a new server."""
    for _ in range(settings.rounds):
        for variant in contest.variants:
            others = Others()
            outcome = uvloop.run(_on_ours(contest, settings))
            yield msgspec.structs.replace(outcome, others=others.share())
            others = Others()
            outcome = _on_peer(contest, variant, settings, installed)
            yield msgspec.structs.replace(outcome, others=others.share())


async def _on_ours(contest: Contest, settings: Settings) -> Outcome:
    return await contest.ours(settings)


def _on_peer(
    contest: Contest, variant: Variant, settings: Settings, installed: Installed
) -> Outcome:
    with own_ejabberd(
        installed,
        archive=variant.archive,
        core=SERVER_CORE,
        postgres_core=variant.postgres_core,
    ) as node:
        outcome = uvloop.run(_loaded(contest, variant, settings, node))
        return msgspec.structs.replace(outcome, database=node.postgres.settings())


async def _loaded(
    contest: Contest, variant: Variant, settings: Settings, node: Ejabberd
) -> Outcome:
    load = await contest.connect(node, settings)
    try:
        return await load.measured(node, variant.who, settings.window, settings.seconds)
    finally:
        load.close()
