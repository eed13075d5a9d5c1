# SPDX-License-Identifier: Apache-2.0
"""Lists the servers that are compared: how each is obtained and started, and what it keeps."""

import sys
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
)
from functools import partial
from typing import Final

import msgspec

from bench.peers import centrifugo, nats, tinode
from bench.peers.ejabberd import own_ejabberd
from bench.peers.go_programs import built
from bench.peers.member import Server
from bench.peers.nothing import own_nothing
from bench.peers.ours import own_tidings
from bench.peers.packages import install_ejabberd, install_postgres
from bench.peers.processes import PeerError
from bench.peers.redis import redis_program

Start = Callable[[], AbstractAsyncContextManager[Server]]


class Keeps(msgspec.Struct, frozen=True):
    """What a server keeps in this comparison, and what it lacks beside ours."""

    answer_means: str
    archive: str
    encrypted: str
    receipts: str
    lacks: str


class Peer(msgspec.Struct, frozen=True):
    """A way to run a server."""

    who: str
    start: Start
    keeps: Keeps


def _started(own: Callable[[], AbstractContextManager[Server]]) -> Start:
    @asynccontextmanager
    async def started() -> AsyncIterator[Server]:
        with own() as server:
            yield server

    return started


OURS: Final = Peer(
    "Tidings",
    own_tidings,
    Keeps("on the disk", "yes", "yes", "stored", "-"),
)
NOTHING: Final = Peer(
    "the load alone",
    _started(own_nothing),
    Keeps("nothing", "no", "no", "no", "everything: it shows what the load itself could send"),
)
ARCHIVE: Final = "ejabberd, archive"
NO_ARCHIVE: Final = "ejabberd, no archive"
IN_REDIS: Final = "Centrifugo, synced Redis"
IN_MEMORY: Final = "Centrifugo, memory"
TINODE: Final = "Tinode, PostgreSQL"
NATS: Final = "NATS JetStream, sync always"

_NO_CHAT: Final = "members, receipts, unread counts, idempotency, encryption"


def _ejabberd() -> list[Peer]:
    installed = install_ejabberd()
    lacks = "idempotency, encryption; receipts are messages between clients"
    return [
        Peer(
            ARCHIVE,
            _started(partial(own_ejabberd, installed, archive=True)),
            Keeps("no answer; delivered after the commit", "yes", "no", "no", lacks),
        ),
        Peer(
            NO_ARCHIVE,
            _started(partial(own_ejabberd, installed, archive=False)),
            Keeps("no answer; delivered", "no", "no", "no", f"history, {lacks}"),
        ),
    ]


def _centrifugo() -> list[Peer]:
    program = built(centrifugo.MODULE) / "centrifugo"
    redis_program()
    return [
        Peer(
            IN_REDIS,
            _started(partial(centrifugo.own_centrifugo, program, with_redis=True)),
            Keeps("on the disk", "24 hours", "no", "no", _NO_CHAT),
        ),
        Peer(
            IN_MEMORY,
            _started(partial(centrifugo.own_centrifugo, program, with_redis=False)),
            Keeps("forwarded", "no", "no", "no", f"history, {_NO_CHAT}"),
        ),
    ]


def _tinode() -> list[Peer]:
    own = partial(tinode.own_tinode, built(tinode.MODULE), install_postgres())
    keeps = Keeps("committed", "yes", "no", "stored, 1:1 only", "idempotency, encryption")
    return [Peer(TINODE, _started(own), keeps)]


def _nats() -> list[Peer]:
    program = built(nats.MODULE) / "nats-server"
    keeps = Keeps("on the disk; delivered before that", "yes", "no", "no", _NO_CHAT)
    return [Peer(NATS, partial(nats.own_nats, program), keeps)]


GO_VERSIONS: Final = {
    name: module.version
    for module in (centrifugo.MODULE, tinode.MODULE, nats.MODULE)
    for name in list(module.programs)[:1]
}
FAMILIES: Final = {
    "ejabberd": _ejabberd,
    "centrifugo": _centrifugo,
    "tinode": _tinode,
    "nats": _nats,
}


def obtained(names: Collection[str]) -> list[Peer]:
    """Return our server and those of these families, and last the load alone. A server that cannot
    be had is left out, and a line says why."""
    peers = [OURS]
    for name in names:
        try:
            peers += FAMILIES[name]()
        except PeerError as error:
            say_skipped(name, error)
    return [*peers, NOTHING]


def say_skipped(name: str, error: Exception) -> None:
    """Say in one line that a server is not measured, and why."""
    print(f"SKIPPED {name}: {' '.join(str(error).split())}", file=sys.stderr, flush=True)
