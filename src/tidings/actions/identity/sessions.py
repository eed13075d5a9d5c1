# SPDX-License-Identifier: Apache-2.0
"""Open sessions with a login code, list them, and revoke them for a user or a tenant."""

from collections.abc import Mapping, Sequence

import msgspec

from tidings.actions.content.wrapping import Cursors
from tidings.actions.identity.caller import Caller, require_tenant, require_user
from tidings.actions.identity.code_sending import LoginTenant
from tidings.actions.identity.credential_status import is_session_valid
from tidings.actions.identity.logins import RedeemCode
from tidings.actions.identity.quotas import TenantQuotas
from tidings.actions.identity.refresh_tokens import LoginDigests, new_refresh_token, refresh_digest
from tidings.actions.identity.revoked_events import raise_revoked, try_to_raise_revoked
from tidings.actions.identity.signing_keys import SigningKeys
from tidings.actions.identity.tokens import Token, issue_time, sign
from tidings.actions.identity.users import check_device
from tidings.model import limits
from tidings.model.ids import SESSION, USER, UserKey, tenant_of, user_key
from tidings.model.push import PushRegistration
from tidings.model.refusals import CodeWrong, SessionNotFound, UserNotFound
from tidings.ports.people import User, UserStore
from tidings.ports.push import PushStore
from tidings.ports.sessions import LoginCode, Session, Sessions
from tidings.ports.webhooks import RaiseEvent
from tidings.ports.world import Chance, Clock, new_ulid


class TokenPair(msgspec.Struct, frozen=True, kw_only=True):
    """The access token and the refresh token of a session."""

    session: Session
    access_token: str
    expires_at: int
    """Expiry of the access token."""
    refresh_token: str


class OpenSession(msgspec.Struct, frozen=True):
    """Log in: open a session with the code that was sent to a number."""

    redeem: RedeemCode
    users: UserStore
    sessions: Sessions
    signing: SigningKeys
    digests: LoginDigests
    clock: Clock
    chance: Chance
    quotas: TenantQuotas
    events: RaiseEvent

    async def __call__(
        self,
        tenant: str,
        phone_number: str,
        code: str,
        device: str,
        address: str | None = None,
    ) -> TokenPair:
        """Return the first tokens of a new session; create the user if the number is unknown and
        the tenant lets unknown numbers register.

        The session replaces the user's session on that device, if there is one. `address` is the
        address of the client, or None if attempts are not counted by address.

        Raises:
            LoginOff: This deployment sends no codes.
            Invalid: The phone number or the device is malformed.
            CodeWrong: The code is wrong, used or expired, or the user may not log in.
            LimitReached: The tenant has reached its quota of users.
        """
        check_device(device)
        found, sent = await self.redeem.check(tenant, phone_number, code, address)
        user, is_new = await self._user(found, sent)
        session_id = new_ulid(self.clock, self.chance)
        refresh_token = new_refresh_token(session_id, self.digests, self.chance)
        # A session that opens in the same millisecond as a revocation must not be revoked by it.
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
        # Use up the code last: after a failure before this line, the same code can be tried again.
        await self.redeem.use(sent, is_known=not is_new)
        await self.sessions.open(session)
        if user.phone_verified_at is None:
            await self.users.verify_phone(user.user, sent.phone_number, now)
        await self._check_number(session, sent)
        await self._revoke_replaced(session, user.revoked_at)
        return pair

    async def _user(self, found: LoginTenant, sent: LoginCode) -> tuple[User, bool]:
        """Return the user of the number, and whether the user is new.

        An unknown number gets a new user if the tenant allows it.
        """
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
        await self.quotas.check_number(sent.tenant, sent.phone_number)
        made = user_key(sent.tenant, new_ulid(self.clock, self.chance))
        return await self.users.with_phone(made, sent.phone_number, self.clock.now())

    async def _check_number(self, opened: Session, sent: LoginCode) -> None:
        """Revoke the new session if the number has moved to another user meanwhile.

        The move revoked only the sessions that existed at that time, and this session may be newer.
        """
        owners = await self.users.by_phone(sent.tenant, [sent.phone_number])
        if owners.get(sent.phone_number) != opened.user:
            await self.sessions.revoke(opened.user, opened.session_id, self.clock.now())
            raise CodeWrong

    async def _revoke_replaced(self, opened: Session, revoked_at: int | None) -> None:
        """Revoke earlier sessions on the same device, and those beyond the limit per user.

        Later sessions are kept: otherwise two sessions opened at once would revoke each other.
        `revoked_at` is the time at which the user's credentials were last revoked, if ever.
        """
        earlier = [
            session
            for session in await self.sessions.of(opened.user)
            if (session.created_at, session.session_id) < (opened.created_at, opened.session_id)
        ]
        replaced = [session for session in earlier if session.device == opened.device]
        others = [session for session in earlier if session.device != opened.device]
        for session in replaced + others[limits.USER_SESSIONS_MAX - 1 :]:
            now = self.clock.now()
            is_first = await self.sessions.revoke(opened.user, session.session_id, now)
            had_ended = session.created_at <= (revoked_at or 0) or session.expires_at <= now
            if is_first and not had_ended:
                await try_to_raise_revoked(self.events, opened.user, session.session_id)


class ListSessions(msgspec.Struct, frozen=True):
    """List the sessions of a user."""

    sessions: Sessions
    clock: Clock

    async def __call__(self, caller: Caller) -> list[Session]:
        """Return the caller's valid sessions, newest first."""
        return await self.of(require_user(caller).user)

    async def of(self, user: UserKey) -> list[Session]:
        """Return the valid sessions of a user, newest first."""
        stored = await self.sessions.stored_credentials(user, None)
        now = self.clock.now()
        return [
            session
            for session in await self.sessions.of(user)
            if is_session_valid(user, msgspec.structs.replace(stored, session=session), now)
        ]


class KnownDevice(msgspec.Struct, frozen=True):
    """A device on which a user is logged in, or which is registered for push."""

    device: str
    created_at: int
    """Start of the oldest session on the device, or of the registration."""
    last_used_at: int
    sessions: list[Session]
    push: str | None = None
    """The provider of push for which the device is registered, if it is."""


class ListDevices(msgspec.Struct, frozen=True):
    """List the devices on which a user is logged in, or which are registered for push."""

    sessions: ListSessions
    push: PushStore
    cursors: Cursors

    async def __call__(
        self, caller: Caller, cursor: str | None, limit: int
    ) -> tuple[list[KnownDevice], str | None]:
        """Return a page of the caller's devices by name, and the cursor of the next page."""
        user = require_user(caller).user
        after = self.cursors.position("devices", user, cursor) or ""
        known: dict[str, list[Session]] = {}
        for session in await self.sessions(caller):
            known.setdefault(session.device, []).append(session)
        registered = await self._registered(user, known)
        names = sorted(name for name in known.keys() | registered.keys() if name > after)
        page = [_device(name, known.get(name, []), registered) for name in names[:limit]]
        end = page[-1].device if len(names) > limit else None
        return page, self.cursors.after("devices", user, end)

    async def _registered(
        self, user: UserKey, known: Mapping[str, Sequence[Session]]
    ) -> dict[str, PushRegistration]:
        """Return the devices that are registered for push, without those whose session ended."""
        valid = {session.session_id for sessions in known.values() for session in sessions}
        return {
            one.device: one
            for one in await self.push.of(user)
            if one.session_id is None or one.session_id in valid
        }


def _device(
    name: str, sessions: list[Session], registered: Mapping[str, PushRegistration]
) -> KnownDevice:
    push = registered.get(name)
    created = [session.created_at for session in sessions]
    used = [session.rotated_at for session in sessions]
    if push is not None and not sessions:
        created = used = [push.created_at]
    return KnownDevice(
        name, min(created), max(used), sessions, None if push is None else push.provider
    )


class RevokeSession(msgspec.Struct, frozen=True):
    """Revoke a session of the caller."""

    sessions: Sessions
    events: RaiseEvent
    clock: Clock

    async def __call__(self, caller: Caller, session_id: str) -> None:
        """Revoke the session. Within seconds its tokens are refused and its connections closed.

        Raises:
            SessionNotFound: The session is unknown, has ended, or is not the caller's.
        """
        user = require_user(caller).user
        if SESSION.fullmatch(session_id) is None:
            raise SessionNotFound
        if not await self.sessions.revoke(user, session_id, self.clock.now()):
            raise SessionNotFound
        await raise_revoked(self.events, user, session_id)


class RevokeSessions(msgspec.Struct, frozen=True):
    """Revoke all credentials of a user: sessions, and tokens without a session."""

    users: UserStore
    events: RaiseEvent
    clock: Clock

    async def own(self, caller: Caller) -> None:
        """Revoke the caller's credentials, including the token of this request."""
        await self._revoke(require_user(caller).user)

    async def of(self, caller: Caller, tenant: str, user_id: str) -> None:
        """Revoke the credentials of a user of the tenant.

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
        await raise_revoked(self.events, user, None)


async def make_pair(
    signing: SigningKeys, session: Session, refresh_token: str, revoked_at: int | None
) -> TokenPair:
    """Return the current tokens of a session; a repeated call returns the same tokens.

    `revoked_at` is the time at which the user's credentials were last revoked, if ever.
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
