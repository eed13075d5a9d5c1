# SPDX-License-Identifier: Apache-2.0
"""Refresh a session. Each refresh token can be used once; using it again reveals a theft.

If a token is used twice, the session ends, because one of the two who used it is a thief. There is
one exception, for a client that lost the answer: for half a minute, the token of the last refresh
gets the same answer again. A thief who is equally quick gets the same tokens; a later refresh by
either of the two reveals the theft.
"""

import hmac
import logging
from typing import Final

import msgspec

from tidings.actions.identity.credential_status import is_session_valid
from tidings.actions.identity.logins import is_open
from tidings.actions.identity.refresh_tokens import (
    LoginDigests,
    new_refresh_token,
    open_next,
    refresh_digest,
    seal_next,
    session_of,
)
from tidings.actions.identity.revoked_events import try_to_raise_revoked
from tidings.actions.identity.sessions import TokenPair, make_pair
from tidings.actions.identity.signing_keys import SigningKeys
from tidings.model import limits
from tidings.model.ids import tenant_of
from tidings.model.refusals import RefreshRefused, StoreUnavailable
from tidings.ports.people import Tenants
from tidings.ports.sessions import Session, Sessions
from tidings.ports.webhooks import RaiseEvent
from tidings.ports.world import Chance, Clock

log = logging.getLogger("tidings.identity")

LOOKS_MAX: Final = 3
"""Maximum number of reads per refresh. If another request refreshes the session first, this request
reads again and returns the same pair of tokens."""


class RefreshSession(msgspec.Struct, frozen=True):
    """Exchange a refresh token for a new pair of tokens."""

    tenants: Tenants
    sessions: Sessions
    signing: SigningKeys
    digests: LoginDigests
    clock: Clock
    chance: Chance
    events: RaiseEvent

    async def __call__(self, refresh_token: str) -> TokenPair:
        """Return the next pair; all requests with the same token get the same pair.

        Raises:
            RefreshRefused: The token is not valid, for any reason.
            StoreUnavailable: The outcome is unknown; the client repeats the request with the same
                token.
        """
        session_id = session_of(refresh_token, self.digests)
        known = await self.sessions.get(session_id) if session_id is not None else None
        if known is None or not is_open(await self.tenants.get(tenant_of(known.user))):
            raise RefreshRefused
        digest = refresh_digest(refresh_token)
        for _ in range(LOOKS_MAX):
            now = self.clock.now()
            stored = await self.sessions.stored_credentials(known.user, known.session_id)
            session = stored.session
            if session is None or not is_session_valid(known.user, stored, now):
                raise RefreshRefused
            if hmac.compare_digest(digest, session.refresh_digest):
                pair = await self._rotate(session, refresh_token, now, stored.revoked_at)
            else:
                pair = await self._repeat(session, refresh_token, now, stored.revoked_at)
            if pair is not None:
                return pair
        raise StoreUnavailable("the session is being refreshed by other requests")

    async def _rotate(
        self, session: Session, token: str, now: int, revoked_at: int | None
    ) -> TokenPair | None:
        """Replace the session's tokens; return the new pair, or None if another request was
        faster."""
        following = new_refresh_token(session.session_id, self.digests, self.chance)
        rotated_at = max(now, session.rotated_at)
        rotated = msgspec.structs.replace(
            session,
            refresh_digest=refresh_digest(following),
            previous_digest=session.refresh_digest,
            sealed_refresh=seal_next(token, following, self.chance),
            rotated_at=rotated_at,
            expires_at=rotated_at + limits.SESSION_MS,
        )
        # Sign before storing the rotation, so that nothing can fail once the old token is used up.
        pair = await make_pair(self.signing, rotated, following, revoked_at)
        return pair if await self.sessions.rotate(session, rotated) else None

    async def _repeat(
        self, session: Session, token: str, now: int, revoked_at: int | None
    ) -> TokenPair:
        """Return the last pair again if `token` was just exchanged for it; else end the session."""
        following = None
        if (
            session.previous_digest is not None
            and session.sealed_refresh is not None
            and hmac.compare_digest(refresh_digest(token), session.previous_digest)
            and now < session.rotated_at + limits.REFRESH_GRACE_MS
        ):
            following = open_next(token, session.sealed_refresh)
        if following is None:
            await self._end(session, now)
            raise RefreshRefused
        return await make_pair(self.signing, session, following, revoked_at)

    async def _end(self, session: Session, now: int) -> None:
        is_first = await self.sessions.revoke(session.user, session.session_id, now)
        log.warning(
            "refresh token was reused: session ended",
            extra={
                "action": "refresh_reused",
                "tenant": tenant_of(session.user),
                "user": session.user,
                "session": session.session_id,
            },
        )
        if is_first:
            await try_to_raise_revoked(self.events, session.user, session.session_id)
