# SPDX-License-Identifier: Apache-2.0
"""Two tenants in which the same happens, except that in one of them somebody blocks somebody.

Amy blocks Ben. What the two are told is compared with what they are told where nobody blocks
anybody, and where Amy has not looked into their direct chat since.
"""

import re
from dataclasses import dataclass, field
from typing import Any, Final

from tests.integration.rest_world import Actor, Json, Rest
from tidings.model.ids import ChatId, user_key

BLOCKER, BLOCKED, THIRD = "amy", "ben", "cat"
IGNORED_HEADERS: Final = ("x-request-id", "ratelimit", "date")
_IDS: Final = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}|[0-9a-f]{32}")
_SECRET_FIELDS: Final = re.compile(r'"(next_cursor|url)":"[^"]*"')
FILE: Final = {"name": "almond.png", "content_type": "image/png", "size": 2}

Told = tuple[int, dict[str, str], str]
"""Status, headers and body of an answer, without what differs from tenant to tenant."""


@dataclass
class Twin:
    """One of the two tenants."""

    rest: Rest
    tenant: str
    actors: dict[str, Actor] = field(default_factory=dict)
    names: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What the parameters of paths are to be, for each of the two."""

    async def told(self, caller: str, method: str, path: str, body: Json | None) -> Told:
        """What somebody is told."""
        answer = await self.actors[caller].call(method, path, body)
        headers = {
            name: _IDS.sub("-", text)
            for name, text in answer.headers.items()
            if name not in IGNORED_HEADERS
        }
        text = _SECRET_FIELDS.sub(r'"\1":"-"', answer.content.decode("utf-8", "replace"))
        return answer.status_code, headers, _IDS.sub("-", text).replace(self.tenant, "-")


async def make_twin(rest: Rest, tenant: str, *, is_blocked: bool) -> Twin:
    """A tenant with a group and a direct chat, in which both wrote before and after the block."""
    twin = Twin(rest, tenant)
    for name in (BLOCKER, BLOCKED, THIRD, "dan"):
        twin.actors[name] = await rest.user(name, tenant)
    amy, ben = twin.actors[BLOCKER], twin.actors[BLOCKED]
    group, direct = await amy.group(BLOCKED, THIRD), await amy.direct(BLOCKED)
    twin.names = {
        name: {"group": group, "direct": direct, "other": other, "emoji": "👍", "tenant": tenant}
        for name, other in ((BLOCKER, BLOCKED), (BLOCKED, BLOCKER))
    }
    for name in (BLOCKER, BLOCKED):
        # A group of the caller, to which the other can be added.
        twin.names[name]["own"] = await twin.actors[name].group(THIRD)
    await amy.ok("PUT", f"/v1/chats/{group}/members/{BLOCKED}", {"role": "admin"})
    for chat in (group, direct):
        for actor, other in ((amy, BLOCKED), (ben, BLOCKER)):
            await _write(twin, actor, other, chat, "early")
    await _settle(twin)
    if is_blocked:
        await amy.ok("PUT", f"/v1/me/blocks/{BLOCKED}")
    for chat in (group, direct):
        for actor, other in ((ben, BLOCKER), (amy, BLOCKED)):
            if (actor, chat) != (amy, direct):
                await _write(twin, actor, other, chat, "late")
    await _read(twin, amy, group)
    if is_blocked:
        await _read(twin, amy, direct)
    await _settle(twin)
    return twin


async def _write(twin: Twin, actor: Actor, other: str, chat: str, cmid: str) -> None:
    """A message with a file that mentions the other, edited, with a reaction of its sender."""
    twin.rest.clock.time += 1_000  # no two chats are in the order of their random ids
    made = await actor.ok("POST", "/v1/attachments", FILE)
    url, kind = made["upload_url"], {"Content-Type": "image/png"}
    await actor.call("PUT", url, content=b"ab")
    await actor.call("PUT", f"{url}/thumbnail", content=b"a", headers=kind)
    files = [made["attachment_id"]]
    sent = await actor.send(chat, cmid, mentions=[other], attachments=files)
    message = f"/v1/chats/{chat}/messages/{sent['sequence']}"
    await actor.ok("PATCH", message, {"content": f"hazel {cmid}"})
    await actor.ok("PUT", f"{message}/reactions/❤️")
    await actor.ok("PUT", f"/v1/chats/{chat}/pins/{sent['sequence']}")
    await actor.send(chat, f"{cmid}-answer", "nougat", reply_to=sent["sequence"])
    where = "group" if chat == twin.names[other]["group"] else "direct"
    twin.names[other] |= {
        f"{where} sequence": sent["sequence"],
        f"{where} attachment_id": files[0],
        f"{where} message_id": sent["message_id"],
    }


async def _read(twin: Twin, actor: Actor, chat: str) -> None:
    head = (await actor.ok("GET", f"/v1/chats/{chat}/entries?after=0"))["data"][-1]["sequence"]
    mark = {"delivered": head, "read": head}
    await actor.ok("PUT", f"/v1/chats/{chat}/receipt", mark)


async def _settle(twin: Twin) -> None:
    """Own messages move receipts a little later."""
    for name in (BLOCKER, BLOCKED):
        for where in ("group", "direct"):
            chat = ChatId(twin.names[name][where])
            await twin.rest.core.receipts.settle(user_key(twin.tenant, name), chat)
