# SPDX-License-Identifier: Apache-2.0
"""Logging in by phone, and staying logged in. Whoever asks here has nothing to show yet."""

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

TAG: Final = "Logging in"


class CodeRequest(Body, frozen=True):
    """Where to send a code."""

    tenant: TenantName
    phone_number: PhoneNumber


class CodeRecord(msgspec.Struct):
    """Nothing: whether a code is under way, the phone will show."""


class Login(Body, frozen=True):
    """The code that came, and the device that it is for."""

    tenant: TenantName
    phone_number: PhoneNumber
    code: Code
    device: Device


class Refresh(Body, frozen=True):
    """The refresh token that came last."""

    refresh_token: RefreshToken


class SessionTokens(msgspec.Struct):
    """What a client keeps of a session: `expires_at` is when the access token ends."""

    access_token: str
    refresh_token: str
    session_id: str
    user_id: str
    expires_at: str


@operation(
    "POST",
    "/v1/auth/codes",
    tag=TAG,
    summary="Have a login code sent",
    key=None,
    statuses=(202,),
    refusals=(LoginOff, RateLimited, SmsUnavailable, StoreUnavailable),
)
async def request_code(data: CodeRequest, address: str | None, logins: LoginVerbs) -> CodeRecord:
    """The same answer for every number, whosever it is, and for tenants whose users do not log in
    by phone."""
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
    """The user is made if the number is nobody's yet and the tenant lets unknown numbers in."""
    return _tokens(
        await logins.open_session(data.tenant, data.phone_number, data.code, data.device, address)
    )


@operation(
    "POST",
    "/v1/auth/refresh",
    tag=TAG,
    summary="Get new tokens for a refresh token",
    key=None,
    refusals=(RefreshRefused, StoreUnavailable),
)
async def refresh_session(data: Refresh, logins: LoginVerbs) -> SessionTokens:
    """Asked again within half a minute, the answer is the same. A token that was used before
    ends the session."""
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
