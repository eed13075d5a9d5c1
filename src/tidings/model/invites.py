# SPDX-License-Identifier: Apache-2.0
"""Invitations of strangers into groups, and the tenant settings `invites` and `login`."""

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from tidings.model import limits
from tidings.model.ids import ChatId, UserKey
from tidings.model.refusals import Invalid
from tidings.model.roles import Role

Invites = Literal["open", "ask"]
"""Whether strangers add a user to groups at once, or must invite the user first."""

Asked = Literal["new", "again", "refused"]
"""The user is invited now, has an open invitation already, or cannot be invited now."""


class Invite(msgspec.Struct, frozen=True, kw_only=True):
    """An invitation of a user into a group, open or declined."""

    user_id: UserKey
    chat_id: ChatId
    inviter: UserKey
    role: Role
    name: str
    """Name of the group at the time of the invitation."""
    invited_at: int
    expires_at: int
    """Expiry: `INVITE_MS` after an invitation, `INVITE_DECLINED_MS` after it was declined."""
    declined_at: int | None = None
    """None if the invitation is open."""


def invites_in(settings: Mapping[str, object]) -> Invites:
    """Return `invites` of a tenant's settings; `open` by default.

    Raises:
        Invalid: `invites` has another value.
    """
    try:
        invites: Invites = msgspec.convert(settings.get("invites", "open"), Invites)
    except msgspec.ValidationError:
        raise Invalid('invites: must be "open" or "ask"', "/invites") from None
    return invites


def asking(invite: Invite, kept: Sequence[Invite]) -> Asked:
    """Return the outcome of an invitation to a user with these invitations, open or declined.

    No inviter can use up the limit of a user alone. A declined invitation does not count towards
    the user's limit, but still counts towards the inviter's.
    """
    others = [other for other in kept if other.chat_id != invite.chat_id]
    waiting = sum(other.declined_at is None for other in others)
    same = sum(other.inviter == invite.inviter for other in others)
    earlier = next((old for old in kept if old.chat_id == invite.chat_id), None)
    if earlier is not None and earlier.declined_at is not None:
        return "refused"
    if waiting >= limits.USER_INVITES_MAX or same >= limits.INVITER_INVITES_MAX:
        return "refused"
    return "new" if earlier is None else "again"


class LoginSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`login` in a tenant's settings. Both are off by default."""

    phone: bool = False
    """Whether users of the tenant can log in by phone."""
    register: bool = False
    """Whether an unknown number becomes a new user."""


def login_settings_in(settings: Mapping[str, object]) -> LoginSettings:
    """Return `login` of a tenant's settings.

    Raises:
        Invalid: `login` is malformed.
    """
    try:
        return msgspec.convert(settings.get("login", {}), LoginSettings)
    except msgspec.ValidationError:
        raise Invalid(
            'login: must contain only the booleans "phone" and "register"', "/login"
        ) from None
