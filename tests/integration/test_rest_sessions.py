# SPDX-License-Identifier: Apache-2.0
"""Sessions over REST, on every engine: refreshed, listed, ended, and stolen."""

import asyncio
import logging

import msgspec
import pytest

from tests.integration.engines import long_engine as long_engine
from tests.integration.login_world import (
    holder,
    log_in,
    refreshed,
    try_refresh,
)
from tests.integration.login_world import phones as phones
from tests.integration.login_world import rest as rest
from tests.integration.rest_world import NOWHERE, Json, Rest, problem
from tests.support.phones import Phones, new_number
from tidings.model import limits
from tidings.model.ids import rfc3339, ulid, user_key
from tidings.ports.sessions import Session

pytestmark = pytest.mark.asyncio(loop_scope="module")

ENDED = (401, "session.ended")
NO_SESSION = (404, "session.not_found")
NO_USER = (404, "user.not_found")


def like(session: Session, place: int) -> Session:
    """Another session of the same user, a little later and on another device."""
    return msgspec.structs.replace(
        session,
        session_id=ulid(session.created_at + place, bytes(10)),
        device=f"device.{place}",
        refresh_digest=place.to_bytes(32, "big"),
        created_at=session.created_at + place,
        rotated_at=session.created_at + place,
    )


async def is_ended(rest: Rest, tokens: Json) -> bool:
    """Whether its refresh token is refused."""
    answer = await try_refresh(rest, tokens["refresh_token"])
    if answer.is_success:
        return False
    assert problem(answer) == ENDED
    return True


async def ended_sessions(rest: Rest) -> list[str]:
    """What the feed says about sessions."""
    feed, place, found = rest.core.store.revocations, 0, []
    while page := await feed.after(place):
        found += [one.subject for one in page if one.kind == "session"]
        place += len(page)
    return found


# --- Devices -----------------------------------------------------------------------------------


async def test_devices_with_a_session_are_listed_by_name(rest: Rest, phones: Phones) -> None:
    number = new_number()
    made = {}
    for device in ("tablet", "phone", "laptop"):
        rest.clock.time += 60_000
        made[device] = await log_in(rest, phones, number, device)
    await log_in(rest, phones, device="elsewhere")
    me = holder(rest, made["phone"])

    page = await me.ok("GET", "/v1/me/devices?limit=2")
    rest_of_it = await me.ok("GET", f"/v1/me/devices?limit=2&cursor={page['next_cursor']}")

    found = page["data"] + rest_of_it["data"]
    assert rest_of_it["next_cursor"] is None
    assert [one["device"] for one in found] == ["laptop", "phone", "tablet"]
    assert [one["current"] for one in found] == [False, True, False]
    assert [one["sessions"] for one in found] == [
        [made[one["device"]]["session_id"]] for one in found
    ]
    assert found[0]["created_at"] == found[0]["last_used_at"] > found[2]["created_at"]

    await me.ok("DELETE", f"/v1/sessions/{made['tablet']['session_id']}")
    left = await me.ok("GET", "/v1/me/devices")
    assert [one["device"] for one in left["data"]] == ["laptop", "phone"]
    by_token = await rest.user(made["phone"]["user_id"])
    assert not any(one["current"] for one in (await by_token.ok("GET", "/v1/me/devices"))["data"])


# --- Refreshing --------------------------------------------------------------------------------


async def test_each_refresh_gives_a_new_pair_of_the_same_session(
    rest: Rest, phones: Phones
) -> None:
    first = await log_in(rest, phones)
    rest.clock.time += limits.ACCESS_TOKEN_SECONDS * limits.SECOND_MS
    second = await refreshed(rest, first)
    assert (second["session_id"], second["user_id"]) == (first["session_id"], first["user_id"])
    assert second["refresh_token"] != first["refresh_token"]
    assert second["access_token"] != first["access_token"]
    ends_at = rest.clock.time // 1_000 * 1_000 + limits.ACCESS_TOKEN_SECONDS * limits.SECOND_MS
    assert second["expires_at"] == rfc3339(ends_at)
    await holder(rest, second).ok("GET", "/v1/me")


async def test_a_session_lives_for_sixty_days_from_its_last_refresh(
    rest: Rest, phones: Phones
) -> None:
    tokens = await log_in(rest, phones)
    for _ in range(2):
        rest.clock.time += limits.SESSION_MS - 1
        tokens = await refreshed(rest, tokens)
    rest.clock.time += limits.SESSION_MS
    assert await is_ended(rest, tokens)


@pytest.mark.parametrize("token", ["", "rt_", f"rt_{NOWHERE}_{'A' * 43}", "x" * 9_000, "rt_é"])
async def test_what_is_no_refresh_token_is_refused(rest: Rest, token: str) -> None:
    assert problem(await try_refresh(rest, token)) == ENDED


@pytest.mark.attack("A09")
async def test_who_lost_the_answer_to_a_refresh_gets_it_again_for_half_a_minute(
    rest: Rest, phones: Phones
) -> None:
    first = await log_in(rest, phones)
    rest.clock.time += 1_234
    second = await refreshed(rest, first)
    rest.clock.time += limits.REFRESH_GRACE_MS - 1
    assert await refreshed(rest, first) == second
    await refreshed(rest, second)


@pytest.mark.attack("A09")
async def test_a_token_that_is_used_again_later_ends_the_whole_session(
    rest: Rest, phones: Phones, caplog: pytest.LogCaptureFixture
) -> None:
    first = await log_in(rest, phones)
    second = await refreshed(rest, first)
    rest.clock.time += limits.REFRESH_GRACE_MS
    with caplog.at_level(logging.WARNING):
        assert await is_ended(rest, first)
    assert await is_ended(rest, second)
    assert first["session_id"] in await ended_sessions(rest)
    [line] = [one for one in caplog.records if vars(one).get("action") == "refresh_reused"]
    assert vars(line)["session"] == first["session_id"]


@pytest.mark.attack("A09")
async def test_a_token_from_two_steps_ago_ends_the_session_at_once(
    rest: Rest, phones: Phones
) -> None:
    first = await log_in(rest, phones)
    third = await refreshed(rest, await refreshed(rest, first))
    assert await is_ended(rest, first)
    assert await is_ended(rest, third)
    assert first["session_id"] in await ended_sessions(rest)


@pytest.mark.attack("A09")
async def test_the_access_token_of_a_stolen_session_is_refused(rest: Rest, phones: Phones) -> None:
    first = await log_in(rest, phones)
    second = await refreshed(rest, first)
    rest.clock.time += limits.REFRESH_GRACE_MS
    assert await is_ended(rest, first)
    # Neither had been shown before, so that the store is asked about both.
    for tokens in (first, second):
        assert await holder(rest, tokens).refused("GET", "/v1/me") == (401, "auth.required")


@pytest.mark.attack("A10")
async def test_many_refreshes_at_once_with_one_token_get_one_pair(
    rest: Rest, phones: Phones
) -> None:
    tokens = await log_in(rest, phones)
    async with asyncio.TaskGroup() as group:
        asked = [group.create_task(refreshed(rest, tokens)) for _ in range(10)]
    [pair] = {tuple(sorted(one.result().items())) for one in asked}
    await refreshed(rest, dict(pair))


# --- Ending ------------------------------------------------------------------------------------


@pytest.mark.attack("A11")
async def test_after_ending_all_sessions_none_is_refreshed(rest: Rest, phones: Phones) -> None:
    number = new_number()
    one, other = await log_in(rest, phones, number), await log_in(rest, phones, number, "tablet")
    me = holder(rest, one)
    assert (await me.call("DELETE", "/v1/sessions")).status_code == 204
    assert await is_ended(rest, one)
    assert await is_ended(rest, other)

    again = await log_in(rest, phones, number)  # within the same millisecond
    listed = (await holder(rest, again).ok("GET", "/v1/sessions"))["data"]
    assert [(one["session_id"], one["current"]) for one in listed] == [(again["session_id"], True)]
    await refreshed(rest, again)


@pytest.mark.attack("A11")
async def test_after_a_change_of_the_number_no_session_is_refreshed(
    rest: Rest, phones: Phones
) -> None:
    number, other = new_number(), new_number()
    tokens = await log_in(rest, phones, number)
    backend = await rest.tenant()
    path = f"/v1/tenants/acme/users/{tokens['user_id']}"
    spelt = f"{number[:3]} {number[3:]}"
    assert (await backend.ok("PUT", path, {"phone_number": spelt}))["phone_number"] == number
    tokens = await refreshed(rest, tokens)  # the same number is no change

    await backend.ok("PUT", path, {"phone_number": other})
    assert await is_ended(rest, tokens)
    assert (await log_in(rest, phones, other))["user_id"] == tokens["user_id"]
    assert (await log_in(rest, phones, number))["user_id"] != tokens["user_id"]


@pytest.mark.attack("A11")
async def test_after_the_number_is_taken_away_no_session_is_refreshed(
    rest: Rest, phones: Phones
) -> None:
    number = new_number()
    tokens = await log_in(rest, phones, number)
    backend = await rest.tenant()
    path = f"/v1/tenants/acme/users/{tokens['user_id']}"
    assert (await backend.ok("PUT", path, {"display_name": "Ann"}))["phone_number"] == number
    tokens = await refreshed(rest, tokens)  # a number of which nothing is said stays

    assert (await backend.ok("PUT", path, {"phone_number": None}))["phone_number"] is None
    assert await is_ended(rest, tokens)
    assert await holder(rest, tokens).refused("GET", "/v1/me") == (401, "auth.required")
    again = await log_in(rest, phones, number)
    assert again["user_id"] != tokens["user_id"], "whoever has the number now is somebody else"
    assert (await backend.ok("PUT", path, {"phone_number": None}))["phone_number"] is None
    await refreshed(rest, again)


async def test_a_change_to_a_number_of_somebody_else_changes_nothing(
    rest: Rest, phones: Phones
) -> None:
    taken = new_number()
    tokens, _ = await log_in(rest, phones), await log_in(rest, phones, taken)
    backend = await rest.tenant()
    path = f"/v1/tenants/acme/users/{tokens['user_id']}"
    wish = {"phone_number": taken}
    assert await backend.refused("PUT", path, wish) == (409, "user.phone_taken")
    await refreshed(rest, tokens)


@pytest.mark.attack("A11")
async def test_a_user_who_is_deactivated_is_not_refreshed(rest: Rest, phones: Phones) -> None:
    tokens = await log_in(rest, phones)
    backend = await rest.tenant()
    path = f"/v1/tenants/acme/users/{tokens['user_id']}"
    await backend.ok("PUT", path, {"deactivated": True})
    assert await is_ended(rest, tokens)
    assert (await backend.ok("PUT", path, {"display_name": "Ann"}))["deactivated"] is True
    wish = {"user_id": tokens["user_id"]}
    refusal = await backend.refused("POST", "/v1/tenants/acme/tokens", wish)
    assert refusal == (409, "user.deactivated")

    await backend.ok("PUT", path, {"deactivated": False})
    assert await is_ended(rest, tokens)
    assert await holder(rest, tokens).refused("GET", "/v1/me") == (401, "auth.required")
    await backend.ok("POST", "/v1/tenants/acme/tokens", wish)


@pytest.mark.attack("A11")
async def test_a_tenant_ends_all_that_its_user_was_given(rest: Rest, phones: Phones) -> None:
    tokens = await log_in(rest, phones)
    path = f"/v1/tenants/acme/users/{tokens['user_id']}/sessions"
    other = await rest.tenant("other")
    assert await other.refused("DELETE", path) == (404, "tenant.not_found")
    assert await holder(rest, tokens).refused("DELETE", path) == (403, "auth.forbidden")
    backend = await rest.tenant()
    assert (await backend.call("DELETE", path)).status_code == 204
    assert await is_ended(rest, tokens)
    for missing in ("nobody", "%00", "a" * 65):
        gone = f"/v1/tenants/acme/users/{missing}/sessions"
        assert await backend.refused("DELETE", gone) == NO_USER


async def test_a_tenant_that_is_suspended_has_no_sessions(rest: Rest, phones: Phones) -> None:
    tokens = await log_in(rest, phones)
    tenants = rest.core.store.tenants
    await tenants.set_suspended("acme", True, rest.clock.now())
    try:
        assert await is_ended(rest, tokens)
    finally:
        await tenants.set_suspended("acme", False, rest.clock.now())
    await refreshed(rest, tokens)


async def test_a_user_sees_and_ends_own_sessions_only(rest: Rest, phones: Phones) -> None:
    number = new_number()
    first = await log_in(rest, phones, number, "phone")
    rest.clock.time += 1_000
    second = await log_in(rest, phones, number, "tablet")
    stranger = await log_in(rest, phones)
    me = holder(rest, second)

    listed = (await me.ok("GET", "/v1/sessions"))["data"]
    assert [(one["device"], one["session_id"], one["current"]) for one in listed] == [
        ("tablet", second["session_id"], True),
        ("phone", first["session_id"], False),
    ]
    assert listed[0].keys() == {
        "session_id", "device", "created_at", "last_used_at", "expires_at", "current",
    }  # fmt: skip
    for other in (stranger["session_id"], NOWHERE, "x", "%00"):
        assert await me.refused("DELETE", f"/v1/sessions/{other}") == NO_SESSION
    await refreshed(rest, stranger)

    path = f"/v1/sessions/{first['session_id']}"
    assert (await me.call("DELETE", path)).status_code == 204
    assert await me.refused("DELETE", path) == NO_SESSION
    assert await is_ended(rest, first)
    assert first["session_id"] in await ended_sessions(rest)
    assert [one["device"] for one in (await me.ok("GET", "/v1/sessions"))["data"]] == ["tablet"]


async def test_a_session_that_was_refreshed_says_when(rest: Rest, phones: Phones) -> None:
    tokens = await log_in(rest, phones)
    made_at = rest.clock.time
    rest.clock.time += 60_000
    tokens = await refreshed(rest, tokens)
    [listed] = (await holder(rest, tokens).ok("GET", "/v1/sessions"))["data"]
    assert (listed["created_at"], listed["last_used_at"], listed["expires_at"]) == (
        rfc3339(made_at),
        rfc3339(rest.clock.time),
        rfc3339(rest.clock.time + limits.SESSION_MS),
    )


async def test_tokens_that_a_tenant_made_belong_to_no_session(rest: Rest) -> None:
    alice = await rest.user("alice")
    assert await alice.ok("GET", "/v1/sessions") == {"data": []}


@pytest.mark.attack("A15")
async def test_a_login_on_a_device_replaces_the_session_there(rest: Rest, phones: Phones) -> None:
    number = new_number()
    first = await log_in(rest, phones, number, "phone")
    rest.clock.time += 1
    second = await log_in(rest, phones, number, "phone")
    assert await is_ended(rest, first)
    await refreshed(rest, second)


async def test_beyond_fifty_sessions_the_oldest_ends(rest: Rest, phones: Phones) -> None:
    number = new_number()
    oldest = await log_in(rest, phones, number, "device.0")
    user, sessions = user_key("acme", oldest["user_id"]), rest.core.store.sessions
    opened = await sessions.get(oldest["session_id"])
    assert opened is not None
    for place in range(1, limits.USER_SESSIONS_MAX):
        await sessions.open(like(opened, place))
    assert not await is_ended(rest, oldest)

    rest.clock.time += 1_000
    newest = await log_in(rest, phones, number, "device.new")
    listed = (await holder(rest, newest).ok("GET", "/v1/sessions"))["data"]
    assert len(listed) == limits.USER_SESSIONS_MAX == len(await sessions.of(user))
    assert "device.0" not in {one["device"] for one in listed}
