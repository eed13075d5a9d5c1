# SPDX-License-Identifier: Apache-2.0
"""The state of the deployment and the connections of a user, over REST."""

import pytest

from tests.integration.engines import long_engine as long_engine
from tests.integration.rest_world import ROOT_KEY, TENANT, Rest

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_root_reads_the_state_of_a_single_process(rest: Rest, engine: str) -> None:
    state = await rest.root.ok("GET", "/v1/state")
    (process,) = state["processes"]
    assert state["answered_by"] == process["name"]
    assert (process["status"], state["complete"]) == ("ready", True)
    assert state["totals"]["processes"] == 1
    assert process["roles"] == ["gateway", "api", "worker", "relay"]
    assert state["store"]["engine"] == engine
    has_files = engine == "sqlite"
    assert (state["store"]["size_bytes"] is not None) == has_files
    assert (state["store"]["free_bytes"] is not None) == has_files
    assert state["backups"] == {"newest_at": None, "age_seconds": None}
    assert (state["bus"], state["registry"]) == ("memory", "memory")
    rest.condition.trouble = "draining"
    (process,) = (await rest.root.ok("GET", "/v1/state"))["processes"]
    rest.condition.trouble = None
    assert process["status"] == "draining"


@pytest.mark.attack("H05")
async def test_no_key_is_in_the_state(rest: Rest) -> None:
    tenant = await rest.tenant()
    text = (await rest.root.call("GET", "/v1/state")).text
    for secret in (ROOT_KEY, str(tenant.credential)):
        assert secret not in text


async def test_a_user_without_a_device_has_no_connection(rest: Rest) -> None:
    tenant = await rest.tenant()
    path = f"/v1/tenants/{TENANT}/users"
    await tenant.ok("PUT", f"{path}/ann")
    assert await tenant.ok("GET", f"{path}/ann/connections") == {"data": [], "complete": True}
    for nobody in ("nobody", "not%20a%20name"):
        refused = await tenant.refused("GET", f"{path}/{nobody}/connections")
        assert refused == (404, "user.not_found")
    refused = await rest.root.refused("GET", "/v1/tenants/nowhere/users/ann/connections")
    assert refused == (404, "tenant.not_found")
