# SPDX-License-Identifier: Apache-2.0
"""Logging in by phone over REST, on every engine: codes, numbers, and guessing."""

import asyncio
import logging
from pathlib import Path

import httpx
import pytest

from tests.integration.engines import long_engine as long_engine
from tests.integration.login_world import (
    ask_for_code,
    holder,
    log_in,
    login_tenant,
    refreshed,
    try_code,
    try_refresh,
    wish,
)
from tests.integration.login_world import phones as phones
from tests.integration.login_world import rest as rest
from tests.integration.rest_world import TENANT, Actor, Rest, open_rest, problem
from tests.support.phones import Phones, new_number
from tidings.model import limits
from tidings.model.ids import SESSION as ULID
from tidings.model.ids import user_key
from tidings.ports.sessions import Session

pytestmark = pytest.mark.asyncio(loop_scope="module")

CODE_WRONG = (401, "login.code_wrong")
INVALID = (400, "request.invalid")


def other_than(code: str) -> str:
    return f"{(int(code) + 1) % 10**limits.CODE_DIGITS:06d}"


async def answers(rest: Rest, number: str, codes: list[str]) -> list[httpx.Response]:
    """What comes of trying codes, all at once."""
    async with asyncio.TaskGroup() as group:
        tried = [group.create_task(try_code(rest, number, code)) for code in codes]
    return [one.result() for one in tried]


# --- Logging in --------------------------------------------------------------------------------


async def test_whoever_has_the_number_is_its_user_from_the_first_login_on(
    rest: Rest, phones: Phones
) -> None:
    number = new_number()
    first = await log_in(rest, phones, number)
    assert first.keys() == {
        "access_token", "refresh_token", "session_id", "user_id", "expires_at",
    }  # fmt: skip
    assert ULID.fullmatch(first["user_id"]) and ULID.fullmatch(first["session_id"])
    profile = await holder(rest, first).ok("GET", "/v1/me")
    assert (profile["user_id"], profile["phone_number"]) == (first["user_id"], number)

    second = await log_in(rest, phones, number, "tablet")
    assert second["user_id"] == first["user_id"]
    assert second["session_id"] != first["session_id"]


async def test_a_number_that_a_tenant_gave_to_a_user_logs_that_user_in(
    rest: Rest, phones: Phones
) -> None:
    number = new_number()
    backend = await rest.tenant()
    path = "/v1/tenants/acme/users/nora"
    assert (await backend.ok("PUT", path, {"phone_number": number}))["phone_verified"] is False
    assert (await log_in(rest, phones, number))["user_id"] == "nora"
    assert (await backend.ok("PUT", path))["phone_verified"] is True
    assert (await backend.ok("PUT", path, {"phone_number": None}))["phone_verified"] is False


async def test_a_number_is_another_user_in_another_tenant(rest: Rest, phones: Phones) -> None:
    number = new_number()
    await login_tenant(rest, "other")
    code = await ask_for_code(rest, phones, number, "other")
    there = (await try_code(rest, number, code, tenant="other")).json()
    assert (await log_in(rest, phones, number))["user_id"] != there["user_id"]


async def test_where_no_texts_are_sent_nobody_logs_in(tmp_path: Path) -> None:
    async with open_rest(tmp_path, settings={"sms": "off"}) as rest:
        await rest.tenant()
        number = new_number()
        off = (403, "login.off")
        assert await rest.nobody.refused("POST", "/v1/auth/codes", wish(number)) == off
        assert problem(await try_code(rest, number, "123456")) == off


@pytest.mark.parametrize("field", ["tenant", "device", "phone_number"])
async def test_a_login_with_a_field_out_of_form_is_refused(rest: Rest, field: str) -> None:
    body = {**wish(new_number()), "code": "123456", "device": "phone", field: "Ä b"}
    answer = await rest.nobody.call("POST", "/v1/auth/sessions", body)
    assert problem(answer) == INVALID
    assert answer.json()["errors"][0]["pointer"] == f"/{field}"


# --- Codes -------------------------------------------------------------------------------------


@pytest.mark.attack("B04")
async def test_a_code_counts_once(rest: Rest, phones: Phones) -> None:
    number = new_number()
    code = await ask_for_code(rest, phones, number)
    assert (await try_code(rest, number, code)).status_code == 201
    assert problem(await try_code(rest, number, code)) == CODE_WRONG


@pytest.mark.attack("B04")
async def test_an_earlier_code_does_not_count_once_there_is_a_later_one(
    rest: Rest, phones: Phones
) -> None:
    number = new_number()
    earlier = later = await ask_for_code(rest, phones, number)
    while later == earlier:  # one time in a million
        later = await ask_for_code(rest, phones, number)
    assert problem(await try_code(rest, number, earlier)) == CODE_WRONG
    assert (await try_code(rest, number, later)).status_code == 201


@pytest.mark.attack("B04")
async def test_a_code_does_not_count_after_ten_minutes(rest: Rest, phones: Phones) -> None:
    number = new_number()
    code = await ask_for_code(rest, phones, number)
    rest.clock.time += limits.CODE_MS
    assert problem(await try_code(rest, number, code)) == CODE_WRONG


@pytest.mark.attack("B04")
async def test_a_code_is_for_one_number_of_one_tenant(rest: Rest, phones: Phones) -> None:
    number, other = new_number(), new_number()
    await login_tenant(rest, "other")
    code = await ask_for_code(rest, phones, number)
    await ask_for_code(rest, phones, other)
    await ask_for_code(rest, phones, number, "other")
    if code not in (phones.code(other), phones.code(number)):
        assert problem(await try_code(rest, other, code)) == CODE_WRONG
        assert problem(await try_code(rest, number, code, tenant="other")) == CODE_WRONG
    assert (await try_code(rest, number, code)).status_code == 201


@pytest.mark.parametrize(
    "code", ["", "12345", "1234567", "１２３４５６", "12345x", " 12345", "0" * 5_000]
)
async def test_what_is_no_code_is_a_wrong_one(rest: Rest, phones: Phones, code: str) -> None:
    number = new_number()
    await ask_for_code(rest, phones, number)
    assert problem(await try_code(rest, number, code)) == CODE_WRONG


@pytest.mark.attack("B03")
async def test_five_wrong_guesses_end_a_code(rest: Rest, phones: Phones) -> None:
    number = new_number()
    code = await ask_for_code(rest, phones, number)
    for _ in range(limits.CODE_ATTEMPTS_MAX - 1):
        assert problem(await try_code(rest, number, other_than(code))) == CODE_WRONG
    assert (await try_code(rest, number, code)).status_code == 201

    code = await ask_for_code(rest, phones, number)
    for _ in range(limits.CODE_ATTEMPTS_MAX):
        assert problem(await try_code(rest, number, other_than(code))) == CODE_WRONG
    assert problem(await try_code(rest, number, code)) == CODE_WRONG


@pytest.mark.attack("B03")
async def test_guessing_in_parallel_is_no_more_than_five_guesses(
    rest: Rest, phones: Phones
) -> None:
    number = new_number()
    code = await ask_for_code(rest, phones, number)
    for answer in await answers(rest, number, [other_than(code)] * 30):
        assert problem(answer) == CODE_WRONG
    assert problem(await try_code(rest, number, code)) == CODE_WRONG


@pytest.mark.attack("B07")
async def test_one_of_many_logins_at_once_with_a_code_succeeds(rest: Rest, phones: Phones) -> None:
    number = new_number()
    code = await ask_for_code(rest, phones, number)
    tried = await answers(rest, number, [code] * limits.CODE_ATTEMPTS_MAX)
    [made] = [one.json() for one in tried if one.status_code == 201]
    assert {problem(one) for one in tried if one.status_code != 201} == {CODE_WRONG}
    assert (await log_in(rest, phones, number))["user_id"] == made["user_id"]


# --- Numbers -----------------------------------------------------------------------------------


@pytest.mark.attack("B06")
async def test_a_number_is_one_user_however_it_is_written(rest: Rest, phones: Phones) -> None:
    plain = "+14155550142"
    tokens = await log_in(rest, phones, plain)
    for written in ("+1 (415) 555-0142", " ＋１ ４１５ ５５５ ０１４２ "):
        await rest.nobody.ok("POST", "/v1/auth/codes", wish(written))
        answer = await try_code(rest, written, phones.code(plain))
        assert answer.json()["user_id"] == tokens["user_id"]


@pytest.mark.attack("B06")
@pytest.mark.parametrize(
    "number",
    [
        "",
        "+",
        "4155550142",
        "0014155550142",
        "+0014155550142",
        "+1" + "5" * 40,
        "+1 415",
        "+999 1",
        "+1 415 555 0142 ext. 7",
        "tel:+14155550142",
        "+1 800 FLOWERS",
        "+14155550142\n",
        "+" * 99,
    ],
)
async def test_what_is_no_number_gets_no_code(rest: Rest, phones: Phones, number: str) -> None:
    asked = phones.asked
    answer = await rest.nobody.call("POST", "/v1/auth/codes", wish(number))
    assert problem(answer) == INVALID
    assert answer.json()["errors"][0]["pointer"] == "/phone_number"
    assert phones.asked == asked


@pytest.mark.attack("B05")
async def test_whether_a_number_is_known_cannot_be_told_from_the_answer(
    rest: Rest, phones: Phones
) -> None:
    known, unknown = new_number(), new_number()
    await log_in(rest, phones, known)
    await login_tenant(rest, "asleep")
    await rest.core.store.tenants.set_suspended("asleep", True, rest.clock.now())
    rest.clock.time += limits.CODES_MS  # the number that logged in has asked once
    headers, asked = {"X-Request-Id": "same"}, phones.asked
    bodies = [
        wish(known),
        wish(unknown),
        wish(known, "no-such-tenant"),
        wish(known, "asleep"),
    ]
    for number in range(limits.NUMBER_CODES_MAX + 1):
        seen = []
        for body in bodies:
            answer = await rest.nobody.call("POST", "/v1/auth/codes", body, headers)
            seen.append((answer.status_code, answer.content, sorted(answer.headers.items())))
        assert seen == [seen[0]] * len(bodies)
        assert seen[0][0] == (202 if number < limits.NUMBER_CODES_MAX else 429)
    answer = await rest.nobody.call("POST", "/v1/auth/codes", wish(unknown))
    assert "retry-after" in answer.headers
    sent = limits.NUMBER_CODES_MAX
    assert phones.asked == asked + 2 * sent, "to the known number and the unknown one"

    wrong = [
        await try_code(rest, number, "000000", tenant=tenant)
        for number, tenant in ((new_number(), "acme"), (known, "no-such-tenant"), (known, "asleep"))
    ]
    assert {(problem(one), one.content) for one in wrong} == {(CODE_WRONG, wrong[0].content)}


@pytest.mark.attack("B05")
async def test_a_tenant_that_does_not_count_sends_nothing(rest: Rest, phones: Phones) -> None:
    number = new_number()
    code = await ask_for_code(rest, phones, number)
    asked = phones.asked
    for _ in range(limits.NUMBER_CODES_MAX):
        await rest.nobody.ok("POST", "/v1/auth/codes", wish(number, "no-such-tenant"))
    assert phones.asked == asked
    assert (await try_code(rest, number, code)).status_code == 201
    await ask_for_code(rest, phones, number)  # which has cost nothing


async def test_a_user_who_is_deactivated_does_not_get_in(rest: Rest, phones: Phones) -> None:
    number = new_number()
    tokens = await log_in(rest, phones, number)
    path = f"/v1/tenants/acme/users/{tokens['user_id']}"
    backend = await rest.tenant()
    assert (await backend.ok("PUT", path, {"deactivated": True}))["deactivated"] is True
    code = await ask_for_code(rest, phones, number)
    assert problem(await try_code(rest, number, code)) == CODE_WRONG
    assert (await backend.ok("PUT", path, {"deactivated": False}))["deactivated"] is False
    assert (await log_in(rest, phones, number))["user_id"] == tokens["user_id"]


# --- What is given out -------------------------------------------------------------------------


@pytest.mark.attack("A05")
async def test_no_token_passes_for_another_kind_of_token(rest: Rest, phones: Phones) -> None:
    number = new_number()
    code = await ask_for_code(rest, phones, number)
    tokens = (await try_code(rest, number, code)).json()
    for credential in (tokens["refresh_token"], code, tokens["session_id"]):
        bearer = Actor(rest.http, "mixed up", credential)
        assert await bearer.refused("GET", "/v1/me") == (401, "auth.required")
    for token in (tokens["access_token"], code, tokens["session_id"]):
        assert problem(await try_refresh(rest, token)) == (401, "session.ended")
    assert problem(await try_code(rest, number, tokens["refresh_token"])) == CODE_WRONG
    await refreshed(rest, tokens)


@pytest.mark.attack("A15")
async def test_ids_of_sessions_and_users_are_never_the_client_s_to_choose(
    rest: Rest, phones: Phones
) -> None:
    victim = await log_in(rest, phones, device="victims-phone")
    number = new_number()
    body = {**wish(number), "code": "", "device": "victims-phone"}
    for field in ("session_id", "user_id"):
        chosen = {**body, field: victim[field]}
        answer = await rest.nobody.call("POST", "/v1/auth/sessions", chosen)
        assert problem(answer) == INVALID
        assert answer.json()["errors"][0]["pointer"] == f"/{field}"

    other = await log_in(rest, phones, number, "victims-phone")
    assert other["session_id"] != victim["session_id"]
    assert other["user_id"] != victim["user_id"]
    await refreshed(rest, victim)  # another user's login on a device of that name ended nothing


@pytest.mark.attack("A15")
async def test_a_token_made_up_for_a_session_of_somebody_else_does_it_no_harm(
    rest: Rest, phones: Phones
) -> None:
    victim, own = await log_in(rest, phones), await log_in(rest, phones)
    secret = own["refresh_token"].rpartition("_")[2]
    for made_up in (secret, "A" * 43):
        token = f"rt_{victim['session_id']}_{made_up}"
        assert problem(await try_refresh(rest, token)) == (401, "session.ended")
    await refreshed(rest, victim)


@pytest.mark.attack("H05")
async def test_nothing_secret_is_logged(
    rest: Rest, phones: Phones, caplog: pytest.LogCaptureFixture
) -> None:
    number = new_number()
    with caplog.at_level(logging.DEBUG):
        code = await ask_for_code(rest, phones, number)
        await try_code(rest, number, other_than(code))
        first = (await try_code(rest, number, code)).json()
        second = await refreshed(rest, first)
        rest.clock.time += limits.REFRESH_GRACE_MS
        await try_refresh(rest, first["refresh_token"])
        phones.rejects = True
        await rest.nobody.ok("POST", "/v1/auth/codes", wish(number))
        phones.rejects = False
    lines = [str(vars(record)) for record in caplog.records if record.name.startswith("tidings")]
    assert len(lines) >= 2, "reuse, and a code that was not sent"
    codes = [text[:6] for text in phones.texts[number]]
    secrets = [number, number[1:], *codes, first["refresh_token"], first["access_token"]]
    secrets += [second["refresh_token"], second["access_token"]]
    assert [secret for secret in secrets for line in lines if secret in line] == []


async def test_a_code_outlives_a_login_that_could_not_be_finished(
    rest: Rest, phones: Phones
) -> None:
    number, full = new_number(), {"quotas": {"users": 0}}
    await login_tenant(rest, "full")
    await rest.root.ok("PUT", "/v1/tenants/full", full)
    code = await ask_for_code(rest, phones, number, "full")
    answer = await try_code(rest, number, code, tenant="full")
    assert problem(answer) == (409, "limit.reached")
    await rest.root.ok("PUT", "/v1/tenants/full", {"quotas": {"users": None}})
    assert (await try_code(rest, number, code, tenant="full")).status_code == 201


@pytest.mark.attack("A11")
async def test_a_number_that_moves_during_a_login_opens_no_session(
    rest: Rest, phones: Phones, monkeypatch: pytest.MonkeyPatch
) -> None:
    number, sessions = new_number(), rest.core.store.sessions
    code = await ask_for_code(rest, phones, number)
    user_id = (await try_code(rest, number, code)).json()["user_id"]
    code = await ask_for_code(rest, phones, number)
    keep = sessions.open

    async def move_and_keep(session: Session) -> None:
        body = {"phone_number": new_number()}
        backend = await rest.tenant()
        await backend.ok("PUT", f"/v1/tenants/{TENANT}/users/{user_id}", body)
        await keep(session)

    monkeypatch.setattr(sessions, "open", move_and_keep)
    answer = await try_code(rest, number, code, device="other")
    assert problem(answer) == (401, "login.code_wrong")
    assert [one.device for one in await sessions.of(user_key(TENANT, user_id))] == ["phone"]
