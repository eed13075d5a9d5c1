# SPDX-License-Identifier: Apache-2.0
"""Roles and what they allow. Owners stand above admins, admins above members."""

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from tidings.model import limits
from tidings.model.ids import UserKey

Role = Literal["owner", "admin", "member"]

_RANK: Final[dict[Role, int]] = {"member": 0, "admin": 1, "owner": 2}


class Member(msgspec.Struct, frozen=True):
    """One member of a chat."""

    role: Role
    joined_at: int
    joined: int
    """The sequence of the entry that made it a member: who is here longest has the lowest."""


def may_add(actor: Role, role: Role) -> bool:
    """Whether the actor may add somebody with this role."""
    return actor == "owner" or (actor == "admin" and role == "member")


def may_change_role(actor: Role) -> bool:
    """Whether the actor may give a member another role."""
    return actor == "owner"


def may_remove(actor: Role, other: Role) -> bool:
    """Whether the actor may remove another member."""
    return actor == "owner" or (actor == "admin" and other == "member")


def may_rename(actor: Role) -> bool:
    """Whether the actor may rename the chat."""
    return _RANK[actor] >= _RANK["admin"]


def may_redact_others(actor: Role) -> bool:
    """Whether the actor may redact what somebody else wrote."""
    return _RANK[actor] >= _RANK["admin"]


def may_delete(actor: Role) -> bool:
    """Whether the actor may delete the chat."""
    return actor == "owner"


def owners(members: Mapping[UserKey, Member]) -> int:
    """How many owners there are."""
    return sum(member.role == "owner" for member in members.values())


def successor(members: Mapping[UserKey, Member]) -> UserKey | None:
    """Who becomes owner when the last one goes: the longest-standing admin, else member."""
    return min(
        members,
        key=lambda user: (-_RANK[members[user].role], members[user].joined, user),
        default=None,
    )


Way = Literal["own", "group", "direct"]
"""How a user comes into a chat: by the user's own act, or into a group or direct chat of others."""


def way_into(user: UserKey, by: UserKey, *, is_direct: bool = False) -> Way:
    """The way of a user whom somebody, perhaps the user, brings into a chat."""
    if user == by:
        return "own"
    return "direct" if is_direct else "group"


def surely_has_room(total: int) -> bool:
    """Whether somebody in so many chats may be in one more, whosever they are."""
    return total < min(limits.USER_CHATS_MAX, limits.OTHERS_CHATS_MAX)


def has_room(way: Way, total: int, own: int) -> bool:
    """Whether somebody in so many chats, so many of them one's own, may come into one more."""
    if way == "own":
        return own < limits.USER_CHATS_MAX
    most = limits.OTHERS_CHATS_MAX if way == "group" else limits.OTHERS_DIRECT_CHATS_MAX
    # A user who goes on writing in chats of others makes them one's own without asking anybody.
    return total - own < most and total < limits.USER_CHATS_MAX + limits.OTHERS_DIRECT_CHATS_MAX
