# SPDX-License-Identifier: Apache-2.0
"""Operations on users: for the tenant, on one's own profile, and search by phone number."""

from typing import Any, Final

import msgspec

from tidings.actions import rate_limits
from tidings.actions.identity.caller import Caller
from tidings.actions.identity.profiles import Contact
from tidings.actions.verbs import JobVerbs, LoginVerbs
from tidings.api.callers import IdentityVerbs
from tidings.api.fields import (
    AvatarUrl,
    Email,
    Metadata,
    Name,
    PhoneNumber,
    PhoneNumbers,
    Time,
    UserIds,
    UserPrefix,
    time,
)
from tidings.api.jobs import JobRecord, job_record
from tidings.api.operations import Answer, operation
from tidings.api.requests import Body, Query
from tidings.api.tenants import ListQuery
from tidings.model.ids import rfc3339, user_id
from tidings.model.ids import user_id as id_of
from tidings.model.refusals import (
    CursorInvalid,
    LimitReached,
    PhoneTaken,
    RateLimited,
    TenantNotFound,
    UserDeleted,
    UserNotFound,
)
from tidings.ports.people import ProfileFields, User

TAG: Final = "Users"


class ContactSearch(Body, frozen=True):
    """The phone numbers to look up."""

    phone_numbers: PhoneNumbers


class ContactRecord(msgspec.Struct):
    """A user, with the phone number as the request spells it."""

    phone_number: str
    user_id: str
    display_name: str | None


class ContactList(msgspec.Struct):
    """The users found; unknown numbers are left out."""

    data: list[ContactRecord]


@operation(
    "POST",
    "/v1/contacts",
    tag=TAG,
    summary="Find users by their phone numbers",
    refusals=(RateLimited,),
    body_cost=lambda search: rate_limits.look_up_cost(len(search.phone_numbers)),
)
async def find_contacts(caller: Caller, data: ContactSearch, logins: LoginVerbs) -> ContactList:
    """Return the users of the caller's tenant who have these phone numbers. A user can look up at
    most 2,000 numbers a day."""
    found = await logins.find_contacts(caller, data.phone_numbers)
    return ContactList([_contact_record(contact) for contact in found])


def _contact_record(contact: Contact) -> ContactRecord:
    return ContactRecord(contact.phone_number, user_id(contact.user), contact.display_name)


class UserChange(Body, frozen=True):
    """Fields of a user. Absent fields do not change; null removes a value, but not a name."""

    display_name: Name | None = None
    phone_number: PhoneNumber | msgspec.UnsetType | None = msgspec.UNSET
    deactivated: bool | None = None
    avatar_url: AvatarUrl | msgspec.UnsetType | None = msgspec.UNSET
    metadata: Metadata | msgspec.UnsetType | None = msgspec.UNSET
    email: Email | msgspec.UnsetType | None = msgspec.UNSET
    banned_until: Time | msgspec.UnsetType | None = msgspec.UNSET


class ProfileChange(Body, frozen=True):
    """Fields that users can change in their own profiles. Absent fields do not change; null removes
    a value, but not a name."""

    display_name: Name | None = None
    avatar_url: AvatarUrl | msgspec.UnsetType | None = msgspec.UNSET
    metadata: Metadata | msgspec.UnsetType | None = msgspec.UNSET
    show_last_seen: bool | None = None


class ProfileRecord(msgspec.Struct):
    """A user. Only the user and the tenant see the phone number. `last_seen_at` is the last minute
    in which the user was online, or null if this is unknown or hidden."""

    user_id: str
    display_name: str | None
    avatar_url: str | None
    metadata: dict[str, Any]
    phone_number: str | None
    last_seen_at: str | None
    created_at: str
    updated_at: str


class OwnProfileRecord(ProfileRecord):
    """The caller's own profile. If `show_last_seen` is false, nobody sees when the caller is or was
    online, and the caller does not see this of others."""

    show_last_seen: bool


class UserRecord(ProfileRecord):
    """A user, as the tenant sees them. A deactivated user has no access; a banned user reads, but
    does not write. A phone number is verified
    if the user proved it with a login code."""

    email: str | None
    phone_verified: bool
    deactivated: bool
    banned_until: str | None


class ProfileList(msgspec.Struct):
    """The profiles of the users that exist, in the order of the request."""

    data: list[ProfileRecord]


class ProfilesQuery(Query, frozen=True, kw_only=True):
    """The users to return."""

    ids: UserIds


class UserList(msgspec.Struct):
    """A page of a tenant's users; `next_cursor` is null on the last page."""

    data: list[UserRecord]
    next_cursor: str | None


class UsersQuery(ListQuery, frozen=True):
    """Which part of the list of users to return, and how their ids begin."""

    prefix: UserPrefix = ""


AS_BEFORE: Final = UserChange()


@operation(
    "PUT",
    "/v1/tenants/{tenant}/users/{user_id}",
    tag=TAG,
    summary="Create or update a user",
    key="tenant",
    statuses=(200, 201),
    refusals=(TenantNotFound, PhoneTaken, UserDeleted, LimitReached),
)
async def put_user(
    caller: Caller,
    tenant: str,
    user_id: str,
    identity: IdentityVerbs,
    data: UserChange = AS_BEFORE,
) -> Answer[UserRecord]:
    """Create or update a user; the status is 201 if the user is new. Changing or removing the phone
    number, or deactivating the user, ends all sessions and tokens of the user. Until
    `banned_until`, the user can read, but not write; null ends the ban."""
    is_active = None if data.deactivated is None else not data.deactivated
    fields = ProfileFields(
        avatar_url=data.avatar_url, metadata=_encoded(data.metadata), email=data.email
    )
    until = data.banned_until
    banned_until = time(until, "banned_until") if isinstance(until, str) else until
    user, is_new = await identity.put_user(
        caller,
        tenant,
        user_id,
        data.display_name,
        data.phone_number,
        is_active,
        fields,
        banned_until,
    )
    (shown,) = await identity.last_seen.seen_by_tenant([user])
    return Answer(user_record(shown), status=201 if is_new else 200)


@operation(
    "GET",
    "/v1/tenants/{tenant}/users",
    tag=TAG,
    summary="List users",
    key="tenant",
    refusals=(TenantNotFound, CursorInvalid),
    cost=lambda asked: rate_limits.look_up_cost(asked.limit),
)
async def list_users(
    caller: Caller, tenant: str, asked: UsersQuery, identity: IdentityVerbs
) -> UserList:
    """Return the users of a tenant, ordered by id; with `prefix`, those whose ids begin with it.
    Only `next_cursor` shows whether more users follow: a page may be shorter than `limit`."""
    page, cursor = await identity.list_users(
        caller, tenant, asked.prefix, asked.cursor, asked.limit
    )
    shown = await identity.last_seen.seen_by_tenant(page)
    return UserList([user_record(user) for user in shown], cursor)


@operation(
    "DELETE",
    "/v1/tenants/{tenant}/users/{user_id}",
    tag=TAG,
    summary="Delete a user",
    key="tenant",
    statuses=(202,),
    refusals=(TenantNotFound, UserNotFound),
)
async def delete_user(caller: Caller, tenant: str, user_id: str, job_verbs: JobVerbs) -> JobRecord:
    """Delete a user for good. After the answer, every use of this id is refused with
    `user.deleted`, and a job removes the user's sessions, content, memberships and notifications.
    The job ends in a signed receipt. A repeated request returns the job with its progress."""
    return job_record(await job_verbs.delete_user(caller, tenant, user_id))


@operation("GET", "/v1/me", tag=TAG, summary="Get my profile", refusals=(UserNotFound,))
async def get_me(caller: Caller, identity: IdentityVerbs) -> OwnProfileRecord:
    """Return the caller's own profile."""
    return _own_record(await identity.get_profile(caller))


@operation(
    "PATCH",
    "/v1/me",
    tag=TAG,
    summary="Change my profile",
    refusals=(UserNotFound,),
    is_banned=True,
)
async def patch_me(
    caller: Caller, data: ProfileChange, identity: IdentityVerbs
) -> OwnProfileRecord:
    """Change the caller's own profile. Only the tenant can change the phone number. With
    `show_last_seen` false, nobody sees when the caller is or was online, and the caller does not
    see this of others. In other processes this takes effect within a minute."""
    fields = ProfileFields(avatar_url=data.avatar_url, metadata=_encoded(data.metadata))
    return _own_record(
        await identity.patch_profile(caller, data.display_name, fields, data.show_last_seen)
    )


@operation(
    "GET",
    "/v1/users",
    tag=TAG,
    summary="Get the profiles of several users",
    cost=lambda asked: rate_limits.look_up_cost(asked.ids.count(",") + 1),
)
async def list_profiles(
    caller: Caller, asked: ProfilesQuery, identity: IdentityVerbs
) -> ProfileList:
    """Return the profiles of up to 100 users of the caller's own tenant; unknown ids are left
    out."""
    return ProfileList([_record(user) for user in await identity.list_profiles(caller, asked.ids)])


@operation(
    "GET",
    "/v1/users/{user_id}",
    tag=TAG,
    summary="Get the profile of a user",
    refusals=(UserNotFound,),
)
async def get_user(caller: Caller, user_id: str, identity: IdentityVerbs) -> ProfileRecord:
    """Return the profile of a user of the caller's own tenant."""
    return _record(await identity.get_profile(caller, user_id))


def _encoded(metadata: dict[str, Any] | msgspec.UnsetType | None) -> str | msgspec.UnsetType | None:
    return msgspec.json.encode(metadata).decode() if isinstance(metadata, dict) else metadata


def user_record(user: User) -> UserRecord:
    """Return a user as the tenant sees them."""
    return UserRecord(
        **msgspec.structs.asdict(_record(user)),
        email=user.email,
        phone_verified=user.phone_verified_at is not None,
        deactivated=user.deactivated_at is not None,
        banned_until=None if user.banned_until is None else rfc3339(user.banned_until),
    )


def _own_record(user: User) -> OwnProfileRecord:
    profile = msgspec.structs.asdict(_record(user))
    return OwnProfileRecord(**profile, show_last_seen=user.hidden_at is None)


def _record(user: User) -> ProfileRecord:
    return ProfileRecord(
        user_id=id_of(user.user),
        display_name=user.display_name,
        avatar_url=user.avatar_url,
        metadata=msgspec.json.decode(user.metadata or "{}"),
        phone_number=user.phone_number,
        last_seen_at=None if user.last_seen_at is None else rfc3339(user.last_seen_at),
        created_at=rfc3339(user.created_at),
        updated_at=rfc3339(user.updated_at),
    )


OPERATIONS: Final = (
    put_user,
    list_users,
    delete_user,
    get_me,
    patch_me,
    list_profiles,
    get_user,
    find_contacts,
)
