# SPDX-License-Identifier: Apache-2.0
"""First sight, then the feed: when a token counts, when it stops, and what is asked for that."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.support.clock import NOW
from tests.support.intercepted import Gate, Intercepted
from tests.support.users import BOB
from tests.unit.forgery import Forge, accepted, refused
from tests.unit.small_deployment import (
    ALICE,
    ROOT,
    ROOT_KEY,
    SmallDeployment,
    open_small_deployment,
)
from tidings.actions.identity.authenticate import Authenticate
from tidings.actions.identity.caller import TenantCaller, UserCaller
from tidings.actions.identity.credential_status import CredentialStatus
from tidings.actions.identity.revocation_watch import BLIND_SECONDS_MAX, RevocationWatch
from tidings.actions.identity.signing_keys import SIGNS_MS_MAX, SigningKeys
from tidings.actions.identity.token_issuers import TenantIssuerKeys
from tidings.model.refusals import StoreUnavailable, Unauthenticated
from tidings.ports.sessions import Revocation, Session

SESSION = Session(
    session_id="01HZZZZZZZZZZZZZZZZZZZZZZZ",
    user=ALICE,
    device="phone",
    refresh_digest=b"r" * 32,
    created_at=NOW - 5_000,
    rotated_at=NOW - 5_000,
    expires_at=NOW + 600_000,
)


@dataclass
class Process:
    """A process of its own on the store: what it remembers, and what it asks."""

    watch: RevocationWatch
    signing: SigningKeys
    authenticate: Authenticate
    asked: list[str] = field(default_factory=list)
    time: float = 1_000.0
    is_feed_up: bool = True

    async def accepts(self, bearer: str) -> bool:
        try:
            await self.authenticate(bearer)
        except Unauthenticated:
            return False
        return True


Around = Callable[[str, Callable[[], Awaitable[Any]]], Awaitable[Any]]


def a_process(world: SmallDeployment, around: Around | None = None) -> Process:
    """One that has not started to watch."""

    async def count(name: str, call: Callable[[], Awaitable[Any]]) -> Any:
        made.asked.append(name)
        return await (around(name, call) if around else call())

    async def after(name: str, call: Callable[[], Awaitable[Any]]) -> Any:
        if not made.is_feed_up:
            raise StoreUnavailable
        return await call()

    store = world.store
    tenants: Any = Intercepted(store.tenants, count)
    sessions: Any = Intercepted(store.sessions, count)
    watch = RevocationWatch(
        Intercepted(store.revocations, after),
        now=lambda: made.time,
        look_seconds=3_600,
    )
    signing = SigningKeys(tenants, world.vault.wrapping, world.clock, watch)
    own = TenantIssuerKeys(tenants, world.clock, watch)
    credential_status = CredentialStatus(tenants, store.users, sessions, world.clock, watch)
    authenticate = Authenticate(
        ROOT_KEY, tenants, signing, own, credential_status, watch, world.clock
    )
    made = Process(watch, signing, authenticate)
    return made


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[SmallDeployment]:
    async with open_small_deployment(tmp_path / "data") as opened:
        await opened.put_tenant(ROOT, "acme", None)
        yield opened


@pytest.fixture
async def process(world: SmallDeployment) -> AsyncIterator[Process]:
    made = a_process(world)
    await made.watch.start()
    yield made
    await made.watch.close()


@pytest.fixture
async def forge(world: SmallDeployment) -> Forge:
    return Forge(*await world.signing.signer("acme"))


async def session_token(world: SmallDeployment, forge: Forge, session: Session = SESSION) -> str:
    """A token of a session that is open."""
    await world.store.users.put(ALICE, display_name=None, phone_number=None, now=NOW)
    await world.store.sessions.open(session)
    return forge.with_claims(sid=session.session_id, dev="phone")


# --- What counts


@pytest.mark.attack("A12")
@pytest.mark.parametrize(
    "changed",
    [
        {"user": BOB},
        {"revoked_at": NOW - 1},
        {"expires_at": NOW},
        {"created_at": NOW - 10_000},
        None,
    ],
    ids=["another's", "revoked", "expired", "before the tokens were revoked", "missing"],
)
async def test_a_session_that_does_not_hold(
    world: SmallDeployment, forge: Forge, changed: dict[str, Any] | None
) -> None:
    await world.store.users.put(ALICE, display_name=None, phone_number=None, now=NOW)
    await world.store.users.revoke_tokens(ALICE, NOW - 8_000)
    token = forge.with_claims(sid=SESSION.session_id)
    if changed is not None:
        await world.store.sessions.open(msgspec.structs.replace(SESSION, **changed))
        good = msgspec.structs.replace(SESSION, session_id=SESSION.session_id[:-1] + "0")
        assert await accepted(world, await session_token(world, forge, good))
    assert await refused(world, token)


@pytest.mark.attack("A12")
async def test_a_session_of_nobody_makes_no_user(world: SmallDeployment, forge: Forge) -> None:
    assert await refused(world, forge.with_claims(sid=SESSION.session_id))
    assert await world.store.users.get(ALICE) is None


@pytest.mark.attack("A12")
async def test_a_token_made_right_after_all_were_revoked_counts(
    world: SmallDeployment, forge: Forge
) -> None:
    world.clock.time = NOW + 500
    old = (await world.make_token(ROOT, "acme", "alice")).token
    assert await accepted(world, old)
    await world.store.users.revoke_tokens(ALICE, world.clock.time)
    new = (await world.make_token(ROOT, "acme", "alice")).token
    assert await refused(world, old)
    assert await accepted(world, new)
    await world.store.users.revoke_tokens(ALICE, world.clock.time + 600)
    assert await refused(world, new)


@pytest.mark.attack("A13")
async def test_a_deactivated_user_may_nothing_until_let_back(world: SmallDeployment) -> None:
    token = (await world.make_token(ROOT, "acme", "alice")).token
    await world.store.users.set_active(ALICE, False, NOW)
    assert await refused(world, token)
    await world.store.users.set_active(ALICE, True, NOW)
    assert await refused(world, token), "it has ended"
    assert await accepted(world, (await world.make_token(ROOT, "acme", "alice")).token)


@pytest.mark.attack("A13")
async def test_nothing_of_a_suspended_tenant_counts(world: SmallDeployment) -> None:
    key = await world.make_key(ROOT, "acme")
    token = (await world.make_token(ROOT, "acme", "alice")).token
    await world.put_tenant(ROOT, "acme", None, is_suspended=True)
    assert await refused(world, key.key)
    assert await refused(world, token)
    assert await world.authenticate(ROOT_KEY) == ROOT
    await world.put_tenant(ROOT, "acme", None, is_suspended=False)
    assert await accepted(world, key.key)
    assert await accepted(world, token)


@pytest.mark.attack("A18")
async def test_tokens_end_with_the_tenant_key_they_were_made_with(world: SmallDeployment) -> None:
    keys = [await world.make_key(ROOT, "acme") for _ in range(2)]
    tokens = [
        (await world.make_token(TenantCaller("acme", key.key_id), "acme", "alice")).token
        for key in keys
    ]
    await world.revoke_key(ROOT, "acme", keys[0].key_id)
    assert await refused(world, tokens[0])
    assert await accepted(world, tokens[1])


# --- What is asked


async def test_a_token_is_looked_up_once(
    process: Process, forge: Forge, world: SmallDeployment
) -> None:
    one, other = forge.with_claims(), forge.with_claims(sub="bob")
    assert await process.accepts(one)
    assert process.asked == ["signing_keys", "get", "stored_credentials"]
    process.asked.clear()
    for _ in range(10):
        assert await process.accepts(one)
    assert process.asked == []
    assert await process.accepts(other)
    assert process.asked == ["stored_credentials"], "tenant and keys are known by now"


@pytest.mark.attack("A12", "A13", "A18")
@pytest.mark.parametrize("what", ["user", "deactivated", "tenant", "session", "tenant_key"])
async def test_the_feed_ends_a_token_that_is_known(
    process: Process, world: SmallDeployment, forge: Forge, what: str
) -> None:
    key = await world.make_key(ROOT, "acme")
    session = await session_token(world, forge)
    made = (await world.make_token(TenantCaller("acme", key.key_id), "acme", "alice")).token
    bobs = (await world.make_token(ROOT, "acme", "bob")).token
    assert [await process.accepts(one) for one in (session, made, bobs)] == [True] * 3
    ends: dict[str, tuple[Awaitable[object], Sequence[bool]]] = {
        "user": (world.store.users.revoke_tokens(ALICE, NOW), (False, False, True)),
        "deactivated": (world.store.users.set_active(ALICE, False, NOW), (False, False, True)),
        "tenant": (world.store.tenants.set_suspended("acme", True, NOW), (False, False, False)),
        "session": (
            world.store.sessions.revoke(ALICE, SESSION.session_id, NOW),
            (False, True, True),
        ),
        "tenant_key": (world.revoke_key(ROOT, "acme", key.key_id), (True, False, True)),
    }
    for name, (end, _) in ends.items():
        if name == what:
            await end
        else:
            end.close()  # type: ignore[attr-defined]
    assert await process.accepts(session), "not before the feed was read"
    assert await process.watch.look()
    assert [await process.accepts(one) for one in (session, made, bobs)] == list(ends[what][1])


@pytest.mark.attack("A18")
async def test_the_feed_ends_the_tokens_of_a_key_taken_away(
    process: Process, world: SmallDeployment, forge: Forge
) -> None:
    old = forge.with_claims()
    assert await process.accepts(old)
    await world.signing_keys.make(ROOT, "acme")
    new = (await world.make_token(ROOT, "acme", "alice")).token
    world.clock.time += SIGNS_MS_MAX
    assert await process.accepts(old)
    assert await process.accepts(new)
    await world.signing_keys.remove(ROOT, "acme", forge.header["kid"])
    await process.watch.look()
    assert not await process.accepts(old)
    assert await process.accepts(new)


async def test_who_signs_for_long_hears_of_a_newer_key(
    process: Process, world: SmallDeployment
) -> None:
    first, _ = await process.signing.signer("acme")
    made = await world.signing_keys.make(ROOT, "acme")
    assert (await process.signing.signer("acme"))[0] == first
    world.clock.time += SIGNS_MS_MAX
    assert (await process.signing.signer("acme"))[0] == made.key_id


# --- Races and blindness


@pytest.mark.attack("A12", "A13")
@pytest.mark.parametrize("name", ["get", "stored_credentials", "signing_keys"])
async def test_what_ends_between_the_look_and_remembering_it_is_seen(
    world: SmallDeployment, forge: Forge, name: str
) -> None:
    gate = Gate(name, after=True)
    process = a_process(world, gate)
    await process.watch.start()
    token = (await world.make_token(ROOT, "acme", "alice")).token
    asked = asyncio.create_task(process.accepts(token))
    await gate.reached.wait()
    # The store has answered that it counts. Now all of it ends, and the feed is read before the
    # answer arrives: nobody will be told of it again.
    await world.store.users.revoke_tokens(ALICE, NOW)
    await world.store.tenants.set_suspended("acme", True, NOW)
    assert await process.watch.look()
    gate.opened.set()
    assert not await asked
    assert not await process.accepts(token)
    await process.watch.close()


@pytest.mark.attack("A13", "A18")
@pytest.mark.parametrize("name", ["get", "find_key", "signing_keys"])
async def test_what_ends_while_it_is_read_is_not_remembered(
    world: SmallDeployment, forge: Forge, name: str
) -> None:
    gate = Gate(name, after=True)
    process = a_process(world, gate)
    await process.watch.start()
    key = await world.make_key(ROOT, "acme")
    token = forge.with_claims(mk=key.key_id)
    asked = asyncio.create_task(process.accepts(token))
    await gate.reached.wait()
    if name == "get":
        await world.store.tenants.set_suspended("acme", True, NOW)
    elif name == "find_key":
        await world.revoke_key(ROOT, "acme", key.key_id)
    else:
        await world.signing_keys.make(ROOT, "acme")
        await world.signing_keys.remove(ROOT, "acme", forge.header["kid"])
    assert await process.watch.look()
    gate.opened.set()
    assert not await asked
    assert not await process.accepts(token)
    await process.watch.close()


@pytest.mark.attack("A13")
async def test_who_cannot_see_the_feed_believes_nothing_it_remembers(
    process: Process, world: SmallDeployment, forge: Forge
) -> None:
    token = forge.with_claims()
    assert await process.accepts(token)
    process.asked.clear()
    process.is_feed_up = False
    process.time += BLIND_SECONDS_MAX
    assert not await process.watch.look()
    assert await process.accepts(token)
    assert process.asked == []

    process.time += 0.001
    assert await process.accepts(token)
    assert process.asked == ["signing_keys", "get", "stored_credentials"], "all of it anew"
    await world.store.users.revoke_tokens(ALICE, NOW)
    assert not await process.accepts(token)

    process.is_feed_up = True
    assert await process.watch.look()
    process.asked.clear()
    other = forge.with_claims(sub="bob")
    assert [await process.accepts(other) for _ in range(3)] == [True] * 3
    assert process.asked == ["stored_credentials"]


async def test_without_feed_and_store_nobody_is_let_in(
    world: SmallDeployment, forge: Forge
) -> None:
    async def broken(_name: str, _call: Callable[[], Awaitable[Any]]) -> Any:
        raise StoreUnavailable

    process = a_process(world, broken)
    with pytest.raises(StoreUnavailable):
        await process.authenticate(forge.with_claims())


async def test_a_long_feed_is_read_to_its_end(
    process: Process, world: SmallDeployment, forge: Forge
) -> None:
    token = forge.with_claims()
    assert await process.accepts(token)
    for n in range(1_001):
        await world.store.revocations.append(Revocation(kind="session", subject=f"s{n}", at=NOW))
    await world.store.users.revoke_tokens(ALICE, NOW)
    assert await process.watch.look()
    assert not await process.accepts(token)


async def test_what_is_kept_of_tokens_goes_with_them(process: Process, forge: Forge) -> None:
    verified = process.authenticate._verified
    for n in range(20):
        await process.authenticate(forge.with_claims(sub=f"user{n % 5}", jti=n))
    assert (len(verified), len(verified._of)) == (20, 5)
    verified.revoked([Revocation(kind="user", subject="acme:user1", at=NOW)])
    assert (len(verified), len(verified._of)) == (16, 4)
    verified.revoked([Revocation(kind="tenant", subject="acme", at=NOW)])
    assert (len(verified), len(verified._of)) == (0, 0)
    assert isinstance(await process.authenticate(forge.with_claims(sub="user1")), UserCaller)
