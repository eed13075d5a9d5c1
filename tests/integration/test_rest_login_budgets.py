# SPDX-License-Identifier: Apache-2.0
"""What may be spent on login codes, over REST and on every engine."""

import logging
from pathlib import Path

import pytest
from msgspec.structs import force_setattr

from tests.integration.engines import long_engine as long_engine
from tests.integration.login_world import ask_for_code, from_address, login_tenant, try_code, wish
from tests.integration.login_world import phones as phones
from tests.integration.login_world import rest as rest
from tests.integration.rest_world import Json, Rest, open_rest, problem
from tests.support.phones import Phones, new_number
from tidings.actions.identity import phone_numbers
from tidings.actions.identity.code_sending import ProviderHealth
from tidings.model import limits

pytestmark = pytest.mark.asyncio(loop_scope="module")

PREFIX_CODES = 20
"""Fewer than in a deployment, because each takes a request."""


@pytest.mark.attack("B02")
async def test_a_number_gets_three_codes_in_ten_minutes_and_ten_a_day(
    rest: Rest, phones: Phones
) -> None:
    number = new_number()
    rest.clock.time += limits.DAY_MS - rest.clock.time % limits.DAY_MS  # a day begins
    for turn in range(limits.NUMBER_DAY_CODES_MAX + limits.NUMBER_CODES_MAX):
        for _ in range(limits.NUMBER_CODES_MAX):
            await rest.nobody.call("POST", "/v1/auth/codes", wish(number))
        answer = await rest.nobody.call("POST", "/v1/auth/codes", wish(number))
        assert problem(answer) == (429, "rate.limited")
        if not turn:
            left_ms = limits.CODES_MS - rest.clock.time % limits.CODES_MS
            assert int(answer.headers["Retry-After"]) == -(-left_ms // limits.SECOND_MS)
        rest.clock.time += limits.CODES_MS
        count = len(phones.texts[number])
        assert count % limits.NUMBER_CODES_MAX == 0 or count == limits.NUMBER_DAY_CODES_MAX
    assert len(phones.texts[number]) == limits.NUMBER_DAY_CODES_MAX

    rest.clock.time += limits.DAY_MS
    await ask_for_code(rest, phones, number)


@pytest.mark.attack("B02")
async def test_an_address_that_asks_for_many_codes_has_to_wait(rest: Rest, phones: Phones) -> None:
    greedy, other = from_address(rest, "203.0.113.7"), from_address(rest, "203.0.113.8")
    for _ in range(limits.ADDRESS_CODES_MAX):
        await greedy.ok("POST", "/v1/auth/codes", wish(new_number()))
    asked = phones.asked
    answer = await greedy.call("POST", "/v1/auth/codes", wish(new_number()))
    assert problem(answer) == (429, "rate.limited")
    left_ms = limits.CODES_MS - rest.clock.time % limits.CODES_MS
    assert int(answer.headers["Retry-After"]) == -(-left_ms // limits.SECOND_MS)
    assert phones.asked == asked
    await other.ok("POST", "/v1/auth/codes", wish(new_number()))
    rest.clock.time += left_ms
    await greedy.ok("POST", "/v1/auth/codes", wish(new_number()))


@pytest.mark.attack("B01")
async def test_pumping_one_prefix_ends_at_its_budget_and_nobody_is_told(
    rest: Rest,
    phones: Phones,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert phone_numbers._MOST["prefix"] == limits.PREFIX_DAY_CODES_MAX
    monkeypatch.setitem(phone_numbers._MOST, "prefix", PREFIX_CODES)
    asked, withheld = phones.asked, rest.core.logins.request_code.send.withheld["prefix"]
    numbers = [f"+4178555{last:04d}" for last in range(PREFIX_CODES + 10)]
    with caplog.at_level(logging.WARNING):
        for number in numbers:
            answer = await rest.nobody.call("POST", "/v1/auth/codes", wish(number))
            assert (answer.status_code, answer.content) == (202, b"{}")
    assert phones.asked == asked + PREFIX_CODES
    assert rest.core.logins.request_code.send.withheld["prefix"] == withheld + 10
    lines = [one for one in caplog.records if vars(one).get("action") == "code_withheld"]
    assert [vars(one)["used_up"] for one in lines] == ["prefix"] * 10
    assert not any("+4178" in str(vars(one)) for one in caplog.records)


@pytest.mark.attack("B01")
async def test_all_together_get_no_more_codes_than_a_day_may_cost(
    tmp_path: Path, phones: Phones
) -> None:
    settings: Json = {**phones.settings, "sms_per_day": 3}
    async with open_rest(tmp_path, settings=settings) as rest:
        await login_tenant(rest)
        asked = phones.asked
        for _ in range(5):
            await rest.nobody.ok("POST", "/v1/auth/codes", wish(new_number()))
        assert phones.asked == asked + 3
        assert rest.core.logins.request_code.send.withheld == {"all": 2}


@pytest.mark.attack("B01")
async def test_what_was_spent_is_known_after_a_restart(tmp_path: Path, phones: Phones) -> None:
    number, statuses = new_number(), list[int]()
    for sent in (1, 2, 3, 3):
        async with open_rest(tmp_path, settings=phones.settings) as rest:
            await login_tenant(rest)
            answer = await rest.nobody.call("POST", "/v1/auth/codes", wish(number))
            statuses.append(answer.status_code)
        assert len(phones.texts[number]) == sent
    assert statuses == [202, 202, 202, 429]


@pytest.mark.attack("B08")
async def test_a_text_that_is_not_taken_is_tried_once_and_costs_nothing(
    rest: Rest, phones: Phones, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SMS_FAILURES_MAX", 10**6)
    number = new_number()
    somebody = from_address(rest, "203.0.113.9")
    phones.is_down = True
    try:
        for _ in range(limits.ADDRESS_CODES_MAX + 1):
            asked = phones.asked
            await somebody.ok("POST", "/v1/auth/codes", wish(number))
            assert phones.asked == asked + 1
    finally:
        phones.is_down = False
    for _ in range(limits.NUMBER_CODES_MAX):
        await somebody.ok("POST", "/v1/auth/codes", wish(number))
    assert len(phones.texts[number]) == limits.NUMBER_CODES_MAX


@pytest.mark.attack("B08")
async def test_a_text_that_is_not_taken_leaves_the_code_before_it_as_it_was(
    rest: Rest, phones: Phones
) -> None:
    number = new_number()
    code = await ask_for_code(rest, phones, number)
    wrong = f"{(int(code) + 1) % 10**limits.CODE_DIGITS:06d}"
    for _ in range(limits.CODE_ATTEMPTS_MAX - 1):
        assert (await try_code(rest, number, wrong)).status_code == 401
    phones.is_down = True
    try:
        await rest.nobody.ok("POST", "/v1/auth/codes", wish(number))
    finally:
        phones.is_down = False
    assert (await try_code(rest, number, code)).status_code == 201
    await ask_for_code(rest, phones, number)  # which tells the server that texts are sent again


@pytest.mark.attack("B08")
async def test_while_the_provider_is_down_whoever_asks_is_told_so(
    tmp_path: Path, phones: Phones
) -> None:
    async with open_rest(tmp_path, settings=phones.settings) as rest:
        await login_tenant(rest)
        now, send = [1_000.0], rest.core.logins.request_code.send
        health = ProviderHealth(lambda: now[0])
        force_setattr(send, "health", health)
        phones.is_down = True
        try:
            for _ in range(limits.SMS_FAILURES_MAX):
                await rest.nobody.ok("POST", "/v1/auth/codes", wish(new_number()))
            asked, seen = phones.asked, set()
            for body in (wish(new_number()), wish(new_number(), "no-such-tenant")):
                answer = await rest.nobody.call(
                    "POST", "/v1/auth/codes", body, {"X-Request-Id": "same"}
                )
                assert problem(answer) == (503, "sms.unavailable")
                seen.add((answer.content, answer.headers["Retry-After"]))
            assert [wait for _, wait in seen] == [str(limits.SMS_DOWN_MS // limits.SECOND_MS)]
            assert phones.asked == asked
            # Once more when the time is over; one failure more is enough.
            now[0] += limits.SMS_DOWN_MS / limits.SECOND_MS
            await rest.nobody.ok("POST", "/v1/auth/codes", wish(new_number()))
            assert phones.asked == asked + 1 and health.down_ms() == limits.SMS_DOWN_MS
        finally:
            phones.is_down = False
        now[0] += limits.SMS_DOWN_MS / limits.SECOND_MS
        await ask_for_code(rest, phones, new_number())
        assert health.down_ms() == 0


@pytest.mark.attack("B08")
async def test_numbers_that_the_provider_rejects_do_not_make_it_look_down(
    rest: Rest, phones: Phones
) -> None:
    phones.rejects = True
    try:
        for _ in range(2 * limits.SMS_FAILURES_MAX):
            await rest.nobody.ok("POST", "/v1/auth/codes", wish(new_number()))
    finally:
        phones.rejects = False
    await ask_for_code(rest, phones, new_number())


@pytest.mark.attack("B01")
async def test_codes_that_are_used_do_not_count_for_their_prefix(
    rest: Rest, phones: Phones, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(phone_numbers._MOST, "prefix", 2)
    for last in range(4):
        number = f"+4176555{last:04d}"
        code = await ask_for_code(rest, phones, number)
        assert (await try_code(rest, number, code)).status_code == 201


async def test_an_address_gets_so_many_codes_in_a_day(
    rest: Rest, phones: Phones, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(phone_numbers._MOST, "address_day", 2)
    somebody = from_address(rest, "203.0.113.77")
    for _ in range(2):
        await somebody.ok("POST", "/v1/auth/codes", wish(new_number()))
    answer = await somebody.call("POST", "/v1/auth/codes", wish(new_number()))
    assert problem(answer) == (429, "rate.limited")
    assert int(answer.headers["Retry-After"]) >= 1


@pytest.mark.attack("S12")
async def test_codes_asked_for_at_one_tenant_keep_nobody_from_logging_in_at_another(
    rest: Rest, phones: Phones
) -> None:
    number = new_number()
    await login_tenant(rest, "neighbour")
    for _ in range(limits.NUMBER_CODES_MAX):
        await rest.nobody.ok("POST", "/v1/auth/codes", wish(number, "neighbour"))
    wanted = wish(number, "neighbour")
    assert (await rest.nobody.refused("POST", "/v1/auth/codes", wanted))[0] == 429
    code = await ask_for_code(rest, phones, number)
    assert (await try_code(rest, number, code)).status_code == 201


@pytest.mark.attack("S12", "B01")
async def test_a_user_gets_a_code_although_strangers_used_up_prefix_and_country(
    rest: Rest, phones: Phones, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, stranger = "+4175555" + "0001", "+4175555" + "0002"
    code = await ask_for_code(rest, phones, known)
    assert (await try_code(rest, known, code)).status_code == 201
    for kind in ("prefix", "country"):
        monkeypatch.setitem(phone_numbers._MOST, kind, 0)
        asked = phones.asked
        await rest.nobody.ok("POST", "/v1/auth/codes", wish(stranger))
        assert phones.asked == asked
        await ask_for_code(rest, phones, known)


@pytest.mark.attack("S12", "B03")
async def test_guesses_from_elsewhere_do_not_end_the_code_of_who_asked(
    rest: Rest, phones: Phones
) -> None:
    number, home = new_number(), from_address(rest, "203.0.113.40")
    await home.ok("POST", "/v1/auth/codes", wish(number))
    code = phones.code(number)
    wrong = f"{(int(code) + 1) % 10**limits.CODE_DIGITS:06d}"
    login = {**wish(number), "code": wrong, "device": "phone"}
    for last in range(2 * limits.CODE_ATTEMPTS_MAX):
        guesser = from_address(rest, f"203.0.113.{50 + last}")
        assert problem(await guesser.call("POST", "/v1/auth/sessions", login)) == (
            401, "login.code_wrong",
        )  # fmt: skip
    answer = await home.call("POST", "/v1/auth/sessions", {**login, "code": code})
    assert answer.status_code == 201
