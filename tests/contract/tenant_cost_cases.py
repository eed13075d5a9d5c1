# SPDX-License-Identifier: Apache-2.0
"""The use cases of tenants whose cost is measured: what they look at, whom they ban, and chats that
they create."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from scripts import cost_page as cases
from tests.contract.metering import Process
from tidings.actions.identity.caller import Root
from tidings.actions.identity.tenants import GetTenant
from tidings.assembly.rest import make_explain
from tidings.model.ids import UserKey, tenant_of, user_id
from tidings.ports.journals import NoJournals

if TYPE_CHECKING:
    from tests.contract.cost_cases import Ground

Act = Callable[[Process], Awaitable[object]]
Step = Callable[["Ground", str, Act], Awaitable[None]]


async def acts_of_tenants(ground: "Ground", step: Step, users: list[UserKey]) -> None:
    """What a tenant does with its users, who exist."""
    tenant, names = tenant_of(users[0]), [user_id(user) for user in users]

    async def look(process: Process) -> None:
        found = await GetTenant(process.store.tenants)(Root(), tenant)
        await process.core.quotas.used(found)

    async def trace(process: Process) -> None:
        find = make_explain(process.core, NoJournals()).trace
        await find(Root(), tenant, names[0], None, None)

    async def create(process: Process) -> None:
        made = process.core.verbs.create_as_tenant
        await made(Root(), tenant, "group", "Crew", None, names, None)

    async def ban(process: Process) -> None:
        await process.core.verbs.change_report.ban(users[0], process.core.clock.now() + 60_000)

    await step(ground, cases.TENANT, look)
    await step(ground, cases.TRACE, trace)
    await step(ground, cases.CREATE_AS_TENANT, create)
    await step(ground, cases.BAN, ban)
