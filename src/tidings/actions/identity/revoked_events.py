# SPDX-License-Identifier: Apache-2.0
"""Raises the event `session.revoked`, for the webhooks of a tenant."""

import logging

from tidings.model.ids import UserKey, tenant_of, user_id
from tidings.model.refusals import StoreUnavailable
from tidings.ports.webhooks import RaiseEvent

log = logging.getLogger("tidings.identity")


async def raise_revoked(events: RaiseEvent, user: UserKey, session_id: str | None) -> None:
    """Raise the event for a session, or with None for all credentials of the user.

    Raises:
        StoreUnavailable: The event may or may not have been raised.
    """
    data = {"user_id": user_id(user), "session_id": session_id}
    await events(tenant_of(user), "session.revoked", data)


async def try_to_raise_revoked(events: RaiseEvent, user: UserKey, session_id: str | None) -> None:
    """Raise the event, if the store takes it now.

    For requests that must not fail because of it. What they did is stored, and a repeat would not
    raise the event either: a login code is used up, a session has ended.
    """
    try:
        await raise_revoked(events, user, session_id)
    except StoreUnavailable:
        log.warning(
            "a revocation was not reported to webhooks",
            extra={
                "action": "revocation_unreported",
                "tenant": tenant_of(user),
                "user": user,
                "session": session_id,
            },
        )
