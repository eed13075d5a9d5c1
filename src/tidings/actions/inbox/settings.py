# SPDX-License-Identifier: Apache-2.0
"""What a tenant says about its inboxes, in one place each, and remembered for a second."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Generic, TypeVar

import msgspec

from tidings.actions.identity.users import check_visible_text
from tidings.actions.inbox.message_schemas import check_schema
from tidings.model import limits
from tidings.model.invites import Invites, invites_in, login_settings_in
from tidings.model.notifications import INBOX, InboxConfig
from tidings.model.postings import Defaults, Json, check_category, check_open_json
from tidings.model.refusals import InboxNotFound, Invalid, TenantNotFound, TooLarge
from tidings.ports.inboxes import InboxSettings
from tidings.ports.people import Tenants

K = TypeVar("K")
V = TypeVar("V")


class TtlCache(Generic[K, V]):
    """Values for as long as they are young enough; the least recently used go first."""

    def __init__(self, read: Callable[[K], Awaitable[V | None]]) -> None:
        self._read = read
        self._values: OrderedDict[K, tuple[V, float]] = OrderedDict()
        self._forgotten = 0

    async def get(self, key: K) -> V | None:
        """The value. That there is none is not remembered: it may be about to change."""
        now, forgotten = monotonic(), self._forgotten
        known = self._values.get(key)
        if known is not None and now - known[1] < limits.INBOX_CONFIG_AGE_MS / limits.SECOND_MS:
            self._values.move_to_end(key)
            return known[0]
        value = await self._read(key)
        if value is not None and forgotten == self._forgotten:
            # Old from when it began to be read; not at all if it may have changed since.
            self._values[key] = value, now
            self._values.move_to_end(key)
            while len(self._values) > limits.CACHED_INBOXES_MAX:
                self._values.popitem(last=False)
        return value

    def forget(self, key: K) -> None:
        """The value has changed."""
        self._forgotten += 1
        self._values.pop(key, None)


class Settings:
    """What a tenant says for all its inboxes, and whatever else it wants to keep with it."""

    def __init__(self, settings: InboxSettings, tenants: Tenants) -> None:
        self._settings = settings
        self._tenants = tenants
        self._remembered = TtlCache(self._read)
        self._invites = TtlCache(self._read_invites)

    async def get(self, tenant: str) -> Json:
        """All of it.

        Raises:
            TenantNotFound: There is no such tenant.
        """
        known = await self._settings.settings(tenant)
        if known is None and await self._tenants.get(tenant) is None:
            raise TenantNotFound
        return known or {}

    async def put(self, tenant: str, settings: Json) -> None:
        """Replace all of it. What we go by is checked, all else is kept as it is."""
        check_open_json(settings, "")
        if len(msgspec.json.encode(settings)) > limits.TENANT_SETTINGS_BYTES_MAX:
            most = limits.TENANT_SETTINGS_BYTES_MAX
            raise TooLarge(f"settings: at most {most} bytes of JSON")
        _check_keep_days(defaults_in(settings).keep_days, "/inbox/keep_days")
        login_settings_in(settings)
        invites_in(settings)
        if await self._tenants.get(tenant) is None:
            raise TenantNotFound
        try:
            await self._settings.put_settings(tenant, settings)
        finally:
            self._remembered.forget(tenant)
            self._invites.forget(tenant)

    async def asks_strangers(self, tenant: str) -> bool:
        """Whether strangers are asked before they are in a group, as of at most a second ago."""
        return await self._invites.get(tenant) == "ask"

    async def terms(self, tenant: str, config: InboxConfig) -> tuple[int, bool]:
        """How long what is posted now is kept, in milliseconds, and whether late joiners see it.

        As the inbox says, else as its tenant does, else as we do; what the tenant says is at most
        a second old.
        """
        said = await self._remembered.get(tenant)
        assert said is not None
        days = config.keep_days or said.keep_days or limits.KEEP_DAYS_MAX
        late = said.late_joiners if config.late_joiners is None else config.late_joiners
        return days * limits.DAY_MS, late is not False

    async def _read(self, tenant: str) -> Defaults:
        return defaults_in(await self._settings.settings(tenant) or {})

    async def _read_invites(self, tenant: str) -> Invites:
        try:
            return invites_in(await self._settings.settings(tenant) or {})
        except Invalid:
            return "open"  # kept before it had a meaning


def defaults_in(settings: Json) -> Defaults:
    """The part of a tenant's settings that we go by."""
    try:
        return msgspec.convert(settings.get("inbox", {}), Defaults)
    except msgspec.ValidationError as error:
        raise Invalid(f"inbox: {error}", "/inbox") from None


class InboxConfigs:
    """The inboxes of all tenants."""

    def __init__(self, settings: InboxSettings, tenants: Tenants) -> None:
        self._settings = settings
        self._tenants = tenants
        self._remembered = TtlCache(self._read)

    async def get(self, tenant: str, inbox: str) -> InboxConfig:
        """One inbox, as it was at most a second ago.

        Raises:
            InboxNotFound: There is no such inbox.
        """
        if INBOX.fullmatch(inbox) is None:
            raise InboxNotFound
        config = await self._remembered.get((tenant, inbox))
        if config is None:
            raise InboxNotFound
        return config

    async def put(self, tenant: str, inbox: str, config: InboxConfig) -> bool:
        """Make or replace an inbox; True if it is new."""
        if INBOX.fullmatch(inbox) is None:
            raise Invalid("inbox: 1 to 64 of A-Z a-z 0-9 . _ @ + -, not . or ..", "/inbox")
        check_config(config)
        if await self._tenants.get(tenant) is None:
            raise TenantNotFound
        try:
            return await self._settings.put_config(tenant, inbox, config)
        finally:
            self._remembered.forget((tenant, inbox))

    async def _read(self, key: tuple[str, str]) -> InboxConfig | None:
        return await self._settings.config(*key)


def check_config(config: InboxConfig) -> None:
    """Refuse an inbox that cannot be."""
    check_visible_text("title", config.title)
    for field, text, most in (
        ("description", config.description, limits.DESCRIPTION_CHARS_MAX),
        ("schema_version", config.schema_version, limits.SCHEMA_VERSION_CHARS_MAX),
    ):
        if len(text) > most:
            raise Invalid(f"{field}: at most {most} characters", f"/{field}")
    if not config.schema_version:
        raise Invalid("schema_version: must not be empty", "/schema_version")
    _check_categories(config.categories or ())
    _check_keep_days(config.keep_days, "/keep_days")
    if config.message_schema is not None:
        check_schema(config.message_schema)


def _check_categories(categories: tuple[str, ...]) -> None:
    if len(categories) > limits.CATEGORIES_MAX:
        raise Invalid(f"categories: at most {limits.CATEGORIES_MAX}", "/categories")
    for index, category in enumerate(categories):
        check_category(category, f"/categories/{index}")


def _check_keep_days(days: int | None, pointer: str) -> None:
    if days is not None and not 1 <= days <= limits.KEEP_DAYS_MAX:
        raise Invalid(f"keep_days: 1 to {limits.KEEP_DAYS_MAX}", pointer)
