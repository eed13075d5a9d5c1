# SPDX-License-Identifier: Apache-2.0
"""Sessions: opened with a code, listed by their user, ended by user or tenant."""

from dataclasses import dataclass

import msgspec

from tidings.actions.identity.caller import Caller, require_tenant, require_user
from tidings.actions.identity.code_sending import LoginTenant
from tidings.actions.identity.credential_status import is_session_valid
from tidings.actions.identity.logins import RedeemCode
from tidings.actions.identity.quotas import TenantQuotas
from tidings.actions.identity.refresh_tokens import LoginDigests, new_refresh_token, refresh_digest
from tidings.actions.identity.signing_keys import SigningKeys
from tidings.actions.identity.tokens import Token, issue_time, sign
from tidings.actions.identity.users import check_device
from tidings.model import limits
from tidings.model.ids import SESSION, USER, UserKey, tenant_of, user_key
from tidings.model.refusals import CodeWrong, SessionNotFound, UserNotFound
from tidings.ports.logins import LoginCode
from tidings.ports.people import User, UserStore
from tidings.ports.sessions import Session, Sessions
from tidings.ports.world import Chance, Clock, new_ulid


class TokenPair(msgspec.Struct, frozen=True, kw_only=True):
    """What a client of a session carries."""

    session: Session
    access_token: str
    expires_at: int
    """When the access token ends."""
    refresh_token: str


@dataclass(frozen=True, slots=True)
class OpenSession:
    """Log in: a session in exchange for the code that was sent to a number."""

    redeem: RedeemCode
    users: UserStore
    sessions: Sessions
    signing: SigningKeys
    digests: LoginDigests
    clock: Clock
    chance: Chance
    quotas: TenantQuotas | None = None

    async def __call__(
        self,
        tenant: str,
        phone_number: str,
        code: str,
        device: str,
        address: str | None = None,
    ) -> TokenPair:
        """The first tokens of a new session; the user is made if the number is nobody's yet and
        the tenant lets unknown numbers in.

        It takes the place of the user's session on that device, if there is one. `address` is
        from where the code is tried, where that is counted.

        Raises:
            LoginOff: Nobody logs in by phone here.
            Invalid: Not a phone number, or not a device.
            CodeWrong: Not the code, or one that does not count (any more).
            LimitReached: The tenant has as many users as it may.
        """
        check_device(device)
        found, sent = await self.redeem.check(tenant, phone_number, code, address)
        user, is_new = await self._whose(found, sent)
        session_id = new_ulid(self.clock, self.chance)
        refresh_token = new_refresh_token(session_id, self.digests, self.chance)
        # In the millisecond in which all was revoked, a new session is no part of it.
        now = max(self.clock.now(), (user.revoked_at or 0) + 1)
        session = Session(
            session_id=session_id,
            user=user.user,
            device=device,
            refresh_digest=refresh_digest(refresh_token),
            created_at=now,
            rotated_at=now,
            expires_at=now + limits.SESSION_MS,
        )
        pair = await make_pair(self.signing, session, refresh_token, user.revoked_at)
        # Used up last: whatever failed before may be tried again with the same code.
        await self.redeem.use(sent, is_known=not is_new)
        await self.sessions.open(session)
        await self._check_number(session, sent)
        await self._make_room(session)
        return pair

    async def _whose(self, found: LoginTenant, sent: LoginCode) -> tuple[User, bool]:
        """The user whose number it is, made if it is nobody's and that is allowed; True if new."""
        if found.may_register:
            user, is_new = await self._made(sent)
        else:
            user, is_new = await self._known(sent), False
        if user.deactivated_at is not None:
            raise CodeWrong
        return user, is_new

    async def _known(self, sent: LoginCode) -> User:
        owners = await self.users.by_phone(sent.tenant, [sent.phone_number])
        owner = owners.get(sent.phone_number)
        user = None if owner is None else await self.users.get(owner)
        if user is None:
            raise CodeWrong
        return user

    async def _made(self, sent: LoginCode) -> tuple[User, bool]:
        if self.quotas is not None:
            await self.quotas.check_number(sent.tenant, sent.phone_number)
        made = user_key(sent.tenant, new_ulid(self.clock, self.chance))
        return await self.users.with_phone(made, sent.phone_number, self.clock.now())

    async def _check_number(self, opened: Session, sent: LoginCode) -> None:
        """End the session again if the number was given to somebody else while it was opened:
        what ended all sessions then may have come before this one was there."""
        owners = await self.users.by_phone(sent.tenant, [sent.phone_number])
        if owners.get(sent.phone_number) != opened.user:
            await self.sessions.revoke(opened.user, opened.session_id, self.clock.now())
            raise CodeWrong

    async def _make_room(self, opened: Session) -> None:
        """End what the session replaces. Only earlier ones: of two that are opened at once, each
        would else end the other."""
        earlier = [
            one
            for one in await self.sessions.of(opened.user)
            if (one.created_at, one.session_id) < (opened.created_at, opened.session_id)
        ]
        replaced = [one for one in earlier if one.device == opened.device]
        others = [one for one in earlier if one.device != opened.device]
        for one in replaced + others[limits.USER_SESSIONS_MAX - 1 :]:
            await self.sessions.revoke(opened.user, one.session_id, self.clock.now())


@dataclass(frozen=True, slots=True)
class ListSessions:
    """Where a user is logged in."""

    sessions: Sessions
    clock: Clock

    async def __call__(self, caller: Caller) -> list[Session]:
        """The caller's sessions that count, newest first."""
        user = require_user(caller).user
        standing = await self.sessions.standing(user, None)
        now = self.clock.now()
        return [
            one
            for one in await self.sessions.of(user)
            if is_session_valid(user, msgspec.structs.replace(standing, session=one), now)
        ]


@dataclass(frozen=True, slots=True)
class RevokeSession:
    """End one of one's own sessions."""

    sessions: Sessions
    clock: Clock

    async def __call__(self, caller: Caller, session_id: str) -> None:
        """End it: its tokens are refused everywhere within seconds, and its sockets closed.

        Raises:
            SessionNotFound: Not there, ended, or not the caller's.
        """
        user = require_user(caller).user
        if SESSION.fullmatch(session_id) is None:
            raise SessionNotFound
        if not await self.sessions.revoke(user, session_id, self.clock.now()):
            raise SessionNotFound


@dataclass(frozen=True, slots=True)
class RevokeSessions:
    """End everything that a user was given so far: sessions, and tokens without one."""

    users: UserStore
    clock: Clock

    async def own(self, caller: Caller) -> None:
        """Of the caller: what the caller shows now is over, too."""
        await self._revoke(require_user(caller).user)

    async def of(self, caller: Caller, tenant: str, user_id: str) -> None:
        """Of a user of the tenant, by the tenant.

        Raises:
            UserNotFound: The tenant has no such user.
        """
        require_tenant(caller, tenant)
        if USER.fullmatch(user_id) is None:
            raise UserNotFound
        await self._revoke(user_key(tenant, user_id))

    async def _revoke(self, user: UserKey) -> None:
        if not await self.users.revoke_tokens(user, self.clock.now()):
            raise UserNotFound


async def make_pair(
    signing: SigningKeys, session: Session, refresh_token: str, revoked_at: int | None
) -> TokenPair:
    """The tokens of a session since it was last rotated: asked for again, the same ones.

    `revoked_at` is the user's.
    """
    key_id, key = await signing.signer(tenant_of(session.user))
    issued_at = issue_time(session.rotated_at, revoked_at)
    token = Token(
        user=session.user,
        device=session.device,
        issued_at=issued_at,
        expires_at=issued_at + limits.ACCESS_TOKEN_SECONDS * limits.SECOND_MS,
        key_id=key_id,
        session=session.session_id,
    )
    return TokenPair(
        session=session,
        access_token=sign(key, token),
        expires_at=token.expires_at,
        refresh_token=refresh_token,
    )
