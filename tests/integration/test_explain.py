# SPDX-License-Identifier: Apache-2.0
"""Why a message did not arrive: every verdict, reached with real devices on a real server."""

import pytest

from tests.integration.engines import engine as engine
from tests.integration.engines import no_limits as no_limits
from tests.integration.socket_town import friends
from tests.support.people import Json, Person, Town
from tests.support.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def ask(town: Town, user: Person, **about: str) -> Json:
    answer = await town.http.get(
        f"/v1/tenants/{town.tenant}/explain",
        params={"user_id": user.user_id, **about},
        headers={"Authorization": f"Bearer {await town.tenant_key()}"},
    )
    answer.raise_for_status()
    explained: Json = answer.json()
    return explained


async def explain(town: Town, user: Person, message: Json, code: str) -> Json:
    """Ask about a message until the verdict has this code; the answer."""
    found: list[Json] = []

    async def is_so() -> bool:
        found.append(await ask(town, user, message_id=message["message_id"]))
        return bool(found[-1]["code"] == code)

    await until(is_so, describe=lambda: found[-1])
    return found[-1]


def steps(explained: Json) -> list[str]:
    return [moment["what"] for moment in explained["timeline"]]


async def test_a_message_is_followed_until_it_is_read(town: Town) -> None:
    chat, (ann, bob) = await friends(town, "ann", "bob")
    first = await ann.send(chat)
    never = await explain(town, bob, first, "never_connected")
    assert (steps(never), never["since"]) == (["accepted"], "unknown")
    assert never["timeline"][0]["at"] == first["created_at"]

    phone = bob.device()
    phone.acknowledges = False
    async with phone:
        second = await ann.send(chat)
        written = await explain(town, bob, second, "written")
        assert steps(written) == ["connected", "accepted", "handed_to_gateway", "written_to_socket"]
        assert "device phone" in written["timeline"][-1]["where"]
        assert written["since"] == written["timeline"][-1]["at"]
        phone.tell({"op": "received", "chat": chat, "sequence": second["sequence"]})
        confirmed = await explain(town, bob, second, "acknowledged")
        assert steps(confirmed)[-1] == "acknowledged"
        phone.tell({"op": "read", "chat": chat, "sequence": second["sequence"]})
        read = await explain(town, bob, second, "read")
        assert steps(read)[-2:] == ["acknowledged", "read"]
        assert read["since"] == read["timeline"][-1]["at"] != "unknown"
    third = await ann.send(chat)
    offline = await explain(town, bob, third, "offline")
    assert (await ask(town, ann, message_id=third["message_id"]))["code"] == "own_message"
    assert offline["since"] != "unknown"
