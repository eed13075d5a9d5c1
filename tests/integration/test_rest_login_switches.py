# SPDX-License-Identifier: Apache-2.0
"""Who logs in by phone is the tenant's to say: off by default, on every engine."""

import pytest

from tests.integration.engines import long_engine as long_engine
from tests.integration.login_world import (
    ask_for_code,
    holder,
    log_in,
    login_tenant,
    refreshed,
    try_code,
    wish,
)
from tests.integration.login_world import phones as phones
from tests.integration.login_world import rest as rest
from tests.integration.rest_world import Json, Rest, problem
from tests.support.phones import Phones, new_number

pytestmark = pytest.mark.asyncio(loop_scope="module")

CODE_WRONG = (401, "login.code_wrong")
ON = {"phone": True, "register": True}


async def answers(rest: Rest, number: str, tenant: str) -> list[tuple[int, bytes, list[str]]]:
    """What asking for a code and trying one is answered with, apart from the request's id."""
    headers = {"X-Request-Id": "same"}
    asked = await rest.nobody.call("POST", "/v1/auth/codes", wish(number, tenant), headers)
    body = {**wish(number, tenant), "code": "000000", "device": "phone"}
    tried = await rest.nobody.call("POST", "/v1/auth/sessions", body, headers)
    return [(one.status_code, one.content, sorted(one.headers)) for one in (asked, tried)]


@pytest.mark.attack("S05", "D11")
@pytest.mark.parametrize("login", [None, {}, {"phone": False, "register": True}])
async def test_a_tenant_that_never_asked_for_it_looks_as_if_it_did_not_exist(
    rest: Rest, phones: Phones, login: Json | None
) -> None:
    tenant = f"closed-{0 if login is None else 1 + len(login)}"
    backend = await rest.tenant(tenant)
    if login is not None:
        await backend.ok("PUT", f"/v1/tenants/{tenant}/settings", {"login": login})
    known, stranger = new_number(), new_number()
    await backend.ok("PUT", f"/v1/tenants/{tenant}/users/kim", {"phone_number": known})
    nowhere = await answers(rest, new_number(), "no-such-tenant")
    asked = phones.asked
    assert await answers(rest, known, tenant) == nowhere
    assert await answers(rest, stranger, tenant) == nowhere
    assert phones.asked == asked, "a text was sent"
    assert await rest.core.store.users.by_phone(tenant, [stranger]) == {}


@pytest.mark.attack("S05", "B05")
async def test_an_unknown_number_gets_neither_text_nor_account_unless_it_may_register(
    rest: Rest, phones: Phones
) -> None:
    backend = await login_tenant(rest, "members", {"phone": True})
    known, stranger = new_number(), new_number()
    await backend.ok("PUT", "/v1/tenants/members/users/kim", {"phone_number": known})
    asked = phones.asked
    assert await answers(rest, stranger, "members") == await answers(rest, known, "members")
    assert phones.asked == asked + 1, "to the known number alone"
    assert (await try_code(rest, known, phones.code(known), tenant="members")).status_code == 201

    await login_tenant(rest, "members", ON)
    code = await ask_for_code(rest, phones, stranger, "members")
    assert (await try_code(rest, stranger, code, tenant="members")).status_code == 201


@pytest.mark.attack("S05")
async def test_a_code_that_is_under_way_when_a_switch_is_turned_opens_nothing(
    rest: Rest, phones: Phones
) -> None:
    await login_tenant(rest, "turned", ON)
    stranger = new_number()
    code = await ask_for_code(rest, phones, stranger, "turned")
    for login in ({"phone": False, "register": True}, {"phone": True, "register": False}):
        await login_tenant(rest, "turned", login)
        assert problem(await try_code(rest, stranger, code, tenant="turned")) == CODE_WRONG
    assert await rest.core.store.users.by_phone("turned", [stranger]) == {}
    await login_tenant(rest, "turned", ON)
    assert (await try_code(rest, stranger, code, tenant="turned")).status_code == 201


@pytest.mark.attack("S05")
async def test_a_switch_that_another_process_turned_counts_with_the_next_request(
    rest: Rest, phones: Phones
) -> None:
    await login_tenant(rest, "elsewhere", ON)
    await ask_for_code(rest, phones, new_number(), "elsewhere")
    settings, asked = rest.core.store.inbox_settings, phones.asked
    await settings.put_settings("elsewhere", {"login": {"phone": False}})
    await answers(rest, new_number(), "elsewhere")
    assert phones.asked == asked
    await settings.put_settings("elsewhere", {"login": {**ON}})
    await ask_for_code(rest, phones, new_number(), "elsewhere")


async def test_turning_it_off_ends_no_session(rest: Rest, phones: Phones) -> None:
    tokens = await log_in(rest, phones)
    backend = await login_tenant(rest, login={"phone": False})
    try:
        following = await refreshed(rest, tokens)
        await holder(rest, following).ok("GET", "/v1/me")
    finally:
        await login_tenant(rest)
    path = f"/v1/tenants/acme/users/{tokens['user_id']}/sessions"
    await backend.ok("DELETE", path)


@pytest.mark.parametrize(
    "login", ["on", None, [], {"phone": 1}, {"phone": "true"}, {"register": None}, {"sms": True}]
)
async def test_settings_of_logging_in_that_make_no_sense_are_refused(
    rest: Rest, login: object
) -> None:
    backend = await rest.tenant("senseless")
    answer = await backend.call("PUT", "/v1/tenants/senseless/settings", {"login": login})
    assert problem(answer) == (400, "request.invalid")
    assert answer.json()["errors"][0]["pointer"] == "/login"


@pytest.mark.attack("S05")
async def test_what_was_kept_as_login_before_it_had_a_meaning_switches_nothing_on(
    rest: Rest, phones: Phones
) -> None:
    await rest.tenant("early")
    await rest.core.store.inbox_settings.put_settings("early", {"login": {"phone": "yes"}})
    asked = phones.asked
    await answers(rest, new_number(), "early")
    assert phones.asked == asked
