# SPDX-License-Identifier: Apache-2.0
"""Ports for the operator's view of a deployment: its processes, and the connections of a user."""

from collections.abc import Sequence
from typing import Literal, Protocol

import msgspec

from tidings.model.ids import UserKey

Trouble = Literal["starting", "draining", "the store is broken"]
"""Reason why a process cannot serve requests. It is shown to everybody, so only the log has
details."""


class Rates(msgspec.Struct, frozen=True, kw_only=True):
    """Events per second, on average over the last minute: messages that were accepted, entries of
    all kinds (including messages) that were appended, frames, REST requests, and refusals."""

    messages: float
    entries: float
    frames_in: float
    frames_out: float
    requests: float
    refusals: float


class Quantiles(msgspec.Struct, frozen=True):
    """Median and 99th percentile in the last minute: at most this many seconds, or more if it is
    10. Both are null if nothing happened."""

    p50: float | None
    p99: float | None


class Latencies(msgspec.Struct, frozen=True, kw_only=True):
    """Times of the last minute: `send` until a message is durable, `delivery` until a new entry is
    written to a socket, `hello` until a connection is live, and `loop` by how much the event loop
    was late."""

    send: Quantiles
    delivery: Quantiles
    hello: Quantiles
    loop: Quantiles


class Lags(msgspec.Struct, frozen=True, kw_only=True):
    """How far a process is behind: the age of the oldest event that is not published or delivered
    yet (null without a bus), whether it has read the revocations of the last seconds, and how many
    of its background loops have failed since it started."""

    bus_seconds: float | None
    sees_revocations: bool
    failing_loops: int


class ProcessState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one process, as it reported it."""

    name: str
    """Random name, new at every start."""
    host: str
    """Name of the machine or container."""
    pid: int
    roles: tuple[str, ...]
    version: str
    started_at: int
    reported_at: int
    trouble: Trouble | None
    """Why the process cannot serve requests; None if it can."""
    sockets: int
    users: int
    """Connected users."""
    memory_bytes: int
    rates: Rates
    latencies: Latencies
    lags: Lags


class StoreState(msgspec.Struct, frozen=True, kw_only=True):
    """The store of a deployment, and the newest backup."""

    engine: Literal["sqlite", "dynamodb"]
    location: str
    """The data folder, or the region and the prefix of the tables."""
    size_bytes: int | None
    """Size of the files of the embedded store; None for tables."""
    free_bytes: int | None
    """Free space on the disk of the embedded store; None for tables."""
    newest_backup_at: int | None
    """Time of the newest backup by `tidings backup`; None if there is none, and for tables."""


class Setting(msgspec.Struct, frozen=True):
    """A setting as it is in effect."""

    name: str
    value: str | None
    """None if nothing is set, and for a secret."""
    source: str
    """The flag, the environment variable, or the file with the name; `default` if none sets it."""
    is_secret: bool = False


class DeploymentState(msgspec.Struct, frozen=True, kw_only=True):
    """What all processes of a deployment share, and the settings of the process that answers."""

    epoch: str
    bus: Literal["memory", "kafka"]
    registry: Literal["memory", "redis"]
    store: StoreState
    settings: tuple[Setting, ...]


class Processes(Protocol):
    """Knows the processes of a deployment."""

    async def states(self) -> Sequence[ProcessState]:
        """Return the last reported state of each process.

        Raises:
            RegistryUnavailable: The other processes are unknown.
        """
        ...

    def own_state(self) -> ProcessState:
        """Return the state of this process now."""
        ...

    def deployment(self) -> DeploymentState:
        """Return the state of the deployment as this process sees it."""
        ...


class ConnectionState(msgspec.Struct, frozen=True, kw_only=True):
    """One connection of a user. All times are milliseconds since 1970."""

    connection: str
    process: str
    """Name of the process that has the socket."""
    device: str
    address: str | None
    """Address to which rate limits apply; None for this machine itself."""
    client: str | None
    """Name and version of the client's program, as the client says."""
    since: int
    is_away: bool
    is_by_heads: bool
    chats: int
    """Chats that the connection follows."""
    behind: int
    """Chats whose entries it does not have completely."""
    unacknowledged: int
    """Entries that were sent and not acknowledged with `received` yet."""
    window: int
    """Entries that may be sent before the client has to acknowledge some."""
    pending_bytes: int
    """Bytes that the socket has not accepted yet."""
    received_at: int | None
    """Time of the last `received`; None if there was none."""
    used_at: int
    """Time at which the client last asked for something."""


class Connections(Protocol):
    """Finds the connections of users in all processes."""

    async def of(self, user: UserKey) -> tuple[list[ConnectionState], bool]:
        """Return a user's connections, and whether all processes answered."""
        ...
