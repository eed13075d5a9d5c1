# SPDX-License-Identifier: Apache-2.0
"""Tenants and users: who may make and see them, and what is refused."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.clock import NOW
from tests.support.intercepted import Intercepted
from tests.support.users import BOB
from tests.unit.small_deployment import (
    ALICE,
    ROOT,
    NoEvents,
    SmallDeployment,
    open_small_deployment,
    read,
    write,
)
from tidings.actions.identity.bans import Bans, BanUser
from tidings.actions.identity.blocks import NoBlocks
from tidings.actions.identity.caller import TenantCaller, UserCaller
from tidings.actions.identity.profiles import (
    GetProfile,
    LastSeen,
    ListProfiles,
    PatchProfile,
    ProfileCache,
)
from tidings.actions.identity.users import (
    EraseUserContent,
    ProfileWriter,
    PutUser,
)
from tidings.actions.jobs.ledger import Erasures
from tidings.buses.in_process import InProcessBus
from tidings.model import limits
from tidings.model.ids import UserKey, user_key
from tidings.model.refusals import (
    Forbidden,
    Invalid,
    KeyNotFound,
    Refusal,
    StoreUnavailable,
    TenantNotFound,
    Unauthenticated,
    UserDeactivated,
    UserNotFound,
)
from tidings.ports.people import ProfileFields, UserStore

ACME = TenantCaller("acme", "0" * 16)
BETA = TenantCaller("beta", "1" * 16)
AS_ALICE = UserCaller(ALICE, None, NOW)
AS_BOB = UserCaller(BOB, None, NOW)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[SmallDeployment]:
    async with open_small_deployment(tmp_path / "data") as opened:
        await opened.put_tenant(ROOT, "acme", "Acme")
        await opened.put_tenant(ROOT, "beta", None)
        yield opened


@pytest.fixture
def put_user(world: SmallDeployment) -> PutUser:
    return put_user_with(world, world.store.users)


def put_user_with(world: SmallDeployment, users: UserStore) -> PutUser:
    ban = BanUser(users, Bans(world.watch, world.clock), world.clock)
    return PutUser(world.store.tenants, profile_writer(world, users), ban, NoEvents())


def profile_writer(world: SmallDeployment, users: UserStore) -> ProfileWriter:
    return ProfileWriter(users, lambda user: None, InProcessBus(), world.clock)


async def nobody(users: Sequence[UserKey]) -> set[UserKey]:
    return set()


@pytest.fixture
def last_seen(world: SmallDeployment) -> LastSeen:
    return LastSeen(ProfileCache(world.store.users, world.clock), nobody, world.clock, NoBlocks())


async def test_a_tenant_is_made_once_and_renamed(world: SmallDeployment) -> None:
    first, is_new = await world.put_tenant(ROOT, "gamma", "Gamma")
    assert (first.name, is_new) == ("Gamma", True)
    token = (await world.make_token(ROOT, "gamma", "alice")).token
    again, is_new = await world.put_tenant(ROOT, "gamma", "Γ")
    assert (again.name, is_new) == ("Γ", False)
    unchanged, _ = await world.put_tenant(ROOT, "gamma", None)
    assert unchanged == again
    assert isinstance(await world.authenticate(token), UserCaller), "its signing key stayed"


@pytest.mark.parametrize("tenant", ["", "-a", "A", "a" * 41, "a_b", "a:b", "a.b", "ä"])
async def test_tenants_have_plain_names(world: SmallDeployment, tenant: str) -> None:
    with pytest.raises(Invalid) as caught:
        await world.put_tenant(ROOT, tenant, None)
    assert caught.value.pointer == "/tenant"


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "\0", "x" * (limits.NAME_CHARS_MAX + 1)])
async def test_names_can_be_read(world: SmallDeployment, put_user: PutUser, name: str) -> None:
    with pytest.raises(Invalid):
        await world.put_tenant(ROOT, "gamma", name)
    with pytest.raises(Invalid) as caught:
        await put_user(ACME, "acme", "alice", display_name=name)
    assert caught.value.pointer == "/display_name"


async def test_names_may_hold_any_script_and_emoji(put_user: PutUser) -> None:
    for name in ("Ζωή", "山田 太郎", "family 👨‍👩‍👧", "a\u00a0b"):
        user, _ = await put_user(ACME, "acme", "alice", display_name=name)
        assert user.display_name == name


async def test_keys_belong_to_a_tenant(world: SmallDeployment) -> None:
    with pytest.raises(TenantNotFound):
        await world.make_key(ROOT, "nobody")
    key = await world.make_key(ROOT, "acme")
    with pytest.raises(KeyNotFound):
        await world.revoke_key(ROOT, "beta", key.key_id)
    await world.revoke_key(ROOT, "acme", key.key_id)
    with pytest.raises(KeyNotFound):
        await world.revoke_key(ROOT, "acme", key.key_id)


async def test_only_root_makes_tenants_and_keys(world: SmallDeployment) -> None:
    calls: list[Callable[[], Awaitable[object]]] = [
        lambda: world.put_tenant(ACME, "acme", None),
        lambda: world.make_key(ACME, "acme"),
        lambda: world.revoke_key(ACME, "acme", "x"),
    ]
    for call in calls:
        with pytest.raises(Forbidden):
            await call()


async def test_a_user_is_created_by_the_first_token(world: SmallDeployment) -> None:
    assert await world.store.users.get(ALICE) is None
    await world.make_token(ACME, "acme", "alice")
    first = await world.store.users.get(ALICE)
    world.clock.time += 5_000
    await world.make_token(ACME, "acme", "alice")
    assert await world.store.users.get(ALICE) == first, "and left alone by the next"


@pytest.mark.parametrize(
    ("given", "pointer"),
    [
        (("al ice", None, 60), "/user_id"),
        (("", None, 60), "/user_id"),
        (("alice", "no device", 60), "/device"),
        (("alice", None, 0), "/expires_in"),
        (("alice", None, limits.TOKEN_SECONDS_MAX + 1), "/expires_in"),
    ],
)
async def test_tokens_that_are_not_made(
    world: SmallDeployment, given: tuple[str, str | None, int], pointer: str
) -> None:
    with pytest.raises(Invalid) as caught:
        await world.make_token(ACME, "acme", *given)
    assert caught.value.pointer == pointer
    assert await world.store.users.get(ALICE) is None


async def test_tokens_are_made_for_one_s_own_tenant_only(world: SmallDeployment) -> None:
    with pytest.raises(TenantNotFound):
        await world.make_token(BETA, "acme", "alice")
    with pytest.raises(Forbidden):
        await world.make_token(AS_ALICE, "acme", "bob")
    with pytest.raises(TenantNotFound):
        await world.make_token(ROOT, "nobody", "alice")
    assert await world.store.users.get(user_key("nobody", "alice")) is None


async def test_profiles(world: SmallDeployment, put_user: PutUser, last_seen: LastSeen) -> None:
    alice, is_new = await put_user(ACME, "acme", "alice", "Alice", "+41791234567")
    assert (alice.display_name, is_new) == ("Alice", True)
    await put_user(ACME, "acme", "bob")
    get = GetProfile(world.store.users, last_seen)
    assert (await get(AS_ALICE)).phone_number == "+41791234567"
    assert (await get(AS_ALICE, "alice")).phone_number == "+41791234567"
    seen = await get(AS_BOB, "alice")
    assert (seen.display_name, seen.phone_number) == ("Alice", None), "a number is its owner's"
    writer = profile_writer(world, world.store.users)
    patch = PatchProfile(world.store.users, writer, last_seen)
    assert (await patch(AS_ALICE, "Al")).display_name == "Al"
    assert (await patch(AS_ALICE, None)).display_name == "Al"
    with pytest.raises(Invalid):
        await patch(AS_ALICE, " ")
    assert (await get(AS_ALICE)).phone_number == "+41791234567"


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        *(
            (ProfileFields(avatar_url=url), "/avatar_url")
            for url in (
                "", "http://a.example/x", "https://", "//a.example", "https://u:p@a.example",
                "https://a.example/ x", "https://a.example:port/", "https://[a/", "javascript:1",
                "https://a.example/" + "x" * limits.AVATAR_URL_CHARS_MAX,
            )
        ),
        *(
            (ProfileFields(email=text), "/email")
            for text in ("", "ann", "ann@", "@a.example", "a b@c.example", "a@b", "a@" + "b.c" * 99)
        ),
        (ProfileFields(metadata='"' + "ä" * limits.METADATA_BYTES_MAX + '"'), "/metadata"),
    ],
)  # fmt: skip
async def test_a_bad_field_of_a_profile_is_named(
    world: SmallDeployment, put_user: PutUser, fields: ProfileFields, pointer: str
) -> None:
    with pytest.raises(Invalid) as caught:
        await put_user(ACME, "acme", "alice", fields=fields)
    assert caught.value.pointer == pointer
    assert await world.store.users.get(ALICE) is None


async def test_when_a_user_was_seen_is_shown_to_the_minute_and_hidden_both_ways(
    world: SmallDeployment, put_user: PutUser, last_seen: LastSeen
) -> None:
    await put_user(ACME, "acme", "alice")
    await put_user(ACME, "acme", "bob")
    minute = NOW - NOW % 60_000
    world.store.users.seen({ALICE: minute + 59_999, BOB: minute})
    await put_user(ACME, "acme", "carol")  # written after what was seen
    get = GetProfile(world.store.users, last_seen)
    writer = ProfileWriter(
        world.store.users, last_seen.profiles.forget, InProcessBus(), world.clock
    )
    patch = PatchProfile(world.store.users, writer, last_seen)

    async def both() -> tuple[int | None, int | None]:
        seen = await get(AS_BOB, "alice"), await get(AS_ALICE, "bob")
        return seen[0].last_seen_at, seen[1].last_seen_at

    assert await both() == (minute, minute)
    hidden = await patch(AS_ALICE, None, show_last_seen=False)
    assert (hidden.hidden_at, hidden.last_seen_at) == (world.clock.now(), None)
    assert await both() == (None, None)
    (told,) = await last_seen.seen_by_tenant([hidden])
    assert told.last_seen_at is None, "as it was given"
    assert (await patch(AS_ALICE, None, show_last_seen=False)).updated_at == hidden.updated_at
    assert (await patch(AS_ALICE, None, show_last_seen=True)).last_seen_at == minute
    assert await both() == (minute, minute)


async def test_who_is_connected_is_seen_now(
    world: SmallDeployment, put_user: PutUser, last_seen: LastSeen
) -> None:
    await put_user(ACME, "acme", "alice")
    await put_user(ACME, "acme", "bob")

    async def alice(users: Sequence[UserKey]) -> set[UserKey]:
        return {ALICE}.intersection(users)

    seeing = LastSeen(last_seen.profiles, alice, world.clock, NoBlocks())
    several = ListProfiles(world.store.users, seeing)
    world.clock.time += 120_000
    shown = {user.user: user.last_seen_at for user in await several(AS_BOB, "alice,bob")}
    now = world.clock.now()
    assert shown == {ALICE: now - now % 60_000, BOB: None}


async def test_a_cached_profile_is_read_again_after_a_minute_or_a_change(
    world: SmallDeployment, put_user: PutUser
) -> None:
    cache = ProfileCache(world.store.users, world.clock)
    await put_user(ACME, "acme", "alice", "Alice")
    assert (await cache.of([ALICE, BOB]))[BOB].display_name is None, "who does not exist"

    async def name() -> str | None:
        return (await cache.of([ALICE]))[ALICE].display_name

    await put_user(ACME, "acme", "alice", "Al")
    world.clock.time += limits.CACHED_PROFILE_MS - 1
    assert await name() == "Alice"
    world.clock.time += 1
    assert await name() == "Al"
    await put_user(ACME, "acme", "alice", "A")
    cache.forget(ALICE)
    assert await name() == "A"


async def test_profiles_end_at_the_tenant(
    world: SmallDeployment, put_user: PutUser, last_seen: LastSeen
) -> None:
    await put_user(BETA, "beta", "zoe")
    get = GetProfile(world.store.users, last_seen)
    for user_id in ("zoe", "beta:zoe", "nobody", "", "../zoe"):
        with pytest.raises(UserNotFound):
            await get(AS_ALICE, user_id)
    with pytest.raises(Forbidden):
        await get(ACME, "alice")
    several = ListProfiles(world.store.users, last_seen)
    await put_user(ACME, "acme", "bob")
    found = await several(AS_ALICE, "zoe,beta:zoe,bob,,nobody,bob,../zoe")
    assert [user.user for user in found] == [BOB]
    assert await several(AS_ALICE, "!") == []
    with pytest.raises(Invalid):
        await several(AS_ALICE, "")
    with pytest.raises(TenantNotFound):
        await put_user(ACME, "beta", "zoe")
    with pytest.raises(TenantNotFound):
        await put_user(ROOT, "nobody", "zoe")


@pytest.mark.parametrize("number", ["", "0791234567", "+0791234567", "+1 415", "+" + "1" * 16])
async def test_phone_numbers_have_one_form(put_user: PutUser, number: str) -> None:
    with pytest.raises(Invalid) as caught:
        await put_user(ACME, "acme", "alice", phone_number=number)
    assert caught.value.pointer == "/phone_number"


@pytest.mark.attack("A11")
@pytest.mark.parametrize("number", ["+41781234567", None], ids=["changed", "taken away"])
async def test_a_change_of_the_number_whose_answer_is_lost_has_ended_what_was_given(
    world: SmallDeployment, put_user: PutUser, number: str | None
) -> None:
    await put_user(ACME, "acme", "alice", phone_number="+41791234567")
    token = (await world.make_token(ROOT, "acme", "alice")).token
    assert isinstance(await world.authenticate(token), UserCaller)

    async def cut_off(name: str, call: Callable[[], Awaitable[Any]]) -> object:
        made = await call()
        if name == "put" and number is None:
            return made
        raise StoreUnavailable

    users: Any = Intercepted(world.store.users, cut_off)
    failing = put_user_with(world, users)
    with pytest.raises(StoreUnavailable):
        await failing(ACME, "acme", "alice", phone_number=number)

    alice, _ = await put_user(ACME, "acme", "alice", phone_number=number)
    assert alice.phone_number == number, "which was so already"
    assert await world.store.revocations.head() == 1
    with pytest.raises(Unauthenticated):
        await world.authenticate(token)


async def test_a_number_of_which_nothing_is_said_stays(put_user: PutUser) -> None:
    await put_user(ACME, "acme", "alice", phone_number="+41791234567")
    alice, _ = await put_user(ACME, "acme", "alice", "Alice")
    assert alice.phone_number == "+41791234567"
    bob, is_new = await put_user(ACME, "acme", "bob", phone_number=None)
    assert (bob.phone_number, bob.revoked_at, is_new) == (None, None, True)


async def test_no_token_is_made_for_a_user_who_is_deactivated(
    world: SmallDeployment, put_user: PutUser
) -> None:
    await put_user(ACME, "acme", "alice", is_active=False)
    with pytest.raises(UserDeactivated):
        await world.make_token(ACME, "acme", "alice")
    await put_user(ACME, "acme", "alice", is_active=True)
    token = (await world.make_token(ROOT, "acme", "alice")).token
    assert isinstance(await world.authenticate(token), UserCaller)


async def test_a_tenant_erases_what_its_user_wrote(world: SmallDeployment) -> None:
    erasures = Erasures(world.store.ledger, world.clock)
    erase = EraseUserContent(
        world.store.users,
        world.vault,
        erasures,
        world.store.uploads,
        world.store.push,
        world.clock,
    )
    await world.make_token(ACME, "acme", "alice")
    entry = await write(world.vault, "mine")
    refusals: list[tuple[TenantCaller | UserCaller, str, str, type[Refusal]]] = [
        (BETA, "acme", "alice", TenantNotFound),
        (AS_ALICE, "acme", "alice", Forbidden),
        (ACME, "acme", "nobody", UserNotFound),
        (ACME, "acme", "no:body", UserNotFound),
    ]
    for caller, tenant, user_id, refusal in refusals:
        with pytest.raises(refusal):
            await erase(caller, tenant, user_id)
    assert await read(world.vault, entry) == "mine"
    assert await erase(ACME, "acme", "alice") == 1
    assert await read(world.vault, entry) == "<erased>"
