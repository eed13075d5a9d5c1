# SPDX-License-Identifier: Apache-2.0
"""Invitations: where a tenant wants it, a stranger's group is a request until it is accepted."""

from collections.abc import Mapping, Sequence
from typing import Final, Literal

import msgspec

from tidings.model import limits
from tidings.model.ids import ChatId, UserKey
from tidings.model.refusals import Invalid
from tidings.model.roles import Role

Invites = Literal["open", "ask"]
"""Whether strangers add a user to groups at once, or ask first."""

_SAID: Final = "invites"


class Invite(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody asks a user to join a group."""

    user_id: UserKey
    chat_id: ChatId
    inviter: UserKey
    role: Role
    name: str
    """Of the group, when it was asked."""
    invited_at: int
    expires_at: int


def invites_in(settings: Mapping[str, object]) -> Invites:
    """What a tenant's settings say about invitations; open unless they say otherwise.

    Raises:
        Invalid: `invites` is there and makes no sense.
    """
    try:
        said: Invites = msgspec.convert(settings.get(_SAID, "open"), Invites)
    except msgspec.ValidationError as error:
        raise Invalid(f"{_SAID}: {error}", f"/{_SAID}") from None
    return said


def may_be_asked(invite: Invite, pending: Sequence[Invite]) -> bool:
    """Whether there is room for one more among those that wait, of all and of this inviter.

    One stranger cannot take all the room there is for others.
    """
    others = [one for one in pending if one.chat_id != invite.chat_id]
    same = sum(one.inviter == invite.inviter for one in others)
    return len(others) < limits.USER_INVITES_MAX and same < limits.INVITER_INVITES_MAX
