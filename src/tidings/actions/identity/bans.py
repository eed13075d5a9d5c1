# SPDX-License-Identifier: Apache-2.0
"""Ban users: they can read, but not write, until a time.

A process learns of a ban when it checks a credential of the user, which reads the user anyway, and
from the revocation feed. Nothing is read when a user writes.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from tidings.actions.identity.revocation_watch import RevocationWatch
from tidings.caches import LruCache
from tidings.model.ids import UserKey, rfc3339
from tidings.model.refusals import UserBanned, UserNotFound
from tidings.ports.people import User, UserStore
from tidings.ports.sessions import Revocation
from tidings.ports.world import Clock

BANNED_MAX: Final = 100_000
"""Number of banned users that a process remembers."""
FOR_EVER: Final = 253_402_300_799_000
"""The last second of the year 9999, in milliseconds."""


class Bans:
    """Caches until when users are banned, for the users of this process."""

    def __init__(self, watch: RevocationWatch, clock: Clock) -> None:
        self._clock = clock
        self._until: LruCache[UserKey, int] = LruCache(BANNED_MAX, name="bans")
        self.has_any = False
        """False if no user is known to be banned, which makes the check of a message cheap."""
        watch.listen(self._reported)

    def is_banned(self, user: UserKey) -> bool:
        """Return True if the user must not write now."""
        return self.has_any and (self._until.get(user) or 0) > self._clock.now()

    def check(self, user: UserKey) -> None:
        """Refuse a user who must not write now.

        Raises:
            UserBanned: The user is banned.
        """
        until = self._until.get(user) or 0
        if until > self._clock.now():
            raise UserBanned(f"until {rfc3339(until)}")

    def learn(self, user: UserKey, until: int) -> None:
        """Cache a ban until this time; 0 ends it."""
        if until:
            self._until.put(user, until)
        else:
            self._until.pop(user)
        self.has_any = len(self._until) > 0

    def _reported(self, revocations: Sequence[Revocation]) -> None:
        for one in revocations:
            if one.kind == "ban":
                self.learn(UserKey(one.subject), one.at)


class BanUser(msgspec.Struct, frozen=True):
    """Ban a user of a tenant until a time, or end the ban."""

    users: UserStore
    bans: Bans
    clock: Clock

    async def __call__(self, user: UserKey, until: int | None) -> User:
        """Ban the user; None ends the ban. Other processes learn of it within 5 seconds.

        Raises:
            UserNotFound: There is no such user.
        """
        banned = await self.users.ban(user, until, self.clock.now())
        if banned is None:
            raise UserNotFound
        self.bans.learn(user, until or 0)
        return banned
