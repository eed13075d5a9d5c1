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

Invites = Literal["open", "ask", "contacts"]
"""Whether strangers can add a user to groups (`open`), or must invite the user (`ask`)."""

Asked = Literal["new", "again", "refused"]
"""Outcome of an invitation: it is new, the user has an open one already, or the user cannot be
invited now."""


class Member(msgspec.Struct, frozen=True):
    """One member of a chat."""

    role: Role
    joined_at: int
    joined: int
    """Sequence of the entry that added the member."""


def may_add(actor: Role, role: Role) -> bool:
    """Return True if the actor may add a user with this role."""
    return actor == "owner" or (actor == "admin" and role == "member")


def may_change_role(actor: Role) -> bool:
    """Return True if the actor may give a member another role."""
    return actor == "owner"


def may_remove(actor: Role, other: Role) -> bool:
    """Return True if the actor may remove another member."""
    return actor == "owner" or (actor == "admin" and other == "member")


def may_rename(actor: Role) -> bool:
    """Return True if the actor may rename the chat."""
    return _RANK[actor] >= _RANK["admin"]


def may_redact_others(actor: Role) -> bool:
    """Return True if the actor may redact messages from others."""
    return _RANK[actor] >= _RANK["admin"]


def may_mention_everyone(actor: Role) -> bool:
    """Return True if the actor may mention everyone in a large chat."""
    return _RANK[actor] >= _RANK["admin"]


def may_pin(actor: Role, *, is_direct: bool) -> bool:
    """Return True if the actor may pin messages; in a direct chat both users may."""
    return is_direct or _RANK[actor] >= _RANK["admin"]


def may_delete(actor: Role) -> bool:
    """Return True if the actor may delete the chat."""
    return actor == "owner"


def owners(members: Mapping[UserKey, Member]) -> int:
    """Return the number of owners."""
    return sum(member.role == "owner" for member in members.values())


def successor(members: Mapping[UserKey, Member]) -> UserKey | None:
    """Return who becomes owner when the last owner leaves: the admin who joined first or, without
    an admin, the member who joined first."""
    return min(
        members,
        key=lambda user: (-_RANK[members[user].role], members[user].joined, user),
        default=None,
    )


Way = Literal["own", "group", "direct"]
"""How a user gets into a chat: by their own action, or because others add the user to a group or
start a direct chat."""


def way_into(user: UserKey, by: UserKey, *, is_direct: bool = False) -> Way:
    """Return how a user gets into a chat when the user `by` creates it or adds members."""
    if user == by:
        return "own"
    return "direct" if is_direct else "group"


def surely_has_room(total: int) -> bool:
    """Return True if a user in `total` chats has room for another chat, no matter how many of these
    chats are the user's own (created by the user, or written in)."""
    return total < min(limits.USER_CHATS_MAX, limits.OTHERS_CHATS_MAX)


def has_room(way: Way, total: int, own: int) -> bool:
    """Return True if a user in `total` chats has room for another chat, into which the user gets
    this way. `own` is how many of these chats the user created or has written in."""
    if way == "own":
        return own < limits.USER_CHATS_MAX
    most = limits.OTHERS_CHATS_MAX if way == "group" else limits.OTHERS_DIRECT_CHATS_MAX
    # The total needs a bound too: writing in a chat of others makes it the user's own without a
    # check.
    return total - own < most and total < limits.USER_CHATS_MAX + limits.OTHERS_DIRECT_CHATS_MAX


class Invite(msgspec.Struct, frozen=True, kw_only=True):
    """An invitation to a user to join a group, open or declined."""

    user_id: UserKey
    chat_id: ChatId
    inviter: UserKey
    role: Role
    name: str
    """Name of the group at the time of the invitation."""
    invited_at: int
    expires_at: int
    """`INVITE_MS` after the invitation, or `INVITE_DECLINED_MS` after it was declined."""
    declined_at: int | None = None
    """None if the invitation is open."""


def invites_in(settings: Mapping[str, object]) -> Invites:
    """Return the value of `invites` in a tenant's settings; `open` by default.

    Raises:
        Invalid: `invites` has another value.
    """
    try:
        invites: Invites = msgspec.convert(settings.get("invites", "open"), Invites)
    except msgspec.ValidationError:
        raise Invalid('invites: must be "open", "ask" or "contacts"', "/invites") from None
    return invites


def asking(invite: Invite, kept: Sequence[Invite]) -> Asked:
    """Decide whether a user who has the invitations `kept` can get the invitation `invite`.

    There is a limit on the user's open invitations, and a lower limit on invitations from one
    inviter, so that one inviter cannot use up the user's limit. Declined invitations count only
    towards the limit for their inviter.
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
    """The object `login` in a tenant's settings. Both fields are off by default."""

    phone: bool = False
    """Whether users of the tenant can log in by phone."""
    register: bool = False
    """Whether an unknown number becomes a new user."""


def login_settings_in(settings: Mapping[str, object]) -> LoginSettings:
    """Return the value of `login` in a tenant's settings.

    Raises:
        Invalid: `login` is malformed.
    """
    try:
        return msgspec.convert(settings.get("login", {}), LoginSettings)
    except msgspec.ValidationError:
        raise Invalid(
            'login: must contain only the booleans "phone" and "register"', "/login"
        ) from None
