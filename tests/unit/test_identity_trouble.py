# SPDX-License-Identifier: Apache-2.0
"""Identity in races and beside a store in trouble: refused for now, never wrongly let in."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec.structs import replace

from tests.support.clock import NOW, ManualClock
from tests.support.intercepted import Intercepted
from tests.unit.small_deployment import (
    ALICE,
    ROOT,
    ROOT_KEY,
    NoEvents,
    SmallDeployment,
    open_small_deployment,
)
from tidings.actions.identity.audit import AuditTrail, Intent
from tidings.actions.identity.authenticate import LOOKS_MAX
from tidings.actions.identity.caller import UserCaller
from tidings.actions.identity.profiles import FindContacts
from tidings.actions.identity.refresh_tokens import new_refresh_token, refresh_digest
from tidings.actions.identity.refreshing import RefreshSession
from tidings.actions.identity.revocation_watch import LoopLag, RevocationIndex, RevocationWatch
from tidings.assembly.system import SystemChance
from tidings.model import limits
from tidings.model.ids import user_key
from tidings.model.refusals import (
    Invalid,
    KeyNotFound,
    StoreUnavailable,
    TooLarge,
    Unauthenticated,
)
from tidings.ports.audit import AuditEntry
from tidings.ports.sessions import Revocation, Session

SESSION = "01HZZZZZZZZZZZZZZZZZZZZZZZ"


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[SmallDeployment]:
    async with open_small_deployment(tmp_path / "data") as opened:
        await opened.put_tenant(ROOT, "acme", None)
        yield opened


# The audit trail.


class AuditBook:
    """Entries in memory, which a test holds up or fails."""

    def __init__(self) -> None:
        self.entries: list[AuditEntry] = []
        self.trouble: Exception | None = None
        self.may_write = asyncio.Event()
        self.may_write.set()

    async def append(self, entry: AuditEntry) -> None:
        await self.may_write.wait()
        if self.trouble is not None:
            raise self.trouble
        self.entries.append(entry)


def a_trail() -> tuple[AuditTrail, AuditBook]:
    book = AuditBook()
    return AuditTrail(cast(Any, book), ManualClock(), SystemChance()), book


def add(trail: AuditTrail, target: str) -> "asyncio.Task[None]":
    intent = Intent("root", None, "make_token", "acme")
    return asyncio.create_task(trail.add(intent, "done", target=target, request_id=None))


async def test_an_act_is_not_told_as_done_if_its_entry_meets_a_bug(
    caplog: pytest.LogCaptureFixture,
) -> None:
    trail, book = a_trail()
    book.trouble = ZeroDivisionError()
    with pytest.raises(StoreUnavailable):
        await add(trail, "alice")
    assert "audit entry could not be written" in caplog.text
    book.trouble = None
    await add(trail, "bob")
    assert [act.target for entry in book.entries for act in entry.acts] == ["bob"]


async def test_who_gives_up_waiting_is_recorded_all_the_same() -> None:
    trail, book = a_trail()
    book.may_write.clear()
    gone, waiting = add(trail, "alice"), add(trail, "bob")
    await asyncio.sleep(0)
    gone.cancel()
    book.may_write.set()
    await waiting
    await trail.close()
    assert [act.target for entry in book.entries for act in entry.acts] == ["alice", "bob"]


# Tokens.


async def test_the_root_key_is_known_by_its_header(world: SmallDeployment) -> None:
    is_root = world.authenticate.is_root_header
    assert is_root(f"Bearer {ROOT_KEY}".encode())
    assert is_root(f"bearer  {ROOT_KEY} ".encode())
    for header in ("", ROOT_KEY, f"Basic {ROOT_KEY}", f"Bearer {ROOT_KEY[:-1]}", "Bearer"):
        assert not is_root(header.encode()), header


async def test_a_remembered_token_ends_with_its_time(world: SmallDeployment) -> None:
    await world.watch.start()
    token = (await world.make_token(ROOT, "acme", "alice", None, 60)).token
    assert isinstance(await world.authenticate(token), UserCaller)
    world.clock.time += 120_000
    for _ in range(2):
        with pytest.raises(Unauthenticated):
            await world.authenticate(token)
    await world.watch.close()


async def test_a_token_is_refused_for_now_while_the_feed_runs_ahead(world: SmallDeployment) -> None:
    token = (await world.make_token(ROOT, "acme", "alice")).token
    looks = 0

    async def look(caller: UserCaller) -> bool:
        nonlocal looks
        looks += 1
        world.watch.position += 1
        return True

    world.credential_status.is_token_valid = look  # type: ignore[method-assign]
    with pytest.raises(StoreUnavailable):
        await world.authenticate(token)
    assert looks == LOOKS_MAX


async def test_a_signing_key_of_before_a_rotation_is_read_again(world: SmallDeployment) -> None:
    await world.watch.start()
    key_id, _ = await world.signing.signer("acme")
    world.signing._private.forget(key_id)
    await world.rotate()
    again, private = await world.signing.signer("acme")
    assert again == key_id
    [stored] = await world.store.tenants.signing_keys("acme")
    assert private.public_key().public_bytes_raw() == stored.public
    await world.watch.close()


async def test_a_refresh_that_is_always_overtaken_is_tried_again_later(
    world: SmallDeployment,
) -> None:
    token = new_refresh_token(SESSION, world.vault.login_digests, SystemChance())
    session = Session(
        session_id=SESSION,
        user=ALICE,
        device="phone",
        refresh_digest=refresh_digest(token),
        created_at=NOW,
        rotated_at=NOW,
        expires_at=NOW + limits.DAY_MS,
    )
    await world.store.users.put(ALICE, display_name=None, phone_number=None, now=NOW - 1)
    await world.store.sessions.open(session)

    async def overtaken(name: str, call: Callable[[], Awaitable[Any]]) -> Any:
        return False if name == "rotate" else await call()

    refresh = RefreshSession(
        world.store.tenants,
        world.store.sessions,
        world.signing,
        world.vault.login_digests,
        world.clock,
        SystemChance(),
        NoEvents(),
    )
    sessions: Any = Intercepted(world.store.sessions, overtaken)
    with pytest.raises(StoreUnavailable, match="by other requests"):
        await replace(refresh, sessions=sessions)(token)
    assert (await refresh(token)).refresh_token != token, "the token is not used up"


# Keys of a tenant's own.


async def test_keys_that_are_too_long_are_refused(
    world: SmallDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "ISSUER_BYTES_MAX", 50)
    with pytest.raises(TooLarge, match="at most 50 bytes"):
        await world.token_issuers.put(ROOT, "acme", None, [_own_key()])
    assert await world.store.tenants.issuer("acme") is None


async def test_of_two_who_remove_the_keys_one_finds_none(world: SmallDeployment) -> None:
    await world.token_issuers.put(ROOT, "acme", None, [_own_key()])

    async def overtaken(name: str, call: Callable[[], Awaitable[Any]]) -> Any:
        if name == "remove_issuer":
            await call()
        return await call()

    tenants: Any = Intercepted(world.store.tenants, overtaken)
    with pytest.raises(KeyNotFound):
        await replace(world.token_issuers, tenants=tenants).remove(ROOT, "acme")


async def test_of_two_who_replace_the_keys_none_forgets_those_of_the_other(
    world: SmallDeployment,
) -> None:
    """Tokens that a key signed stay valid in caches until the feed names the key."""
    await world.token_issuers.put(ROOT, "acme", None, [_own_key()])
    others = [True]

    async def overtaken(name: str, call: Callable[[], Awaitable[Any]]) -> Any:
        if name in ("put_issuer", "remove_issuer") and others:
            others.pop()
            await world.token_issuers.put(ROOT, "acme", None, [_own_key(f"other{len(others)}")])
        return await call()

    tenants: Any = Intercepted(world.store.tenants, overtaken)
    slow = replace(world.token_issuers, tenants=tenants)
    await slow.put(ROOT, "acme", None, [_own_key("three")])
    assert await revoked_keys(world) == ["acme.own.one", "acme.own.other0"]
    others.append(True)
    await slow.remove(ROOT, "acme")
    assert await revoked_keys(world) == [
        "acme.own.one", "acme.own.other0", "acme.own.three", "acme.own.other0"
    ]  # fmt: skip
    others.extend([True] * 100)
    with pytest.raises(StoreUnavailable, match="by other requests"):
        await slow.put(ROOT, "acme", None, [_own_key("four")])
    with pytest.raises(StoreUnavailable, match="by other requests"):
        await slow.remove(ROOT, "acme")


async def revoked_keys(world: SmallDeployment) -> list[str]:
    return [one.subject for one in await world.store.revocations.after(0)]


def _own_key(kid: str = "one") -> dict[str, str]:
    x = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"
    return {"kty": "OKP", "crv": "Ed25519", "x": x, "kid": kid, "alg": "EdDSA"}


# Contacts.


@pytest.mark.parametrize("count", [0, limits.CONTACTS_MAX + 1])
async def test_contacts_are_looked_up_so_many_at_once(world: SmallDeployment, count: int) -> None:
    find = FindContacts(world.store.users, world.store.budgets, world.clock)
    with pytest.raises(Invalid, match="phone_numbers must contain"):
        await find(UserCaller(ALICE, None, NOW), ["+41791234567"] * count)


async def test_contacts_wait_for_a_store_that_does_not_answer(world: SmallDeployment) -> None:
    async def down(name: str, call: Callable[[], Awaitable[Any]]) -> Any:
        if name == "get_all":
            raise StoreUnavailable
        return await call()

    number = "+41791234567"
    await world.store.users.put(
        user_key("acme", "bob"), display_name="Bob", phone_number=number, now=NOW
    )
    users: Any = Intercepted(world.store.users, down)
    with pytest.raises(StoreUnavailable):
        await FindContacts(users, world.store.budgets, world.clock)(
            UserCaller(ALICE, None, NOW), [number]
        )


# The feed of revocations.


def test_kinds_of_a_later_version_are_skipped() -> None:
    later: Any = "something new"
    index = RevocationIndex(
        [
            Revocation(kind=later, subject="x", at=1),
            Revocation(kind="tenant", subject="acme", at=1),
        ]
    )
    assert index.tenants == {"acme"}
    assert not index.users


async def test_lag_is_how_late_the_latest_tick_came(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks: list[Callable[[], None]] = []
    time = 100.0
    lag = LoopLag(lambda: time)
    loop = asyncio.get_running_loop()
    call_later = loop.call_later

    def by_hand(_: float, tick: Callable[[], None]) -> asyncio.TimerHandle:
        ticks.append(tick)
        return call_later(3_600, tick)

    monkeypatch.setattr(loop, "call_later", by_hand)
    with lag.measured():
        for late in (0.2, 1.7, 0.4):
            time += 0.1 + late
            ticks[-1]()
    assert lag.seconds == pytest.approx(1.7)
    with lag.measured():
        time += 0.1
    assert lag.seconds == pytest.approx(0.0)


async def test_a_feed_that_cannot_be_read_is_logged_once(
    world: SmallDeployment, caplog: pytest.LogCaptureFixture
) -> None:
    watch = RevocationWatch(world.store.revocations)
    for _ in range(3):
        watch._go_blind(0.0)
    assert caplog.text.count("revocations cannot be read") == 1
