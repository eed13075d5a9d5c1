# SPDX-License-Identifier: Apache-2.0
"""Show the state of the deployment to the operator, and a user's connections to the tenant."""

from typing import Final, NamedTuple

import msgspec

from tidings.actions.identity.caller import Caller, listing_owner, require_root
from tidings.actions.identity.users import existing
from tidings.model.ids import USER, user_key
from tidings.model.refusals import UserNotFound
from tidings.ports.delivery import RegistryUnavailable
from tidings.ports.people import Tenants, UserStore
from tidings.ports.processes import (
    Connections,
    ConnectionState,
    DeploymentState,
    Processes,
    ProcessState,
)
from tidings.ports.world import Clock

REPORT_SECONDS: Final = 5.0
"""Time between two reports of a process."""
SILENT_MS: Final = 15_000
"""Age of the last report from which on a process counts as silent: two reports are missing."""


class DeploymentView(NamedTuple):
    """The state of the deployment at one time."""

    at: int
    answered_by: str
    """Name of this process."""
    deployment: DeploymentState
    processes: list[ProcessState]
    is_complete: bool
    """False if the other processes are unknown, because the registry does not answer."""


class ReadDeployment(msgspec.Struct, frozen=True):
    """Reads the state of the deployment and its processes."""

    processes: Processes
    clock: Clock

    async def __call__(self, caller: Caller) -> DeploymentView:
        """Return the state of the deployment, with its processes in the order of their start.

        The state of this process is current; the others are as old as their last report.
        """
        require_root(caller)
        own, is_complete = self.processes.own_state(), True
        try:
            others = [state for state in await self.processes.states() if state.name != own.name]
        except RegistryUnavailable:
            others, is_complete = [], False
        states = sorted([own, *others], key=lambda state: (state.started_at, state.name))
        deployment = self.processes.deployment()
        return DeploymentView(self.clock.now(), own.name, deployment, states, is_complete)


class ListConnections(msgspec.Struct, frozen=True):
    """Lists the open connections of a user, in all processes."""

    tenants: Tenants
    users: UserStore
    connections: Connections

    async def __call__(
        self, caller: Caller, tenant: str, user_id: str
    ) -> tuple[list[ConnectionState], bool]:
        """Return the user's connections, oldest first, and whether all processes answered.

        Raises:
            UserNotFound: The tenant has no such user.
        """
        await listing_owner(self.tenants, caller, tenant)
        if USER.fullmatch(user_id) is None:
            raise UserNotFound
        user = await existing(self.users, user_key(tenant, user_id))
        return await self.connections.of(user.user)


class StateVerbs(msgspec.Struct, frozen=True):
    """The verbs for the state of the deployment."""

    read: ReadDeployment
    list_connections: ListConnections
