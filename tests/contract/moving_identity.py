# SPDX-License-Identifier: Apache-2.0
"""For the suites about moving: people with all that can be said of them and of their logins."""

from typing import Final

import msgspec

from tests.contract.engines import Store
from tests.contract.identity_builders import (
    OTHER_PHONE,
    PHONE,
    a_code,
    a_session,
    an_allowance,
    an_issuer,
)
from tests.contract.moving_ground import LATER
from tests.contract.test_people import FIELDS, a_signing_key, a_tenant
from tests.support.clock import NOW
from tests.support.users import ANN, BOB, CAT, DAN
from tidings.model.ids import UserKey
from tidings.ports.people import Quotas, Tenant
from tidings.ports.sessions import Session
from tidings.ports.tenant_jobs import TenantJob

OTHER_TENANT: Final = "acme-2"
OTHER_ANN: Final = UserKey(f"{OTHER_TENANT}:ann")
LET_GO: Final = "+491700000000"
BY_LOGIN: Final = UserKey("acme:01JA0000000000000000000000")
LOGIN_PHONE: Final = "+14155550123"

SESSIONS: Final = tuple(
    a_session(user, device=f"d{number} 🌻", created_at=NOW - number)
    for number, user in enumerate((ANN, BOB, ANN, OTHER_ANN))
)
REVOKED: Final = a_session(ANN)
OVER: Final = a_session(ANN, expires_at=LATER)
ROTATED: Final = msgspec.structs.replace(
    SESSIONS[0],
    refresh_digest=b"\xff" * 32,
    previous_digest=SESSIONS[0].refresh_digest,
    sealed_refresh=b"\x00sealed",
    rotated_at=NOW + 3,
    expires_at=LATER + 1,
)


async def fill_identity(store: Store) -> None:
    """One of everything, and two of what has to be put in order; some of it over by `LATER`."""
    await _fill_tenants(store)
    await _fill_users(store)
    await _fill_sessions(store)
    await _fill_jobs(store)
    await store.login_codes.put(a_code(expires_at=LATER + 1))
    await store.budgets.spend([an_allowance()])


async def _fill_tenants(store: Store) -> None:
    tenants = store.tenants
    other = Tenant(tenant=OTHER_TENANT, name=None, created_at=NOW)
    await tenants.put(other, msgspec.structs.replace(a_signing_key("o1"), tenant=OTHER_TENANT))
    await tenants.set_quotas(OTHER_TENANT, Quotas(users=0, messages_per_day=2**40))
    await tenants.set_suspended(OTHER_TENANT, True, NOW + 1)
    await tenants.put(a_tenant(), a_signing_key("s9"))
    await tenants.set_suspended("acme", True, NOW + 2)
    await tenants.set_suspended("acme", False, NOW + 3)
    assert await tenants.add_signing_key(a_signing_key("s10", NOW + 1), 2)
    assert await tenants.remove_signing_key("acme", "s9", NOW + 4)
    assert await tenants.add_signing_key(a_signing_key("s11", NOW + 5), 2)
    await tenants.put_issuer(an_issuer(), None, ["acme.own.1"])
    await tenants.put_issuer(an_issuer(OTHER_TENANT, None), None, [])


async def _fill_users(store: Store) -> None:
    users = store.users
    for number in (LET_GO, PHONE):
        await users.put(ANN, display_name="Ann", phone_number=number, now=NOW, fields=FIELDS)
    await users.verify_phone(ANN, PHONE, NOW + 1)
    await users.put(OTHER_ANN, display_name=None, phone_number=PHONE, now=NOW)
    await users.with_phone(BY_LOGIN, LOGIN_PHONE, NOW)
    for user in (CAT, BOB, DAN):
        await users.put(user, display_name=None, phone_number=None, now=NOW)
    await users.put(CAT, display_name=None, phone_number=OTHER_PHONE, now=NOW)
    await users.set_active(BOB, False, NOW + 1)
    await users.set_active(DAN, False, NOW + 1)
    await users.set_active(DAN, True, NOW + 2)
    assert await users.revoke_tokens(CAT, NOW + 6)


async def _fill_sessions(store: Store) -> None:
    for session in (*SESSIONS, REVOKED, OVER):
        await store.sessions.open(session)
    assert await store.sessions.rotate(SESSIONS[0], ROTATED)
    assert await store.sessions.revoke(ANN, REVOKED.session_id, NOW + 7)


async def _fill_jobs(store: Store) -> None:
    for tenant, name in (("acme", "two"), ("acme", "one"), (OTHER_TENANT, "one")):
        job = TenantJob(
            tenant=tenant, job_id=name, kind="user.delete", subject="zoe", created_at=NOW,
            updated_at=NOW,
        )  # fmt: skip
        await store.tenant_jobs.create(job)
        assert await store.tenant_jobs.lease(job, "me", NOW)
        after = msgspec.structs.replace(
            job.counting(groups=2), phase="left", pending=("a",), cursor="c", updated_at=NOW + 1
        )
        if name == "two":
            after = msgspec.structs.replace(after, state="done", result="receipt")
        assert await store.tenant_jobs.save(after, "me")


async def identity_answers(store: Store) -> list[object]:
    """What is asked about it, as it counts at `LATER`."""
    tenants, users, sessions = store.tenants, store.users, store.sessions
    numbers = (PHONE, OTHER_PHONE, LOGIN_PHONE, LET_GO)
    answers: list[object] = [await store.revocations.after(0)]
    answers.append(await _unfinished(store))
    for tenant in ("acme", OTHER_TENANT, "nobody"):
        answers += [await tenants.get(tenant), await tenants.signing_keys(tenant)]
        answers += [await store.tenant_jobs.get(tenant, name) for name in ("one", "two")]
        answers += [await tenants.issuer(tenant), dict(await users.by_phone(tenant, numbers))]
    for user in (ANN, BOB, CAT, DAN, OTHER_ANN, BY_LOGIN):
        answers += [await users.get(user), _lasting(await sessions.of(user))]
    for session in SESSIONS:
        answers.append(await sessions.stored_credentials(session.user, session.session_id))
    return answers


async def _unfinished(store: Store) -> dict[str, list[str]]:
    found = await store.tenant_jobs.unfinished(after="", tenants=9, jobs=9)
    return {tenant: [job.job_id for job in jobs] for tenant, jobs in found.items()}


def _lasting(sessions: list[Session]) -> list[Session]:
    return [session for session in sessions if session.expires_at > LATER]
