# SPDX-License-Identifier: Apache-2.0
"""Find out whether a user has quiet hours, in which no message is pushed.

Quiet hours belong to the preferences of a user in an inbox. Messages belong to no inbox, so those
of all inboxes of the tenant count.
"""

from typing import Final

from tidings.actions.inbox.settings import TtlCache
from tidings.model.ids import UserKey, tenant_of
from tidings.model.preferences import quiet_until
from tidings.ports.inboxes import InboxSettings
from tidings.ports.preferences import PreferenceStore
from tidings.ports.push import PushPreferences
from tidings.ports.world import Clock

_PAGE: Final = 100


class QuietHoursOfUsers:
    """Reads the quiet hours of users, but only in inboxes in which somebody has preferences."""

    def __init__(self, inboxes: InboxSettings, store: PreferenceStore, clock: Clock) -> None:
        self._inboxes = inboxes
        self._store = store
        self._clock = clock
        self._chosen_in: TtlCache[str, tuple[str, ...]] = TtlCache(self._read)
        """For each tenant, the inboxes in which some users have preferences."""

    async def allows(self, user: UserKey) -> bool:
        now = self._clock.now()
        for inbox in await self._chosen_in.get(tenant_of(user)) or ():
            preferences = (await self._store.of([user], inbox)).get(user)
            if preferences is not None and quiet_until(preferences.quiet_hours, now) is not None:
                return False
        return True

    async def _read(self, tenant: str) -> tuple[str, ...]:
        found: list[str] = []
        after: str | None = None
        while True:
            page = await self._inboxes.configs(tenant, after=after, limit=_PAGE)
            found += [inbox for inbox, config in page.rows if config.has_preferences]
            if page.end is None:
                return tuple(found)
            after = page.end


_conforms: type[PushPreferences] = QuietHoursOfUsers
