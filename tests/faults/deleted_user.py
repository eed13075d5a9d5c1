# SPDX-License-Identifier: Apache-2.0
"""A person in many places of a deployment, whose deletion must leave nothing behind."""

from typing import Any

import httpx
import jwt
import msgspec

from tests.contract.engines import Store
from tests.contract.identity_builders import a_session
from tests.support.people import Town
from tidings.model.ids import user_key
from tidings.model.limits import DAY_MS
from tidings.model.notifications import Copy

SESSIONS = 60
NOTIFICATIONS = 80
GROUPS = 30
ZOE = user_key("town", "zoe")
PHONE = "+4915112345678"
TRACES = (b"Zoe-Canary", PHONE.encode(), b"zoe-device", b"zoe@canary.example")
"""What is known of the person, besides the id."""
COUNTS = {
    "sessions": SESSIONS,
    "keys": 1,
    "groups_left": GROUPS,
    "direct_chats_left": 1,
    "notifications": NOTIFICATIONS,
    "inboxes": 1,
}


class DeletedUser:
    """A person in many places, whose deletion is asked for until it is done."""

    def __init__(self, town: Town) -> None:
        self.town = town
        """Where requests go."""
        self.phases: set[str] = set()

    async def request(self, method: str, path: str, body: object = None) -> httpx.Response:
        headers = {"Authorization": f"Bearer {await self.town.tenant_key()}"}
        return await self.town.http.request(method, path, json=body, headers=headers)

    async def make(self) -> None:
        """The profile, groups, a direct chat with messages, and an inbox."""
        profile = {
            "display_name": "Zoe-Canary",
            "phone_number": PHONE,
            "email": "zoe@canary.example",
        }
        made = await self.request("PUT", "/v1/tenants/town/users/zoe", profile)
        assert made.status_code == 201, made.text
        inbox = await self.request("PUT", "/v1/tenants/town/inboxes/news", {"title": "News"})
        assert inbox.status_code == 201, inbox.text
        zoe, ann = await self.town.user("zoe"), await self.town.user("ann")
        chats = [await zoe.create_group(f"g{number}", [ann]) for number in range(GROUPS)]
        async with zoe.device() as device:
            for chat in [*chats[:3], await zoe.create_direct(ann)]:
                await device.send(chat)

    async def ask(self) -> dict[str, Any]:
        """The job; empty if the server is gone."""
        try:
            answer = await self.request("DELETE", "/v1/tenants/town/users/zoe")
        except httpx.TransportError:
            return {}
        if answer.status_code != 202:
            assert answer.status_code == 503, answer.text
            return {}
        job: dict[str, Any] = answer.json()
        self.phases.add(job["phase"])
        return job

    async def state(self) -> object:
        return (await self.ask()).get("state")

    async def receipt(self) -> dict[str, Any]:
        """What the receipt of the finished job says; its signature and counts are right."""
        job = await self.ask()
        (key,) = (await self.town.http.get("/.well-known/receipt-keys.json")).json()["keys"]
        payload = jwt.PyJWS().decode(job["receipt"], jwt.PyJWK(key).key, algorithms=["EdDSA"])
        receipt: dict[str, Any] = msgspec.json.decode(payload)
        found = job["counts"], receipt["counts"]
        assert found == (COUNTS, COUNTS), found
        return receipt


async def fill(store: Store, now: int) -> None:
    """Add what would take long over REST."""
    for number in range(SESSIONS):
        await store.sessions.open(
            a_session(ZOE, device=f"zoe-device-{number}", created_at=now, expires_at=now + DAY_MS)
        )
    for number in range(NOTIFICATIONS):
        copy = Copy(
            notification_id=f"n{number}", category=None, received_at=now, expires_at=now + DAY_MS
        )
        await store.copies.deliver([ZOE], "news", copy)
    await store.copies.read_before(ZOE, "news", now, 0)


def traces_in_text(text: bytes) -> list[str]:
    """What these bytes say about the person."""
    return [trace.decode() for trace in TRACES if trace in text]
