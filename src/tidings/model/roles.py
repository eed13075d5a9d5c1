# SPDX-License-Identifier: Apache-2.0
"""Roles and their permissions, limits on members, and invitations into groups."""

from collections.abc import Mapping, Sequence
from typing import Final, Literal

import msgspec

from tidings.model import limits
from tidings.model.ids import ChatId, UserKey
from tidings.model.refusals import Invalid

Role = Literal["owner", "admin", "member"]

_RANK: Final[dict[Role, int]] = {"member": 0, "admin": 1, "owner": 2}

Invites = Literal["open", "ask"]
"""Whether strangers add a user to groups at once, or must invite the user first."""

Asked = Literal["new", "again", "refused"]
"""The user is invited now, has an open invitation already, or cannot be invited now."""


class Member(msgspec.Struct, frozen=True):
    """One member of a chat."""

    role: Role
    joined_at: int
    joined: int
    """Sequence of the entry that added the member; lowest for the longest-standing member."""


def may_add(actor: Role, role: Role) -> bool:
    """Return whether the actor may add a user with this role."""
    return actor == "owner" or (actor == "admin" and role == "member")


def may_change_role(actor: Role) -> bool:
    """Return whether the actor may give a member another role."""
    return actor == "owner"


def may_remove(actor: Role, other: Role) -> bool:
    """Return whether the actor may remove another member."""
    return actor == "owner" or (actor == "admin" and other == "member")


def may_rename(actor: Role) -> bool:
    """Return whether the actor may rename the chat."""
    return _RANK[actor] >= _RANK["admin"]


def may_redact_others(actor: Role) -> bool:
    """Return whether the actor may redact messages of others."""
    return _RANK[actor] >= _RANK["admin"]


def may_delete(actor: Role) -> bool:
    """Return whether the actor may delete the chat."""
    return actor == "owner"


def owners(members: Mapping[UserKey, Member]) -> int:
    """Return the number of owners."""
    return sum(member.role == "owner" for member in members.values())


def successor(members: Mapping[UserKey, Member]) -> UserKey | None:
    """Return the next owner after the last owner: the longest-standing admin, else member."""
    return min(
        members,
        key=lambda user: (-_RANK[members[user].role], members[user].joined, user),
        default=None,
    )


Way = Literal["own", "group", "direct"]
"""How a user gets into a chat: by their own action, or into a group or direct chat of others."""


def way_into(user: UserKey, by: UserKey, *, is_direct: bool = False) -> Way:
    """Return how a user gets into a chat by an action of `by`."""
    if user == by:
        return "own"
    return "direct" if is_direct else "group"


def surely_has_room(total: int) -> bool:
    """Return whether a user in `total` chats of any kind may certainly get into another."""
    return total < min(limits.USER_CHATS_MAX, limits.OTHERS_CHATS_MAX)


def has_room(way: Way, total: int, own: int) -> bool:
    """Return whether a user in `total` chats, `own` of them their own, may get into another."""
    if way == "own":
        return own < limits.USER_CHATS_MAX
    most = limits.OTHERS_CHATS_MAX if way == "group" else limits.OTHERS_DIRECT_CHATS_MAX
    # The second bound: writing in chats of others turns them into own chats without any check.
    return total - own < most and total < limits.USER_CHATS_MAX + limits.OTHERS_DIRECT_CHATS_MAX


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
