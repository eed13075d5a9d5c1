# SPDX-License-Identifier: Apache-2.0
"""A tenant freezes chats and slows them down, on every engine, whichever process appends."""

from typing import Any

import pytest

from tests.integration.cores import Writing
from tests.integration.engines import long_engine as long_engine
from tests.integration.rest_world import NOWHERE, TENANT, Actor, Rest
from tidings.actions.chat.appender import Appender
from tidings.assembly.system import back_off
from tidings.buses.in_process import InProcessBus
from tidings.model import limits
from tidings.model.chat_settings import SLOW_MODE_SECONDS_MAX
from tidings.model.ids import ChatId, user_key
from tidings.model.limits import SECOND_MS
from tidings.model.refusals import ChatFrozen, SlowMode

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def set_up(rest: Rest, chat: str, **settings: Any) -> Any:
    """Change the settings of a chat as its tenant."""
    backend = await rest.tenant()
    return await backend.ok("PATCH", f"/v1/tenants/{TENANT}/chats/{chat}", settings)


def of_another_process(rest: Rest) -> Writing:
    """A writer that has not seen the chat before."""
    core = rest.core
    appender = Appender(core.store.log, InProcessBus(), core.clock, core.chance, back_off)
    return Writing(core, appender)


async def refused_send(actor: Actor, chat: str, cmid: str) -> tuple[int, str]:
    path = f"/v1/chats/{chat}/messages"
    return await actor.refused("POST", path, {"client_message_id": cmid, "content": "hi"})


@pytest.mark.parametrize("kind", ["direct", "group"])
async def test_a_frozen_chat_is_read_and_not_written(rest: Rest, kind: str) -> None:
    amy, ben = await rest.users("amy", "ben")
    chat = await (amy.direct("ben") if kind == "direct" else amy.group("ben"))
    sent = await amy.send(chat, "m1")
    path = f"/v1/chats/{chat}/messages/{sent['sequence']}"

    answer = await set_up(rest, chat, frozen=True)

    assert answer == {"chat_id": chat, "frozen": True, "slow_mode_seconds": 0}
    assert (await amy.ok("GET", f"/v1/chats/{chat}"))["frozen"] is True
    assert await refused_send(amy, chat, "late") == (403, "chat.frozen")
    assert await amy.refused("PATCH", path, {"content": "x"}) == (403, "chat.frozen")
    assert await ben.refused("PUT", f"{path}/reactions/👍") == (403, "chat.frozen")
    with pytest.raises(ChatFrozen):
        await of_another_process(rest).send(user_key(TENANT, "ben"), ChatId(chat))
    body = {"client_message_id": "m1", "content": sent["content"]}
    repeat = await amy.call("POST", f"/v1/chats/{chat}/messages", body)
    assert (repeat.status_code, repeat.json()["sequence"]) == (200, sent["sequence"])
    await amy.ok("DELETE", path)

    await set_up(rest, chat, frozen=False)
    await amy.send(chat, "thawed")


async def test_settings_are_an_entry_and_only_a_change_is_one(rest: Rest) -> None:
    cleo = await rest.user("cleo")
    chat = await cleo.group()

    for _ in range(2):
        await set_up(rest, chat, slow_mode_seconds=30)
    await set_up(rest, chat, frozen=True)
    await set_up(rest, chat)

    page = await cleo.ok("GET", f"/v1/chats/{chat}/entries?after=1")
    shown = [
        (one["kind"], one["sender"], one["frozen"], one["slow_mode_seconds"])
        for one in page["data"]
    ]
    assert shown == [("settings", "~tenant", False, 30), ("settings", "~tenant", True, 30)]


async def test_members_wait_in_slow_mode_and_admins_do_not(rest: Rest) -> None:
    dora, eli, finn = await rest.users("dora", "eli", "finn")
    chat = await dora.group("eli", "finn")
    await eli.send(chat, "before")
    await set_up(rest, chat, slow_mode_seconds=30)
    await eli.send(chat, "m1")

    for number in range(2):
        await dora.send(chat, f"owner-{number}")
    await finn.send(chat, "m1")
    answer = await eli.call(
        "POST", f"/v1/chats/{chat}/messages", {"client_message_id": "m2", "content": "hi"}
    )
    assert (answer.status_code, answer.json()["code"]) == (429, "chat.slow_mode")
    assert answer.headers["Retry-After"] == "30"
    eli_key = user_key(TENANT, "eli")
    with pytest.raises(SlowMode):
        await of_another_process(rest).send(eli_key, ChatId(chat))

    rest.clock.time += 30 * SECOND_MS
    other = of_another_process(rest)
    await other.send(eli_key, ChatId(chat))
    assert await refused_send(eli, chat, "too-early") == (429, "chat.slow_mode")
    await set_up(rest, chat, slow_mode_seconds=0)
    await eli.send(chat, "at-last")


async def test_a_process_recalls_senders_from_the_end_of_a_long_log(
    rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "TAIL_ENTRIES_MAX", 2)
    gil, hal = await rest.users("gil", "hal")
    chat = await gil.group("hal")
    await hal.send(chat, "old")
    await set_up(rest, chat, slow_mode_seconds=60)
    hal_key = user_key(TENANT, "hal")
    await of_another_process(rest).send(hal_key, ChatId(chat))
    for number in range(5):
        await gil.send(chat, f"m{number}")

    with pytest.raises(SlowMode):
        await of_another_process(rest).send(hal_key, ChatId(chat))
    rest.clock.time += 60 * SECOND_MS
    await of_another_process(rest).send(hal_key, ChatId(chat))


async def test_a_tenant_redacts_a_message(rest: Rest) -> None:
    ida, backend = await rest.user("ida"), await rest.tenant()
    chat = await ida.group()
    sent = (await ida.send(chat, "m1"))["sequence"]
    await set_up(rest, chat, frozen=True)
    path = f"/v1/tenants/{TENANT}/chats/{chat}/messages"

    for _ in range(2):
        await backend.ok("DELETE", f"{path}/{sent}")

    assert (await ida.ok("GET", f"/v1/chats/{chat}/messages/{sent}"))["redacted"] is True
    page = await ida.ok("GET", f"/v1/chats/{chat}/entries?after={sent + 1}")
    assert [(one["kind"], one["sender"], one["target"]) for one in page["data"]] == [
        ("redacted", "~tenant", sent)
    ]
    for no_message in (1, 99):
        missing = await backend.refused("DELETE", f"{path}/{no_message}")
        assert missing == (404, "message.not_found")
    other = await rest.tenant("other")
    elsewhere = f"/v1/tenants/other/chats/{chat}/messages/{sent}"
    assert await other.refused("DELETE", elsewhere) == (404, "chat.not_found")


async def test_only_the_tenant_of_the_chat_changes_its_settings(rest: Rest) -> None:
    amy = await rest.user("amy")
    chat = await amy.group()
    elsewhere = await rest.tenant("other")
    path = f"/v1/tenants/{TENANT}/chats"

    assert await amy.refused("PATCH", f"{path}/{chat}", {"frozen": True}) == (403, "auth.forbidden")
    assert await elsewhere.refused("PATCH", f"/v1/tenants/other/chats/{chat}", {}) == (
        404, "chat.not_found",
    )  # fmt: skip
    backend = await rest.tenant()
    assert await backend.refused("PATCH", f"{path}/{NOWHERE}", {}) == (404, "chat.not_found")
    too_slow = {"slow_mode_seconds": SLOW_MODE_SECONDS_MAX + 1}
    assert await backend.refused("PATCH", f"{path}/{chat}", too_slow) == (400, "request.invalid")
