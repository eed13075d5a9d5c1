# SPDX-License-Identifier: Apache-2.0
"""Contacts over REST, on every engine: whose numbers are found, and how many may be asked for."""

import pytest

from tests.integration.engines import long_engine as long_engine
from tests.integration.login_world import holder, log_in
from tests.integration.login_world import phones as phones
from tests.integration.login_world import rest as rest
from tests.integration.rest_world import Rest, problem
from tests.support.phones import Phones, new_number
from tidings.model import limits

pytestmark = pytest.mark.asyncio(loop_scope="module")

PATH = "/v1/contacts"


async def test_users_are_found_by_their_numbers_however_they_are_written(
    rest: Rest, phones: Phones
) -> None:
    number = new_number()
    found = await log_in(rest, phones, number)
    await holder(rest, found).ok("PATCH", "/v1/me", {"display_name": "Finn"})
    other = await log_in(rest, phones, named := new_number())
    spelt = f"{number[:3]} ({number[3:5]}) {number[5:8]}-{number[8:]}"
    numbers = ["no number", spelt, new_number(), named, number, "0791234567"]

    me = await rest.user("alice")
    answer = await me.ok("POST", PATH, {"phone_numbers": numbers})

    finn = {"user_id": found["user_id"], "display_name": "Finn"}
    assert answer == {
        "data": [
            {"phone_number": spelt, **finn},
            {"phone_number": named, "user_id": other["user_id"], "display_name": None},
            {"phone_number": number, **finn},
        ]
    }


async def test_users_of_another_tenant_are_not_found(rest: Rest, phones: Phones) -> None:
    number = new_number()
    await log_in(rest, phones, number)
    stranger = await rest.user("zoe", "other")
    assert await stranger.ok("POST", PATH, {"phone_numbers": [number]}) == {"data": []}


async def test_keys_look_nobody_up(rest: Rest) -> None:
    body = {"phone_numbers": [new_number()]}
    for caller in (rest.root, await rest.tenant()):
        assert await caller.refused("POST", PATH, body) == (403, "auth.forbidden")
    assert await rest.nobody.refused("POST", PATH, body) == (401, "auth.required")


@pytest.mark.parametrize("count", [0, limits.CONTACTS_MAX + 1])
async def test_one_to_a_hundred_numbers_are_looked_up_at_once(rest: Rest, count: int) -> None:
    me = await rest.user("bob")
    answer = await me.call("POST", PATH, {"phone_numbers": [new_number()] * count})
    assert problem(answer) == (400, "request.invalid")
    assert answer.json()["errors"][0]["pointer"] == "/phone_numbers"


@pytest.mark.attack("B05")
async def test_a_user_who_goes_through_all_numbers_has_to_wait_for_the_next_day(
    rest: Rest, phones: Phones
) -> None:
    number = new_number()
    await log_in(rest, phones, number)
    digger, other = await rest.users("digger", "other-one")
    body = {"phone_numbers": [f"+41785{place:06d}" for place in range(limits.CONTACTS_MAX)]}
    for _ in range(limits.USER_DAY_CONTACTS_MAX // limits.CONTACTS_MAX):
        await digger.ok("POST", PATH, body)

    answer = await digger.call("POST", PATH, {"phone_numbers": [number]})
    assert problem(answer) == (429, "rate.limited")
    left_ms = limits.DAY_MS - rest.clock.time % limits.DAY_MS
    assert int(answer.headers["Retry-After"]) == -(-left_ms // limits.SECOND_MS)
    assert len((await other.ok("POST", PATH, {"phone_numbers": [number]}))["data"]) == 1

    rest.clock.time += left_ms
    digger = await rest.user("digger")
    assert len((await digger.ok("POST", PATH, {"phone_numbers": [number]}))["data"]) == 1
