# SPDX-License-Identifier: Apache-2.0
"""Operations on users: for the tenant, on one's own profile, and search by phone number."""

from typing import Final

import msgspec

from tidings.actions import rate_limits
from tidings.actions.identity.caller import Caller
from tidings.actions.identity.users import Contact
from tidings.actions.verbs import LoginVerbs
from tidings.api.callers import IdentityVerbs
from tidings.api.fields import Name, PhoneNumber, PhoneNumbers, UserPrefix
from tidings.api.operations import Answer, operation
from tidings.api.requests import Body
from tidings.api.tenants import ListQuery
from tidings.model.ids import rfc3339, user_id
from tidings.model.ids import user_id as id_of
from tidings.model.refusals import (
    CursorInvalid,
    LimitReached,
    PhoneTaken,
    RateLimited,
    TenantNotFound,
    UserNotFound,
)
from tidings.ports.people import User

TAG: Final = "Users"


class ContactSearch(Body, frozen=True):
    """The phone numbers to look up."""

    phone_numbers: PhoneNumbers


class ContactRecord(msgspec.Struct):
    """A user, with the phone number as it was given."""

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
    """Fields of a user. Absent fields do not change; `phone_number` null removes the number."""

    display_name: Name | None = None
    phone_number: PhoneNumber | msgspec.UnsetType | None = msgspec.UNSET
    deactivated: bool | None = None


class ProfileChange(Body, frozen=True):
    """Fields that users can change in their own profiles."""

    display_name: Name | None = None


class ProfileRecord(msgspec.Struct):
    """A user. Only the user and the tenant see the phone number."""

    user_id: str
    display_name: str | None
    phone_number: str | None
    created_at: str
    updated_at: str


class UserRecord(ProfileRecord):
    """A user, as the tenant sees them. A deactivated user has no access."""

    deactivated: bool


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
    refusals=(TenantNotFound, PhoneTaken, LimitReached),
)
async def put_user(
    caller: Caller,
    tenant: str,
    user_id: str,
    identity: IdentityVerbs,
    data: UserChange = AS_BEFORE,
) -> Answer[UserRecord]:
    """Create or update a user; the status is 201 if the user is new. Changing or removing the phone
    number, or deactivating the user, ends all sessions and tokens of the user."""
    is_active = None if data.deactivated is None else not data.deactivated
    user, is_new = await identity.put_user(
        caller, tenant, user_id, data.display_name, data.phone_number, is_active
    )
    return Answer(_user_record(user), status=201 if is_new else 200)


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
    return UserList([_user_record(user) for user in page], cursor)


@operation("GET", "/v1/me", tag=TAG, summary="Get my profile", refusals=(UserNotFound,))
async def get_me(caller: Caller, identity: IdentityVerbs) -> ProfileRecord:
    """Return the caller's own profile."""
    return _record(await identity.get_profile(caller))


@operation("PATCH", "/v1/me", tag=TAG, summary="Change my profile", refusals=(UserNotFound,))
async def patch_me(caller: Caller, data: ProfileChange, identity: IdentityVerbs) -> ProfileRecord:
    """Change the caller's own profile. Only the tenant can change the phone number."""
    return _record(await identity.patch_profile(caller, data.display_name))


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


def _user_record(user: User) -> UserRecord:
    profile = msgspec.structs.asdict(_record(user))
    return UserRecord(**profile, deactivated=user.deactivated_at is not None)


def _record(user: User) -> ProfileRecord:
    return ProfileRecord(
        id_of(user.user),
        user.display_name,
        user.phone_number,
        rfc3339(user.created_at),
        rfc3339(user.updated_at),
    )


OPERATIONS: Final = (put_user, list_users, get_me, patch_me, get_user, find_contacts)
