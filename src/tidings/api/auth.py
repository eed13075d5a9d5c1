# SPDX-License-Identifier: Apache-2.0
"""Operations for login by phone, and on sessions."""

from typing import Final

import msgspec

from tidings.actions.identity.caller import Caller, UserCaller, require_user
from tidings.actions.identity.sessions import KnownDevice, TokenPair
from tidings.actions.verbs import LoginVerbs
from tidings.api.fields import Code, Device, PhoneNumber, RefreshToken, TenantName
from tidings.api.operations import operation
from tidings.api.requests import Body
from tidings.api.tenants import ListQuery
from tidings.model.ids import rfc3339, user_id
from tidings.model.refusals import (
    CodeWrong,
    CursorInvalid,
    LimitReached,
    LoginOff,
    RateLimited,
    RefreshRefused,
    SessionNotFound,
    SmsUnavailable,
    StoreUnavailable,
    TenantNotFound,
    UserNotFound,
)
from tidings.ports.sessions import Session

SESSIONS_TAG: Final = "Sessions"

TAG: Final = "Login"


class SessionRecord(msgspec.Struct):
    """A session. `current` is true for the session that made the request."""

    session_id: str
    device: str
    created_at: str
    last_used_at: str
    expires_at: str
    current: bool


class SessionList(msgspec.Struct):
    """The sessions of a user, newest first."""

    data: list[SessionRecord]


@operation("GET", "/v1/sessions", tag=SESSIONS_TAG, summary="List my sessions")
async def list_sessions(caller: Caller, logins: LoginVerbs) -> SessionList:
    """Return the caller's sessions, newest first."""
    current = require_user(caller).session
    return SessionList(
        [session_record(session, current) for session in await logins.sessions(caller)]
    )


class DeviceRecord(msgspec.Struct):
    """A device with a session, or registered for push. `current` is true for the device that made
    the request; `push` is the provider for which the device is registered, if it is."""

    device: str
    created_at: str
    last_used_at: str
    sessions: list[str]
    current: bool
    push: str | None


class DeviceList(msgspec.Struct):
    """A page of a user's devices; `next_cursor` is null on the last page."""

    data: list[DeviceRecord]
    next_cursor: str | None


@operation(
    "GET", "/v1/me/devices", tag=SESSIONS_TAG, summary="List my devices", refusals=(CursorInvalid,)
)
async def list_devices(caller: Caller, asked: ListQuery, logins: LoginVerbs) -> DeviceList:
    """Return the devices on which the caller is logged in, or which are registered for push, by
    name, with the ids of their sessions. A device that has only a token from the tenant is in the
    list only if it is registered."""
    me = require_user(caller)
    page, cursor = await logins.devices(caller, asked.cursor, asked.limit)
    return DeviceList([_device_record(device, me) for device in page], cursor)


@operation(
    "DELETE",
    "/v1/sessions/{session_id}",
    tag=SESSIONS_TAG,
    summary="Revoke one of my sessions",
    statuses=(204,),
    refusals=(SessionNotFound,),
)
async def revoke_session(caller: Caller, session_id: str, logins: LoginVerbs) -> None:
    """Revoke a session. Its connections close within five seconds."""
    await logins.revoke_session(caller, session_id)


@operation(
    "DELETE",
    "/v1/sessions",
    tag=SESSIONS_TAG,
    summary="Revoke all my sessions",
    statuses=(204,),
    refusals=(UserNotFound,),
)
async def revoke_own_sessions(caller: Caller, logins: LoginVerbs) -> None:
    """Revoke all sessions of the caller, including this one, and every token issued to the caller
    so far."""
    await logins.revoke_sessions.own(caller)


@operation(
    "DELETE",
    "/v1/tenants/{tenant}/users/{user_id}/sessions",
    tag=SESSIONS_TAG,
    summary="Revoke all sessions of a user",
    key="tenant",
    statuses=(204,),
    refusals=(TenantNotFound, UserNotFound),
)
async def revoke_user_sessions(
    caller: Caller, tenant: str, user_id: str, logins: LoginVerbs
) -> None:
    """Revoke all sessions of a user, and every token issued to the user so far."""
    await logins.revoke_sessions.of(caller, tenant, user_id)


def session_record(session: Session, current: str | None) -> SessionRecord:
    """Return the record of a session; `current` is the session of the request, if it has one."""
    return SessionRecord(
        session_id=session.session_id,
        device=session.device,
        created_at=rfc3339(session.created_at),
        last_used_at=rfc3339(session.rotated_at),
        expires_at=rfc3339(session.expires_at),
        current=session.session_id == current,
    )


def _device_record(known: KnownDevice, me: UserCaller) -> DeviceRecord:
    sessions = [session.session_id for session in known.sessions]
    return DeviceRecord(
        device=known.device,
        created_at=rfc3339(known.created_at),
        last_used_at=rfc3339(known.last_used_at),
        sessions=sessions,
        current=known.device == me.device,
        push=known.push,
    )


class CodeRequest(Body, frozen=True):
    """The phone number to send a code to."""

    tenant: TenantName
    phone_number: PhoneNumber


class CodeRecord(msgspec.Struct):
    """An empty object: the answer never shows whether a code was sent."""


class Login(Body, frozen=True):
    """The code that the user received, and the device to log in."""

    tenant: TenantName
    phone_number: PhoneNumber
    code: Code
    device: Device


class Refresh(Body, frozen=True):
    """The newest refresh token of the session."""

    refresh_token: RefreshToken


class SessionTokens(msgspec.Struct):
    """The tokens of a session. `expires_at` is the expiry of the access token."""

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
    """Send a login code by text message. The answer is the same for known and unknown numbers, and
    for tenants whose users do not log in by phone."""
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
    """Open a session. If no user has the phone number and the tenant allows registration, this
    creates the user."""
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


OPERATIONS: Final = (
    request_code,
    open_session,
    refresh_session,
    list_sessions,
    list_devices,
    revoke_session,
    revoke_own_sessions,
    revoke_user_sessions,
)
