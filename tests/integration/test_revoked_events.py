# SPDX-License-Identifier: Apache-2.0
"""The event `session.revoked`: everything that ends a session raises it, once."""

import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.integration.engines import engine as engine
from tests.integration.login_world import holder, log_in, refreshed, try_refresh
from tests.integration.login_world import phones as phones
from tests.integration.login_world import rest as rest
from tests.integration.rest_world import TENANT, Json, Rest
from tests.support.phones import Phones, new_number
from tidings.model import limits
from tidings.model.refusals import StoreUnavailable

pytestmark = pytest.mark.asyncio(loop_scope="module")

WEBHOOK = f"/v1/tenants/{TENANT}/webhooks/main"


@pytest_asyncio.fixture(scope="module", loop_scope="module", autouse=True)
async def endpoint(rest: Rest) -> AsyncIterator[None]:
    """An endpoint that nobody asks."""
    backend = await rest.tenant()
    await backend.ok("PUT", WEBHOOK, {"url": None, "events": ["session.revoked"]})
    yield
    await backend.ok("DELETE", WEBHOOK)


async def told(rest: Rest, tokens: Json) -> list[object]:
    """The sessions of a user of which the tenant learns that they ended; None for all."""
    found, after = list[object](), 0
    while (event := await rest.core.store.tenant_events.after(TENANT, after)) is not None:
        assert event.type == "session.revoked"
        assert event.data.keys() == {"user_id", "session_id"}
        if event.data["user_id"] == tokens["user_id"]:
            found.append(event.data["session_id"])
        after = event.sequence
    return found


async def logs_in(rest: Rest, phones: Phones, number: str, device: str = "phone") -> Json:
    """Log in later than before, when another code is sent."""
    rest.clock.time += limits.DAY_MS
    return await log_in(rest, phones, number, device)


async def test_a_refresh_token_that_comes_back_raises_it(rest: Rest, phones: Phones) -> None:
    first = await log_in(rest, phones)
    await refreshed(rest, first)
    assert await told(rest, first) == []
    rest.clock.time += limits.REFRESH_GRACE_MS
    for _ in range(2):
        assert (await try_refresh(rest, first["refresh_token"])).status_code == 401
        assert await told(rest, first) == [first["session_id"]]


async def test_a_session_that_a_login_replaces_raises_it(rest: Rest, phones: Phones) -> None:
    number = new_number()
    first = await logs_in(rest, phones, number)
    await logs_in(rest, phones, number, "tablet")
    assert await told(rest, first) == []
    second = await logs_in(rest, phones, number)
    assert await told(rest, first) == [first["session_id"]]
    await logs_in(rest, phones, number)
    assert await told(rest, first) == [first["session_id"], second["session_id"]]


async def test_the_oldest_of_too_many_sessions_raises_it(
    rest: Rest, phones: Phones, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "USER_SESSIONS_MAX", 2)
    number = new_number()
    first = await logs_in(rest, phones, number, "one")
    await logs_in(rest, phones, number, "two")
    assert await told(rest, first) == []
    await logs_in(rest, phones, number, "three")
    assert await told(rest, first) == [first["session_id"]]


async def test_a_login_says_nothing_about_sessions_that_had_ended(
    rest: Rest, phones: Phones
) -> None:
    number = new_number()
    first = await logs_in(rest, phones, number)
    await holder(rest, first).ok("DELETE", "/v1/sessions")
    second = await logs_in(rest, phones, number)
    assert await told(rest, first) == [None]
    rest.clock.time += limits.SESSION_MS
    await logs_in(rest, phones, number)
    assert await told(rest, second) == [None]


async def test_only_who_ends_a_session_first_raises_it(
    rest: Rest, phones: Phones, monkeypatch: pytest.MonkeyPatch
) -> None:
    revoke = rest.core.store.sessions.revoke

    async def overtaken(*args: Any) -> bool:
        assert await revoke(*args)
        return await revoke(*args)

    monkeypatch.setattr(rest.core.store.sessions, "revoke", overtaken)
    number = new_number()
    first = await logs_in(rest, phones, number)
    second = await logs_in(rest, phones, number)
    await refreshed(rest, second)
    rest.clock.time += limits.REFRESH_GRACE_MS
    for tokens in (first, second):
        assert (await try_refresh(rest, tokens["refresh_token"])).status_code == 401
    assert await told(rest, first) == []


async def test_a_changed_number_and_a_deactivation_raise_it(rest: Rest, phones: Phones) -> None:
    number, other = new_number(), new_number()
    tokens = await log_in(rest, phones, number)
    backend = await rest.tenant()
    path = f"/v1/tenants/{TENANT}/users/{tokens['user_id']}"
    changes: list[tuple[Json, int]] = [
        ({"phone_number": number}, 0),
        ({"display_name": "Ann"}, 0),
        ({"phone_number": other}, 1),
        ({"phone_number": other}, 1),
        ({"phone_number": None}, 2),
        ({"phone_number": None}, 2),
        ({"phone_number": number}, 2),
        ({"deactivated": True}, 3),
        ({"deactivated": True}, 3),
        ({"deactivated": False}, 3),
        ({"phone_number": other, "deactivated": True}, 4),
    ]
    for change, times in changes:
        rest.clock.time += 2 * limits.SECOND_MS
        await backend.ok("PUT", path, change)
        assert await told(rest, tokens) == [None] * times, change


async def test_a_user_who_is_new_had_no_sessions(rest: Rest) -> None:
    backend = await rest.tenant()
    made = await backend.ok("PUT", f"/v1/tenants/{TENANT}/users/zoe", {"deactivated": True})
    assert made["deactivated"]
    assert await told(rest, {"user_id": "zoe"}) == []


async def test_no_request_fails_because_of_the_event(
    rest: Rest, phones: Phones, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(*_: Any) -> None:
        raise StoreUnavailable

    monkeypatch.setattr(rest.core.store.tenant_events, "append", fail)
    number = new_number()
    with caplog.at_level(logging.WARNING):
        first = await logs_in(rest, phones, number)
        second = await logs_in(rest, phones, number)
        third = await refreshed(rest, second)
        rest.clock.time += limits.REFRESH_GRACE_MS
        assert (await try_refresh(rest, second["refresh_token"])).status_code == 401
        backend = await rest.tenant()
        path = f"/v1/tenants/{TENANT}/users/{first['user_id']}"
        await backend.ok("PUT", path, {"deactivated": True})
    lines = [vars(one) for one in caplog.records]
    assert [one["session"] for one in lines if one.get("action") == "revocation_unreported"] == [
        first["session_id"],
        third["session_id"],
        None,
    ]
    assert await told(rest, first) == []
