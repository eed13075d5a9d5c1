# SPDX-License-Identifier: Apache-2.0
"""Consent, on every engine: a stranger's group is a request until it is accepted."""

import pytest

from tests.integration.engines import long_engine as long_engine
from tests.integration.rest_world import Actor, Rest
from tests.integration.test_rest_deleting import finish
from tidings.model import limits
from tidings.model.ids import ChatId, user_key
from tidings.ports.bus import Event, Invited

pytestmark = pytest.mark.asyncio(loop_scope="module")

TENANT = "asking"
NO_CHAT = (404, "chat.not_found")
NO_INVITE = (404, "invite.not_found")


async def people(rest: Rest, *names: str) -> list[Actor]:
    """Users of a tenant that wants strangers to be asked."""
    backend = await rest.tenant(TENANT)
    await backend.ok("PUT", f"/v1/tenants/{TENANT}/settings", {"invites": "ask"})
    return [await rest.user(name, TENANT) for name in names]


async def invites_of(actor: Actor) -> list[dict[str, str]]:
    found: list[dict[str, str]] = (await actor.ok("GET", "/v1/me/invites"))["data"]
    return found


async def befriend(rest: Rest, one: Actor, other: Actor) -> None:
    chat = await one.direct(other.name)
    await other.send(chat, f"hello-{one.name}")
    await rest.core.receipts.close()


@pytest.mark.attack("S07", "F03", "D18")
async def test_a_stranger_sees_nothing_of_a_group_until_accepting(rest: Rest) -> None:
    amy, ben = await people(rest, "amy", "ben")
    chat = await amy.group("ben", name="Club")
    await amy.send(chat, "secret")

    (invite,) = await invites_of(ben)
    assert (invite["chat_id"], invite["name"], invite["invited_by"]) == (chat, "Club", "amy")
    assert (await ben.ok("GET", "/v1/chats"))["data"] == []
    assert await ben.refused("GET", f"/v1/chats/{chat}/entries") == NO_CHAT
    body = {"client_message_id": "m", "content": "hi"}
    assert await ben.refused("POST", f"/v1/chats/{chat}/messages", body) == NO_CHAT
    assert len((await amy.ok("GET", f"/v1/chats/{chat}/members"))["data"]) == 1

    accepted = await ben.ok("POST", f"/v1/me/invites/{chat}/accept")
    again = await ben.ok("POST", f"/v1/me/invites/{chat}/accept")

    assert accepted["chat_id"] == again["chat_id"] == chat
    assert await invites_of(ben) == []
    entries = (await amy.ok("GET", f"/v1/chats/{chat}/entries?after=0"))["data"]
    assert (entries[-1]["kind"], entries[-1]["sender"]) == ("added", "ben")


async def test_who_is_acquainted_is_added_at_once(rest: Rest) -> None:
    cleo, dan, eve = await people(rest, "cleo", "dan", "eve")
    await befriend(rest, cleo, dan)

    chat = await cleo.group("dan", "eve")

    members = (await cleo.ok("GET", f"/v1/chats/{chat}/members"))["data"]
    assert {one["user_id"] for one in members} == {"cleo", "dan"}
    assert (await invites_of(dan), len(await invites_of(eve))) == ([], 1)


@pytest.mark.attack("D05")
async def test_adding_a_stranger_asks_who_may_add(rest: Rest) -> None:
    fred, gina, *_ = await people(rest, "fred", "gina", "hal")
    await befriend(rest, fred, gina)
    chat = await fred.group("gina")
    path = f"/v1/chats/{chat}/members/hal"
    assert await gina.refused("PUT", path) == (403, "auth.forbidden")
    assert (await people(rest, "hal"))[0].name == "hal"

    asked = await fred.call("PUT", path, {"role": "admin"})

    assert (asked.status_code, asked.json()["role"]) == (202, "admin")
    (hal,) = await people(rest, "hal")
    assert [one["chat_id"] for one in await invites_of(hal)] == [chat]
    assert (await fred.call("PUT", f"/v1/chats/{chat}/members/gina", {"role": "admin"})).is_success


@pytest.mark.attack("D09", "D11")
async def test_an_invitation_ends_with_the_rights_of_who_asked(rest: Rest) -> None:
    ida, jon, kim = await people(rest, "ida", "jon", "kim")
    await befriend(rest, ida, jon)
    chat = await ida.group("jon", "kim")
    await ida.ok("DELETE", f"/v1/chats/{chat}/members/ida")

    assert await kim.refused("POST", f"/v1/me/invites/{chat}/accept") == NO_INVITE
    assert await invites_of(kim) == []
    assert await kim.refused("POST", f"/v1/me/invites/{chat}/accept") == NO_INVITE


async def test_who_declines_is_asked_no_longer(rest: Rest) -> None:
    lou, max_ = await people(rest, "lou", "max")
    chat = await lou.group("max")
    for _ in range(2):
        await max_.ok("DELETE", f"/v1/me/invites/{chat}")
    assert await invites_of(max_) == []
    assert await max_.refused("POST", f"/v1/me/invites/{chat}/accept") == NO_INVITE


@pytest.mark.attack("S07", "F03")
async def test_who_declined_is_left_in_peace_for_a_week(rest: Rest) -> None:
    sam, tom, una = await people(rest, "sam", "tom", "una")
    await befriend(rest, sam, una)
    chat = await sam.group("tom")
    await sam.ok("PUT", f"/v1/chats/{chat}/members/una", {"role": "admin"})
    await tom.ok("DELETE", f"/v1/me/invites/{chat}")

    for asker in (sam, una):
        assert await asker.refused("PUT", f"/v1/chats/{chat}/members/tom") == (409, "limit.reached")
    assert await invites_of(tom) == []
    rest.clock.time += limits.INVITE_DECLINED_MS
    sam, tom = await people(rest, "sam", "tom")
    assert (await sam.call("PUT", f"/v1/chats/{chat}/members/tom")).status_code == 202
    assert [one["chat_id"] for one in await invites_of(tom)] == [chat]


@pytest.mark.attack("S07", "F03")
async def test_devices_are_told_once_while_an_invitation_waits(rest: Rest) -> None:
    vic, wes = await people(rest, "vic", "wes")
    told: list[Event] = []
    rest.core.bus.subscribe(told.append)
    chat = await vic.group("wes")

    for _ in range(3):
        assert (await vic.call("PUT", f"/v1/chats/{chat}/members/wes")).status_code == 202

    assert len(await invites_of(wes)) == 1
    assert len([one for one in told if isinstance(one, Invited) and one.chat == chat]) == 1


async def the_way_back(rest: Rest, owner: Actor, guest: Actor) -> str:
    """A group whose member still has the invitation that waited when they were added."""
    chat = await owner.group(guest.name)
    invites, now = rest.core.store.invites, rest.clock.time
    invite = await invites.get(user_key(TENANT, guest.name), ChatId(chat), now)
    assert invite is not None
    await guest.ok("POST", f"/v1/me/invites/{chat}/accept")
    # As after a stop between the entry and the end of the invitation.
    await invites.put(invite, now)
    return chat


@pytest.mark.attack("S07", "D09")
@pytest.mark.parametrize("by", ["owner", "tenant", "guest", "guest, of many"])
async def test_an_old_invitation_is_no_way_back_for_who_was_removed(rest: Rest, by: str) -> None:
    owner, guest, other = await people(
        rest, *(f"{name}-{by[-3:]}" for name in ("xen", "yan", "zoe"))
    )
    chat = await the_way_back(rest, owner, guest)
    path = f"/v1/chats/{chat}/members/{guest.name}"
    assert await other.refused("DELETE", path) == NO_CHAT, "who may not remove takes nothing back"
    assert len(await invites_of(guest)) == 1

    if by == "tenant":
        backend = await rest.tenant(TENANT)
        await backend.ok("DELETE", f"/v1/tenants/{TENANT}{path.removeprefix('/v1')}")
    elif by == "guest, of many":
        await guest.ok("POST", "/v1/chats/leave", {"chats": [chat]})
    else:
        await (owner if by == "owner" else guest).ok("DELETE", path)

    assert await invites_of(guest) == []
    assert await guest.refused("POST", f"/v1/me/invites/{chat}/accept") == NO_INVITE
    members = (await owner.ok("GET", f"/v1/chats/{chat}/members"))["data"]
    assert [one["user_id"] for one in members] == [owner.name]


async def test_an_invitation_ends_with_its_group(rest: Rest) -> None:
    dot, eli = await people(rest, "dot", "eli")
    chat = await dot.group("eli")
    await dot.ok("DELETE", f"/v1/chats/{chat}")

    assert await eli.refused("POST", f"/v1/me/invites/{chat}/accept") == NO_INVITE
    assert await invites_of(eli) == []


@pytest.mark.attack("S07", "D09")
async def test_who_is_added_meanwhile_is_asked_no_longer(rest: Rest) -> None:
    abe, bea, cal = await people(rest, "abe", "bea", "cal")
    await befriend(rest, abe, bea)
    await befriend(rest, bea, cal)
    chat = await abe.group("bea", "cal")
    await abe.ok("PUT", f"/v1/chats/{chat}/members/bea", {"role": "admin"})
    assert len(await invites_of(cal)) == 1

    await bea.ok("PUT", f"/v1/chats/{chat}/members/cal")

    assert await invites_of(cal) == []
    await bea.ok("DELETE", f"/v1/chats/{chat}/members/cal")
    assert await cal.refused("POST", f"/v1/me/invites/{chat}/accept") == NO_INVITE


async def test_an_invitation_is_forgotten_in_time(rest: Rest) -> None:
    ned, _ = await people(rest, "ned", "ola")
    chat = await ned.group("ola")
    rest.clock.time += limits.INVITE_MS
    (ola,) = await people(rest, "ola")
    assert await invites_of(ola) == []
    assert await ola.refused("POST", f"/v1/me/invites/{chat}/accept") == NO_INVITE


async def test_a_repeated_request_asks_again_only_who_is_not_in_yet(rest: Rest) -> None:
    pam, quinn, _ = await people(rest, "pam", "quinn", "ria")
    wish = {"type": "group", "name": "Club", "members": ["quinn", "ria"]}
    key = {"Idempotency-Key": "club"}
    made = (await pam.call("POST", "/v1/chats", wish, key)).json()["chat_id"]
    await quinn.ok("POST", f"/v1/me/invites/{made}/accept")

    again = await pam.call("POST", "/v1/chats", wish, key)

    assert (again.status_code, again.json()["chat_id"]) == (200, made)
    assert await invites_of(quinn) == []


@pytest.mark.attack("F03")
async def test_a_repeated_request_asks_nobody_into_a_deleted_group(rest: Rest) -> None:
    una, vic = await people(rest, "una", "vic")
    wish = {"type": "group", "name": "Club", "members": ["vic"]}
    key = {"Idempotency-Key": "gone"}
    made = (await una.call("POST", "/v1/chats", wish, key)).json()["chat_id"]
    await vic.ok("POST", f"/v1/me/invites/{made}/accept")
    await una.ok("DELETE", f"/v1/chats/{made}")
    await finish(rest)

    assert (await una.call("POST", "/v1/chats", wish, key)).status_code == 404
    assert await invites_of(vic) == []


async def test_tenants_that_say_nothing_add_at_once(rest: Rest) -> None:
    one, other = await rest.users("one", "other")
    chat = await one.group("other")
    assert (await other.ok("GET", f"/v1/chats/{chat}"))["chat_id"] == chat
    backend = await rest.tenant()
    wrong = await backend.call("PUT", "/v1/tenants/acme/settings", {"invites": "never"})
    assert wrong.status_code == 400
    assert wrong.json()["errors"][0]["pointer"] == "/invites"
