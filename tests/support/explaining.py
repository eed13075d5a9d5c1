# SPDX-License-Identifier: Apache-2.0
"""Asks the server, with the key of a tenant, what became of a message or notification."""

from typing import Any
from urllib.parse import urlencode

from tests.support.people import Json, Person, Town
from tests.support.waiting import until


async def as_tenant(town: Town, method: str, path: str, body: Json | None = None) -> Any:
    """Send a request of the tenant's backend about what belongs to the tenant; return the
    answer."""
    key = {"Authorization": f"Bearer {await town.tenant_key()}"}
    answer = await town.http.request(
        method, f"/v1/tenants/{town.tenant}/{path}", json=body, headers=key
    )
    answer.raise_for_status()
    return answer.json() if answer.content else None


async def ask(town: Town, user: Person, **about: str) -> Json:
    """Ask once; return the answer."""
    query = urlencode({"user_id": user.user_id, **about})
    explained: Json = await as_tenant(town, "GET", f"explain?{query}")
    return explained


async def explain(town: Town, user: Person, message: Json, code: str) -> Json:
    """Ask about a message until the verdict has this code; return the answer."""
    return await _ask_until(town, user, code, message_id=message["message_id"])


async def explain_notice(town: Town, user: Person, notice: str, code: str, **more: str) -> Json:
    """Ask about a notification until the verdict has this code; return the answer."""
    return await _ask_until(town, user, code, notification_id=notice, **more)


async def _ask_until(town: Town, user: Person, code: str, **about: str) -> Json:
    found: list[Json] = []

    async def is_so() -> bool:
        found.append(await ask(town, user, **about))
        return bool(found[-1]["code"] == code)

    await until(is_so, describe=lambda: found[-1])
    return found[-1]


async def has_left(town: Town, user: Person) -> None:
    """Wait until no connection of the user is open on the server."""

    async def found() -> object:
        return (await as_tenant(town, "GET", f"users/{user.user_id}/connections"))["data"]

    await until(found, equals=[])


def steps(explained: Json) -> list[str]:
    """Return the names of all steps of the timeline, in order."""
    return [moment["what"] for moment in explained["timeline"]]
