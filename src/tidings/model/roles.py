# SPDX-License-Identifier: Apache-2.0
"""Roles and their permissions (owners above admins above members); limits on chats per user."""

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
