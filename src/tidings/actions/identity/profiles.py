# SPDX-License-Identifier: Apache-2.0
"""Read and change profiles, show when users were last seen, and find users by phone number."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Final

import msgspec

from tidings.actions.identity.blocks import BlockLists
from tidings.actions.identity.caller import Caller, require_user
from tidings.actions.identity.phone_numbers import find_normal_form
from tidings.actions.identity.users import ProfileWriter, check_profile, existing
from tidings.caches import LruCache
from tidings.model import limits
from tidings.model.chats import ChatRow, Profile
from tidings.model.ids import USER, UserKey, tenant_of, user_key
from tidings.model.refusals import Invalid, RateLimited, UserNotFound
from tidings.ports.people import NO_FIELDS, ProfileFields, User, UserStore
from tidings.ports.sessions import Allowance, Budgets
from tidings.ports.world import Clock

CACHED_BYTES_MAX: Final = 32 * limits.KIB * limits.KIB
_MINUTE_MS: Final = 60 * limits.SECOND_MS

Online = Callable[[Sequence[UserKey]], Awaitable[Collection[UserKey]]]
"""Returns the users among these who are connected now."""


class ProfileCache:
    """Caches the profiles that this process read within the last minute."""

    def __init__(self, users: UserStore, clock: Clock) -> None:
        self._users = users
        self._clock = clock
        self._cached: LruCache[UserKey, tuple[int, Profile]] = LruCache(
            limits.CACHED_PROFILES_MAX, name="profiles", size_of=_size, size_max=CACHED_BYTES_MAX
        )

    async def of(self, users: Iterable[UserKey]) -> dict[UserKey, Profile]:
        """Return the profile of each user, at most a minute old; an unknown user has no name."""
        now = self._clock.now()
        cached = {user: self._fresh(user, now) for user in users}
        found = {user: profile for user, profile in cached.items() if profile is not None}
        missing = [user for user, profile in cached.items() if profile is None]
        read = await self._users.get_all(missing) if missing else {}
        for user in missing:
            found[user] = _profile(user, read.get(user))
            self._cached.put(user, (now, found[user]))
        return found

    async def show(self, rows: Sequence[ChatRow], most: int) -> None:
        """Set the profiles of up to `most` other members in each row, with one read for all."""
        shown = {row.chat_id: row.others[:most] for row in rows}
        found = await self.of(user for users in shown.values() for user in users)
        for row in rows:
            row.profiles = tuple(found[user] for user in shown[row.chat_id])

    def _fresh(self, user: UserKey, now: int) -> Profile | None:
        read_at, profile = self._cached.get(user) or (0, None)
        return profile if now - read_at < limits.CACHED_PROFILE_MS else None

    def forget(self, user: UserKey) -> None:
        """Remove the user from the cache, because this process has changed the user."""
        self._cached.pop(user)


def _profile(user: UserKey, found: User | None) -> Profile:
    if found is None:
        return Profile(user)
    return Profile(user, found.display_name, found.avatar_url, found.hidden_at is not None)


def _size(cached: tuple[int, Profile]) -> int:
    profile = cached[1]
    return 200 + len(profile.user) + len(profile.display_name or "") + len(profile.avatar_url or "")


class LastSeen(msgspec.Struct, frozen=True):
    """Decide who sees when a user was last online."""

    profiles: ProfileCache
    online: Online
    clock: Clock
    blocks: BlockLists

    async def seen_by(self, viewer: UserKey, users: Sequence[User]) -> list[User]:
        """Return the users as another user sees them: each with the last minute in which the user
        was online, unless this is hidden.

        A viewer who hides their own last-seen time does not see that of others. Only the viewer's
        own phone number is shown.
        """
        shown = await self.seen_by_tenant(users)
        is_hiding = (await self.profiles.of([viewer]))[viewer].is_hidden
        blocks = await self.blocks.of(viewer, [user.user for user in users])

        def is_hidden(user: User) -> bool:
            return is_hiding or user.hidden_at is not None or blocks.separates(user.user)

        return [_as_seen(user, viewer, is_hidden(user)) for user in shown]

    async def seen_by_tenant(self, users: Sequence[User]) -> list[User]:
        """Return the users as their tenant sees them: each with the last minute in which the user
        was online."""
        online = await self.online([user.user for user in users])
        now = self.clock.now()
        return [
            msgspec.structs.replace(
                user, last_seen_at=_minute(now if user.user in online else user.last_seen_at)
            )
            for user in users
        ]


def _as_seen(user: User, viewer: UserKey, is_hidden: bool) -> User:
    return msgspec.structs.replace(
        user,
        phone_number=user.phone_number if user.user == viewer else None,
        last_seen_at=None if is_hidden else user.last_seen_at,
    )


def _minute(time: int | None) -> int | None:
    return None if time is None else time - time % _MINUTE_MS


class GetProfile(msgspec.Struct, frozen=True):
    """Read the profile of the caller, or of another user of the same tenant."""

    users: UserStore
    last_seen: LastSeen

    async def __call__(self, caller: Caller, user_id: str | None = None) -> User:
        """Return the profile; the phone number is visible only to its owner."""
        me = require_user(caller).user
        if user_id is not None and USER.fullmatch(user_id) is None:
            raise UserNotFound
        user = me if user_id is None else user_key(tenant_of(me), user_id)
        (shown,) = await self.last_seen.seen_by(me, [await existing(self.users, user)])
        return shown


class ListProfiles(msgspec.Struct, frozen=True):
    """Read the profiles of several users of the caller's tenant."""

    users: UserStore
    last_seen: LastSeen

    async def __call__(self, caller: Caller, ids: str) -> list[User]:
        """Return the users that exist, in the order of `ids`, which are separated by commas.

        Raises:
            Invalid: There are no ids, or too many.
        """
        me = require_user(caller).user
        names = list(dict.fromkeys(ids.split(",")))
        if not ids or len(names) > limits.PROFILES_MAX:
            raise Invalid(f"ids must name 1 to {limits.PROFILES_MAX} users", "/ids")
        wanted = [user_key(tenant_of(me), name) for name in names if USER.fullmatch(name)]
        found = await self.users.get_all(wanted) if wanted else {}
        return await self.last_seen.seen_by(me, [found[user] for user in wanted if user in found])


class PatchProfile(msgspec.Struct, frozen=True):
    """Change the profile of the caller."""

    users: UserStore
    writer: ProfileWriter
    last_seen: LastSeen

    async def __call__(
        self,
        caller: Caller,
        display_name: str | None,
        fields: ProfileFields = NO_FIELDS,
        show_last_seen: bool | None = None,
    ) -> User:
        """Return the new profile.

        Only the tenant may change the phone number, because the number identifies the user.
        """
        me = require_user(caller).user
        check_profile(display_name, fields)
        before = await existing(self.users, me)
        if show_last_seen is not None and show_last_seen != (before.hidden_at is None):
            hidden_at = None if show_last_seen else self.writer.clock.now()
            fields = msgspec.structs.replace(fields, hidden_at=hidden_at)
        user, _ = await self.writer.put(me, display_name, None, fields)
        (shown,) = await self.last_seen.seen_by(me, [user])
        return shown


class Contact(msgspec.Struct, frozen=True):
    """A phone number, as it was written in the request, and the user whom it belongs to."""

    phone_number: str
    user: UserKey
    display_name: str | None


class FindContacts(msgspec.Struct, frozen=True):
    """Find users of the caller's tenant by phone number.

    Each user has a daily limit of lookups, because unlimited lookups would reveal all users of the
    tenant.
    """

    users: UserStore
    budgets: Budgets
    clock: Clock

    async def __call__(self, caller: Caller, numbers: Sequence[str]) -> list[Contact]:
        """Return a contact for each number that has a user, in the given order.

        Malformed numbers are skipped.

        Raises:
            RateLimited: The daily limit of lookups is reached.
        """
        user = require_user(caller).user
        if not 1 <= len(numbers) <= limits.CONTACTS_MAX:
            raise Invalid(
                f"phone_numbers must contain 1 to {limits.CONTACTS_MAX} numbers", "/phone_numbers"
            )
        await self._spend(user, len(numbers))
        forms = {given: find_normal_form(given) for given in numbers}
        wanted = [form for form in dict.fromkeys(forms.values()) if form is not None]
        owners = await self.users.by_phone(tenant_of(user), wanted) if wanted else {}
        found = await self.users.get_all(list(owners.values())) if owners else {}
        return [
            Contact(given, owner, found[owner].display_name)
            for given, form in forms.items()
            if form is not None and (owner := owners.get(form)) is not None and owner in found
        ]

    async def _spend(self, user: UserKey, count: int) -> None:
        now = self.clock.now()
        day = now // limits.DAY_MS
        ends_at = (day + 1) * limits.DAY_MS
        allowance = Allowance(
            name=f"contacts:{user}:{day}", most=limits.USER_DAY_CONTACTS_MAX, expires_at=ends_at
        )
        if await self.budgets.add(allowance, count) > allowance.most:
            raise RateLimited("too many numbers were looked up today", ends_at - now)
