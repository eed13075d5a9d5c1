# SPDX-License-Identifier: Apache-2.0
"""Read and write a tenant's settings and the configuration of its inboxes, cached for a second."""

from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Final, Generic, TypeVar

import msgspec

from tidings.actions.content.wrapping import Cursors
from tidings.actions.identity.caller import Caller, listing_owner
from tidings.actions.identity.users import check_visible_text
from tidings.actions.inbox.message_schemas import check_schema
from tidings.caches import LruCache
from tidings.model import limits
from tidings.model.attachments import attachment_rule_in
from tidings.model.before_send import before_send_in
from tidings.model.ids import UserKey, tenant_of
from tidings.model.notifications import (
    INBOX,
    Defaults,
    InboxConfig,
    Json,
    check_category,
    check_open_json,
)
from tidings.model.refusals import InboxDeleting, InboxNotFound, Invalid, TenantNotFound, TooLarge
from tidings.model.retention import retention_in
from tidings.model.roles import Invites, invites_in, login_settings_in
from tidings.ports.inboxes import InboxSettings
from tidings.ports.people import Listed, Tenants
from tidings.ports.tenant_jobs import TenantJobs, job_id_of

K = TypeVar("K")
V = TypeVar("V")


class TtlCache(Generic[K, V]):
    """Caches a bounded number of values for a limited time."""

    def __init__(
        self, read: Callable[[K], Awaitable[V | None]], most: int = limits.CACHED_INBOXES_MAX
    ) -> None:
        self._read = read
        self._values: LruCache[K, tuple[V, float]] = LruCache(most)
        self._forgotten = 0

    async def get(self, key: K) -> V | None:
        """Return the value; read it if it is not cached.

        The absence of a value is not cached, because the value may be created at any time.
        """
        now, forgotten = monotonic(), self._forgotten
        known = self._values.get(key)
        if known is not None and now - known[1] < limits.INBOX_CONFIG_AGE_MS / limits.SECOND_MS:
            return known[0]
        value = await self._read(key)
        if value is not None and forgotten == self._forgotten:
            # The age is measured from the start of the read. Nothing is cached if a value changed
            # during the read.
            self._values.put(key, (value, now))
        return value

    def forget(self, key: K) -> None:
        """Remove a value that has changed."""
        self._forgotten += 1
        self._values.pop(key)


class Settings:
    """Reads and writes the settings of tenants: defaults for inboxes, retention, invites, login."""

    def __init__(self, settings: InboxSettings, tenants: Tenants) -> None:
        self._settings = settings
        self._tenants = tenants
        self._cache = TtlCache(self._read)
        self._invites_cache: TtlCache[str, Invites] = TtlCache(self._read_invites)

    async def get(self, tenant: str) -> Json:
        """Return all settings of a tenant.

        Raises:
            TenantNotFound: There is no such tenant.
        """
        known = await self._settings.settings(tenant)
        if known is None and await self._tenants.get(tenant) is None:
            raise TenantNotFound
        return known or {}

    async def put(self, tenant: str, settings: Json) -> None:
        """Replace all settings of a tenant; check only the parts that the server uses."""
        check_open_json(settings, "")
        if len(msgspec.json.encode(settings)) > limits.TENANT_SETTINGS_BYTES_MAX:
            most = limits.TENANT_SETTINGS_BYTES_MAX
            raise TooLarge(f"settings: must have at most {most} bytes of JSON")
        _check_keep_days(defaults_in(settings).keep_days, "/inbox/keep_days")
        login_settings_in(settings)
        invites_in(settings)
        retention_in(settings)
        before_send_in(settings)
        attachment_rule_in(settings)
        if await self._tenants.get(tenant) is None:
            raise TenantNotFound
        try:
            await self._settings.put_settings(tenant, settings)
        finally:
            self._cache.forget(tenant)
            self._invites_cache.forget(tenant)

    async def invites(self, tenant: str) -> Invites:
        """Return whether strangers can be added to a group at once, are asked first, or cannot be
        added.

        The setting is at most a second old.
        """
        return await self._invites_cache.get(tenant) or "open"

    async def terms(self, tenant: str, config: InboxConfig) -> tuple[int, bool]:
        """Return a new notification's lifetime in milliseconds, and whether late joiners see it.

        Each comes from the inbox's configuration; if it is not set there, from the tenant's
        settings; if it is not set there either, it has its default. The settings are at most a
        second old.
        """
        defaults = await self._cache.get(tenant)
        assert defaults is not None
        days = config.keep_days or defaults.keep_days or limits.KEEP_DAYS_MAX
        late = defaults.late_joiners if config.late_joiners is None else config.late_joiners
        return days * limits.DAY_MS, late is not False

    async def _read(self, tenant: str) -> Defaults:
        return defaults_in(await self._settings.settings(tenant) or {})

    async def _read_invites(self, tenant: str) -> Invites:
        try:
            return invites_in(await self._settings.settings(tenant) or {})
        except Invalid:
            return "open"  # stored by a version that did not check `invites`


def defaults_in(settings: Json) -> Defaults:
    """Return the defaults for inboxes in a tenant's settings."""
    try:
        return msgspec.convert(settings.get("inbox", {}), Defaults)
    except msgspec.ValidationError:
        detail = "inbox may contain only keep_days (an integer) and late_joiners (true or false)"
        raise Invalid(detail, "/inbox") from None


class InboxConfigs:
    """Reads and writes the configurations of inboxes."""

    def __init__(self, settings: InboxSettings, tenants: Tenants, jobs: TenantJobs) -> None:
        self._settings = settings
        self._tenants = tenants
        self._jobs = jobs
        self._cache = TtlCache(self._read)

    async def get(self, tenant: str, inbox: str) -> InboxConfig:
        """Return the configuration of an inbox, at most a second old.

        Raises:
            InboxNotFound: There is no such inbox.
        """
        if INBOX.fullmatch(inbox) is None:
            raise InboxNotFound
        config = await self._cache.get((tenant, inbox))
        if config is None:
            raise InboxNotFound
        return config

    async def put(self, tenant: str, inbox: str, config: InboxConfig) -> bool:
        """Create or replace an inbox; return True if it is new.

        Raises:
            InboxDeleting: An inbox of this name is still being deleted.
        """
        if INBOX.fullmatch(inbox) is None:
            raise Invalid(
                "inbox must be 1 to 64 characters of A-Z a-z 0-9 . _ @ + -, not . or ..", "/inbox"
            )
        check_config(config)
        if await self._tenants.get(tenant) is None:
            raise TenantNotFound
        job = await self._jobs.get(tenant, job_id_of("inbox.delete", inbox))
        if job is not None and job.state == "running":
            raise InboxDeleting
        try:
            return await self._settings.put_config(tenant, inbox, config)
        finally:
            self._cache.forget((tenant, inbox))

    def forget(self, tenant: str, inbox: str) -> None:
        """Remove an inbox from the cache, because it was deleted."""
        self._cache.forget((tenant, inbox))

    async def _read(self, key: tuple[str, str]) -> InboxConfig | None:
        return await self._settings.config(*key)


_LIST: Final = "inboxes"

NamedConfig = tuple[str, InboxConfig]
"""The name of an inbox, and its configuration."""


class ListInboxes:
    """List the inboxes of a tenant by name, for the tenant and for its users."""

    def __init__(self, settings: InboxSettings, tenants: Tenants, cursors: Cursors) -> None:
        self._settings = settings
        self._tenants = tenants
        self._cursors = cursors
        self._user_pages = TtlCache(self._read_user_page, limits.CACHED_INBOX_LISTS_MAX)

    async def of_tenant(
        self, caller: Caller, tenant: str, cursor: str | None, limit: int
    ) -> tuple[list[NamedConfig], str | None]:
        """Return a page of the tenant's inboxes, and the cursor of the next page."""
        owner = await listing_owner(self._tenants, caller, tenant)
        after = self._cursors.position(_LIST, owner, cursor)
        page = await self._settings.configs(tenant, after=after, limit=limit)
        return page.rows, self._cursors.after(_LIST, owner, page.end)

    async def of_user(
        self, user: UserKey, cursor: str | None, limit: int
    ) -> tuple[list[NamedConfig], str | None]:
        """Return a page of the inboxes of the user's tenant, and the cursor of the next page.

        The page is at most a second old and has no schemas. All users of a tenant read the same
        page, often when they start their application, and it may be large.
        """
        after = self._cursors.position(_LIST, user, cursor)
        page = await self._user_pages.get((tenant_of(user), after))
        assert page is not None
        rows = page.rows[:limit]
        end = rows[-1][0] if len(page.rows) > limit else page.end
        return rows, self._cursors.after(_LIST, user, end)

    async def _read_user_page(self, key: tuple[str, str | None]) -> Listed[NamedConfig]:
        tenant, after = key
        page = await self._settings.configs(tenant, after=after, limit=limits.PAGE_MAX)
        rows = [
            (name, msgspec.structs.replace(config, message_schema=None))
            for name, config in page.rows
        ]
        return Listed(rows, page.end)


def check_config(config: InboxConfig) -> None:
    """Refuse an invalid configuration of an inbox."""
    check_visible_text("title", config.title)
    for field, text, most in (
        ("description", config.description, limits.DESCRIPTION_CHARS_MAX),
        ("schema_version", config.schema_version, limits.SCHEMA_VERSION_CHARS_MAX),
    ):
        if len(text) > most:
            raise Invalid(f"{field} must have at most {most} characters", f"/{field}")
    if not config.schema_version:
        raise Invalid("schema_version must not be empty", "/schema_version")
    _check_categories(config.categories or ())
    _check_rules(config)
    _check_keep_days(config.keep_days, "/keep_days")
    if config.message_schema is not None:
        check_schema(config.message_schema)


def _check_categories(categories: tuple[str, ...]) -> None:
    if len(categories) > limits.CATEGORIES_MAX:
        raise Invalid(
            f"categories must contain at most {limits.CATEGORIES_MAX} names", "/categories"
        )
    for index, category in enumerate(categories):
        check_category(category, f"/categories/{index}")


def _check_rules(config: InboxConfig) -> None:
    rules = config.category_rules or {}
    if len(rules) > limits.CATEGORIES_MAX:
        most = limits.CATEGORIES_MAX
        raise Invalid(f"category_rules must contain at most {most} names", "/category_rules")
    for name in rules:
        check_category(name, "/category_rules")
        if config.categories is not None and name not in config.categories:
            pointer = f"/category_rules/{name}"
            raise Invalid("category_rules: not a category of this inbox", pointer)


def _check_keep_days(days: int | None, pointer: str) -> None:
    if days is not None and not 1 <= days <= limits.KEEP_DAYS_MAX:
        raise Invalid(f"keep_days must be between 1 and {limits.KEEP_DAYS_MAX}", pointer)
