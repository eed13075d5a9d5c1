# SPDX-License-Identifier: Apache-2.0
"""Who calls: root, tenant and user credentials, who may do what, and attacks on keys."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.support.clock import NOW
from tests.support.intercepted import Intercepted
from tests.unit.forgery import Forge, accepted, refused
from tests.unit.small_deployment import (
    ALICE,
    ROOT,
    ROOT_KEY,
    SmallDeployment,
    open_small_deployment,
)
from tidings.actions.identity import authenticate
from tidings.actions.identity.authenticate import Authenticate
from tidings.actions.identity.caller import (
    Caller,
    Root,
    TenantCaller,
    UserCaller,
    require_root,
    require_tenant,
    require_user,
)
from tidings.actions.identity.signing_keys import STALE_MS, SigningKeys
from tidings.actions.identity.token_issuers import TenantIssuerKeys
from tidings.model import limits
from tidings.model.ids import user_key
from tidings.model.refusals import (
    Forbidden,
    Refusal,
    StoreUnavailable,
    TenantNotFound,
    Unauthenticated,
)

ACME = TenantCaller("acme", "0" * 16)
AS_ALICE = UserCaller(ALICE, None, NOW)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[SmallDeployment]:
    async with open_small_deployment(tmp_path / "data") as opened:
        await opened.put_tenant(ROOT, "acme", None)
        await opened.put_tenant(ROOT, "beta", None)
        yield opened


@pytest.fixture
async def forge(world: SmallDeployment) -> Forge:
    return Forge(*await world.signing.signer("acme"))


# --- What is right


async def test_every_kind_of_credential_is_recognised(world: SmallDeployment) -> None:
    assert await world.authenticate(ROOT_KEY) == Root()
    key = await world.make_key(ROOT, "acme")
    assert await world.authenticate(key.key) == TenantCaller("acme", key.key_id)
    token = await world.make_token(ROOT, "acme", "alice", "phone", 60)
    key_id, _ = await world.signing.signer("acme")
    assert await world.authenticate(token.token) == UserCaller(
        ALICE, "phone", NOW + 60_000, issued_at=NOW, key_id=key_id
    )
    assert token.expires_at == NOW + 60_000


async def test_the_forge_makes_good_tokens_too(world: SmallDeployment, forge: Forge) -> None:
    caller = UserCaller(ALICE, None, NOW + 60_000, issued_at=NOW, key_id=forge.header["kid"])
    assert await world.authenticate(forge.with_claims()) == caller
    assert await world.authenticate(forge.with_claims(something="else")) == caller


@pytest.mark.parametrize("seconds", [1, limits.TOKEN_SECONDS_MAX])
async def test_a_token_never_ends_before_it_was_said_to(
    world: SmallDeployment, seconds: int
) -> None:
    for _ in range(3):
        world.clock.time += 333
        token = await world.make_token(ROOT, "acme", "alice", None, seconds)
        assert 0 <= token.expires_at - world.clock.time - seconds * 1_000 < 1_000
        assert await accepted(world, token.token)


# --- A15 to A18: keys


@pytest.mark.attack("A15")
async def test_a15_the_device_is_the_token_s(world: SmallDeployment, forge: Forge) -> None:
    caller = await world.authenticate(forge.with_claims(dev="phone"))
    assert isinstance(caller, UserCaller)
    assert (caller.user, caller.device) == (ALICE, "phone")


@pytest.mark.attack("A16")
async def test_a16_tenant_keys_are_long_random_and_kept_as_digests(world: SmallDeployment) -> None:
    keys = {(await world.make_key(ROOT, "acme")).key for _ in range(50)}
    assert len(keys) == 50
    for key in keys:
        assert len(key.split("_", 2)[2]) * 6 >= 256
        found = await world.store.tenants.find_key(key.split("_")[1])
        assert found is not None
        assert key not in str(found)
    everything = b"".join(path.read_bytes() for path in world.folder.glob("tidings.db*"))
    assert not [key for key in keys if key.split("_", 2)[2].encode() in everything]


@pytest.mark.attack("A16")
async def test_a16_a_known_id_with_another_secret(world: SmallDeployment) -> None:
    one, two = await world.make_key(ROOT, "acme"), await world.make_key(ROOT, "acme")
    secret = two.key.split("_", 2)[2]
    last = "A" if one.key[-1] != "A" else "B"
    for bearer in (f"sk_{one.key_id}_{secret}", one.key[:-1], one.key[:-1] + last, f"{one.key}A"):
        assert await refused(world, bearer)
    assert await refused(world, ROOT_KEY[:-1])
    assert await refused(world, ROOT_KEY + "0")


@pytest.mark.attack("A16")
async def test_a16_comparison_takes_the_same_time_everywhere(
    world: SmallDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[int] = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append(len(one) + len(other))
        return one == other

    monkeypatch.setattr("hmac.compare_digest", compare)
    key = await world.make_key(ROOT, "acme")
    await world.authenticate(key.key)
    assert compared == [64, 64], "digests of equal length, for root and for the tenant key"


@pytest.mark.attack("A16")
async def test_a16_a_revoked_key_is_refused_at_once(world: SmallDeployment) -> None:
    key, other = await world.make_key(ROOT, "acme"), await world.make_key(ROOT, "acme")
    assert await accepted(world, key.key)
    await world.revoke_key(ROOT, "acme", key.key_id)
    assert await refused(world, key.key)
    assert await accepted(world, other.key)


@pytest.mark.attack("A07", "A17")
@pytest.mark.parametrize(
    ("guard", "caller", "outcome"),
    [
        (lambda c: require_root(c, "acme"), ROOT, None),
        (lambda c: require_root(c, "acme"), ACME, Forbidden),
        (lambda c: require_root(c, "beta"), ACME, TenantNotFound),
        (lambda c: require_root(c, "acme"), AS_ALICE, Forbidden),
        (lambda c: require_root(c, "beta"), AS_ALICE, TenantNotFound),
        (require_root, ACME, Forbidden),
        (lambda c: require_tenant(c, "acme"), ROOT, None),
        (lambda c: require_tenant(c, "acme"), ACME, None),
        (lambda c: require_tenant(c, "beta"), ACME, TenantNotFound),
        (lambda c: require_tenant(c, "acme"), AS_ALICE, Forbidden),
        (lambda c: require_tenant(c, "beta"), AS_ALICE, TenantNotFound),
        (require_user, AS_ALICE, None),
        (require_user, ACME, Forbidden),
        (require_user, ROOT, Forbidden),
    ],
)
def test_a07_a17_who_may_do_what(
    guard: Callable[[Caller], object], caller: Caller, outcome: type[Refusal] | None
) -> None:
    if outcome is None:
        guard(caller)
    else:
        with pytest.raises(outcome) as caught:
            guard(caller)
        assert type(caught.value) is outcome


@pytest.mark.attack("A07")
def test_a07_crossing_tenants_leaves_a_trace(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(TenantNotFound):
        require_tenant(ACME, "beta")
    assert [record.action for record in caplog.records] == ["cross_tenant"]  # type: ignore[attr-defined]


@pytest.mark.attack("A18")
async def test_a18_a_flood_of_unknown_key_ids_reaches_the_store_once(
    world: SmallDeployment, forge: Forge
) -> None:
    reads: list[str] = []

    async def count(name: str, call: Callable[[], Awaitable[Any]]) -> Any:
        reads.append(name)
        return await call()

    tenants: Any = Intercepted(world.store.tenants, count)
    signing = SigningKeys(tenants, world.vault.wrapping, world.clock, world.watch)
    own = TenantIssuerKeys(tenants, world.clock, world.watch)
    authenticate = Authenticate(
        ROOT_KEY, tenants, signing, own, world.credential_status, world.watch, world.clock
    )
    for tenant in ("acme", "nobody"):
        reads.clear()
        for n in range(100):
            with pytest.raises(Unauthenticated):
                await authenticate(forge.with_header(kid=f"{tenant}.{n:016x}"))
        assert reads == ["signing_keys"]
        world.clock.time += STALE_MS
        with pytest.raises(Unauthenticated):
            await authenticate(forge.with_header(kid=f"{tenant}.{0:016x}"))
        assert reads == ["signing_keys", "signing_keys"], "later it may be there"


@pytest.mark.attack("A18")
async def test_a18_a_tenant_asked_for_too_early_works_once_it_is_there(
    world: SmallDeployment,
) -> None:
    assert await world.signing.public("gamma.0123456789abcdef") is None
    await world.put_tenant(ROOT, "gamma", None)
    [key] = await world.store.tenants.signing_keys("gamma")
    assert await world.signing.public(key.key_id) is not None
    token = await world.make_token(ROOT, "gamma", "alice")
    caller = await world.authenticate(token.token)
    assert isinstance(caller, UserCaller)
    assert caller.user == user_key("gamma", "alice")


async def test_verified_tokens_are_remembered_in_bounds(
    world: SmallDeployment, forge: Forge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authenticate, "VERIFIED_TOKENS_MAX", 3)
    for n in range(10):
        assert await accepted(world, forge.with_claims(sub=f"user{n}"))
    assert len(world.authenticate._verified) == 3


async def test_a_signing_key_that_was_changed_signs_nothing(
    world: SmallDeployment, caplog: pytest.LogCaptureFixture
) -> None:
    [key] = await world.store.tenants.signing_keys("acme")
    bad = msgspec.structs.replace(key, sealed_private=b"x" * 60)
    await world.store.tenants.rewrap_signing_keys([bad])
    with pytest.raises(StoreUnavailable):
        await world.make_token(ROOT, "acme", "alice")
    assert [record.action for record in caplog.records] == ["signing_key_unusable"]  # type: ignore[attr-defined]
    await world.store.tenants.rewrap_signing_keys([key])
    world.signing.forget("acme")
    assert (await world.make_token(ROOT, "acme", "alice")).token


async def test_tenants_are_remembered_in_bounds(
    world: SmallDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(world.signing._cached._values, "_most", 3)
    for n in range(10):
        assert await world.signing.public(f"nobody{n}.0123456789abcdef") is None
    assert len(world.signing._cached) == 3
    assert (await world.make_token(ROOT, "acme", "alice")).token
