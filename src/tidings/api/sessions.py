# SPDX-License-Identifier: Apache-2.0
"""Sessions: list and revoke."""

from typing import Final

import msgspec

from tidings.actions.identity.caller import Caller, require_user
from tidings.actions.verbs import LoginVerbs
from tidings.api.operations import operation
from tidings.model.refusals import SessionNotFound, TenantNotFound, UserNotFound
from tidings.model.times import rfc3339
from tidings.ports.sessions import Session

TAG: Final = "Sessions"


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


@operation("GET", "/v1/sessions", tag=TAG, summary="List my sessions")
async def list_sessions(caller: Caller, logins: LoginVerbs) -> SessionList:
    """Return the caller's sessions, newest first."""
    current = require_user(caller).session
    return SessionList([_record(session, current) for session in await logins.sessions(caller)])


@operation(
    "DELETE",
    "/v1/sessions/{session_id}",
    tag=TAG,
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
    tag=TAG,
    summary="Revoke all my sessions",
    statuses=(204,),
    refusals=(UserNotFound,),
)
async def revoke_own_sessions(caller: Caller, logins: LoginVerbs) -> None:
    """Revoke all sessions of the caller, this one included, and every token issued to the user
    so far."""
    await logins.revoke_sessions.own(caller)


@operation(
    "DELETE",
    "/v1/tenants/{tenant}/users/{user_id}/sessions",
    tag=TAG,
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


def _record(session: Session, current: str | None) -> SessionRecord:
    return SessionRecord(
        session_id=session.session_id,
        device=session.device,
        created_at=rfc3339(session.created_at),
        last_used_at=rfc3339(session.rotated_at),
        expires_at=rfc3339(session.expires_at),
        current=session.session_id == current,
    )


OPERATIONS: Final = (list_sessions, revoke_session, revoke_own_sessions, revoke_user_sessions)
