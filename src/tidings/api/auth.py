# SPDX-License-Identifier: Apache-2.0
"""Login by phone, and refreshing sessions. Callers here have no credentials yet."""

from typing import Final

import msgspec

from tidings.actions.identity.sessions import TokenPair
from tidings.actions.verbs import LoginVerbs
from tidings.api.fields import Code, Device, PhoneNumber, RefreshToken, TenantName
from tidings.api.operations import operation
from tidings.api.requests import Body
from tidings.model.ids import user_id
from tidings.model.refusals import (
    CodeWrong,
    LimitReached,
    LoginOff,
    RateLimited,
    RefreshRefused,
    SmsUnavailable,
    StoreUnavailable,
)
from tidings.model.times import rfc3339

TAG: Final = "Login"


class CodeRequest(Body, frozen=True):
    """The phone number to send a code to."""

    tenant: TenantName
    phone_number: PhoneNumber


class CodeRecord(msgspec.Struct):
    """An empty object: the answer never shows whether a code was sent."""


class Login(Body, frozen=True):
    """The code that arrived, and the device to log in."""

    tenant: TenantName
    phone_number: PhoneNumber
    code: Code
    device: Device


class Refresh(Body, frozen=True):
    """The newest refresh token of the session."""

    refresh_token: RefreshToken


class SessionTokens(msgspec.Struct):
    """The tokens of a session; `expires_at` is when the access token expires."""

    access_token: str
    refresh_token: str
    session_id: str
    user_id: str
    expires_at: str


@operation(
    "POST",
    "/v1/auth/codes",
    tag=TAG,
    summary="Request a login code",
    key=None,
    statuses=(202,),
    refusals=(LoginOff, RateLimited, SmsUnavailable, StoreUnavailable),
)
async def request_code(data: CodeRequest, address: str | None, logins: LoginVerbs) -> CodeRecord:
    """Send a login code by text message. The answer is the same for every number, known or unknown,
    and for tenants whose users do not log in by phone."""
    await logins.request_code(data.tenant, data.phone_number, address)
    return CodeRecord()


@operation(
    "POST",
    "/v1/auth/sessions",
    tag=TAG,
    summary="Log in with a code",
    key=None,
    statuses=(201,),
    refusals=(LoginOff, CodeWrong, LimitReached, StoreUnavailable),
)
async def open_session(data: Login, address: str | None, logins: LoginVerbs) -> SessionTokens:
    """Open a session. If the number is unknown and the tenant lets unknown numbers register,
    this creates the user."""
    return _tokens(
        await logins.open_session(data.tenant, data.phone_number, data.code, data.device, address)
    )


@operation(
    "POST",
    "/v1/auth/refresh",
    tag=TAG,
    summary="Refresh a session",
    key=None,
    refusals=(RefreshRefused, StoreUnavailable),
)
async def refresh_session(data: Refresh, logins: LoginVerbs) -> SessionTokens:
    """Replace both tokens. A repeated request within half a minute gets the same answer; any
    other use of an old refresh token ends the session."""
    return _tokens(await logins.refresh(data.refresh_token))


def _tokens(pair: TokenPair) -> SessionTokens:
    return SessionTokens(
        access_token=pair.access_token,
        refresh_token=pair.refresh_token,
        session_id=pair.session.session_id,
        user_id=user_id(pair.session.user),
        expires_at=rfc3339(pair.expires_at),
    )


OPERATIONS: Final = (request_code, open_session, refresh_session)
