# SPDX-License-Identifier: Apache-2.0
"""Get and replace a user's preferences in an inbox, and find out whom a notification may reach."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from tidings.actions.inbox.settings import InboxConfigs
from tidings.model import limits
from tidings.model.ids import UserKey, tenant_of
from tidings.model.notifications import Broadcast, InboxConfig, check_category
from tidings.model.preferences import (
    CHANNELS,
    CategoryChoice,
    CategoryRule,
    Channel,
    Preferences,
    PreferencesRequired,
    QuietHours,
    Rules,
    check_quiet_hours,
    is_on,
    quiet_until,
)
from tidings.model.refusals import InboxNotFound, Invalid, StoreUnavailable
from tidings.ports.bus import Bus, InboxRead
from tidings.ports.inboxes import Copies
from tidings.ports.preferences import PreferenceStore

NOBODY_CHOSE: Final[Mapping[UserKey, Preferences]] = {}


class EffectivePreferences(msgspec.Struct, frozen=True, kw_only=True):
    """What applies to a user in an inbox: the user's choices, and the defaults of the tenant."""

    categories: dict[str, CategoryRule]
    """Every category that the inbox declares. If it declares none, these are the categories for
    which the tenant has rules or the user has chosen something."""
    chosen: dict[str, CategoryChoice]
    """The user's own choices for these categories. Everything else is a default. A choice against a
    required category is left out, because it has no effect."""
    quiet_hours: QuietHours | None
    uncategorized_email: bool
    """Whether the user gets e-mails about notifications without a category."""


class OwnPreferences(msgspec.Struct, frozen=True):
    """Get and replace the preferences of a user."""

    configs: InboxConfigs
    store: PreferenceStore
    copies: Copies
    bus: Bus

    async def get(self, user: UserKey, inbox: str) -> EffectivePreferences:
        """Return what applies to the user.

        Raises:
            InboxNotFound: There is no such inbox.
        """
        config = await self.configs.get(tenant_of(user), inbox)
        state = await self.copies.read_state(user, inbox)
        return _effective(config, state.preferences or Preferences())

    async def put(
        self,
        user: UserKey,
        inbox: str,
        preferences: Preferences,
        uncategorized_email: bool | None = None,
    ) -> EffectivePreferences:
        """Replace the user's preferences; return what applies now.

        Whether the user gets e-mails about notifications without a category changes only if
        `uncategorized_email` says so: older clients do not know of it.

        Raises:
            InboxNotFound: There is no such inbox.
            Invalid: A category is not one of the inbox, or the quiet hours are malformed.
            PreferencesRequired: A category that is required would be switched off.
            StoreUnavailable: Other devices change them all the time, or the store does not answer.
        """
        config = await self.configs.get(tenant_of(user), inbox)
        _check(preferences, config)

        def change(before: Preferences) -> Preferences:
            kept = uncategorized_email
            is_on = before.uncategorized_email if kept is None else kept
            return msgspec.structs.replace(preferences, uncategorized_email=is_on)

        return _effective(config, await self._change(user, inbox, config, change))

    async def unsubscribe(self, user: UserKey, inbox: str, category: str | None) -> None:
        """Switch off e-mails to the user about a category, or about notifications without one.

        Raises:
            InboxNotFound: There is no such inbox.
            PreferencesRequired: The category is required.
        """
        config = await self.configs.get(tenant_of(user), inbox)
        rules = config.category_rules or {}
        if category is not None:
            _check_required(category, CategoryChoice(email=False), rules.get(category))
        chosen = await self._chosen(user, inbox)
        if chosen is None or chosen != _without_email(chosen, category):
            await self._change(user, inbox, config, lambda before: _without_email(before, category))

    async def _change(
        self,
        user: UserKey,
        inbox: str,
        config: InboxConfig,
        change: Callable[[Preferences], Preferences],
    ) -> Preferences:
        """Change the user's preferences, again if another device does so meanwhile."""
        if not config.has_preferences:
            # This comes first: otherwise delivery might not ask for preferences that are stored.
            await self._begin(tenant_of(user), inbox)
        before = await self._chosen(user, inbox) if config.has_preferences else None
        for _ in range(limits.SLOT_ATTEMPTS_MAX):
            after = change(before or Preferences())
            if await self.store.replace(user, inbox, before, after):
                # Broadcasts that are hidden now do not count.
                self.bus.publish(InboxRead(user, inbox, by_reading=False))
                return after
            before = await self._chosen(user, inbox)
        raise StoreUnavailable

    async def _chosen(self, user: UserKey, inbox: str) -> Preferences | None:
        return (await self.copies.read_state(user, inbox)).preferences

    async def _begin(self, tenant: str, inbox: str) -> None:
        is_there = await self.store.begin(tenant, inbox)
        self.configs.forget(tenant, inbox)
        if not is_there:
            raise InboxNotFound


class Reachable(msgspec.Struct, frozen=True):
    """Finds out which users a notification may reach by a channel, by their preferences.

    All users of a call belong to one tenant, and they are at most 100. In an inbox in which no user
    has preferences, nothing is read for them.
    """

    configs: InboxConfigs
    store: PreferenceStore

    async def times(
        self,
        channel: Channel,
        users: Sequence[UserKey],
        inbox: str,
        category: str | None,
        now: int,
    ) -> dict[UserKey, int]:
        """Return the users whom a notification of this category may reach by push or e-mail, each
        with the earliest time: now, or the end of the user's quiet hours.

        If the inbox was deleted, there are none.
        """
        if not users:
            return {}
        try:
            config, chosen = await self._look(users, inbox)
        except InboxNotFound:
            return {}
        quiet = {user: preferences.quiet_hours for user, preferences in chosen.items()}
        return {
            user: quiet_until(quiet.get(user), now) or now
            for user in users
            if is_on(channel, category, config.category_rules, chosen.get(user))
        }

    async def wanting(
        self, users: Sequence[UserKey], inbox: str, category: str | None
    ) -> list[UserKey]:
        """Return the users who want notifications of this category in their inbox.

        If the inbox was deleted, these are all: the job that deletes it removes their copies.
        """
        if category is None or not users:
            return list(users)
        try:
            config, chosen = await self._look(users, inbox)
        except InboxNotFound:
            return list(users)
        return [
            user
            for user in users
            if is_on("in_app", category, config.category_rules, chosen.get(user))
        ]

    async def _look(
        self, users: Sequence[UserKey], inbox: str
    ) -> tuple[InboxConfig, Mapping[UserKey, Preferences]]:
        config = await self.configs.get(tenant_of(users[0]), inbox)
        if not config.has_preferences:
            return config, NOBODY_CHOSE
        return config, await self.store.of(users, inbox)


def chosen_broadcasts(
    broadcasts: Iterable[Broadcast], config: InboxConfig, chosen: Preferences | None
) -> list[Broadcast]:
    """Return the broadcasts whose categories a user wants in the inbox."""
    return [
        broadcast
        for broadcast in broadcasts
        if is_on("in_app", broadcast.category, config.category_rules, chosen)
    ]


def _effective(config: InboxConfig, chosen: Preferences) -> EffectivePreferences:
    rules = config.category_rules or {}
    declared = config.categories
    names = dict.fromkeys([*rules, *chosen.categories] if declared is None else declared)
    own = {name: _own(name, rules, chosen) for name in names}
    return EffectivePreferences(
        categories={
            name: CategoryRule(
                required=name in rules and rules[name].required,
                in_app=is_on("in_app", name, rules, chosen),
                push=is_on("push", name, rules, chosen),
                email=is_on("email", name, rules, chosen),
            )
            for name in names
        },
        chosen={name: choice for name, choice in own.items() if choice != CategoryChoice()},
        quiet_hours=chosen.quiet_hours,
        uncategorized_email=chosen.uncategorized_email,
    )


def _own(category: str, rules: Rules, chosen: Preferences) -> CategoryChoice:
    """Return what the user has chosen for a category, as far as it has an effect."""
    choice = chosen.categories.get(category, CategoryChoice())
    in_effect: dict[str, bool] = {
        channel: own
        for channel in CHANNELS
        if (own := getattr(choice, channel)) is is_on(channel, category, rules, chosen)
    }
    return CategoryChoice(**in_effect)


def _without_email(chosen: Preferences, category: str | None) -> Preferences:
    if category is None:
        return msgspec.structs.replace(chosen, uncategorized_email=False)
    choice = chosen.categories.get(category, CategoryChoice())
    off = msgspec.structs.replace(choice, email=False)
    return msgspec.structs.replace(chosen, categories={**chosen.categories, category: off})


def _check(preferences: Preferences, config: InboxConfig) -> None:
    if len(preferences.categories) > limits.CATEGORIES_MAX:
        most = limits.CATEGORIES_MAX
        raise Invalid(f"categories must contain at most {most} names", "/categories")
    if preferences.quiet_hours is not None:
        check_quiet_hours(preferences.quiet_hours)
    for name, choice in preferences.categories.items():
        pointer = f"/categories/{name}"
        check_category(name, "/categories")
        if config.categories is not None and name not in config.categories:
            raise Invalid("category: not a category of this inbox", pointer)
        _check_required(name, choice, (config.category_rules or {}).get(name))


def _check_required(name: str, choice: CategoryChoice, rule: CategoryRule | None) -> None:
    if rule is None or not rule.required:
        return
    for channel in CHANNELS:
        if getattr(choice, channel) is False and getattr(rule, channel):
            raise PreferencesRequired(f"{channel} of {name} cannot be switched off")
