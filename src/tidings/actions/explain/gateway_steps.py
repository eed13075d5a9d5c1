# SPDX-License-Identifier: Apache-2.0
"""Tell the steps of delivery that a gateway knows, for a timeline."""

from collections.abc import Iterator
from typing import Final

from tidings.model.explaining import Moment, What, connection_place
from tidings.ports.journals import GatewayJournal, JournalStep, Step

_STEPS: Final[dict[Step, What]] = {
    "handed_to_gateway": "handed_to_gateway",
    "written_to_socket": "written_to_socket",
    "fetched": "fetched",
    "window_full": "window_full",
    "socket_full": "socket_full",
    "waiting_for_earlier": "waiting_for_earlier",
    "resync_sent": "resync_sent",
    "disconnected": "disconnected",
}
_TOLD_BY_CONNECTION: Final = frozenset({"written_to_socket", "window_full", "socket_full"})
"""Steps that are not listed for an open connection, because its progress shows them already."""


def gateway_moments(gateway: GatewayJournal, since: int) -> Iterator[Moment]:
    """Yield the steps that a gateway knows, and the user's connections there."""
    for connection in gateway.connections:
        yield Moment(
            "connected",
            connection.connected_at,
            connection_place(connection.device, connection.connection),
        )
    is_open = {connection.connection for connection in gateway.connections}
    written = {step.connection for step in gateway.steps if step.step == "written_to_socket"}
    for step in gateway.steps:
        is_told = step.step in _TOLD_BY_CONNECTION and step.connection in is_open
        is_told |= step.step == "unconfirmed" and step.connection in written
        if step.at >= since and not is_told:
            yield _moment(gateway.gateway, step)
    for connection in gateway.connections:
        where = connection_place(connection.device, connection.connection)
        match connection.progress:
            case "written" | "acknowledged":
                yield Moment("written_to_socket", connection.written_at, where)
            case "window_full" | "socket_full" as held_back:
                yield Moment(held_back, connection.since, where)
            case _:
                pass


def _moment(gateway: str, step: JournalStep) -> Moment:
    if step.connection is None:
        return Moment("handed_to_gateway", step.at, f"gateway {gateway}")
    where = connection_place(step.device, step.connection)
    if step.step == "unconfirmed":
        # It was written before the connection closed, but not when.
        return Moment("written_to_socket", None, where)
    return Moment(_STEPS[step.step], step.at, where)
