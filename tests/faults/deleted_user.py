# SPDX-License-Identifier: Apache-2.0
"""A person in many places of a deployment, whose deletion must leave nothing behind."""

from dataclasses import dataclass
from typing import Any, Final

import httpx
import jwt
import msgspec

from tests.contract.engines import Store
from tests.contract.identity_builders import a_session
from tests.support.people import Person, Town
from tidings.assembly.system import SystemClock
from tidings.model.ids import rfc3339, user_key
from tidings.model.limits import DAY_MS
from tidings.model.notifications import Copy
from tidings.model.push import PushRegistration

ZOE = user_key("town", "zoe")
PHONE = "+4915112345678"
FILE = b"Zoe-Canary: what is in a file"
TRACES = (b"Zoe-Canary", PHONE.encode(), b"zoe-device", b"zoe@canary.example")
"""What is known of the person, besides the id."""


@dataclass(frozen=True, slots=True)
class Belongings:
    """How much the person has of what there can be much of."""

    sessions: int
    notifications: int
    groups: int

    @property
    def total(self) -> int:
        """The number of all that is deleted one after the other."""
        return self.sessions + self.notifications + self.groups

    @property
    def counts(self) -> dict[str, int]:
        """The counts of a receipt."""
        return {
            "push_devices": 1,
            "sessions": self.sessions,
            "keys": 1,
            "files": 2,
            "mentions": 1,
            "scheduled": 1,
            "blocks": 1,
            "groups_left": self.groups,
            "direct_chats_left": 1,
            "notifications": self.notifications,
            "inboxes": 1,
        }


MANY: Final = Belongings(sessions=60, notifications=80, groups=30)
FEW: Final = Belongings(sessions=12, notifications=16, groups=6)


class DeletedUser:
    """A person in many places, whose deletion is asked for until it is done."""

    def __init__(self, town: Town, has: Belongings = MANY) -> None:
        self.town = town
        """Where requests go."""
        self.has = has
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
            "avatar_url": "https://pictures.example/Zoe-Canary.png",
            "metadata": {"note": "Zoe-Canary"},
        }
        events = ["message.created", "report.created", "user.deleted"]
        for path, body in {
            "users/zoe": profile,
            "inboxes/news": {"title": "News"},
            "webhooks/all": {"url": None, "events": events},
        }.items():
            made = await self.request("PUT", f"/v1/tenants/town/{path}", body)
            assert made.status_code == 201, made.text
        zoe, ann = await self.town.user("zoe"), await self.town.user("ann")
        chats = [await zoe.create_group(f"g{number}", [ann]) for number in range(self.has.groups)]
        async with zoe.device() as device:
            for chat in [*chats[:3], await zoe.create_direct(ann)]:
                await device.send(chat)
        await self.leave_traces(zoe, ann, chats[0])

    async def leave_traces(self, zoe: Person, ann: Person, chat: str) -> None:
        """Files, a scheduled message, a mention, a reaction, two reports, a block, preferences."""
        sent, _ = [await self.upload(zoe) for _ in range(2)]
        own = (await zoe.send(chat, "Zoe-Canary", attachments=[sent]))["sequence"]
        await ann.call("POST", f"/v1/chats/{chat}/messages/{own}/report", {"reason": "spam"})
        later = rfc3339(SystemClock().now() + DAY_MS)
        await zoe.send(chat, "Zoe-Canary", send_at=later)
        about = (await ann.send(chat, mentions=["zoe"]))["sequence"]
        message = f"/v1/chats/{chat}/messages/{about}"
        await zoe.call("PUT", f"{message}/reactions/👍")
        report = {"reason": "other", "comment": "Zoe-Canary"}
        await zoe.call("POST", f"{message}/report", report)
        ben = await self.town.user("ben")
        await zoe.call("PUT", f"/v1/me/blocks/{ben.user_id}")
        hours = {"from": "22:00", "to": "07:00", "timezone": "Europe/Berlin"}
        await zoe.call("PUT", "/v1/inboxes/news/preferences", {"quiet_hours": hours})

    async def upload(self, zoe: Person) -> str:
        """A whole upload of the person; returns its id."""
        file = {"name": "Zoe-Canary.txt", "content_type": "text/plain", "size": len(FILE)}
        made = await zoe.call("POST", "/v1/attachments", file)
        headers = {"Authorization": f"Bearer {zoe.token}"}
        answer = await self.town.http.put(made["upload_url"], content=FILE, headers=headers)
        assert answer.status_code == 204, answer.text
        return str(made["attachment_id"])

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
        assert found == (self.has.counts, self.has.counts), found
        return receipt


async def fill(store: Store, has: Belongings, now: int) -> None:
    """Add what would take long over REST."""
    for number in range(has.sessions):
        await store.sessions.open(
            a_session(ZOE, device=f"zoe-device-{number}", created_at=now, expires_at=now + DAY_MS)
        )
    registration = PushRegistration(
        user_id=ZOE, device="zoe-device", provider="fcm", box="", digest="d", created_at=now
    )
    await store.push.register(registration)
    for number in range(has.notifications):
        copy = Copy(
            notification_id=f"n{number}", category=None, received_at=now, expires_at=now + DAY_MS
        )
        await store.copies.deliver([ZOE], "news", copy)
    await store.copies.read_before(ZOE, "news", now, 0)


def traces_in_text(text: bytes) -> list[str]:
    """What these bytes say about the person."""
    return [trace.decode() for trace in TRACES if trace in text]
