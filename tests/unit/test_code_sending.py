# SPDX-License-Identifier: Apache-2.0
"""Asking for a code: one answer after the same work, whatever becomes of the wish afterwards."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any, cast

import pytest

from tests.support.clock import NOW, ManualClock
from tests.support.intercepted import Intercepted
from tests.support.phones import PHONE_LOGIN
from tests.unit.small_deployment import ROOT, SmallDeployment, open_small_deployment
from tidings.actions.identity.code_sending import LoginTenants, ProviderHealth, SendCode
from tidings.actions.identity.logins import RedeemCode, RequestCode
from tidings.actions.identity.phone_numbers import LoginBudgets
from tidings.actions.identity.refresh_tokens import LoginDigests
from tidings.assembly.system import SystemChance
from tidings.model import limits
from tidings.model.refusals import CodeWrong, RateLimited, SmsUnavailable, StoreUnavailable
from tidings.ports.delivery import TextRejected
from tidings.tasks import BackgroundQueue

_made_up = count()
NUMBER, OTHER = "+41791234567", "+41781234567"
HERE = "192.0.2.1"


class Provider:
    """Takes texts when it may, and fails as it is told."""

    def __init__(self) -> None:
        self.texts: list[tuple[str, str]] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.trouble: Exception | None = None

    async def send(self, phone_number: str, text: str) -> None:
        await self.may_answer.wait()
        if self.trouble is not None:
            raise self.trouble
        self.texts.append((phone_number, text[: limits.CODE_DIGITS]))


class Login:
    """Asking for codes and trying them, with a list of what the store was asked for."""

    def __init__(self, world: SmallDeployment, queue: BackgroundQueue) -> None:
        self.calls: list[str] = []
        self.store_trouble: Exception | None = None
        self.provider, self.queue, self.seconds = Provider(), queue, 0.0
        store, clock = world.store, ManualClock()
        digests = LoginDigests(os.urandom(32))
        tenants = LoginTenants(self._seen(store.tenants), self._seen(store.inbox_settings))
        codes, users = self._seen(store.login_codes), self._seen(store.users)
        budgets = LoginBudgets(self._seen(store.budgets), digests, 1_000)
        self.health = ProviderHealth(lambda: self.seconds)
        self.send = SendCode(
            self.provider,
            tenants,
            users,
            codes,
            budgets,
            digests,
            self.health,
            clock,
            SystemChance(),
        )
        self.ask = RequestCode(self.send, queue, budgets, clock)
        self.redeem = RedeemCode(True, tenants, codes, budgets, digests, clock)

    def _seen(self, port: object) -> Any:
        async def around(name: str, call: Callable[[], Awaitable[Any]]) -> Any:
            self.calls.append(name)
            if self.store_trouble is not None:
                raise self.store_trouble
            return await call()

        return cast(Any, Intercepted(port, around))

    async def calls_of(self, work: Awaitable[object]) -> list[str]:
        """What the store is asked for until there is an answer, whatever that is."""
        self.calls.clear()
        try:
            await work
        except (CodeWrong, RateLimited):
            pass
        return self.calls.copy()


@asynccontextmanager
async def a_login(folder: Path, waiting_max: int = 100) -> AsyncIterator[Login]:
    async with open_small_deployment(folder) as world:
        for tenant in ("acme", "closed"):
            await world.put_tenant(ROOT, tenant, None)
        await world.store.inbox_settings.put_settings("acme", {**PHONE_LOGIN})
        queue = BackgroundQueue("codes", workers=2, waiting_max=waiting_max, close_seconds=0)
        try:
            yield Login(world, queue)
        finally:
            await queue.close()


@pytest.mark.attack("S25", "B05")
async def test_the_answer_does_not_wait_for_the_provider(tmp_path: Path) -> None:
    async with a_login(tmp_path) as login:
        login.provider.may_answer.clear()
        async with asyncio.timeout(60):
            await login.ask("acme", NUMBER, HERE)
        assert login.provider.texts == []
        login.provider.may_answer.set()
        await login.queue.settled()
        assert [number for number, _ in login.provider.texts] == [NUMBER]


@pytest.mark.attack("S25", "B05")
async def test_asking_is_the_same_work_whether_a_text_is_sent_or_not(tmp_path: Path) -> None:
    async with a_login(tmp_path) as login:
        for _ in range(limits.NUMBER_CODES_MAX):
            await login.ask("acme", OTHER, HERE)
        await login.queue.settled()
        seen = []
        for tenant, number in (
            ("acme", NUMBER),  # gets a text
            ("acme", OTHER),  # has had too many
            ("closed", NUMBER),  # not at a tenant that did not switch it on
            ("nowhere", NUMBER),
        ):
            seen.append(await login.calls_of(login.ask(tenant, number, HERE)))
            await login.queue.settled()
        assert seen == [["spend"]] * 4
        assert len(login.provider.texts) == limits.NUMBER_CODES_MAX + 1


@pytest.mark.attack("S25", "B05")
async def test_a_number_of_nobody_is_refused_like_a_number_with_a_user(tmp_path: Path) -> None:
    async with a_login(tmp_path) as login:
        answers: dict[str, list[int | None]] = {}
        for tenant in ("acme", "closed", "nowhere"):
            for _ in range(limits.NUMBER_CODES_MAX + 1):
                answers.setdefault(tenant, []).append(await wait_of(login, tenant))
        left = limits.CODES_MS - NOW % limits.CODES_MS
        assert list(answers.values()) == [[None] * limits.NUMBER_CODES_MAX + [left]] * 3
        assert len(login.provider.texts) == limits.NUMBER_CODES_MAX


@pytest.mark.attack("S25", "B08")
async def test_while_texts_fail_no_request_is_counted_whoever_has_the_number(
    tmp_path: Path,
) -> None:
    async with a_login(tmp_path) as login:
        login.provider.trouble = SmsUnavailable()
        for _ in range(limits.NUMBER_CODES_MAX + 1):
            assert await wait_of(login, "acme") is None
            assert await wait_of(login, "closed") is None
            login.health.worked()  # not so often that the provider counts as down
            login.health.failed()


async def wait_of(login: Login, tenant: str) -> int | None:
    """How long who asks for a code has to wait; None if it was accepted."""
    try:
        await login.ask(tenant, NUMBER, None)
    except RateLimited as refused:
        return refused.retry_after_ms
    finally:
        await login.queue.settled()
    return None


@pytest.mark.attack("S25", "B05")
async def test_trying_a_code_is_the_same_work_whether_one_was_sent_or_not(tmp_path: Path) -> None:
    async with a_login(tmp_path) as login:
        seen = []
        for tenant in ("acme", "closed", "nowhere"):
            await login.ask(tenant, NUMBER, HERE)
            await login.queue.settled()
            wrong = login.redeem.check(tenant, NUMBER, "000000", HERE)
            seen.append(await login.calls_of(wrong))
            # There is a code to be tried in each case, and the write counts the attempt.
            kept = await login.send.codes.find(tenant, NUMBER)
            assert kept is not None and kept.attempts == 1
        assert seen == [["get", "settings", "attempt"]] * 3


@pytest.mark.attack("B08")
async def test_a_code_that_cannot_be_sent_is_logged_counted_and_given_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_login(tmp_path) as login:
        for trouble, reason in (
            (SmsUnavailable(), "provider"),
            (StoreUnavailable(), "store"),
            (TextRejected(), "rejected"),
        ):
            login.provider.trouble = trouble
            for _ in range(limits.NUMBER_CODES_MAX):
                await login.ask("acme", NUMBER, None)
                await login.queue.settled()
            assert login.send.failed[reason] == limits.NUMBER_CODES_MAX
        login.provider.trouble = None
        assert await wait_of(login, "acme") is not None, "a rejected text counts for the number"
        await login.ask("acme", OTHER, None)
        await login.queue.settled()
        assert [number for number, _ in login.provider.texts] == [OTHER]
        assert login.send.withheld == {}
        assert {vars(one).get("action") for one in caplog.records} == {"code_failed"}
        assert not any(NUMBER in str(vars(one)) for one in caplog.records)


@pytest.mark.attack("B08")
async def test_the_code_before_counts_on_with_its_attempts(tmp_path: Path) -> None:
    async with a_login(tmp_path) as login:
        await login.ask("acme", NUMBER, HERE)
        await login.queue.settled()
        [(_, code)] = login.provider.texts
        wrong = f"{(int(code) + 1) % 10**limits.CODE_DIGITS:06d}"
        for _ in range(limits.CODE_ATTEMPTS_MAX):
            await login.calls_of(login.redeem.check("acme", NUMBER, wrong, HERE))
        login.provider.trouble = SmsUnavailable()
        await login.ask("acme", NUMBER, HERE)
        await login.queue.settled()
        with pytest.raises(CodeWrong):
            await login.redeem.check("acme", NUMBER, code, HERE)


@pytest.mark.attack("B08")
async def test_what_was_taken_on_before_an_outage_was_known_is_not_tried(tmp_path: Path) -> None:
    async with a_login(tmp_path) as login:
        await login.ask("acme", NUMBER, HERE)
        for _ in range(limits.SMS_FAILURES_MAX):
            login.health.failed()
        with pytest.raises(SmsUnavailable) as refused:
            await login.ask("acme", OTHER, HERE)
        assert refused.value.retry_after_ms == limits.SMS_DOWN_MS
        await login.queue.settled()
        assert login.provider.texts == []
        assert login.send.failed == {"provider_down": 1}


@pytest.mark.attack("B08")
async def test_a_store_that_fails_before_the_text_is_logged_and_counted(tmp_path: Path) -> None:
    async with a_login(tmp_path) as login:
        await login.ask("acme", NUMBER, None)
        login.store_trouble = StoreUnavailable()
        await login.queue.settled()
        assert (login.send.failed, login.provider.texts) == ({"store": 1}, [])


@pytest.mark.attack("B08")
async def test_what_is_not_tried_is_given_back(tmp_path: Path) -> None:
    async with a_login(tmp_path) as login:
        await login.ask("acme", NUMBER, None)
        for _ in range(limits.SMS_FAILURES_MAX):
            login.health.failed()
        login.calls.clear()
        await login.queue.settled()
        assert (login.send.failed, login.calls) == ({"provider_down": 1}, ["give_back"])


@pytest.mark.attack("S25", "B08")
async def test_a_full_queue_refuses_every_number_alike_and_counts_nothing(tmp_path: Path) -> None:
    async with a_login(tmp_path, waiting_max=1) as login:
        login.provider.may_answer.clear()
        await login.ask("acme", NUMBER, HERE)
        for tenant in ("acme", "nowhere"):
            with pytest.raises(SmsUnavailable):
                await login.ask(tenant, OTHER, HERE)
        login.provider.may_answer.set()
        await login.queue.settled()
        assert len(login.provider.texts) == 1
        for _ in range(limits.ADDRESS_CODES_MAX - 1):
            number = f"+4178{next(_made_up):07d}"
            assert await login.ask.budgets.spend_for_request("acme", number, HERE, NOW) is None


# --- The queue ---------------------------------------------------------------------------------


async def test_jobs_with_one_key_run_in_order_and_a_failure_ends_nothing() -> None:
    queue, done = BackgroundQueue("test", workers=4, waiting_max=100, close_seconds=5), list[int]()

    async def job(number: int) -> None:
        await asyncio.sleep(0)
        done.append(number)
        if number % 3 == 0:
            raise ValueError("as the test wants it")

    for number in range(20):
        assert queue.put("one", lambda number=number: job(number))  # type: ignore[misc]
    await queue.close()
    assert done == list(range(20))
    assert not queue.put("one", lambda: job(20))


async def test_closing_drops_what_takes_too_long(caplog: pytest.LogCaptureFixture) -> None:
    queue = BackgroundQueue("test", workers=1, waiting_max=3, close_seconds=0)
    for _ in range(3):
        assert queue.put("one", asyncio.Event().wait)  # type: ignore[arg-type]
    assert not queue.put("one", asyncio.Event().wait)  # type: ignore[arg-type]
    with caplog.at_level(logging.WARNING):
        await queue.close()
    assert [vars(one)["dropped"] for one in caplog.records] == [3]
