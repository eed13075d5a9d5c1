# SPDX-License-Identifier: Apache-2.0
"""REST and phones: `from tests.integration.login_world import phones as phones, rest as rest`."""

from collections.abc import AsyncIterator
from typing import Any, cast

import httpx
import pytest
import pytest_asyncio

from tests.integration.rest_world import TENANT, Actor, Json, Rest, open_rest, texts_sent
from tests.support.engine import Settings
from tests.support.phones import PHONE_LOGIN, Phones, new_number, some_phones


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def phones() -> AsyncIterator[Phones]:
    """The phones of a module."""
    async with some_phones() as opened:
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rest(
    tmp_path_factory: pytest.TempPathFactory, core_settings: Settings, phones: Phones
) -> AsyncIterator[Rest]:
    """The REST application that sends its texts to them."""
    own = {**core_settings, **phones.settings}
    async with open_rest(tmp_path_factory.mktemp("rest"), settings=own) as opened:
        await login_tenant(opened)
        yield opened


async def login_tenant(rest: Rest, tenant: str = TENANT, login: Json | None = None) -> Actor:
    """The backend of a tenant whose users log in by phone: on these terms, else whoever asks."""
    backend = await rest.tenant(tenant)
    settings = PHONE_LOGIN if login is None else {"login": login}
    await backend.ok("PUT", f"/v1/tenants/{tenant}/settings", settings)
    return backend


def from_address(rest: Rest, address: str) -> Actor:
    """Somebody at an address, with nothing to show."""
    transport = httpx.ASGITransport(cast(Any, rest.app), client=(address, 40_000))
    hooks = {"response": [texts_sent(rest.core)]}
    http = httpx.AsyncClient(transport=transport, base_url="http://tidings", event_hooks=hooks)
    return Actor(http, address, None)


def wish(number: str, tenant: str = TENANT) -> Json:
    """What is sent to ask for a code."""
    return {"tenant": tenant, "phone_number": number}


async def ask_for_code(rest: Rest, phones: Phones, number: str, tenant: str = TENANT) -> str:
    """A code, as it came to the number's phone."""
    asked = phones.asked
    await rest.nobody.ok("POST", "/v1/auth/codes", wish(number, tenant))
    assert phones.asked == asked + 1, "no text was sent"
    return phones.code(number)


async def try_code(
    rest: Rest, number: str, code: str, device: str = "phone", tenant: str = TENANT
) -> httpx.Response:
    """Log in, or not."""
    body = {**wish(number, tenant), "code": code, "device": device}
    return await rest.nobody.call("POST", "/v1/auth/sessions", body)


async def log_in(
    rest: Rest, phones: Phones, number: str | None = None, device: str = "phone"
) -> Json:
    """The tokens of a new session."""
    number = number or new_number()
    answer = await try_code(rest, number, await ask_for_code(rest, phones, number), device)
    assert answer.status_code == 201, answer.text
    tokens: Json = answer.json()
    return tokens


def holder(rest: Rest, tokens: Json) -> Actor:
    """Who has these tokens."""
    return Actor(rest.http, tokens["user_id"], tokens["access_token"])


async def try_refresh(rest: Rest, refresh_token: str) -> httpx.Response:
    """Refresh, or not."""
    return await rest.nobody.call("POST", "/v1/auth/refresh", {"refresh_token": refresh_token})


async def refreshed(rest: Rest, tokens: Json) -> Json:
    """The next tokens."""
    answer = await try_refresh(rest, tokens["refresh_token"])
    assert answer.status_code == 200, answer.text
    following: Json = answer.json()
    return following
