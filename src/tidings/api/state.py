# SPDX-License-Identifier: Apache-2.0
"""Operations that show the state of the deployment, and the connections of a user."""

from typing import Final, Literal

import msgspec

from tidings.actions.identity.caller import Caller
from tidings.actions.state import SILENT_MS, DeploymentView, StateVerbs
from tidings.api.health import TAG
from tidings.api.operations import operation
from tidings.api.users import TAG as USERS
from tidings.model.ids import rfc3339
from tidings.model.limits import SECOND_MS
from tidings.model.refusals import TenantNotFound, UserNotFound
from tidings.ports.processes import ConnectionState, Lags, Latencies, ProcessState, Rates

Status = Literal["ready", "starting", "draining", "the store is broken", "silent"]


class ProcessRecord(msgspec.Struct):
    """One process. Its status is `silent` if it has not reported for 15 seconds."""

    name: str
    host: str
    pid: int
    roles: list[str]
    version: str
    status: Status
    started_at: str
    reported_at: str
    sockets: int
    users: int
    memory_bytes: int
    rates: Rates
    latencies: Latencies
    lags: Lags


class TotalsRecord(msgspec.Struct):
    """Sums over all processes that are not silent."""

    processes: int
    sockets: int
    rates: Rates


class StoreRecord(msgspec.Struct):
    """The store. Sizes are null if it is DynamoDB."""

    engine: Literal["sqlite", "dynamodb"]
    location: str
    size_bytes: int | None
    free_bytes: int | None


class BackupsRecord(msgspec.Struct):
    """The newest backup by `tidings backup`; null if there is none. Backups that DynamoDB itself
    makes of its tables are not known here."""

    newest_at: str | None
    age_seconds: int | None


class SettingRecord(msgspec.Struct):
    """A setting in effect, and the flag, environment variable or file that sets it. The value of a
    secret is never shown."""

    name: str
    value: str | None
    source: str
    secret: bool


class StateRecord(msgspec.Struct):
    """The deployment and its processes. If `complete` is false, the other processes are unknown.
    The settings are those of the process that answers, `answered_by`."""

    as_of: str
    answered_by: str
    epoch: str
    bus: Literal["memory", "kafka"]
    registry: Literal["memory", "redis"]
    complete: bool
    totals: TotalsRecord
    processes: list[ProcessRecord]
    store: StoreRecord
    backups: BackupsRecord
    settings: list[SettingRecord]


class ConnectionRecord(msgspec.Struct):
    """An open connection of a user. `client` is the name and version that the client states.
    `chats` are followed, and `behind` of them lack entries. Of the `window`, `unacknowledged`
    entries were sent and not confirmed with `received`, whose last time is `last_received_at`."""

    connection_id: str
    process: str
    device: str
    address: str | None
    client: str | None
    since: str
    away: bool
    catch_up: Literal["all", "heads"]
    chats: int
    behind: int
    window: int
    unacknowledged: int
    pending_bytes: int
    last_received_at: str | None
    last_used_at: str


class ConnectionList(msgspec.Struct):
    """The connections of a user, oldest first. If `complete` is false, a process did not answer,
    and connections may be missing."""

    data: list[ConnectionRecord]
    complete: bool


@operation(
    "GET",
    "/v1/state",
    tag=TAG,
    summary="Read the state of the deployment",
    key="root",
)
async def get_state(caller: Caller, state: StateVerbs) -> StateRecord:
    """Return the processes of the deployment with their roles, versions, sockets, rates and lags,
    the store, the newest backup, and the settings in effect with their sources. Other processes
    report every five seconds; a process that died is listed for a minute."""
    return _state_record(await state.read(caller))


@operation(
    "GET",
    "/v1/tenants/{tenant}/users/{user_id}/connections",
    tag=USERS,
    summary="List the connections of a user",
    key="tenant",
    refusals=(TenantNotFound, UserNotFound),
)
async def list_connections(
    caller: Caller, tenant: str, user_id: str, state: StateVerbs
) -> ConnectionList:
    """Return the user's open connections to all processes, at most 20, oldest first."""
    found, is_complete = await state.list_connections(caller, tenant, user_id)
    return ConnectionList([_connection_record(one) for one in found], is_complete)


def _state_record(state: DeploymentView) -> StateRecord:
    deployment, store = state.deployment, state.deployment.store
    processes = [_process_record(process, state.at) for process in state.processes]
    backup = store.newest_backup_at
    return StateRecord(
        as_of=rfc3339(state.at),
        answered_by=state.answered_by,
        epoch=deployment.epoch,
        bus=deployment.bus,
        registry=deployment.registry,
        complete=state.is_complete,
        totals=_totals([process for process in processes if process.status != "silent"]),
        processes=processes,
        store=StoreRecord(store.engine, store.location, store.size_bytes, store.free_bytes),
        backups=BackupsRecord(
            newest_at=None if backup is None else rfc3339(backup),
            age_seconds=None if backup is None else (state.at - backup) // SECOND_MS,
        ),
        settings=[
            SettingRecord(setting.name, setting.value, setting.source, setting.is_secret)
            for setting in deployment.settings
        ],
    )


def _process_record(process: ProcessState, at: int) -> ProcessRecord:
    status: Status = process.trouble or "ready"
    if at - process.reported_at >= SILENT_MS:
        status = "silent"
    return ProcessRecord(
        name=process.name,
        host=process.host,
        pid=process.pid,
        roles=list(process.roles),
        version=process.version,
        status=status,
        started_at=rfc3339(process.started_at),
        reported_at=rfc3339(process.reported_at),
        sockets=process.sockets,
        users=process.users,
        memory_bytes=process.memory_bytes,
        rates=process.rates,
        latencies=process.latencies,
        lags=process.lags,
    )


def _totals(processes: list[ProcessRecord]) -> TotalsRecord:
    sums = {
        name: round(sum(getattr(process.rates, name) for process in processes), 3)
        for name in Rates.__struct_fields__
    }
    sockets = sum(process.sockets for process in processes)
    return TotalsRecord(len(processes), sockets, Rates(**sums))


def _connection_record(connection: ConnectionState) -> ConnectionRecord:
    received_at = connection.received_at
    return ConnectionRecord(
        connection_id=connection.connection,
        process=connection.process,
        device=connection.device,
        address=connection.address,
        client=connection.client,
        since=rfc3339(connection.since),
        away=connection.is_away,
        catch_up="heads" if connection.is_by_heads else "all",
        chats=connection.chats,
        behind=connection.behind,
        window=connection.window,
        unacknowledged=connection.unacknowledged,
        pending_bytes=connection.pending_bytes,
        last_received_at=None if received_at is None else rfc3339(received_at),
        last_used_at=rfc3339(connection.used_at),
    )


OPERATIONS: Final = (get_state, list_connections)
