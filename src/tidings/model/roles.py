# SPDX-License-Identifier: Apache-2.0
"""Roles and what they allow. Owners stand above admins, admins above members."""

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

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
