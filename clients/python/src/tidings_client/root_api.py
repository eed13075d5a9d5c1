# SPDX-License-Identifier: Apache-2.0
"""The REST API with the root key: tenants, the state of the deployment, and its audit trail.

It is for the operator's own programs. Whoever has the root key has the whole deployment.
"""

from ssl import SSLContext
from typing import Self

import httpx
import msgspec

from tidings_client.listed import ListedTenant, ListPage, Quotas, part_of
from tidings_client.records import Job
from tidings_client.rest import Rest, path_of
from tidings_client.tenant_records import AuditPage
from tidings_client.tokens import Tokens
from tidings_client.world import SystemWorld, World


class Rates(msgspec.Struct, frozen=True, kw_only=True):
    """Events per second, on average over the last minute."""

    messages: float
    entries: float
    frames_in: float
    frames_out: float
    requests: float
    refusals: float


class Quantiles(msgspec.Struct, frozen=True, kw_only=True):
    """Median and 99th percentile of the last minute, in seconds; None if nothing happened."""

    p50: float | None = None
    p99: float | None = None


class Lags(msgspec.Struct, frozen=True, kw_only=True):
    """How far a process is behind."""

    bus_seconds: float | None = None
    sees_revocations: bool
    failing_loops: int


class Process(msgspec.Struct, frozen=True, kw_only=True):
    """One process of the deployment."""

    name: str
    host: str
    pid: int
    roles: list[str]
    version: str
    status: str
    """`ready`, `starting`, `draining`, `the store is broken` or `silent`."""
    started_at: str
    reported_at: str
    sockets: int
    users: int
    memory_bytes: int
    rates: Rates
    latencies: dict[str, Quantiles]
    """For `send`, `delivery`, `hello` and `loop`."""
    lags: Lags


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """Sums over all processes that report."""

    processes: int
    sockets: int
    rates: Rates


class StoreState(msgspec.Struct, frozen=True, kw_only=True):
    """The store; the sizes are None with DynamoDB."""

    engine: str
    location: str
    size_bytes: int | None = None
    free_bytes: int | None = None


class Backups(msgspec.Struct, frozen=True, kw_only=True):
    """The newest backup by `tidings backup`; None if there is none."""

    newest_at: str | None = None
    age_seconds: int | None = None


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """A setting in effect, and its source; a secret has no value."""

    name: str
    value: str | None = None
    source: str
    secret: bool


class DeploymentState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the deployment."""

    as_of: str
    answered_by: str
    """Name of the process that answered, whose settings are listed."""
    epoch: str
    bus: str
    registry: str
    complete: bool
    """False if the other processes are unknown."""
    totals: Totals
    processes: list[Process]
    store: StoreState
    backups: Backups
    settings: list[Setting]


class TenantKey(msgspec.Struct, frozen=True):
    """A new tenant key."""

    key_id: str
    key: str


class RootApi:
    """The requests that only the operator can make, one method for each.

    Use it as an async context manager. Every method raises Refused if the server declines, and
    Unavailable if the server cannot be reached or is overloaded.
    """

    def __init__(
        self,
        url: str,
        key: str,
        *,
        ssl_context: SSLContext | None = None,
        world: World | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Create the API; `transport` replaces the network in tests."""
        own_world: World = world or SystemWorld()
        tokens = Tokens(lambda: key, own_world.wall)
        self._rest = Rest(url.rstrip("/"), tokens, own_world, ssl_context, transport)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._rest.close()

    async def state(self) -> DeploymentState:
        """Return the state of the deployment: its processes, store, backups and settings."""
        return await self._rest.ask(DeploymentState, "GET", "/v1/state")

    async def audit(self, *, limit: int = 50, cursor: str | None = None) -> AuditPage:
        """Return a page of the acts of the last 400 days on all tenants, newest first."""
        return await self._rest.ask(AuditPage, "GET", "/v1/audit", query=part_of(limit, cursor))

    # Tenants. With the root key, a `TenantApi` makes the requests of any tenant.

    async def tenants(
        self, *, limit: int = 50, cursor: str | None = None
    ) -> ListPage[ListedTenant]:
        """Return a page of all tenants, newest first."""
        query = part_of(limit, cursor)
        return await self._rest.ask(ListPage[ListedTenant], "GET", "/v1/tenants", query=query)

    async def put_tenant(
        self,
        tenant: str,
        *,
        name: str | None = None,
        quotas: Quotas | None = None,
        suspended: bool | None = None,
    ) -> ListedTenant:
        """Create a tenant, or change one that exists; None changes nothing.

        While a tenant is suspended, its keys and tokens are refused. `quotas` replaces all quotas.
        """
        wanted = {"name": name, "suspended": suspended}
        body = {key: value for key, value in wanted.items() if value is not None}
        body |= {} if quotas is None else {"quotas": msgspec.to_builtins(quotas)}
        return await self._rest.ask(ListedTenant, "PUT", path_of("tenants", tenant), body)

    async def create_key(self, tenant: str) -> TenantKey:
        """Create a tenant key; only this answer has it. A repeated call creates another one."""
        return await self._rest.ask(TenantKey, "POST", path_of("tenants", tenant, "keys"))

    async def revoke_key(self, tenant: str, key_id: str) -> None:
        """Revoke a tenant key; the next request with it is refused."""
        await self._rest.request("DELETE", path_of("tenants", tenant, "keys", key_id))

    async def delete_tenant(self, tenant: str) -> Job:
        """Delete a tenant with everything that belongs to it; it is suspended from the answer on.

        A repeated request returns the same job, with its progress.
        """
        return await self._rest.ask(Job, "DELETE", path_of("tenants", tenant))
