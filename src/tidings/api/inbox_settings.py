# SPDX-License-Identifier: Apache-2.0
"""Settings of a tenant: for all its inboxes, and for each inbox."""

from typing import Any, Final

from tidings.actions.identity.caller import Caller, require_tenant
from tidings.actions.verbs import InboxVerbs
from tidings.api.fields import Category, Description, KeepDays, Name, SchemaVersion
from tidings.api.operations import Answer, Audited, operation
from tidings.api.requests import Body
from tidings.model.notifications import InboxConfig
from tidings.model.refusals import InboxNotFound, TenantNotFound
from tidings.wire.inbox_records import InboxRecord, inbox_record

TAG: Final = "Inbox settings"


class InboxChange(Body, frozen=True, kw_only=True):
    """All settings of an inbox. For an absent field, the tenant's setting applies."""

    title: Name
    description: Description = ""
    schema_version: SchemaVersion = "1.0"
    categories: list[Category] | None = None
    late_joiners: bool | None = None
    keep_days: KeepDays | None = None
    message_schema: dict[str, Any] | None = None


@operation(
    "GET",
    "/v1/tenants/{tenant}/settings",
    tag=TAG,
    summary="Get the settings of a tenant",
    key="tenant",
    refusals=(TenantNotFound,),
)
async def get_settings(caller: Caller, tenant: str, inbox_verbs: InboxVerbs) -> dict[str, Any]:
    """Return the settings as they were stored; an empty object if there are none."""
    require_tenant(caller, tenant)
    return await inbox_verbs.settings.get(tenant)


@operation(
    "PUT",
    "/v1/tenants/{tenant}/settings",
    tag=TAG,
    summary="Replace the settings of a tenant",
    key="tenant",
    refusals=(TenantNotFound,),
    audit=Audited(settings=("login.phone", "login.register", "invites")),
)
async def put_settings(
    caller: Caller, tenant: str, data: dict[str, Any], inbox_verbs: InboxVerbs
) -> dict[str, Any]:
    """Replace all settings with a JSON object of up to 16 KiB. `inbox`, `{keep_days?,
    late_joiners?}`, applies to every inbox that does not set the field itself. `login`,
    `{phone?, register?}`, sets whether users log in by phone and whether unknown numbers become
    users; both are false by default. `invites`, `"open"` or `"ask"`, sets whether strangers join
    a group at once or are asked first; the default is open. All other fields are stored and
    ignored."""
    require_tenant(caller, tenant)
    await inbox_verbs.settings.put(tenant, data)
    return data


@operation(
    "GET",
    "/v1/tenants/{tenant}/inboxes/{inbox}",
    tag=TAG,
    summary="Get an inbox",
    key="tenant",
    refusals=(TenantNotFound, InboxNotFound),
)
async def get_inbox(
    caller: Caller, tenant: str, inbox: str, inbox_verbs: InboxVerbs
) -> InboxRecord:
    """Return the inbox; the answer is at most a second old."""
    require_tenant(caller, tenant)
    return inbox_record(inbox, await inbox_verbs.configs.get(tenant, inbox))


@operation(
    "PUT",
    "/v1/tenants/{tenant}/inboxes/{inbox}",
    tag=TAG,
    summary="Create or replace an inbox",
    key="tenant",
    statuses=(200, 201),
    refusals=(TenantNotFound,),
)
async def put_inbox(
    caller: Caller,
    tenant: str,
    inbox: str,
    data: InboxChange,
    inbox_verbs: InboxVerbs,
) -> Answer[InboxRecord]:
    """Create or replace an inbox: 201 if it is new. Notifications posted before keep the settings
    they were posted with."""
    require_tenant(caller, tenant)
    config = InboxConfig(
        title=data.title,
        description=data.description,
        schema_version=data.schema_version,
        categories=None if data.categories is None else tuple(data.categories),
        late_joiners=data.late_joiners,
        keep_days=data.keep_days,
        message_schema=data.message_schema,
    )
    is_new = await inbox_verbs.configs.put(tenant, inbox, config)
    return Answer(inbox_record(inbox, config), status=201 if is_new else 200)


OPERATIONS: Final = (get_settings, put_settings, get_inbox, put_inbox)
